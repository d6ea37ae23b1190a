"""Planning of a run within the time budget of its preset, from steps timed on this computer."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.representation import compare_representations
from crlc.annotations.store import read_excluded_ids
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.formatting import format_duration
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.state import RunState
from crlc.services.cluster_count import compute_pixel_vectors
from crlc.services.run_preparation import store_pixels
from crlc.training.frozen_features import load_frozen_features
from crlc.training.images import TrainingImages, exclude_ids, load_images, select_positions
from crlc.training.network_builder import build_network
from crlc.training.planning import RunPlan, plan_run
from crlc.training.presets import AUTO, FROZEN_HEADS
from crlc.training.request import TrainRequest
from crlc.training.settings import TrainSettings
from crlc.training.time_budget import PRESET_SECONDS, fit_epochs
from crlc.training.time_estimate import RunTimer, StepKey, TimeRange, make_step_key
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_MIN_EPOCHS_FRACTION = 0.5
"""With a smaller fraction of the preset's epochs, another method or size is better than a shorter run."""

_SMALL_IMAGE_SIZE = 16
_SAMPLE_IMAGES = 2_000
_PAST_RUNS = 50
_PAST_RUNS_PER_KEY = 5


class TrainingPlanner:
    """Plans runs that train at most as long as their preset promises.

    A run that takes a little too long is shortened. On a CPU, end-to-end training that takes much too long is replaced
    by heads on a frozen pretrained backbone, or by smaller images, whichever describes the images better. A request
    that names a method, a backbone or an image size keeps it; one that names the epochs has no budget.
    """

    def __init__(self, workspace: Workspace, device: torch.device) -> None:
        """Store where to train; finished runs of the workspace count as measurements of this computer."""
        self._workspace = workspace
        self.timer = RunTimer(device, read_past_step_seconds(workspace))
        self._is_frozen_better: dict[object, bool] = {}

    def plan(
        self,
        dataset: ImageDataset,
        request: TrainRequest,
        images: TrainingImages,
        *,
        split: str | None = None,
        report: ProgressCallback = no_progress,
    ) -> RunPlan:
        """Plan a run within the time budget of its preset.

        Args:
            dataset: dataset of the run.
            request: preset, method and settings.
            images: the training images, at the size in which the dataset stores them.
            split: splits that they belong to, joined by `+`; `None` for all images.
            report: receives the progress of decoding images at another size.

        Raises:
            UsageError: a name or value is not known, or values contradict each other.
        """
        has_gpu = self.timer.device.type != "cpu"
        plan = plan_run(request, images, has_gpu=has_gpu)
        budget = PRESET_SECONDS.get(request.preset)
        if budget is None or _names_any(request, "epochs", "pretrain_epochs", "finetune_epochs"):
            return plan
        loader = _ImageLoader(self._workspace, dataset, split, report)

        def estimate(settings: TrainSettings) -> TimeRange:
            return self.timer.estimate(loader.load(settings.data.image_size), settings).training

        def fit(plan: RunPlan) -> RunPlan:
            return _shorten(plan, fit_epochs(plan.settings, budget, estimate), budget)

        fitted, settings = fit(plan), plan.settings
        is_open = request.method == AUTO and not _names_any(request, "backbone", "image_size")
        is_long_enough = fitted.settings.stages.epochs >= _MIN_EPOCHS_FRACTION * settings.stages.epochs
        if is_long_enough or has_gpu or not is_open or settings.stages.method != "end-to-end":
            return fitted
        size, duration = settings.data.image_size, format_duration(estimate(settings).high)
        too_long = f"as end-to-end training at {size} px takes about {duration}"
        if self._suits_frozen_backbone(dataset, images, settings.model.clusters):
            frozen = plan_run(replace(request, method="two-stage"), images, has_gpu=has_gpu)
            return fit(replace(frozen, reason=f"two stages on a frozen pretrained backbone, {too_long}"))
        if size > _SMALL_IMAGE_SIZE:
            smaller = replace(request, values={**request.values, "image_size": _SMALL_IMAGE_SIZE})
            reason = f"end to end on images of {_SMALL_IMAGE_SIZE} px, {too_long}"
            return fit(replace(plan_run(smaller, images, has_gpu=has_gpu), reason=reason))
        return fitted

    def _suits_frozen_backbone(self, dataset: ImageDataset, images: TrainingImages, clusters: int) -> bool:
        """Compare the representations of the images once, for all presets."""
        key = (dataset.info.uid, dataset.version, len(images), clusters)
        if key not in self._is_frozen_better:
            self._is_frozen_better[key] = suits_frozen_backbone(images, clusters, self.timer.device)
        return self._is_frozen_better[key]


@dataclass(frozen=True)
class _ImageLoader:
    """Loads the training images of a dataset at the sizes that plans need, each size once."""

    workspace: Workspace
    dataset: ImageDataset
    split: str | None
    report: ProgressCallback
    _loaded: dict[int, TrainingImages] = field(default_factory=dict)

    def load(self, size: int) -> TrainingImages:
        """Load the images at a size; they are decoded if they are not stored at that size yet."""
        if size not in self._loaded:
            dataset = store_pixels(self.workspace, self.dataset, size, self.report)
            images = load_images(dataset, size, split=self.split, cluster_unlabelled=False)
            self._loaded[size] = exclude_ids(images, read_excluded_ids(dataset))
        return self._loaded[size]


def read_past_step_seconds(workspace: Workspace) -> dict[StepKey, float]:
    """Return the median seconds per step of the newest finished runs of the workspace, with their evaluations."""
    found: dict[StepKey, list[float]] = {}
    runs = RunStore(workspace)
    for run_id in reversed(runs.list_ids()[-_PAST_RUNS:]):
        try:
            run = runs.open(run_id)
            metadata, status = run.read_metadata(), run.read_status()
            key = make_step_key(TrainSettings.from_json(metadata["settings"]), metadata["device"])
            seconds = run.metrics_log.summarize().seconds
        except (CrlcError, KeyError, ValueError, TypeError):
            continue  # a damaged run is reported elsewhere
        if status.state is RunState.FINISHED and status.step and seconds:
            found.setdefault(key, []).append(seconds / status.step)
    return {key: float(np.median(values[:_PAST_RUNS_PER_KEY])) for key, values in found.items()}


def _names_any(request: TrainRequest, *names: str) -> bool:
    """Return whether the request gives a value for any of the settings."""
    names_backbone = request.backbone is not None or request.weights or request.frozen is not None
    given = request.named_settings | ({"backbone"} if names_backbone else set())
    return not given.isdisjoint(names)


def _shorten(plan: RunPlan, settings: TrainSettings, budget: float) -> RunPlan:
    """Return the plan with fewer epochs, and say so in its reason."""
    before, after = plan.settings.stages.total_epochs, settings.stages.total_epochs
    if before == after:
        return plan
    note = f"{after:,} instead of {before:,} epochs, to train for at most {format_duration(budget)}"
    return RunPlan(settings, f"{plan.reason}; {note}")


def suits_frozen_backbone(images: TrainingImages, clusters: int, device: torch.device) -> bool:
    """Return whether features of the default backbone describe grey images better than their pixels do.

    Args:
        images: the images, of which a sample is compared.
        clusters: number of clusters.
        device: device that computes the features.
    """
    count = min(len(images), _SAMPLE_IMAGES)
    sample = select_positions(images, np.linspace(0, len(images) - 1, count).astype(np.int64))
    enlarged = replace(
        sample, size=FROZEN_HEADS.data.image_size, read=lambda ids: _enlarge(sample.read(ids)), feature_folder=None
    )
    built = build_network(FROZEN_HEADS, len(enlarged))
    built.network.to(device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder, "vectors.npy")
        features = load_frozen_features(built, enlarged, FROZEN_HEADS, file, fit=True).vectors
        by_pixels, by_features = compare_representations(compute_pixel_vectors(sample), features, clusters)
    return by_features > by_pixels


def _enlarge(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Resize images to the size of the default backbone, (B, S, S, 3)."""
    size = FROZEN_HEADS.data.image_size
    channels_first = torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
    resized = torch.nn.functional.interpolate(channels_first, size=(size, size), mode="bilinear", antialias=True)
    return resized.round().byte().permute(0, 2, 3, 1).numpy()
