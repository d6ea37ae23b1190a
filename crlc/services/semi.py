"""CRLC-semi (Eq. 12): runs that learn from labels, starting from a parent run or from scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.annotations.store import read_excluded_ids
from crlc.data.dataset import ImageDataset
from crlc.errors import DamagedError, UsageError
from crlc.files import load_required_array, write_file
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.services.label_sources import load_labels
from crlc.services.run_preparation import (
    PreparedRun,
    RunRequest,
    SuggestClusters,
    TrainingEvents,
    load_evaluation_images,
    store_pixels,
)
from crlc.training.batches import LabelTargets
from crlc.training.checkpoint import ModelEntries, WeightsEntries, load_checkpoint, load_run_checkpoint, save_checkpoint
from crlc.training.distributed import ComputeContext
from crlc.training.images import exclude_ids, load_images, select_ids
from crlc.training.paper_presets import PAPER_PRESETS, SEMI_PRESETS, build_paper_preset
from crlc.training.presets import AUTO
from crlc.training.request import TrainRequest
from crlc.training.semi import (
    NamedOutputs,
    build_initial_weights,
    build_semi_settings,
    make_label_targets,
    match_names_to_outputs,
)
from crlc.training.settings import TrainSettings
from crlc.training.trainer import OptionalInputs
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_METHOD = "semi"
_LABELS_FILE, _WEIGHTS_FILE = "labels.npy", "first-weights.pt"
_PAIR_COLUMNS = 2
_TRAIN_SPLIT, _TEST_SPLIT = "train", "test"
_SPLIT_NOTE = (
    "This run trains on all images. In the paper, CRLC-semi trains on the split 'train', and its error is that on the "
    "split 'test'."
)
_CHANGEABLE_SETTINGS = ("epochs", "augment", "critic")
"""Settings of a child run that may differ from its parent's."""

_INHERITED_OPTIONS = ("clusters", "split", "backbone", "weights", "neighbours", "frozen", "implementation")
"""Options that a child run inherits from its parent, so that a request must leave them out."""

_SHAPE_SETTINGS = (
    "clusters",
    "subheads",
    "backbone",
    "stem",
    "weights",
    "image_size",
    "pca_components",
    "hidden_width",
    "frozen",
    "pairs",
    "method",
)
"""Settings that determine which weights fit the network."""


@dataclass(frozen=True)
class SemiPlan:
    """Settings, labels and initial weights of a CRLC-semi run."""

    settings: TrainSettings
    named: NamedOutputs
    ids: NDArray[np.int64]
    """The training images."""

    optional_inputs: OptionalInputs
    """The labels and, for a run with a parent, its initial weights."""

    notes: tuple[str, ...]
    """Sentences for the user: names without a matching cluster, labels that were skipped."""

    @property
    def labels(self) -> LabelTargets:
        """The labels as positions of images and target clusters."""
        assert self.optional_inputs.labels is not None
        return self.optional_inputs.labels


def is_semi(request: RunRequest) -> bool:
    """Return whether a request is for CRLC-semi."""
    training = request.training
    return bool(training.method == _METHOD or training.has_semi_preset or request.parent or request.labels)


def prepare_semi_run(
    workspace: Workspace, dataset: ImageDataset, request: RunRequest, compute: ComputeContext, events: TrainingEvents
) -> PreparedRun:
    """Turn a request for CRLC-semi into settings, images, labels and initial weights.

    Args:
        workspace: workspace of the dataset and the parent run.
        dataset: dataset to train on.
        request: options of the new run, with `labels`, and with `parent` unless the preset is one of the paper's.
        compute: device and processes; only rank 0 writes to the workspace.
        events: callbacks of this process.

    Raises:
        UsageError: labels or parent are missing, or options contradict the parent.
    """
    if not request.labels or request.training.method not in (AUTO, _METHOD):
        raise UsageError(
            f"method={request.training.method!r} with parent={request.parent!r} and labels={request.labels!r} is not "
            "allowed: CRLC-semi needs method 'auto' or 'semi', labels, and a parent run or a paper-semi preset.",
            parameters=("method", "parent", "labels"),
        )
    parent = _open_parent(workspace, dataset, request)
    if parent is None:
        plan = _plan_from_preset(workspace, dataset, request, compute, events)
        settings = plan.settings
    else:
        named = request.training.values
        plan = plan_semi(parent, dataset, request.labels, named.get("seed"), read_excluded_ids(dataset))
        settings = plan.settings.replace(**_pick(named, _CHANGEABLE_SETTINGS))
        settings = settings.with_overrides(request.training.assignments)
        _require_same_shape(settings, plan.settings)
    size = settings.data.image_size
    compute.world.run_on_rank_zero(lambda: store_pixels(workspace, dataset, size, events.progress).name)
    images = select_ids(load_images(dataset, size, cluster_unlabelled=False), plan.ids)
    metadata: dict[str, Any] = {
        **request.build_metadata(),
        "labels": request.labels,
        "names": {str(number): name for number, name in plan.named.get_names_by_output().items()},
    }
    if parent is not None:
        metadata["parent"] = parent.id
    return PreparedRun(
        dataset,
        images,
        settings,
        request.training.preset if parent is None else _METHOD,
        "with labels, from scratch" if parent is None else "with labels, from a parent run",
        replace(plan.optional_inputs, evaluation_images=load_evaluation_images(dataset, size, request.evaluate_split)),
        metadata,
        tuple(f"Note: {note}" for note in plan.notes),
        partial(save_initial_state, plan=plan),
    )


def plan_semi(
    parent: RunFolder,
    dataset: ImageDataset,
    source: str,
    seed: int | None = None,
    excluded: NDArray[np.int64] | None = None,
) -> SemiPlan:
    """Match labels with the clusters of a finished run, and derive settings and initial weights of a child run.

    Args:
        parent: the finished run.
        dataset: dataset of the parent.
        source: source of the labels, as `load_labels` accepts it.
        seed: seed of the child run; `None` for that of the parent.
        excluded: ids of the parent's training images to leave out.

    Raises:
        UsageError: the parent is not finished, or there are no labels.
        DamagedError: the result or the checkpoint of the parent is damaged.
    """
    arrays, metadata = read_result(parent)
    if not metadata.get("final"):
        raise UsageError(f"parent={parent.id!r} is not finished.", advice="Resume it first, or choose another run.")
    if "by_subhead" not in arrays:
        raise DamagedError(f"The result of the run {parent.id} has no by_subhead.", advice=parent.result_advice)
    state = load_run_checkpoint(parent, ModelEntries)
    settings = TrainSettings.from_json(state["settings"])
    seed = settings.run.seed if seed is None else seed
    included = ~np.isin(arrays["ids"], [] if excluded is None else excluded)
    ids = np.asarray(arrays["ids"])[included]
    given = load_labels(source, dataset, ids, parent, seed=seed)
    q, by_subhead = arrays["q"][included], arrays["by_subhead"][included]
    named = match_names_to_outputs(q, by_subhead, metadata.get("subhead", 0), given.find_positions(ids), given.labels)
    labels = make_label_targets(given, ids, named)
    child = build_semi_settings(settings, named.clusters, len(ids)).replace(seed=seed)
    notes = given.warnings
    if named.unsupported:
        notes += (f"No labelled image is in the cluster matched to: {', '.join(named.unsupported)}.",)
    if named.clusters > settings.model.clusters:
        notes += (
            f"There are more label names than clusters in the parent: the run has {named.clusters} clusters instead of "
            f"{settings.model.clusters}.",
        )
    weights = build_initial_weights(state["network"], named, seed)
    return SemiPlan(child, named, ids, OptionalInputs(labels=labels, initial_weights=weights), notes)


def plan_semi_from_scratch(
    settings: TrainSettings, dataset: ImageDataset, ids: NDArray[np.int64], source: str
) -> SemiPlan:
    """Assign labels to the outputs of a randomly initialised network, as the paper trains CRLC-semi.

    Args:
        settings: settings of the run.
        dataset: dataset of the images.
        ids: training images, ascending.
        source: source of the labels, as `load_labels` accepts it.

    Raises:
        UsageError: there are no labels, or more names than clusters.
    """
    given = load_labels(source, dataset, ids, None, seed=settings.run.seed)
    names = given.names
    if len(names) > settings.model.clusters:
        raise UsageError(
            f"clusters={settings.model.clusters} is not allowed: the labels have {len(names)} different names."
        )
    orders = np.tile(np.arange(settings.model.clusters), (settings.model.subheads, 1))
    named = NamedOutputs(names, np.arange(len(names)), orders, ())
    labels = make_label_targets(given, ids, named)
    return SemiPlan(settings, named, ids, OptionalInputs(labels=labels), given.warnings)


def save_initial_state(run: RunFolder, plan: SemiPlan) -> None:
    """Write labels and initial weights to the run folder, so that later labels do not change a resumed run."""
    pairs = np.stack([plan.labels.positions, plan.labels.targets], axis=1)
    write_file(run.path / _LABELS_FILE, partial(np.save, arr=pairs, allow_pickle=False))
    if plan.optional_inputs.initial_weights is not None:
        save_checkpoint(run.path / _WEIGHTS_FILE, {"network": plan.optional_inputs.initial_weights})


def load_initial_state(run: RunFolder) -> OptionalInputs:
    """Read the labels and initial weights that `save_initial_state` wrote; empty for a run without labels.

    Raises:
        DamagedError: a file cannot be read.
    """
    if not (run.path / _LABELS_FILE).exists():
        return OptionalInputs()
    pairs = load_required_array(run.path / _LABELS_FILE, "Train again.")
    if pairs.shape[1:] != (_PAIR_COLUMNS,) or pairs.dtype.kind != "i":
        raise DamagedError(f"{run.path / _LABELS_FILE} does not contain labels.", advice="Train again.")
    positions, targets = pairs.T
    weights = None
    if (run.path / _WEIGHTS_FILE).exists():
        weights = load_checkpoint(run.path / _WEIGHTS_FILE, WeightsEntries, "Train again.")["network"]
    return OptionalInputs(labels=LabelTargets(positions, targets), initial_weights=weights)


def _open_parent(workspace: Workspace, dataset: ImageDataset, request: RunRequest) -> RunFolder | None:
    """Open the parent run; `None` for a paper preset, which trains from scratch."""
    training = request.training
    if not request.parent:
        if training.has_semi_preset:
            return None
        raise UsageError(
            f"labels={request.labels!r} is not allowed without a parent run or a preset that starts with paper-semi.",
            parameters=("parent", "preset"),
        )
    given = {name: getattr(request, name, None) or _get_option(training, name) for name in _INHERITED_OPTIONS}
    inherited = [name for name, value in given.items() if value not in (None, "")]
    if training.preset != TrainRequest.preset:
        inherited.append("preset")
    if training.variant:
        inherited.append("variant")
    if inherited:
        raise UsageError(
            f"{', '.join(inherited)} cannot be combined with parent={request.parent!r}: "
            "a child run has the same values as its parent."
        )
    runs = RunStore(workspace)
    parent = runs.open(request.parent)
    description = parent.read_metadata()
    if runs.open_dataset_of(description) != dataset:
        raise UsageError(f"parent={parent.id!r} is a run of {description['dataset']!r}, not of {dataset.name!r}.")
    return parent


def _get_option(training: TrainRequest, name: str) -> Any:
    return training.values.get(name, getattr(training, name, None))


def _pick(named: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: named[name] for name in names if name in named}


def _require_same_shape(settings: TrainSettings, parent: TrainSettings) -> None:
    """Raise if the weights of the parent would not fit the network of the child."""
    changed = [name for name in _SHAPE_SETTINGS if settings.as_dict()[name] != parent.as_dict()[name]]
    if changed:
        name = changed[0]
        raise UsageError(
            f"{name}={settings.as_dict()[name]!r} is not allowed: the parent has {parent.as_dict()[name]!r}."
        )


def _plan_from_preset(
    workspace: Workspace, dataset: ImageDataset, request: RunRequest, compute: ComputeContext, events: TrainingEvents
) -> SemiPlan:
    training = request.training
    if training.preset not in PAPER_PRESETS:
        presets = ", ".join(SEMI_PRESETS)
        raise UsageError(f"preset={training.preset!r} is not known. There are: {presets}.")
    if isinstance(request.clusters, SuggestClusters):
        raise UsageError(f"clusters='auto' is not allowed with preset={training.preset!r}: give a whole number.")
    changed = _pick(training.values, (*_CHANGEABLE_SETTINGS, "implementation", "seed"))
    changed |= {"backbone": training.backbone, "clusters": request.clusters}
    settings = build_paper_preset(training.preset, training.variant).replace(
        **{name: value for name, value in changed.items() if value is not None}
    )
    settings = settings.with_overrides(training.assignments)
    size = settings.data.image_size
    compute.world.run_on_rank_zero(lambda: store_pixels(workspace, dataset, size, events.progress).name)
    images = exclude_ids(load_images(dataset, size, split=request.split), read_excluded_ids(dataset))
    assert request.labels is not None
    plan = plan_semi_from_scratch(settings, dataset, images.ids, request.labels)
    splits = set(dataset.read_metadata(images.ids).splits)
    is_trained_on_test = request.split is None and splits >= {_TRAIN_SPLIT, _TEST_SPLIT}
    return replace(plan, notes=(*plan.notes, _SPLIT_NOTE)) if is_trained_on_test else plan
