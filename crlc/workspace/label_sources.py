"""Where the labels of a CRLC-semi run come from: a table, the workspace, or (for benchmarks) classes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import Clustering
from crlc.workspace.label_table import usable_table

WORKSPACE, WITH_MOVES = "workspace", "workspace+moved"
_CLASSES = re.compile(r"classes:(\d+)")


@dataclass(frozen=True)
class GivenLabels:
    """Labels of images of a run."""

    positions: NDArray[np.int64]
    """Where in the run's images they stand."""

    names: list[str]
    notes: tuple[str, ...] = ()
    """What a person should know about them."""


def given_labels(
    source: str, dataset: ImageDataset, ids: NDArray[np.int64], parent: RunFolder | None, *, seed: int = 0
) -> GivenLabels:
    """The labels that a source has for the images of a run.

    Args:
        source: a CSV file; `workspace`; `workspace+moved`, with images that a person moved under a named cluster of
            the parent; or `classes:N` for N images of each class, drawn by the seed.
        dataset: the data set of the run.
        ids: the run's images, ascending.
        parent: the run that a person looked at; none where there is none.
        seed: for the draw.

    Raises:
        UsageError: no label is for any of the images, or the source is not known.
    """
    chosen = _CLASSES.fullmatch(source)
    notes: tuple[str, ...] = ()
    if chosen:
        by_id = _of_classes(dataset, ids, int(chosen[1]), seed)
    elif source in (WORKSPACE, WITH_MOVES):
        with Annotations(dataset) as annotations:
            usable = annotations.usable_labels()
            stale = len(annotations.stale_labels())
            by_id = {image: usable.names[number] for image, number in zip(usable.ids, usable.numbers, strict=True)}
            if source == WITH_MOVES and parent is not None:
                by_id = {**Clustering.of(parent, dataset).edited(annotations.refresh()).moved_under_names(), **by_id}
        if stale:
            notes = (f"{stale} labels are about earlier content of their images and were left out.",)
    else:
        table = usable_table(Path(source), dataset)
        by_id = table.labels
        if table.unknown:
            notes = (f"{len(table.unknown)} paths of {source} are not in {dataset.name} and were left out.",)
    known = np.array(sorted(by_id), np.int64)
    here = known[np.isin(known, ids)]
    if not len(here):
        raise UsageError(f"labels={source!r} has no label for any image of this run. Label some images first.")
    return GivenLabels(np.searchsorted(ids, here), [by_id[number] for number in here.tolist()], notes)


def _of_classes(dataset: ImageDataset, ids: NDArray[np.int64], each: int, seed: int) -> dict[int, str]:
    """A few images of each class: those whose hashes with the seed are smallest."""
    facts = dataset.facts(ids)
    if facts.class_numbers is None or not each:
        raise UsageError(f"labels='classes:{each}': {dataset.name} has no classes, or none were asked for.")
    drawn: dict[int, str] = {}
    for number, name in enumerate(facts.class_names):
        members = ids[facts.class_numbers == number].tolist()
        members.sort(key=lambda image: hashlib.sha256(f"{seed}/{image}".encode()).digest())
        drawn.update(dict.fromkeys(members[:each], name))
    return drawn
