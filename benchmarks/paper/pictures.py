"""Pictures of images and maps: Fig. 2, Fig. 4 (t-SNE), A.2 and A.11. They show the first seed of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.paper.experiment import CONFIDENT, MAPS, STRIPS, SURFACES
from benchmarks.paper.figures import create_panels, save_figure
from benchmarks.paper.results import TrialResult
from benchmarks.paper.runs import Setup
from crlc.analysis.maps.projections import compute_tsne_map
from crlc.analysis.neighbours.exact import search_exact
from crlc.arrays import IntArray
from crlc.losses import CRITICS, compute_critic, smooth
from crlc.training.images import TrainingImages, load_images, select_ids

_REFERENCES = 6
_STRIP_IMAGES = 5
_SEARCHED_NEIGHBOURS = 200
_CONFIDENT_IMAGES = 10
_MAPPED_IMAGES = 5_000
_SMOOTHING = 0.01
_OUTCOMES = {"correct": "#228833", "false negative": "#ccbb44", "false positive": "#ee6677"}


@dataclass(frozen=True)
class RunPictures:
    """Result and images of one run."""

    result: TrialResult
    setup: Setup

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays of the result by name."""
        return self.result.seeds[0].run.open_result()[0]

    @cached_property
    def images(self) -> TrainingImages:
        """The images of the result."""
        metadata = self.result.seeds[0].run.read_metadata()
        dataset = self.setup.workspace.open_dataset(metadata["dataset"])
        size = int(metadata["settings"]["image_size"])
        return select_ids(load_images(dataset, size), np.asarray(self.arrays["ids"]))

    @property
    def classes(self) -> IntArray:
        """Class number of each image, -1 where unknown."""
        classes = self.images.classes
        return np.full(len(self.images), -1) if classes is None else classes

    def show(self, panel: Any, position: int, colour: str = "", title: str = "") -> None:
        """Show one image in a panel, with a border of a colour."""
        panel.imshow(self.images.read_pixels(np.array([position]))[0].numpy())
        panel.set_title(title, fontsize=6)
        if colour:
            panel.axis("on")
            for side in panel.spines.values():
                side.set(color=colour, linewidth=3, visible=True)


def draw_picture(name: str, results: Sequence[TrialResult], setup: Setup, file: Path) -> None:
    """Draw one of `PICTURES` to a PNG file."""
    save_figure(PICTURES[name]([RunPictures(result, setup) for result in results if result.seeds]), file)


def find_strips(clusters: IntArray, classes: IntArray, reference: int, nearest: IntArray) -> dict[str, IntArray]:
    """Return the neighbours of an image by outcome (Fig. 2), the nearest first.

    Args:
        clusters: cluster of each image, (N,).
        classes: class of each image, (N,).
        reference: the image.
        nearest: positions of its neighbours.

    Returns:
        `correct`: the same class and cluster as the reference; `false negative`: the same class in another cluster;
        `false positive`: another class in the same cluster.
    """
    same_class, same_cluster = classes[nearest] == classes[reference], clusters[nearest] == clusters[reference]
    return {
        "correct": nearest[same_class & same_cluster],
        "false negative": nearest[same_class & ~same_cluster],
        "false positive": nearest[~same_class & same_cluster],
    }


def _draw_strips(runs: Sequence[RunPictures]) -> Any:
    """Draw the neighbours of a few images by outcome, with similarity s of z and probability p of their cluster."""
    run = runs[0]
    clusters, classes = np.asarray(run.arrays["cluster"]), run.classes
    first_of_class = np.unique(classes[classes >= 0], return_index=True)[1]
    references = np.flatnonzero(classes >= 0)[first_of_class][:_REFERENCES]
    columns = 1 + _STRIP_IMAGES * len(_OUTCOMES)
    figure, panels = create_panels(columns, len(references), (0.9, 1.0))
    for panel in panels:
        panel.set(xticks=[], yticks=[])
        panel.axis("off")
    z = np.asarray(run.arrays["z"])
    count = min(_SEARCHED_NEIGHBOURS, len(z) - 1)
    found = search_exact(z, z[references], count, excluded=references)
    for row, (reference, nearest, similarity) in enumerate(
        zip(references, found.positions, found.similarity, strict=True)
    ):
        run.show(panels[row * columns], int(reference), title="reference" if not row else "")
        similarities = dict(zip(nearest.tolist(), similarity.tolist(), strict=True))
        for number, (outcome, members) in enumerate(find_strips(clusters, classes, int(reference), nearest).items()):
            for place, position in enumerate(members[:_STRIP_IMAGES].tolist()):
                confidence = float(run.arrays["confidence"][position])
                title = f"s {similarities[position]:.2f}  p {confidence:.2f}"
                panel = panels[row * columns + 1 + number * _STRIP_IMAGES + place]
                run.show(panel, position, _OUTCOMES[outcome], title)
    figure.suptitle("correct (green), false negative (yellow), false positive (red)", fontsize=9)
    return figure


def _draw_confident(runs: Sequence[RunPictures]) -> Any:
    """Draw the most confident images of each cluster, one row per cluster."""
    run = runs[0]
    clusters, confidence = np.asarray(run.arrays["cluster"]), np.asarray(run.arrays["confidence"])
    found = np.unique(clusters)
    figure, panels = create_panels(_CONFIDENT_IMAGES, len(found), (0.9, 1.0))
    for panel in panels:
        panel.axis("off")
    for row, cluster in enumerate(found):
        members = np.flatnonzero(clusters == cluster)
        best = members[np.argsort(-confidence[members], kind="stable")][:_CONFIDENT_IMAGES]
        for column, position in enumerate(best.tolist()):
            run.show(panels[row * _CONFIDENT_IMAGES + column], position, title=f"p {confidence[position]:.2f}")
    return figure


def _draw_maps(runs: Sequence[RunPictures]) -> Any:
    """Draw t-SNE maps of z of every run, coloured by class."""
    figure, panels = create_panels(len(runs), inches=(4.0, 4.0))
    for panel, run in zip(panels, runs, strict=True):
        z = np.asarray(run.arrays["z"])
        shown = np.linspace(0, len(z) - 1, min(_MAPPED_IMAGES, len(z))).astype(np.int64)
        coordinates = compute_tsne_map(z[shown])
        panel.scatter(*coordinates.T, c=run.classes[shown], s=3, cmap="tab20", linewidths=0)
        panel.set_title(run.result.trial.label, fontsize=8)
        panel.axis("off")
    return figure


def _draw_surfaces(_: Sequence[RunPictures]) -> Any:
    """Draw the values of the critics for two clusters (A.2): p and q are the probabilities of the first one."""
    figure, panels = create_panels(len(CRITICS), inches=(3.6, 3.2))
    first = torch.linspace(0, 1, 101)
    probabilities = smooth(torch.stack([first, 1 - first], dim=1)[None], _SMOOTHING)
    for panel, critic in zip(panels, CRITICS, strict=True):
        values = compute_critic(critic, probabilities, probabilities)[0].numpy()
        drawn = panel.contourf(first, first, values, levels=24)
        figure.colorbar(drawn, ax=panel)
        panel.set(title=critic, xlabel="p", ylabel="q", aspect="equal")
    return figure


PICTURES: dict[str, Callable[[Sequence[RunPictures]], Any]] = {
    STRIPS: _draw_strips,
    CONFIDENT: _draw_confident,
    MAPS: _draw_maps,
    SURFACES: _draw_surfaces,
}
