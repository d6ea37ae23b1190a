"""Views of clustered images: the result of a run, or the provisional clusters of an untrained dataset.

Arrays have one row per image, in ascending order of `ids`. A view never changes; `view_cache` opens a new one when
the files have changed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.background.tasks import BackgroundTask
from app.figures.colours import get_colour
from app.view_models.image_selection import normalize_coordinates
from crlc.analysis.class_metrics import match_clusters
from crlc.analysis.cluster_colours import assign_first_colours, extend_colours
from crlc.analysis.maps.process import MapProcess
from crlc.analysis.maps.settings import MapSettings, get_map_path, read_map
from crlc.analysis.merge_split import MergeSuggestion, SplitSuggestion
from crlc.analysis.neighbours.exact import check_neighbour_count, search_exact
from crlc.analysis.normalization import normalize_rows
from crlc.annotations.state import AnnotationState
from crlc.arrays import FloatArray, ImageIds
from crlc.clusters.names import get_display_names
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError
from crlc.formatting import format_cluster
from crlc.progress import ProgressCallback, no_progress
from crlc.services.analyse_run import QualityReport, RunAnalysis
from crlc.services.exploration import Exploration
from crlc.services.maps import load_map, start_map
from crlc.services.neighbours import RunNeighbours

MOST_CONFIDENT, LEAST_CONFIDENT = "most confident", "least confident"
MOST_TYPICAL, OUTLIERS = "typical", "outliers"
"""Orders of images; the values are shown on screen."""

_MIN_MERGE_OVERLAP = 0.1
"""Clusters that overlap less are well separated, and merging them is not suggested."""

RowIndices = NDArray[np.int64]
"""Positions of images in the arrays of a view."""


class NearestRows(NamedTuple):
    """Nearest images of an image, most similar first; arrays of shape (k,)."""

    rows: RowIndices
    similarity: FloatArray
    """The paper's s: cosine similarity of the features z."""


class ClusterView(ABC):
    """Interface shared by run views and dataset views."""

    kind: str
    """`runs` or `datasets`: the first part of its URLs."""

    name: str
    """Run id, or name of the dataset."""

    is_provisional: bool
    """True if the clusters are those of an untrained dataset."""

    dataset: ImageDataset
    annotation_state: AnnotationState
    ids: ImageIds
    clusters: NDArray[np.int64]
    confidence: FloatArray | None
    """The paper's p: probability of the cluster of each image; `None` before training."""

    cluster_names: Mapping[int, str]
    _colours: tuple[int, ...]
    """Index of the colour of each cluster."""

    shown_level: int | None = None
    """Number of clusters of a preview (`cluster_levels`), which cannot be edited; `None` for the current clusters."""

    def __init__(self, key: str) -> None:
        """Store the key that identifies this state."""
        self.version = hashlib.sha256(key.encode()).hexdigest()[:12]
        """Changes whenever clusters, names, labels or colours may have changed."""
        self._coordinates: dict[str, FloatArray] = {}

    @property
    def is_growing(self) -> bool:
        """Whether more images are being added to the view."""
        return False

    @cached_property
    def layout_version(self) -> str:
        """Identifier of the images and their coordinates; renaming or labelling does not change it."""
        digest = hashlib.blake2b(np.ascontiguousarray(self.ids).tobytes(), digest_size=6)
        digest.update(self.source_key.encode())
        return digest.hexdigest()

    @property
    @abstractmethod
    def source_key(self) -> str:
        """Identifier of the files that the images and their coordinates come from."""

    @cached_property
    def classes(self) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
        """Names of the ground-truth classes, and the class number of each image (-1: unknown); `None` without any."""
        metadata = self.dataset.read_metadata(self.ids)
        return None if metadata.class_numbers is None else (metadata.class_names, metadata.class_numbers)

    @cached_property
    def matched_clusters(self) -> NDArray[np.int64] | None:
        """The cluster matched to each class, one to one (-1: none); `None` without classes."""
        if self.classes is None:
            return None
        names, numbers = self.classes
        known = numbers >= 0
        found = match_clusters(numbers[known], self.clusters[known])
        return np.pad(found, (0, len(names) - len(found)), constant_values=-1)

    def format_cluster(self, number: int) -> str:
        """Return the number of a cluster, with its name if it has one."""
        return format_cluster(number, self.cluster_names)

    @property
    def colours(self) -> tuple[int, ...]:
        """Index of the colour of each cluster."""
        return self._colours

    def get_colour(self, number: int) -> str:
        """Return the colour of a cluster: the same on every page, and in every run with a matching cluster."""
        return get_colour(self._colours[number] if number >= 0 else number)

    def find_row(self, image_id: int) -> int:
        """Return the row of an image.

        Raises:
            NotFoundError: the view does not have the image.
        """
        row = int(np.searchsorted(self.ids, image_id))
        if row == len(self.ids) or self.ids[row] != image_id:
            raise NotFoundError(f"{self.name} has no image {image_id}: it was removed, changed or excluded.")
        return row

    def find_rows(self, ids: ImageIds) -> RowIndices:
        """Return the rows of images, without those that the view does not have."""
        if not len(self.ids):
            return np.empty(0, np.int64)
        rows: RowIndices = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        found: RowIndices = rows[self.ids[rows] == ids]
        return found

    def load_coordinates(self, method: str) -> FloatArray | None:
        """Return the coordinates of a map, from -1 to 1, (N, 2); `None` if it was not computed."""
        if method not in self._coordinates:
            found = self._read_map(MapSettings(method))
            if found is None:
                return None
            self._coordinates[method] = normalize_coordinates(found)
        return self._coordinates[method]

    def compute_map(self, method: str, task: BackgroundTask) -> None:
        """Compute a map in a process that the task can cancel; `load_coordinates` returns it afterwards."""
        process = self._start_map(MapSettings(method), task.report)
        with process:
            task.set_cancel_handler(process.cancel)
            process.wait()

    @abstractmethod
    def _read_map(self, settings: MapSettings) -> FloatArray | None:
        """Return a map from its file; `None` if it was not computed."""

    @abstractmethod
    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        """Start the process that computes a map."""

    @abstractmethod
    def find_nearest(self, row: int, k: int) -> NearestRows:
        """Return the k images most similar to an image, or all others if there are fewer."""

    @abstractmethod
    def list_orders(self) -> tuple[str, ...]:
        """Return the orders that `sort_rows` knows for this view, most useful first."""

    @abstractmethod
    def sort_rows(self, rows: RowIndices, order: str) -> RowIndices:
        """Return rows sorted by one of `list_orders`."""

    @abstractmethod
    def format_caption(self, row: int) -> str:
        """Return the caption of an image in a gallery."""


class RunView(ClusterView):
    """The newest result of a run, with the edits of its clusters."""

    kind = "runs"
    is_provisional = False

    def __init__(
        self, analysis: RunAnalysis, key: str, colours: tuple[int, ...], previous: RunView | None = None
    ) -> None:
        """Create the view of an analysis.

        Args:
            analysis: the result and edits of the run.
            key: identifies this state.
            colours: index of the colour of each cluster of the result.
            previous: an earlier view of the run; its cached values are reused if they are still valid.
        """
        super().__init__(key)
        self._colours = extend_colours(colours, max(analysis.edited.numbers, default=-1) + 1)
        self.analysis = analysis
        self.name, self.dataset, self.annotation_state = analysis.run.id, analysis.dataset, analysis.annotations
        self.ids, self.clusters, self.confidence = analysis.ids, analysis.clusters, analysis.confidence
        self.cluster_names = get_display_names(analysis.run.read_metadata(), analysis.edited)
        self._cached_analysis = analysis
        """An analysis of the same clusters, which may already have its quality and neighbours."""
        self._cached_suggestions: tuple[list[MergeSuggestion], list[SplitSuggestion]] | None = None
        if previous is not None and self._has_same_images(previous):
            self._coordinates = previous._coordinates
            if "classes" in previous.__dict__:
                self.__dict__["classes"] = previous.classes
            if np.array_equal(self.clusters, previous.clusters):
                self._cached_analysis = previous._cached_analysis
                self._cached_suggestions = previous._cached_suggestions

    def _has_same_images(self, other: RunView) -> bool:
        return (
            self.dataset == other.dataset
            and self.source_key == other.source_key
            and np.array_equal(self.ids, other.ids)
        )

    @property
    def source_key(self) -> str:
        """Identifier of the run, its result and its dataset."""
        return f"{self.name} {self.analysis.result.metadata['folder']} {self.dataset.info.uid}"

    @property
    def cluster_numbers(self) -> tuple[int, ...]:
        """Numbers of all clusters, including empty ones."""
        return self.analysis.edited.numbers

    @property
    def has_quality(self) -> bool:
        """True if the quality is already computed."""
        return self._cached_analysis.has_quality

    def compute_quality(self, report: ProgressCallback = no_progress) -> QualityReport:
        """Return the quality of images and clusters; slow for many images the first time."""
        return self._cached_analysis.compute_quality(report)

    def suggest_edits(self, limit: int) -> tuple[list[MergeSuggestion], list[SplitSuggestion]]:
        """Return clusters to merge and clusters to split; computed once."""
        if self._cached_suggestions is None:
            found = self._cached_analysis.suggest(1, limit)
            self._cached_suggestions = ([one for one in found.merge if one.mixing >= _MIN_MERGE_OVERLAP], found.split)
        return self._cached_suggestions

    def _read_map(self, settings: MapSettings) -> FloatArray | None:
        return load_map(self.analysis, settings)

    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        return start_map(self.analysis, settings, report)

    @cached_property
    def neighbours(self) -> RunNeighbours:
        """Neighbour search of the run."""
        return RunNeighbours(self._cached_analysis)

    def find_nearest(self, row: int, k: int) -> NearestRows:
        """Return the k images most similar to one, or all others if there are fewer."""
        k = min(k, len(self.ids) - 1)
        if k < 1:
            return NearestRows(np.empty(0, np.int64), np.empty(0, np.float32))
        found = self.neighbours.find_nearest([int(self.ids[row])], k)
        return NearestRows(found.indices, found.similarity)

    def list_orders(self) -> tuple[str, ...]:
        """Return the orders of a run."""
        return (MOST_CONFIDENT, LEAST_CONFIDENT, MOST_TYPICAL, OUTLIERS)

    def sort_rows(self, rows: RowIndices, order: str) -> RowIndices:
        """Return rows sorted by one of `list_orders`."""
        if order in (MOST_CONFIDENT, LEAST_CONFIDENT):
            assert self.confidence is not None
            values = self.confidence[rows]
            return rows[np.argsort(-values if order == MOST_CONFIDENT else values, kind="stable")]
        images = self.compute_quality().images
        return rows[
            np.argsort(-(images.typicality if order == MOST_TYPICAL else images.outlier_score)[rows], kind="stable")
        ]

    def format_caption(self, row: int) -> str:
        """Return the confidence in percent."""
        assert self.confidence is not None
        return f"{self.confidence[row]:.0%}"


class DatasetView(ClusterView):
    """An untrained dataset, with provisional clusters of pretrained features."""

    kind = "datasets"
    is_provisional = True
    confidence = None

    @property
    def is_growing(self) -> bool:
        """Whether features of further images are being computed."""
        return self.exploration.is_partial

    def __init__(
        self, dataset: ImageDataset, exploration: Exploration, annotation_state: AnnotationState, key: str
    ) -> None:
        """Create the view of an exploration, without images that have been excluded since then."""
        super().__init__(key)
        self.name, self.dataset, self.exploration = dataset.name, dataset, exploration
        self.annotation_state = annotation_state
        self.kept_rows = np.flatnonzero(~annotation_state.is_excluded(exploration.ids))
        """Rows of the exploration that are not excluded, ascending."""
        self.ids, self.clusters = exploration.ids[self.kept_rows], exploration.clusters[self.kept_rows]
        self.cluster_names = {}
        self._colours = assign_first_colours(int(self.clusters.max(initial=-1)) + 1)

    def set_clusters(self, clusters: NDArray[np.int64]) -> None:
        """Replace the clusters of a new view, (N,); their colours stay."""
        self.clusters = clusters
        self._colours = extend_colours(self._colours, int(clusters.max(initial=-1)) + 1)

    @property
    def source_key(self) -> str:
        """Identifier of the dataset and its exploration."""
        return f"{self.dataset.info.uid} {self.exploration.metadata['folder']}"

    def _read_map(self, settings: MapSettings) -> FloatArray | None:
        explored = self.exploration.metadata["map"]
        if explored == {"method": settings.method, **settings.relevant}:
            return self.exploration.coordinates[self.kept_rows]
        folders = sorted(self.dataset.exploration_folder.glob("maps-*"))
        if not folders:
            return None
        vectors = self.exploration.vectors
        coordinates = read_map(get_map_path(folders[0], vectors, settings), len(vectors))
        return None if coordinates is None else coordinates[self.kept_rows]

    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        folder = next(iter(sorted(self.dataset.exploration_folder.glob("maps-*"))), None)
        if folder is None:
            raise NotFoundError(f"The exploration of {self.name} was removed.", advice="Explore the dataset again.")
        return MapProcess(self.exploration.vectors, settings, folder, report=report)

    def find_nearest(self, row: int, k: int) -> NearestRows:
        """Return the k images most similar to one, or all others if there are fewer."""
        vectors = self.exploration.vectors
        k = min(k, len(self.ids) - 1)
        if k < 1:
            return NearestRows(np.empty(0, np.int64), np.empty(0, np.float32))
        check_neighbour_count(k, len(vectors) - 1, "other images")
        here = self.kept_rows[row]
        left_out = np.union1d(np.setdiff1d(np.arange(len(vectors)), self.kept_rows, assume_unique=True), [here])
        found = search_exact(vectors, normalize_rows(vectors[[here]]), k, left_out)
        return NearestRows(np.searchsorted(self.kept_rows, found.positions[0]), np.clip(found.similarity[0], -1, 1))

    @property
    def _distance(self) -> FloatArray:
        return self.exploration.distance[self.kept_rows]

    def list_orders(self) -> tuple[str, ...]:
        """Return the orders of an untrained dataset, which has no confidence."""
        return (MOST_TYPICAL, OUTLIERS)

    def sort_rows(self, rows: RowIndices, order: str) -> RowIndices:
        """Return rows sorted by one of `list_orders`; the most typical image of each cluster comes first.

        Distances are compared within a cluster only: the densest cluster would come first as a whole.
        """
        distance, clusters = self._distance[rows], self.clusters[rows]
        if order != MOST_TYPICAL:
            return rows[np.argsort(-distance, kind="stable")]
        by_cluster = np.lexsort((distance, clusters))
        numbers, starts = np.unique(clusters[by_cluster], return_index=True)
        rank = np.arange(len(rows)) - starts[np.searchsorted(numbers, clusters[by_cluster])]
        return rows[by_cluster[np.argsort(rank, kind="stable")]]

    def format_caption(self, row: int) -> str:
        """Return the provisional cluster, because there is no confidence."""
        return f"cluster {self.clusters[row]}"
