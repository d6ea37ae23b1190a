"""What is explored: the result of a run, or a data set before any training. Both answer the same questions.

Rows are in the order of `ids`, ascending. A subject never changes; `opened` gives a newer one when there is one.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.exploring.background import Work
from app.exploring.choosing import spread
from app.figures.colours import colour_of
from crlc.analysis.colour_slots import extended_slots, first_slots
from crlc.analysis.map_process import MapProcess
from crlc.analysis.map_settings import MapSettings, map_file, read_map
from crlc.analysis.nearest import exact_search
from crlc.analysis.neighbours import check_k
from crlc.analysis.quality import matched_to
from crlc.analysis.suggestions import MergeSuggestion, SplitSuggestion
from crlc.analysis.unit_rows import unit
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError
from crlc.progress import ProgressCallback, no_progress
from crlc.workspace.analysis_maps import ready_map, start_map
from crlc.workspace.cluster_names import shown_names
from crlc.workspace.curation import Curation
from crlc.workspace.run_analysis import QualityReport, RunAnalysis
from crlc.workspace.run_neighbours import RunNeighbours

if TYPE_CHECKING:
    from crlc.workspace.exploration import Exploration  # brings torch along

_WORTH_MERGING = 0.1
"""Two clusters that are less mixed are well apart."""

METHODS = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}
Rows = NDArray[np.int64]
Values = NDArray[np.float32]


class Nearest(NamedTuple):
    """Nearest first, (k,) each."""

    rows: Rows
    similarity: Values
    """The paper's s: cosine between the `z`."""


class Subject(ABC):
    """What both kinds have."""

    kind: str
    """`runs` or `datasets`: the beginning of its addresses."""

    name: str
    is_provisional: bool
    dataset: ImageDataset
    curation: Curation
    ids: Rows
    clusters: Rows
    confidence: Values | None
    """How sure the run is; none before training."""

    names: Mapping[int, str]
    _colours: tuple[int, ...]
    """The number of the colour of each cluster."""

    def __init__(self, key: str) -> None:
        """Take what tells states apart."""
        self.version = hashlib.sha256(key.encode()).hexdigest()[:12]
        """Another one whenever colours or names may be others."""
        self._places: dict[str, NDArray[np.float32]] = {}

    @cached_property
    def layout(self) -> str:
        """Another one whenever the images or their places may be others; renaming or labelling does not change it."""
        digest = hashlib.blake2b(np.ascontiguousarray(self.ids).tobytes(), digest_size=6)
        digest.update(self._source.encode())
        return digest.hexdigest()

    @property
    @abstractmethod
    def _source(self) -> str:
        """What the images and their places come from."""

    @cached_property
    def classes(self) -> tuple[tuple[str, ...], Rows] | None:
        """Names of classes and the number of each image's, -1 where unknown; none where none is known."""
        facts = self.dataset.facts(self.ids)
        return None if facts.class_numbers is None else (facts.class_names, facts.class_numbers)

    @cached_property
    def matched(self) -> Rows | None:
        """The cluster that goes with each class, one to one, -1 for none; none when no class is known."""
        if self.classes is None:
            return None
        names, numbers = self.classes
        known = numbers >= 0
        found = matched_to(numbers[known], self.clusters[known])
        return np.pad(found, (0, len(names) - len(found)), constant_values=-1)

    def cluster_text(self, number: int) -> str:
        """What a cluster is called: its number, and its name if it has one."""
        return f"{number} {self.names[number]}" if number in self.names else f"cluster {number}"

    def colour_of(self, number: int) -> str:
        """The colour of a cluster: on every page, and in every run for what is the same cluster."""
        return colour_of(self._colours[number] if number >= 0 else number)

    def row_of(self, image_id: int) -> int:
        """Where an image stands.

        Raises:
            NotFoundError: it is not among the images.
        """
        place = int(np.searchsorted(self.ids, image_id))
        if place == len(self.ids) or self.ids[place] != image_id:
            raise NotFoundError(f"{self.name} has no image {image_id}: it was removed, changed or excluded.")
        return place

    def rows_of(self, ids: NDArray[np.int64]) -> Rows:
        """Where images stand; those that are not among the images any more are left out."""
        if not len(self.ids):
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return places[self.ids[places] == ids]

    def places(self, method: str) -> NDArray[np.float32] | None:
        """The map, between -1 and 1, (N, 2); none while it was not computed."""
        if method not in self._places:
            found = self._read_map(MapSettings(method))
            if found is None:
                return None
            self._places[method] = spread(found)
        return self._places[method]

    def draw(self, method: str, work: Work) -> None:
        """Compute a map, in a process that the work can end; `places` has it afterwards."""
        process = self._start_map(MapSettings(method), work.report)
        with process:
            work.stop_with(process.cancel)
            process.wait()

    @abstractmethod
    def _read_map(self, settings: MapSettings) -> NDArray[np.float32] | None:
        """A map that was computed; none while it was not."""

    @abstractmethod
    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        """Begin to compute a map."""

    @abstractmethod
    def nearest(self, row: int, k: int) -> Nearest:
        """The images nearest to one, fewer when there are fewer."""

    @abstractmethod
    def orders(self) -> tuple[str, ...]:
        """By what its images can be sorted, most useful first."""

    @abstractmethod
    def ordered(self, rows: Rows, order: str) -> Rows:
        """Rows in one of `orders`, first ones first."""

    @abstractmethod
    def caption(self, row: int) -> str:
        """A few letters to stand under an image."""


class RunSubject(Subject):
    """The newest result of a run, as people edited it."""

    kind = "runs"
    is_provisional = False

    def __init__(
        self, analysis: RunAnalysis, key: str, slots: tuple[int, ...], before: RunSubject | None = None
    ) -> None:
        """Take the analysis.

        Args:
            analysis: of the run.
            key: tells states apart.
            slots: the number of the colour of each cluster of the result.
            before: the state before: what is known of it and still true is not computed again.
        """
        super().__init__(key)
        self._colours = extended_slots(slots, max(analysis.edited.numbers, default=-1) + 1)
        self.analysis = analysis
        self.name, self.dataset, self.curation = analysis.run.id, analysis.dataset, analysis.curation
        self.ids, self.clusters, self.confidence = analysis.ids, analysis.clusters, analysis.confidence
        self.names = shown_names(analysis.run.description(), analysis.edited)
        self._heavy = analysis
        self._heavy_advice: tuple[list[MergeSuggestion], list[SplitSuggestion]] | None = None
        if before is not None and self._is_like(before):
            self._heavy, self._heavy_advice = before._heavy, before._heavy_advice
            self._places = before._places
            if "classes" in before.__dict__:
                self.__dict__["classes"] = before.classes

    def _is_like(self, other: RunSubject) -> bool:
        return (
            self.dataset == other.dataset
            and self._source == other._source
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.clusters, other.clusters)
        )

    @property
    def _source(self) -> str:
        return f"{self.name} {self.analysis.result.facts['folder']} {self.dataset.info.uid}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every cluster there is, also the empty ones."""
        return self.analysis.edited.numbers

    @property
    def has_quality(self) -> bool:
        """Whether asking for the quality is answered at once."""
        return self._heavy._quality is not None

    def quality(self, report: ProgressCallback = no_progress) -> QualityReport:
        """How good images and clusters are; may take long the first time."""
        return self._heavy.quality(report)

    def advice(self, most: int) -> tuple[list[MergeSuggestion], list[SplitSuggestion]]:
        """Clusters that may be one, and clusters that may be two, with images as examples; found once."""
        if self._heavy_advice is None:
            found = self._heavy.suggestions(1, most)
            self._heavy_advice = ([one for one in found.merge if one.mixing >= _WORTH_MERGING], found.split)
        return self._heavy_advice

    def _read_map(self, settings: MapSettings) -> NDArray[np.float32] | None:
        return ready_map(self.analysis, settings)

    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        return start_map(self.analysis, settings, report)

    @cached_property
    def _neighbours(self) -> RunNeighbours:
        return RunNeighbours(self._heavy)

    def nearest(self, row: int, k: int) -> Nearest:
        """The images nearest to one, fewer when there are fewer."""
        k = min(k, len(self.ids) - 1)
        if k < 1:
            return Nearest(np.empty(0, np.int64), np.empty(0, np.float32))
        found = self._neighbours.nearest([int(self.ids[row])], k)
        return Nearest(found.places, found.similarity)

    def orders(self) -> tuple[str, ...]:
        """By what its images can be sorted."""
        return ("most sure", "least sure", "most typical", "odd")

    def ordered(self, rows: Rows, order: str) -> Rows:
        """Rows in one of `orders`."""
        if order in ("most sure", "least sure"):
            assert self.confidence is not None
            values = self.confidence[rows]
            return rows[np.argsort(-values if order == "most sure" else values, kind="stable")]
        images = self.quality().images
        return rows[
            np.argsort(-(images.typicality if order == "most typical" else images.outlier)[rows], kind="stable")
        ]

    def caption(self, row: int) -> str:
        """The confidence."""
        assert self.confidence is not None
        return f"{self.confidence[row]:.0%}"


class DatasetSubject(Subject):
    """A data set before any training: provisional clusters of pretrained features."""

    kind = "datasets"
    is_provisional = True
    confidence = None

    def __init__(self, dataset: ImageDataset, exploration: Exploration, curation: Curation, key: str) -> None:
        """Take what was computed; images excluded since are left out."""
        super().__init__(key)
        self.name, self.dataset, self.curation, self.exploration = dataset.name, dataset, curation, exploration
        self._kept = np.flatnonzero(~curation.is_excluded(exploration.ids))
        self.ids, self.clusters = exploration.ids[self._kept], exploration.clusters[self._kept]
        self.names = {}
        self._colours = first_slots(int(self.clusters.max(initial=-1)) + 1)

    @property
    def _source(self) -> str:
        return f"{self.dataset.info.uid} {self.exploration.facts['folder']}"

    def _read_map(self, settings: MapSettings) -> NDArray[np.float32] | None:
        facts = self.exploration.facts["map"]
        if facts == {"method": settings.method, **settings.relevant}:
            return self.exploration.places[self._kept]
        folders = sorted((self.dataset.folder / "exploration").glob("maps-*"))
        if not folders:
            return None
        vectors = self.exploration.vectors
        places = read_map(map_file(folders[0], vectors, settings), len(vectors))
        return None if places is None else places[self._kept]

    def _start_map(self, settings: MapSettings, report: ProgressCallback) -> MapProcess:
        folder = next(iter(sorted((self.dataset.folder / "exploration").glob("maps-*"))), None)
        if folder is None:
            raise NotFoundError(f"The exploration of {self.name} was removed. Make it again.")
        return MapProcess(self.exploration.vectors, settings, folder, report=report)

    def nearest(self, row: int, k: int) -> Nearest:
        """The images nearest to one, fewer when there are fewer."""
        vectors = self.exploration.vectors
        k = min(k, len(self.ids) - 1)
        if k < 1:
            return Nearest(np.empty(0, np.int64), np.empty(0, np.float32))
        check_k(k, len(vectors) - 1, "other images")
        here = self._kept[row]
        left_out = np.union1d(np.setdiff1d(np.arange(len(vectors)), self._kept, assume_unique=True), [here])
        found = exact_search(vectors, unit(vectors[[here]]), k, left_out)
        return Nearest(np.searchsorted(self._kept, found.positions[0]), np.clip(found.similarity[0], -1, 1))

    @property
    def _distance(self) -> Values:
        return self.exploration.distance[self._kept]

    def orders(self) -> tuple[str, ...]:
        """By what its images can be sorted."""
        return ("most typical", "odd")

    def ordered(self, rows: Rows, order: str) -> Rows:
        """Rows in one of `orders`."""
        distance = self._distance[rows]
        return rows[np.argsort(distance if order == "most typical" else -distance, kind="stable")]

    def caption(self, row: int) -> str:
        """Its provisional cluster: there is no confidence."""
        return f"cluster {self.clusters[row]}"
