"""Requests for new runs, and the preparation that all training methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crlc.analysis.cluster_count import DEFAULT_MAX_CLUSTERS
from crlc.annotations.store import read_excluded_ids
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.data.pixel_store import list_stored_sizes
from crlc.data.sources.builtin import BUILTIN_DATASETS
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.run_title import normalize_title
from crlc.training.images import TrainingImages, exclude_ids, load_images
from crlc.training.request import TrainRequest
from crlc.training.run_logger import TrainProgress
from crlc.training.settings import TrainSettings
from crlc.training.trainer import OptionalInputs
from crlc.workspace.workspace import Workspace

_MAX_GROUP_LENGTH = 80


@dataclass(frozen=True)
class SuggestClusters:
    """Request to choose the number of clusters from the images themselves."""

    max_clusters: int = DEFAULT_MAX_CLUSTERS


@dataclass(frozen=True)
class RunRequest:
    """Options of a new run."""

    dataset: str
    """Name of a dataset, or a source that is imported first (folder, archive, table or built-in dataset)."""

    training: TrainRequest = field(default_factory=TrainRequest)
    """Preset, method and settings; a number of clusters in it is overridden by `clusters`."""

    clusters: int | SuggestClusters | None = None
    """Number of clusters. By default, that of the ground-truth classes, else 10; a paper preset has its own."""

    split: str | None = None
    """Splits to train on, joined by `+`; `None` for all images."""

    evaluate_split: str | None = None
    """Splits that ACC, NMI and ARI are computed on, joined by `+`; `None` for the training images."""

    parent: str | None = None
    """CRLC-semi: run whose network and clusters the new run starts from."""

    labels: str | None = None
    """CRLC-semi: source of the labels, as `label_sources.load_labels` accepts it."""

    group: str | None = None
    """Name of a group of runs to compare, such as a sweep over the values of a setting."""

    title: str | None = None
    """Title of the run; `None` to name it by start time, preset and number of clusters."""

    def build_metadata(self) -> dict[str, Any]:
        """Return the entries of run.json that runs of all methods have.

        Raises:
            UsageError: the name of the group or the title is too long.
        """
        metadata: dict[str, Any] = {"evaluate_split": self.evaluate_split}
        if self.training.variant:
            metadata["variant"] = self.training.variant
        if self.group is not None:
            group = " ".join(self.group.split())
            if not 0 < len(group) <= _MAX_GROUP_LENGTH:
                raise UsageError(
                    f"group={self.group!r} is not allowed: it must have 1 to {_MAX_GROUP_LENGTH} characters."
                )
            metadata["group"] = group
        if self.title is not None:
            metadata["title"] = normalize_title(self.title) or None
        return metadata


@dataclass(frozen=True)
class TrainingEvents:
    """Callbacks that report events before and during training. Only the process of rank 0 calls them."""

    progress: ProgressCallback = no_progress
    """Receives the progress of import, decoding and the preparation of a stage."""

    step: Callable[[TrainProgress], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    """Receives one sentence for the user: a decision that was made, or a warning."""

    created: Callable[[RunFolder], None] = lambda _: None
    """Receives the run as soon as it exists on disk, before training starts."""


@dataclass(frozen=True)
class PreparedRun:
    """Everything that a new run needs. The run itself is not on disk yet."""

    dataset: ImageDataset
    images: TrainingImages
    settings: TrainSettings
    preset: str
    reason: str
    """Reason why this method was chosen."""

    optional_inputs: OptionalInputs = field(default_factory=OptionalInputs)
    metadata: dict[str, Any] = field(default_factory=dict)
    """Additional entries of run.json."""

    notes: tuple[str, ...] = ()
    """Sentences for the user, reported when the run is created."""

    save_files: Callable[[RunFolder], None] | None = None
    """Writes additional files into the run folder before the run becomes visible."""


def open_or_import_dataset(
    workspace: Workspace, name_or_source: str, report: ProgressCallback = no_progress
) -> ImageDataset:
    """Open a dataset by name, or import it from a source.

    Args:
        workspace: workspace of the dataset.
        name_or_source: name of a dataset; or a path or built-in dataset, which is imported if there is no such name.
        report: receives the progress of the import.

    Raises:
        NotFoundError: the text is not the name of a dataset and does not look like a source.
        SourceError: the source has no readable image.
    """
    is_source = name_or_source in BUILTIN_DATASETS or any(mark in name_or_source for mark in "/\\.~")
    if is_source and name_or_source not in workspace.list_dataset_names():
        return workspace.import_dataset(name_or_source, report=report)[0]
    return workspace.open_dataset(name_or_source)


def store_pixels(
    workspace: Workspace, dataset: ImageDataset, size: int, report: ProgressCallback = no_progress
) -> ImageDataset:
    """Decode the images of a dataset at `size` pixels, unless they are stored already.

    Args:
        workspace: workspace of the dataset.
        dataset: dataset to decode.
        size: side of the stored square images in pixels.
        report: receives the progress of decoding.

    Returns:
        The dataset in its current version, which may be newer: decoding detects changed images.
    """
    if size in list_stored_sizes(dataset.folder, complete=True):
        return dataset
    options = ImportOptions(size=size)
    return workspace.import_dataset(dataset.info.location, name=dataset.name, options=options, report=report)[0]


def load_evaluation_images(dataset: ImageDataset, size: int, split: str | None) -> TrainingImages | None:
    """Load the images that metrics are computed on, or return `None` if these are the training images.

    Args:
        dataset: dataset of the run.
        size: stored image size in pixels.
        split: splits to evaluate, joined by `+`; `None` for the training images.
    """
    if split is None:
        return None
    return exclude_ids(load_images(dataset, size, split=split), read_excluded_ids(dataset))
