"""Analysis of the newest result of a run, by image id: quality, class metrics, suggestions, duplicates, outliers.

Images that were removed, changed or excluded since the run are left out. Clusters are those after manual merges, splits
and moves. An analysis is a snapshot; open it again to see later edits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_metrics import ClassReport, build_class_report
from crlc.analysis.cluster_pairs import ClusterPairs, compute_cluster_pairs
from crlc.analysis.label_suggestions import suggest_images_to_label
from crlc.analysis.merge_split import MergeSuggestion, SplitSuggestion, suggest_merges, suggest_splits
from crlc.analysis.near_duplicates import DEFAULT_MIN_SIMILARITY, check_min_similarity, find_duplicates_by_features
from crlc.analysis.neighbours.exact import Neighbours, drop_self, search_exact
from crlc.analysis.neighbours.graph import EXACT_GRAPH_LIMIT, build_neighbour_graph
from crlc.analysis.normalization import normalize_rows
from crlc.analysis.outliers import find_outliers
from crlc.analysis.quality import (
    ClusterQuality,
    ImageQuality,
    RunQuality,
    compute_cluster_quality,
    compute_image_quality,
    compute_run_quality,
)
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import read_annotations
from crlc.arrays import ImageIds, IntArray
from crlc.clusters.clustering import Clustering, EditedClustering
from crlc.clusters.levels import ClusterLevels
from crlc.clusters.names import get_display_names
from crlc.clusters.probabilities import apply_edits_to_probabilities
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.results import RunResult, load_or_build_graph, read_result
from crlc.runs.run_title import read_run_title
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_QUERIES_PER_BATCH = 4096
_MIN_IMAGES = 2


class SimilarImages(NamedTuple):
    """Group of near duplicates."""

    ids: ImageIds
    score: float
    """Similarity of the least similar pair that connects the group."""


class OutlierImage(NamedTuple):
    """Image that is far from its neighbours."""

    id: int
    score: float
    """Mean distance to its neighbours as a multiple of the median of its cluster: 1 is typical."""

    cluster: int


class ImageToLabel(NamedTuple):
    """Image whose label would be informative, with the reason."""

    id: int
    cluster: int
    reason: str


class Suggestions(NamedTuple):
    """Clusters to merge or split, and images to label."""

    merge: list[MergeSuggestion]
    split: list[SplitSuggestion]
    """Examples are image ids."""

    label: list[ImageToLabel]
    """Most informative first."""


@dataclass(frozen=True)
class QualityReport:
    """Quality metrics without ground truth, per image (in the order of `RunAnalysis.ids`), per cluster and per run."""

    images: ImageQuality
    clusters: ClusterQuality
    run: RunQuality
    pairs: ClusterPairs


class RunAnalysis:
    """Snapshot of a result of a run. Expensive values are computed on first use and cached."""

    def __init__(
        self, run: RunFolder, dataset: ImageDataset, annotations: AnnotationState, result: RunResult | None = None
    ) -> None:
        """Read the newest result, or use one that was read before.

        Args:
            run: the run.
            dataset: dataset of the run.
            annotations: current labels, exclusions and edits of the dataset.
            result: the result; by default the newest one is read.

        Raises:
            NotFoundError: the run has no result, or all its images were removed, changed or excluded.
            DamagedError: the result cannot be read.
        """
        self.run, self.dataset, self.annotations = run, dataset, annotations
        self.result = read_result(run) if result is None else result
        self.clustering = Clustering.from_run(run, dataset, self.result.arrays)
        """Clustering of all images that have not changed since the run, including excluded images."""
        edited = self.clustering.apply_edits(annotations)
        kept = ~annotations.is_excluded(edited.ids)
        self.edited: EditedClustering = edited
        self.rows: IntArray = self.clustering.rows[kept]
        """Row of each image in the arrays of the result, ascending."""
        self.ids: ImageIds = edited.ids[kept]
        """Ids of the images that are not left out, ascending."""
        self.clusters: IntArray = edited.clusters[kept].astype(np.int64)
        """Cluster of each image after manual edits."""
        self._predicted: IntArray = self.clustering.clusters[kept].astype(np.int64)
        if not len(self.ids):
            raise NotFoundError(
                f"No image of the run {read_run_title(run)} is left: all were removed, changed or excluded since.",
                advice="Train again.",
            )
        self._graph: Neighbours | None = None
        self._quality: QualityReport | None = None

    @classmethod
    def open(cls, workspace: Workspace, run_id: str) -> RunAnalysis:
        """Open a run with the current annotations of its dataset.

        Args:
            workspace: workspace of the run.
            run_id: run id, unique prefix, or `last`.

        Raises:
            CrlcError: the run or its dataset does not exist, or the run has no result.
        """
        runs = RunStore(workspace)
        run = runs.open(run_id)
        dataset = runs.open_dataset_of(run.read_metadata(), require_unchanged=False)
        return cls(run, dataset, read_annotations(dataset))

    # ---- images and clusters

    @cached_property
    def names(self) -> Mapping[int, str]:
        """Names of the named clusters: set manually, or from the labels that the run was trained with."""
        return get_display_names(self.run.read_metadata(), self.edited)

    @property
    def is_edited(self) -> bool:
        """True if the clusters were edited manually."""
        grown = self.edited.first_new > self.clustering.count
        return bool(self.edited.merged) or grown or not np.array_equal(self._predicted, self.clusters)

    @property
    def left_out_rows(self) -> IntArray:
        """Rows of the images that are left out, ascending."""
        return np.setdiff1d(np.arange(len(self.all_z)), self.rows, assume_unique=True)

    @property
    def all_z(self) -> NDArray[Any]:
        """Features of all images of the result, including those left out; memory-mapped."""
        return self.result.arrays["z"]

    @cached_property
    def z(self) -> NDArray[Any]:
        """Features, (N, d); memory-mapped if no image is left out."""
        return self.load_array("z")

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """Probability of the predicted cluster, (N,)."""
        return np.asarray(self.load_array("confidence"), np.float32)

    @cached_property
    def q(self) -> NDArray[Any]:
        """Probabilities of the edited clusters, (N, C); memory-mapped if nothing was edited."""
        found = self.load_array("q")
        if not self.is_edited:
            return found
        return apply_edits_to_probabilities(
            found, self._predicted, self.clusters, self.edited.merged, self.edited.first_new
        )

    @cached_property
    def classes(self) -> tuple[tuple[str, ...], IntArray] | None:
        """Names of the ground-truth classes and the class of each image, -1 if unknown; `None` without classes."""
        metadata = self.dataset.read_metadata(self.ids)
        return None if metadata.class_numbers is None else (metadata.class_names, metadata.class_numbers)

    @property
    def has_quality(self) -> bool:
        """True if `compute_quality` has computed the quality already."""
        return self._quality is not None

    def load_array(self, name: str) -> NDArray[Any]:
        """Return an array of the result for the images that are not left out; memory-mapped if none is left out."""
        array = self.result.arrays[name]
        return array if len(self.rows) == len(array) else array[self.rows]

    def load_graph(self, report: ProgressCallback = no_progress) -> Neighbours:
        """Return the neighbour graph; positions are indices into `ids`.

        Raises:
            UsageError: there is only one image.
        """
        if len(self.ids) < _MIN_IMAGES:
            raise UsageError(f"Only one image of the run {read_run_title(self.run)} is left: it has no neighbours.")
        if self._graph is None:
            graph = load_or_build_graph(self.run, self.all_z, report)
            self._graph = _restrict_graph(graph, self.all_z, self.rows, report)
        return self._graph

    # ---- results

    def compute_quality(self, report: ProgressCallback = no_progress) -> QualityReport:
        """Compute the quality metrics that need no ground truth."""
        if self._quality is None:
            graph = self.load_graph(report)
            by_subhead = self.load_array("by_subhead").T if "by_subhead" in self.result.arrays else None
            subhead = int(self.result.metadata.get("subhead", 0))
            images = compute_image_quality(
                self.q, self.z, self.clusters, graph, by_subhead=by_subhead, selected_subhead=subhead
            )
            pairs = compute_cluster_pairs(self.q, self.z, self.clusters, graph)
            self._quality = QualityReport(
                images,
                compute_cluster_quality(images, self.clusters, pairs),
                compute_run_quality(images, self.clusters),
                pairs,
            )
        return self._quality

    def compute_class_report(self) -> ClassReport | None:
        """Compare the clusters with the ground-truth classes; `None` without classes."""
        return None if self.classes is None else build_class_report(self.q, self.clusters, self.classes[1])

    def suggest(self, images: int = 20, pairs: int = 10, report: ProgressCallback = no_progress) -> Suggestions:
        """Suggest clusters to merge or split, and images to label.

        Args:
            images: maximum number of images to label.
            pairs: maximum number of merges, and of splits.
            report: receives progress.

        Raises:
            UsageError: the number of images is not positive.
        """
        if images < 1:
            raise UsageError(f"images={images} is not allowed: it must be at least 1.", parameters=("n",))
        quality, graph = self.compute_quality(report), self.load_graph()
        labelled = self.annotations.has_label(self.ids)
        chosen = suggest_images_to_label(self.z, self.clusters, quality.images, images, labelled=labelled)
        splits = suggest_splits(self.z, self.clusters, graph, pairs)
        return Suggestions(
            merge=suggest_merges(quality.pairs, pairs),
            split=[
                one._replace(examples=(self._get_id(one.examples[0]), self._get_id(one.examples[1]))) for one in splits
            ],
            label=[
                ImageToLabel(self._get_id(row), int(self.clusters[row]), reason)
                for row, reason in zip(chosen.rows.tolist(), chosen.reasons, strict=True)
            ],
        )

    def build_levels(self, report: ProgressCallback = no_progress) -> ClusterLevels:
        """Merge and divide the clusters into every number of clusters, without training.

        Raises:
            UsageError: there are fewer than two images, or too many clusters.
        """
        return ClusterLevels.build(self.ids, self.clusters, self.z, self.load_graph(report).positions)

    def find_near_duplicates(
        self, min_similarity: float = DEFAULT_MIN_SIMILARITY, report: ProgressCallback = no_progress
    ) -> list[SimilarImages]:
        """Find groups of images with nearly the same features, largest first.

        Args:
            min_similarity: minimum cosine similarity of near duplicates.
            report: receives progress.

        Raises:
            UsageError: `min_similarity` is not above 0 and at most 1.
        """
        check_min_similarity(min_similarity)
        groups = find_duplicates_by_features(self.load_graph(report), min_similarity)
        return [SimilarImages(self.ids[group.rows], group.score) for group in groups]

    def find_outliers(
        self, limit: int = 50, *, min_score: float = 2.0, report: ProgressCallback = no_progress
    ) -> list[OutlierImage]:
        """Find the images farthest from their neighbours, highest score first.

        Args:
            limit: maximum number of images.
            min_score: minimum outlier score; 1 is typical.
            report: receives progress.

        Raises:
            UsageError: `limit` is not positive.
        """
        if limit < 1:
            raise UsageError(f"limit={limit} is not allowed: it must be at least 1.", parameters=("n",))
        found = find_outliers(self.compute_quality(report).images.outlier_score, limit, min_score=min_score)
        return [OutlierImage(self._get_id(one.row), one.score, int(self.clusters[one.row])) for one in found]

    # ---- helpers

    def _get_id(self, row: int) -> int:
        return int(self.ids[row])


def _restrict_graph(graph: Neighbours, z: NDArray[Any], rows: IntArray, report: ProgressCallback) -> Neighbours:
    """Restrict the graph to some of the images; neighbours that are left out are replaced by the next nearest."""
    if len(rows) == len(z):
        return graph
    k = min(graph.positions.shape[1], len(rows) - 1)
    is_included = np.zeros(len(z), np.bool_)
    is_included[rows] = True
    positions, similarity = np.array(graph.positions[rows, :k]), np.array(graph.similarity[rows, :k])
    incomplete = np.flatnonzero(~is_included[positions].all(axis=1))
    if len(incomplete) * len(z) > EXACT_GRAPH_LIMIT**2:
        return build_neighbour_graph(z[rows], k, report=report)
    left_out = np.flatnonzero(~is_included)
    for start in range(0, len(incomplete), _QUERIES_PER_BATCH):
        part = incomplete[start : start + _QUERIES_PER_BATCH]
        found = search_exact(z, normalize_rows(z[rows[part]]), k + 1, left_out)
        positions[part], similarity[part] = drop_self(found, rows[part])
    new_index = np.cumsum(is_included) - 1
    return Neighbours(new_index[positions], similarity)
