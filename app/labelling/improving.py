"""From labels to a better run: how many there are, what speaks against them, and what a run made of them changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.exploring.subject import RunSubject
from app.moves import Move, moves_of
from app.run_lines import RunLine
from crlc.analysis.compare import Comparison
from crlc.analysis.name_matching import matched_names
from crlc.data.dataset import ImageDataset
from crlc.jobs.job import Job
from crlc.names import printable
from crlc.workspace.annotations import Annotations
from crlc.workspace.cluster_names import names_of_run
from crlc.workspace.image_lookup import records_of
from crlc.workspace.run_comparison import compare

WORKSPACE, WITH_MOVES = "workspace", "workspace+moved"
"""Where a CRLC-semi run takes its labels from; `crlc train --labels` knows the same words."""

ENOUGH = 4
"""Labels of a name from which on a run learns much; more help, too."""

_NAMED = 3
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Given:
    """The labels that a run would learn from."""

    ids: Ids
    names: tuple[str, ...]
    """Of each image."""

    moved: int
    """Images that a person moved into a named cluster and that have no label: they count only if asked for."""

    notes: tuple[str, ...]
    """What a person should know before."""

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)


def given_labels(subject: RunSubject, annotations: Annotations, *, with_moves: bool = False) -> Given:
    """What a person said of the images of a run, as CRLC-semi would take it."""
    usable = annotations.usable_labels()
    by_id = {int(image): usable.names[number] for image, number in zip(usable.ids, usable.numbers, strict=True)}
    moved = subject.analysis.clustering.edited(annotations.refresh()).moved_under_names()
    more = {image: name for image, name in moved.items() if image not in by_id}
    if with_moves:
        by_id |= more
    here = subject.rows_of(np.array(sorted(by_id), np.int64))
    ids = subject.ids[here]
    names = tuple(by_id[image] for image in ids.tolist())
    notes = []
    if len(ids):
        notes = [*_contradictions(subject.dataset, ids, names), *_far(subject, ids, names)]
        few = sorted(name for name in set(names) if names.count(name) < ENOUGH)
        if few:
            notes.append(f"Fewer than {ENOUGH} labels: {_listed(few)}.")
    stale = len(annotations.stale_labels())
    if stale:
        notes.append(f"{stale:,} labels are about earlier content of their images and are left out.")
    return Given(ids, names, len(more), tuple(notes))


def _far(subject: RunSubject, ids: Ids, names: tuple[str, ...]) -> list[str]:
    """Names that lie nowhere near the cluster that would stand for them."""
    arrays = subject.analysis.result.arrays
    rows = np.searchsorted(arrays["ids"], ids)
    matched = matched_names(arrays["q"][rows], np.asarray(arrays["cluster"][rows], np.int64), names)
    notes = []
    if matched.far:
        notes.append(
            f"No labelled image lies in the cluster that is left for: {_listed(matched.far)}. "
            "More labels of it help, or fewer names."
        )
    count = arrays["q"].shape[1]
    if len(matched.names) > count:
        notes.append(f"There are more names than clusters: the new run will have {len(matched.names)} of them.")
    return notes


def _contradictions(dataset: ImageDataset, ids: Ids, names: tuple[str, ...]) -> list[str]:
    """The same picture, labelled otherwise: a run cannot follow both."""
    records = records_of(dataset, ids)
    said: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for image, name in zip(ids.tolist(), names, strict=True):
        if image in records and records[image].hash:
            said[records[image].hash or ""].append((name, printable(records[image].path)))
    against = [found for found in said.values() if len({name for name, _ in found}) > 1]
    if not against:
        return []
    shown = "; ".join(" and ".join(f"{path} is {name!r}" for name, path in found[:2]) for found in against[:_NAMED])
    more = f"; and {len(against) - _NAMED} more" if len(against) > _NAMED else ""
    return [f"The same picture has two labels: {shown}{more}."]


def semi_arguments(dataset: str, parent: str, *, with_moves: bool) -> list[str]:
    """For `crlc train`: go on from a run with what was said of its images."""
    return [dataset, "--method", "semi", "--parent", parent, "--labels", WITH_MOVES if with_moves else WORKSPACE]


def job_of_parent(jobs: Iterable[Job], parent: str) -> Job | None:
    """The newest job that improves a run and has not ended, or failed before there was a run of it."""
    wanted = ("--parent", parent)
    found = [job for job in jobs if wanted in zip(job.arguments, job.arguments[1:], strict=False)]
    return next(
        (job for job in reversed(found) if not job.has_ended or (job.run is None and job.state == "failed")), None
    )


def family_of(lines: Iterable[RunLine], run: str) -> tuple[str, str] | None:
    """Two runs to compare: this one and the newest that goes on from it; else its parent and itself."""
    lines = list(lines)
    children = [line.id for line in lines if line.parent == run]
    if children:
        return run, children[-1]
    own = next((line for line in lines if line.id == run), None)
    if own is None or own.parent is None or all(line.id != own.parent for line in lines):
        return None
    return own.parent, run


# ---- what came of it


@dataclass(frozen=True)
class Changes:
    """What a run that learned from labels did otherwise than its parent."""

    comparison: Comparison
    moves: tuple[Move, ...]
    """The largest first."""

    labels: int
    """Images with a label that both runs have."""

    followed_before: int
    """Of these, how many lay in the cluster that has their name now."""

    followed: int
    """And how many lie in it now."""


def changes_between(before: RunSubject, after: RunSubject, annotations: Annotations) -> Changes:
    """Compare a run with the one that goes on from it.

    Raises:
        CrlcError: they have no image in common.
    """
    found = compare(before.analysis, after.analysis)
    usable = annotations.usable_labels()
    both = np.intersect1d(before.ids, after.ids, assume_unique=True)
    there = np.isin(usable.ids, both)
    ids, said = usable.ids[there], [usable.names[number] for number in usable.numbers[there]]
    names = names_of_run(after.analysis.run.description())
    return Changes(
        found,
        moves_of(found),
        len(ids),
        _followed(before, ids, said, names),
        _followed(after, ids, said, names),
    )


def _followed(subject: RunSubject, ids: Ids, said: list[str], names: Mapping[int, str]) -> int:
    """How many images lie where their name does. A child has its parent's numbers, so one list of names fits both."""
    arrays = subject.analysis.result.arrays
    clusters = np.asarray(arrays["cluster"])[np.searchsorted(arrays["ids"], ids)].tolist()
    return sum(names.get(cluster) == name for cluster, name in zip(clusters, said, strict=True))


def _listed(names: Iterable[str]) -> str:
    shown = [repr(printable(name)) for name in names]
    more = f" and {len(shown) - 2 * _NAMED} more" if len(shown) > 2 * _NAMED else ""
    return ", ".join(shown[: 2 * _NAMED]) + more
