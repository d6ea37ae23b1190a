"""A run's newest result with all that is known of its images by now, and what analysis says of it, by image id.

Images that are gone, have other content since the run, or were excluded by a person are left out. Clusters are those
that people see: after merges, splits and moves. Nothing changes afterwards; open it again to see what is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cluster_pairs import ClusterPairs, cluster_pairs
from crlc.analysis.duplicates import ALIKE, check_alike, duplicates_by_features, outliers
from crlc.analysis.labelling import images_to_label
from crlc.analysis.nearest import Neighbours, exact_search, without_self
from crlc.analysis.neighbours import EXACT_GRAPH_LIMIT, neighbour_graph
from crlc.analysis.quality import (
    ClusterQuality,
    ImageQuality,
    RunQuality,
    cluster_quality,
    image_quality,
    run_quality,
)
from crlc.analysis.suggestions import MergeSuggestion, SplitSuggestion, merge_suggestions, split_suggestions
from crlc.analysis.unit_rows import Rows, unit
from crlc.analysis.with_classes import ClassReport, class_report
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder
from crlc.workspace.annotations import Annotations
from crlc.workspace.cluster_names import shown_names
from crlc.workspace.clusterings import Clustering, EditedClustering
from crlc.workspace.curation import Curation
from crlc.workspace.run_files import RunResult, kept_graph, read_result
from crlc.workspace.runs import Runs
from crlc.workspace.workspace import Workspace

_QUERIES_AT_ONCE = 4096
_FEWEST = 2
Ids = NDArray[np.int64]


class SimilarImages(NamedTuple):
    """Images that are nearly the same, or the same."""

    ids: Ids
    score: float
    """Of the least alike pair that holds them together."""


class OddImage(NamedTuple):
    """An image far from all others."""

    id: int
    score: float
    """Distance to its neighbours as a multiple of what is usual in its cluster."""

    cluster: int


class ImageToLabel(NamedTuple):
    """An image worth labelling, and why."""

    id: int
    cluster: int
    reason: str


class Suggestions(NamedTuple):
    """What a person may want to look at."""

    merge: list[MergeSuggestion]
    split: list[SplitSuggestion]
    """Their examples are ids of images."""

    label: list[ImageToLabel]
    """Most useful first."""


@dataclass(frozen=True)
class QualityReport:
    """How good a result is: each image (in the order of the analysis' `ids`), each cluster (by number), the run."""

    images: ImageQuality
    clusters: ClusterQuality
    run: RunQuality
    pairs: ClusterPairs


class RunAnalysis:
    """Answers questions about one result. What takes long is computed when first asked for, and remembered."""

    def __init__(self, run: RunFolder, dataset: ImageDataset, curation: Curation) -> None:
        """Read the newest result.

        Args:
            run: which.
            dataset: the run's.
            curation: what people said about the data set.

        Raises:
            NotFoundError: the run has no result yet, or none of its images are left.
            DamagedError: the result cannot be used.
        """
        self.run, self.dataset, self.curation = run, dataset, curation
        self.result: RunResult = read_result(run)
        self.clustering = Clustering.of(run, dataset, self.result.arrays)
        """Of all images that still are what the run saw, excluded or not."""
        edited = self.clustering.edited(curation)
        kept = ~curation.is_excluded(edited.ids)
        self.edited: EditedClustering = edited
        self.rows: Rows = self.clustering.rows[kept]
        """Where the images stand in the result's arrays, ascending."""
        self.ids: Ids = edited.ids[kept]
        """The images that count, ascending."""
        self.clusters: Rows = edited.clusters[kept].astype(np.int64)
        """The cluster of each."""
        self._own: Rows = self.clustering.clusters[kept].astype(np.int64)
        if not len(self.ids):
            raise NotFoundError(
                f"No image of the run {run.id} is left: all were removed, changed or excluded since. Train again."
            )
        self._graph: Neighbours | None = None
        self._quality: QualityReport | None = None

    @classmethod
    def open(cls, workspace: Workspace, run_id: str) -> RunAnalysis:
        """A run by its id, by the beginning of it, or `last`, as it is now.

        Raises:
            CrlcError: there is no such run, it has no result, or its data set is gone.
        """
        runs = Runs(workspace)
        run = runs.open(run_id)
        dataset = runs.dataset_of(run.description(), unchanged=False)
        with Annotations(dataset) as annotations:
            return cls(run, dataset, annotations.refresh())

    # ---- what there is

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The clusters' names, of those that have one: by a person, or by the labels that the run was trained with."""
        return shown_names(self.run.description(), self.edited)

    @property
    def is_edited(self) -> bool:
        """Whether people changed the clusters."""
        grown = self.edited.first_new > self.clustering.count
        return bool(self.edited.merged) or grown or not np.array_equal(self._own, self.clusters)

    @property
    def left_out(self) -> Rows:
        """Where images that do not count stand in the result's arrays, ascending."""
        return np.setdiff1d(np.arange(len(self.all_z)), self.rows, assume_unique=True)

    @property
    def all_z(self) -> NDArray[Any]:
        """Of every image of the result, also of those left out: the memory map itself."""
        return self.result.arrays["z"]

    @cached_property
    def z(self) -> NDArray[Any]:
        """(N, d); the memory map itself when no image is left out."""
        return self._part("z")

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """How sure the run was of the cluster that it chose itself, (N,)."""
        return np.asarray(self._part("confidence"), np.float32)

    @cached_property
    def q(self) -> NDArray[Any]:
        """Probabilities of the clusters as they are now, (N, C); the memory map itself when nothing was changed."""
        found = self._part("q")
        if not self.is_edited:
            return found
        return edited_probabilities(found, self._own, self.clusters, self.edited.merged, self.edited.first_new)

    @cached_property
    def classes(self) -> tuple[tuple[str, ...], Rows] | None:
        """Names of classes and the number of each image's, -1 where unknown; none where none is known."""
        facts = self.dataset.facts(self.ids)
        return None if facts.class_numbers is None else (facts.class_names, facts.class_numbers)

    def graph(self, report: ProgressCallback = no_progress) -> Neighbours:
        """The nearest images of each, by their places in `ids`.

        Raises:
            UsageError: there is only one image.
        """
        if len(self.ids) < _FEWEST:
            raise UsageError(f"Only one image of the run {self.run.id} is left: it has no neighbours.")
        if self._graph is None:
            graph = kept_graph(self.run, self.all_z, report)
            self._graph = _graph_of_part(graph, self.all_z, self.rows, report)
        return self._graph

    # ---- what is said of it

    def quality(self, report: ProgressCallback = no_progress) -> QualityReport:
        """How good the result is without classes."""
        if self._quality is None:
            graph = self.graph(report)
            by_subhead = self._part("by_subhead").T if "by_subhead" in self.result.arrays else None
            speaking = int(self.result.facts.get("subhead", 0))
            images = image_quality(self.q, self.z, self.clusters, graph, by_subhead=by_subhead, speaking=speaking)
            pairs = cluster_pairs(self.q, self.z, self.clusters, graph)
            self._quality = QualityReport(
                images, cluster_quality(images, self.clusters, pairs), run_quality(images, self.clusters), pairs
            )
        return self._quality

    def class_report(self) -> ClassReport | None:
        """How the clusters compare with known classes; none when no class is known."""
        return None if self.classes is None else class_report(self.q, self.clusters, self.classes[1])

    def suggestions(self, images: int = 20, pairs: int = 10, report: ProgressCallback = no_progress) -> Suggestions:
        """What to look at next.

        Args:
            images: how many to label, at most.
            pairs: how many pairs to merge, and how many clusters to split, at most.
            report: told how far it is.

        Raises:
            UsageError: the number of images is not positive.
        """
        if images < 1:
            raise UsageError(f"{images} images to label were asked for; ask for at least 1.")
        quality, graph = self.quality(report), self.graph()
        labelled = self.curation.has_label(self.ids)
        chosen = images_to_label(self.z, self.clusters, quality.images, images, labelled=labelled)
        splits = split_suggestions(self.z, self.clusters, graph, pairs)
        return Suggestions(
            merge=merge_suggestions(quality.pairs, pairs),
            split=[one._replace(examples=(self._id(one.examples[0]), self._id(one.examples[1]))) for one in splits],
            label=[
                ImageToLabel(self._id(row), int(self.clusters[row]), reason)
                for row, reason in zip(chosen.rows.tolist(), chosen.reasons, strict=True)
            ],
        )

    def near_duplicates(self, alike: float = ALIKE, report: ProgressCallback = no_progress) -> list[SimilarImages]:
        """Groups of images whose `z` are nearly the same, largest first.

        Raises:
            UsageError: the least similarity is not above 0 and at most 1.
        """
        check_alike(alike)
        groups = duplicates_by_features(self.graph(report), alike)
        return [SimilarImages(self.ids[group.rows], group.score) for group in groups]

    def outliers(
        self, most: int = 50, *, at_least: float = 2.0, report: ProgressCallback = no_progress
    ) -> list[OddImage]:
        """The odd images, oddest first.

        Raises:
            UsageError: the number is not positive.
        """
        if most < 1:
            raise UsageError(f"{most} images were asked for; ask for at least 1.")
        found = outliers(self.quality(report).images.outlier, most, at_least=at_least)
        return [OddImage(self._id(one.row), one.score, int(self.clusters[one.row])) for one in found]

    # ---- inside

    def _id(self, row: int) -> int:
        return int(self.ids[row])

    def _part(self, name: str) -> NDArray[Any]:
        array = self.result.arrays[name]
        return array if len(self.rows) == len(array) else array[self.rows]


def edited_probabilities(
    q: NDArray[Any], found: Rows, now: Rows, merged: Mapping[int, int], count: int
) -> NDArray[np.float32]:
    """Probabilities after people changed the clusters, (N, count).

    A merged cluster has those of its parts together; where a person moved an image, its new cluster gets what the one
    it was taken from had.

    Args:
        q: what the run said, (N, C).
        found: the cluster that the run gave each image, (N,).
        now: its cluster by now, (N,).
        merged: the number that now stands for one that is gone.
        count: one more than the highest number.
    """
    wide = np.zeros((len(q), count), np.float32)
    wide[:, : q.shape[1]] = q
    stands_for = np.arange(count)
    for gone, kept in merged.items():
        stands_for[gone] = kept
        wide[:, kept] += wide[:, gone]
        wide[:, gone] = 0
    home = stands_for[found]
    moved = np.flatnonzero(home != now)
    wide[moved, now[moved]] += wide[moved, home[moved]]
    wide[moved, home[moved]] = 0
    return wide


def _graph_of_part(graph: Neighbours, z: NDArray[Any], rows: Rows, report: ProgressCallback) -> Neighbours:
    """The graph of some of the images: where others were neighbours, the next ones take their places."""
    if len(rows) == len(z):
        return graph
    k = min(graph.positions.shape[1], len(rows) - 1)
    is_there = np.zeros(len(z), np.bool_)
    is_there[rows] = True
    positions, similarity = np.array(graph.positions[rows, :k]), np.array(graph.similarity[rows, :k])
    torn = np.flatnonzero(~is_there[positions].all(axis=1))
    if len(torn) * len(z) > EXACT_GRAPH_LIMIT**2:
        return neighbour_graph(z[rows], k, report=report)
    left_out = np.flatnonzero(~is_there)
    for start in range(0, len(torn), _QUERIES_AT_ONCE):
        part = torn[start : start + _QUERIES_AT_ONCE]
        found = exact_search(z, unit(z[rows[part]]), k + 1, left_out)
        positions[part], similarity[part] = without_self(found, rows[part])
    place = np.cumsum(is_there) - 1
    return Neighbours(place[positions], similarity)
