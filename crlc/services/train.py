"""Training use cases: prepare, estimate, start, resume and stop runs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from crlc.annotations.store import read_excluded_ids
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, UsageError
from crlc.files import writer_lock
from crlc.model import CrlcNetwork, build_backbone
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.services.cluster_count import suggest_for_dataset
from crlc.services.plan_training import TrainingPlanner
from crlc.services.run_preparation import (
    PreparedRun,
    RunRequest,
    SuggestClusters,
    TrainingEvents,
    load_evaluation_images,
    open_or_import_dataset,
    store_pixels,
)
from crlc.services.semi import is_semi, load_initial_state, prepare_semi_run
from crlc.services.vectors import apply_vectors_to_request
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages, exclude_ids, load_images, require_enough_images, select_ids
from crlc.training.planning import plan_run
from crlc.training.presets import choose_cluster_count
from crlc.training.run_logger import ProgressListener
from crlc.training.settings import SCRATCH_NAMES, TrainSettings
from crlc.training.time_budget import PRESET_SECONDS
from crlc.training.time_estimate import TimeRange
from crlc.training.trainer import OptionalInputs, Trainer
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SILENT = TrainingEvents()
_STOP_SECONDS, _STOP_POLL_SECONDS = 60, 0.1


@dataclass(frozen=True)
class TrainingResult:
    """Outcome of training one run to its end or to a stop."""

    run: RunFolder
    state: RunState
    """FINISHED or STOPPED."""

    network: CrlcNetwork
    subhead: int
    """The selected subhead."""

    metrics: dict[str, Any]
    """Newest value of every metric."""


@dataclass(frozen=True)
class RunEstimate:
    """Estimated duration of a prepared run on this computer."""

    time: TimeRange
    """Duration with the features that are not cached yet."""

    images: int
    settings: TrainSettings
    reason: str
    """Reason why this method was chosen."""


def prepare_run(
    workspace: Workspace,
    request: RunRequest,
    compute: ComputeContext,
    events: TrainingEvents = _SILENT,
    *,
    planner: TrainingPlanner | None = None,
) -> PreparedRun:
    """Turn a request into settings and images. The dataset is imported and images are decoded if necessary.

    The presets quick, balanced and best are planned within their time budgets, from timed steps.

    Args:
        workspace: workspace of the dataset and the new run.
        request: options of the new run.
        compute: device and the processes that train together; only rank 0 writes to the workspace.
        events: callbacks, which are called in rank 0 only.
        planner: plans the run; `None` for a new one.

    Raises:
        UsageError: an option is not allowed, or options contradict each other.
        CrlcError: the dataset does not exist or cannot be imported.
    """
    world = compute.world
    events = events if world.is_rank_zero else _SILENT
    name = world.run_on_rank_zero(lambda: open_or_import_dataset(workspace, request.dataset, events.progress).name)
    dataset = workspace.open_dataset(name)
    if is_semi(request):
        return prepare_semi_run(workspace, dataset, request, compute, events)
    excluded = read_excluded_ids(dataset)
    images = exclude_ids(load_images(dataset, dataset.get_default_size(), split=request.split), excluded)
    clusters, suggestion = _choose_clusters(workspace, dataset, request, compute, events)
    training = apply_vectors_to_request(dataset, request.training)
    if clusters is not None:
        training = replace(training, values={**training.values, "clusters": clusters})
    if world.size == 1:
        planner = planner or TrainingPlanner(workspace, compute.device)
        plan = planner.plan(dataset, training, images, split=request.split, report=events.progress)
    else:  # the clocks of several processes differ, and several GPUs keep the sizes of the preset
        plan = plan_run(training, images, has_gpu=compute.device.type != "cpu")
    settings = plan.settings
    world.run_on_rank_zero(lambda: store_pixels(workspace, dataset, settings.data.image_size, events.progress).name)
    images = load_images(dataset, settings.data.image_size, split=request.split, cluster_unlabelled=False)
    images = exclude_ids(images, excluded)
    optional_inputs = OptionalInputs(
        evaluation_images=load_evaluation_images(dataset, settings.data.image_size, request.evaluate_split)
    )
    metadata = {**request.build_metadata(), **suggestion, "method_reason": plan.reason}
    note = f"Method: {settings.stages.method}: {plan.reason}."
    return PreparedRun(dataset, images, settings, training.preset, plan.reason, optional_inputs, metadata, (note,))


def estimate_runs(
    workspace: Workspace, request: RunRequest, compute: ComputeContext, events: TrainingEvents = _SILENT
) -> dict[str, RunEstimate]:
    """Estimate the duration of a requested run from a few timed steps and from earlier runs. No run is created.

    Args:
        workspace: workspace of the dataset; its finished runs count as measurements.
        request: options of the run.
        compute: device.
        events: callbacks for the progress of imports and decoding.

    Returns:
        The estimate by preset, the requested one first. If that is quick, balanced or best, the other two follow.

    Raises:
        UsageError: an option is not allowed, or options contradict each other.
        CrlcError: the dataset does not exist or cannot be imported.
    """
    planner = TrainingPlanner(workspace, compute.device)
    presets = [request.training.preset]
    if request.training.preset in PRESET_SECONDS and not is_semi(request):
        presets += [name for name in PRESET_SECONDS if name not in presets]
    estimates: dict[str, RunEstimate] = {}
    for preset in presets:
        training = replace(request.training, preset=preset)
        prepared = prepare_run(workspace, replace(request, training=training), compute, events, planner=planner)
        request = replace(request, dataset=prepared.dataset.name)  # imported only once
        if isinstance(request.clusters, SuggestClusters):
            request = replace(request, clusters=prepared.settings.model.clusters)
        time_range = planner.timer.estimate(prepared.images, prepared.settings).total
        estimates[preset] = RunEstimate(time_range, len(prepared.images), prepared.settings, prepared.reason)
    return estimates


def start_run(
    workspace: Workspace,
    prepared: PreparedRun,
    compute: ComputeContext,
    events: TrainingEvents = _SILENT,
    *,
    stop_signals: Sequence[signal.Signals] = (),
) -> TrainingResult:
    """Create a run in the workspace and train it to its end or to a stop.

    Args:
        workspace: workspace of the new run.
        prepared: run prepared by `prepare_run`.
        compute: device and processes.
        events: callbacks, which are called in rank 0 only.
        stop_signals: signals that stop training after the current step, with a checkpoint. Python handles signals only
            in the main thread.

    Raises:
        UsageError: there are too few images for the clusters.
        TrainingError: the loss or the weights are not finite, or memory ran out.
    """
    world, settings = compute.world, prepared.settings
    require_enough_images(prepared.images, settings.model.clusters, world.size)
    if settings.model.backbone not in SCRATCH_NAMES or settings.model.weights:
        # Raises an error for a backbone that cannot be loaded, before the run exists.
        model = settings.model
        build_backbone(model.backbone, settings.data.image_size, model.weights, model.stem)
    runs = RunStore(workspace)

    def create() -> str:
        for note in prepared.notes:
            events.note(note)
        run = runs.create(
            prepared.dataset,
            prepared.images.ids,
            settings,
            prepared.preset,
            compute.device.type,
            prepare=prepared.save_files,
            **prepared.metadata,
        )
        events.created(run)
        return run.id

    run = runs.open(world.run_on_rank_zero(create))
    return train_folder(
        run,
        prepared.images,
        settings,
        compute,
        optional_inputs=prepared.optional_inputs,
        events=events,
        stop_signals=stop_signals,
    )


def resume_run(
    workspace: Workspace,
    run_id: str,
    compute: ComputeContext,
    events: TrainingEvents = _SILENT,
    *,
    stop_signals: Sequence[signal.Signals] = (),
) -> TrainingResult:
    """Continue a stopped, failed or interrupted run from its last checkpoint.

    Args:
        workspace: workspace of the run.
        run_id: run id, unique prefix, or `last`.
        compute: device and processes; the number of processes must be the same as before.
        events: callbacks, which are called in rank 0 only.
        stop_signals: signals that stop training after the current step, with a checkpoint.

    Raises:
        UsageError: the run is running or finished.
        CrlcError: the run or its dataset does not exist, or images changed since the run was created.
    """
    run, dataset = open_resumable_run(workspace, run_id)
    description = run.read_metadata()
    settings = TrainSettings.from_json(description["settings"])
    report = events.progress if compute.world.is_rank_zero else _SILENT.progress
    compute.world.run_on_rank_zero(lambda: store_pixels(workspace, dataset, settings.data.image_size, report).name)
    images = select_ids(load_images(dataset, settings.data.image_size, cluster_unlabelled=False), run.read_ids())
    evaluated = load_evaluation_images(dataset, settings.data.image_size, description.get("evaluate_split"))
    optional_inputs = replace(load_initial_state(run), evaluation_images=evaluated)
    return train_folder(
        run, images, settings, compute, optional_inputs=optional_inputs, events=events, stop_signals=stop_signals
    )


def open_resumable_run(workspace: Workspace, run_id: str) -> tuple[RunFolder, ImageDataset]:
    """Open a run that can be resumed, and its dataset.

    Args:
        workspace: workspace of the run.
        run_id: run id, unique prefix, or `last`.

    Raises:
        UsageError: the run is running or finished.
        CrlcError: the run or its dataset does not exist, or images changed since the run was created.
    """
    runs = RunStore(workspace)
    run = runs.open(run_id)
    state = run.read_status().state
    if state in (RunState.RUNNING, RunState.STOPPING):
        raise UsageError(f"{run.id} is {state} already.")
    if state is RunState.FINISHED:
        raise UsageError(f"{run.id} is finished; there is nothing to resume.")
    return run, runs.open_dataset_of(run.read_metadata())


def stop_run(workspace: Workspace, run_id: str) -> tuple[RunFolder, RunState]:
    """Stop a running run after its current step, and wait until its checkpoint is written.

    Args:
        workspace: workspace of the run.
        run_id: run id, unique prefix, or `last`.

    Returns:
        The run and its new state.

    Raises:
        UsageError: the run is not running.
        CrlcError: the run has not stopped after a minute.
    """
    run = RunStore(workspace).open(run_id)
    state = run.read_status().state
    if state is not RunState.RUNNING:
        raise UsageError(f"The run {run.id} is not running: it is {state}.")
    run.request_stop()
    deadline = time.monotonic() + _STOP_SECONDS
    while (state := run.read_status().state) is RunState.RUNNING:
        if time.monotonic() > deadline:
            raise CrlcError(f"The run {run.id} has not stopped after {_STOP_SECONDS} s: its current step takes longer.")
        time.sleep(_STOP_POLL_SECONDS)
    return run, state


def train_folder(
    run: RunFolder,
    images: TrainingImages,
    settings: TrainSettings,
    compute: ComputeContext,
    *,
    optional_inputs: OptionalInputs | None = None,
    events: TrainingEvents = _SILENT,
    stop_signals: Sequence[signal.Signals] = (),
) -> TrainingResult:
    """Train in a run folder, from its checkpoint if there is one, to the end or to a stop.

    Args:
        run: folder that holds or receives checkpoints, metrics and results; it needs no workspace.
        images: training images in the size that the settings require.
        settings: validated settings.
        compute: device and processes.
        optional_inputs: labels, initial weights, evaluation images.
        events: callbacks, which are called in rank 0 only.
        stop_signals: signals that stop training after the current step, with a checkpoint.

    Raises:
        BusyError: another process is training in the same folder.
        TrainingError: the loss or the weights are not finite, or memory ran out.
    """
    is_rank_zero = compute.world.is_rank_zero
    events = events if is_rank_zero else _SILENT
    listener = ProgressListener(events.step, events.progress)
    with writer_lock(run.path / "lock", f"The run {run.id}") if is_rank_zero else nullcontext():
        trainer = Trainer(images, settings, run, compute, listener, optional_inputs)
        with _handle_stop_signals(trainer, stop_signals):
            state = trainer.run()
    return TrainingResult(run, RunState(state), trainer.network, trainer.subhead, trainer.logger.latest_metrics)


@contextmanager
def _handle_stop_signals(trainer: Trainer, signals: Sequence[signal.Signals]) -> Iterator[None]:
    previous = {number: signal.signal(number, trainer.request_stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _choose_clusters(
    workspace: Workspace, dataset: ImageDataset, request: RunRequest, compute: ComputeContext, events: TrainingEvents
) -> tuple[int | None, dict[str, Any]]:
    """Return the number of clusters, `None` if the preset decides, and the metadata of a suggested number."""
    if isinstance(request.clusters, SuggestClusters):
        found = _suggest_clusters(workspace, dataset, request, request.clusters, compute, events)
        return found["suggestion"], {"cluster_count": found}
    if request.clusters is None and not request.training.has_paper_preset:
        summary = dataset.summarize()
        return choose_cluster_count(len(summary.classes), summary.readable), {}
    return request.clusters, {}


def _suggest_clusters(
    workspace: Workspace,
    dataset: ImageDataset,
    request: RunRequest,
    search: SuggestClusters,
    compute: ComputeContext,
    events: TrainingEvents,
) -> dict[str, Any]:
    """Suggest a number of clusters on rank 0 and broadcast it, with its curve, as run.json stores it."""

    def suggest() -> str:
        found = suggest_for_dataset(
            workspace,
            dataset,
            compute.device,
            split=request.split,
            max_clusters=search.max_clusters,
            report=events.progress,
        )
        doubt = "" if found.is_clear else f" {found.reason}"
        events.note(f"Clusters: {found.count.suggestion} suggested, based on {found.read_from}.{doubt}")
        return json.dumps(found.to_json())

    suggestion: dict[str, Any] = json.loads(compute.world.run_on_rank_zero(suggest))
    return suggestion
