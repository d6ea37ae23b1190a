"""A CRLC-semi run from a parent run and labels: its settings, its labels, its first weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.files import write_file
from crlc.training.batches import LabelledImages
from crlc.training.checkpoint import load_checkpoint, save_checkpoint
from crlc.training.run_folder import RunFolder
from crlc.training.semi import NamedOutputs, first_weights, labelled_images, match_names, semi_settings
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Extras
from crlc.workspace.label_sources import given_labels

_LABELS_FILE, _WEIGHTS_FILE = "labels.npy", "first-weights.pt"


@dataclass(frozen=True)
class SemiPlan:
    """All that a CRLC-semi run begins with."""

    settings: TrainSettings
    named: NamedOutputs
    ids: NDArray[np.int64]
    """The images to train on."""

    extras: Extras
    """With the labels, and the first weights of a run that has a parent."""

    notes: tuple[str, ...]
    """What a person should know: names without a cluster near them, labels that were left out."""

    @property
    def labels(self) -> LabelledImages:
        """What a person said of some of the images."""
        assert self.extras.labels is not None
        return self.extras.labels


def plan_semi(
    parent: RunFolder,
    dataset: ImageDataset,
    source: str,
    seed: int | None = None,
    excluded: NDArray[np.int64] | None = None,
) -> SemiPlan:
    """Match the labels that a source has with the clusters of a finished run.

    Args:
        parent: the run to go on from.
        dataset: of the parent.
        source: where labels come from, as `given_labels` has it.
        seed: of the new run; by default the parent's.
        excluded: images to leave out that the parent was trained on.

    Raises:
        UsageError: the parent is not finished, or there are no labels.
    """
    arrays, facts = parent.result()
    if not facts["final"]:
        raise UsageError(f"parent={parent.id!r} is not finished. Resume it first, or choose another run.")
    state = load_checkpoint(parent.checkpoint_file, torch.device("cpu"))
    settings = TrainSettings.from_json(state["settings"])
    seed = settings.seed if seed is None else seed
    kept = ~np.isin(arrays["ids"], [] if excluded is None else excluded)
    ids = np.asarray(arrays["ids"])[kept]
    given = given_labels(source, dataset, ids, parent, seed=seed)
    q, by_subhead = arrays["q"][kept], arrays["by_subhead"][kept]
    named = match_names(q, by_subhead, facts["subhead"], given.positions, given.names)
    labels = labelled_images(given.positions, given.names, named)
    child = replace(semi_settings(settings, named.clusters, len(ids)), seed=seed)
    notes = given.notes
    if named.far:
        notes += (f"No labelled image lies in the cluster matched to: {', '.join(named.far)}.",)
    if named.clusters > settings.clusters:
        notes += (f"There are more names than clusters: the run has {named.clusters} instead of {settings.clusters}.",)
    weights = first_weights(state["network"], named, seed)
    return SemiPlan(child, named, ids, Extras(labels=labels, first_weights=weights), notes)


def plan_semi_from_scratch(
    settings: TrainSettings, dataset: ImageDataset, ids: NDArray[np.int64], source: str
) -> SemiPlan:
    """The paper's own way: labels from the first step on, in a network that knows nothing yet.

    Raises:
        UsageError: there are no labels, or more names than clusters.
    """
    given = given_labels(source, dataset, ids, None, seed=settings.seed)
    names = tuple(sorted(set(given.names)))
    if len(names) > settings.clusters:
        raise UsageError(f"clusters={settings.clusters} is not allowed: the labels have {len(names)} names.")
    orders = np.tile(np.arange(settings.clusters), (settings.subheads, 1))
    named = NamedOutputs(names, np.arange(len(names)), orders, ())
    labels = labelled_images(given.positions, given.names, named)
    return SemiPlan(settings, named, ids, Extras(labels=labels), given.notes)


def keep_beginning(run: RunFolder, plan: SemiPlan) -> None:
    """Note labels and first weights with the run: it must begin and go on with the same, whatever is said later."""
    pairs = np.stack([plan.labels.positions, plan.labels.targets], axis=1)
    write_file(run.path / _LABELS_FILE, partial(np.save, arr=pairs, allow_pickle=False))
    if plan.extras.first_weights is not None:
        save_checkpoint(run.path / _WEIGHTS_FILE, {"network": plan.extras.first_weights})


def kept_beginning(run: RunFolder) -> Extras:
    """What `keep_beginning` noted; nothing for a run without labels."""
    if not (run.path / _LABELS_FILE).exists():
        return Extras()
    positions, targets = np.load(run.path / _LABELS_FILE, allow_pickle=False).T
    weights = None
    if (run.path / _WEIGHTS_FILE).exists():
        weights = load_checkpoint(run.path / _WEIGHTS_FILE, torch.device("cpu"))["network"]
    return Extras(labels=LabelledImages(positions, targets), first_weights=weights)
