"""Labels of suggested images against those of random images: `python benchmarks/suggestions.py scenes/ objects40/ ...`.

Trains a parent run by `crlc train`, then CRLC-semi with labels of 40 images from `crlc suggest`, and of 40 random
images; the classes replace the user's labels. Prints, over the images that have a label in neither run, ACC of the
parent (Hungarian) and the classification accuracy of CRLC-semi (by the names of its outputs). Each draw has its own
random images and seed of CRLC-semi. With --imbalance, sources of six or forty classes are also reduced to unbalanced
subsets, as in heads.py. Targets: suggested images are not below random images on any source, and 2 points above on the
mean.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.heads import make_cuts
from benchmarks.support import create_parser, describe_machine, format_percentages, read_commit
from crlc.analysis.class_metrics import compute_accuracy
from crlc.annotations.store import AnnotationStore
from crlc.arrays import IntArray
from crlc.cli.main import main as crlc
from crlc.data.dataset import ImageDataset
from crlc.services.analyse_run import RunAnalysis
from crlc.training.images import TrainingImages, load_images
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


class Experiment:
    """Runs of one set of images: a dataset, or a part of it."""

    def __init__(self, workspace: Workspace, dataset: ImageDataset, images: TrainingImages, *, verbose: bool) -> None:
        """Exclude all other images of the dataset, as a user does."""
        assert images.classes is not None
        self.workspace, self.dataset, self.ids, self.classes = workspace, dataset, images.ids, images.classes
        self.names = dataset.read_metadata(images.ids).class_names
        self._quiet = contextlib.nullcontext if verbose else lambda: contextlib.redirect_stderr(io.StringIO())
        everything = dataset.open_pixels(dataset.get_default_size()).ids
        with AnnotationStore(dataset) as annotations:
            annotations.include(everything.tolist())
            others = np.setdiff1d(everything, images.ids)
            if len(others):
                annotations.exclude(others.tolist())

    def train(self, *arguments: object) -> str:
        """Train by the command line; return the run id."""
        out = io.StringIO()
        command = ["train", self.dataset.name, *map(str, arguments), "--json", "--workspace", str(self.workspace.root)]
        with contextlib.redirect_stdout(out), self._quiet():
            code = crlc(command)
        if code:
            raise SystemExit(f"crlc {' '.join(command)} failed; run it to see the error.")
        return str(json.loads(out.getvalue())["run"])

    def suggest_images(self, parent: str, count: int) -> IntArray:
        """Return the ids of the images that are suggested for labelling."""
        found = RunAnalysis.open(self.workspace, parent).suggest(count)
        return np.array([one.id for one in found.label])

    def draw_images(self, seed: int, count: int) -> IntArray:
        """Return the ids of as many random images."""
        return np.random.default_rng(seed).choice(self.ids, count, replace=False)

    def train_semi(self, parent: str, ids: IntArray, seed: int) -> str:
        """Train CRLC-semi with the classes of these images as labels; return the run id."""
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary, "labels.csv")
            with file.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(("id", "label"))
                writer.writerows(
                    zip(ids.tolist(), [self.names[number] for number in self.find_classes(ids)], strict=True)
                )
            return self.train("--method", "semi", "--parent", parent, "--labels", file, "--seed", seed)

    def score_parent(self, run: str, excluded: IntArray) -> float:
        """Return the ACC of a run over all images except the excluded ones."""
        clusters, classes, _ = self._read_result(run, excluded)
        return compute_accuracy(clusters, classes)

    def score_child(self, run: str, excluded: IntArray) -> float:
        """Return the fraction of all images except the excluded ones whose cluster has the name of their class."""
        clusters, classes, names = self._read_result(run, excluded)
        class_of = np.full(int(clusters.max()) + 1, -1)
        for cluster, name in names.items():
            if cluster < len(class_of):
                class_of[cluster] = self.names.index(name)
        return float((class_of[clusters] == classes).mean())

    def find_classes(self, ids: IntArray) -> IntArray:
        """Return the classes of images."""
        found: IntArray = self.classes[np.searchsorted(self.ids, ids)]
        return found

    def _read_result(self, run: str, excluded: IntArray) -> tuple[IntArray, IntArray, dict[int, str]]:
        folder = RunStore(self.workspace).open(run)
        arrays, _ = folder.open_result()
        scored = ~np.isin(arrays["ids"], excluded)
        names = {int(cluster): name for cluster, name in folder.read_metadata().get("names", {}).items()}
        return np.asarray(arrays["cluster"])[scored].astype(np.int64), self.find_classes(arrays["ids"][scored]), names


def compare(title: str, experiment: Experiment, labels: int, draws: int, method: str) -> dict[str, float]:
    """Train a parent and its children; print a row, and return the mean scores."""
    started = time.perf_counter()
    parent = experiment.train("--seed", 0, "--clusters", len(experiment.names), "--method", method)
    suggested = experiment.suggest_images(parent, labels)
    scores: dict[str, list[float]] = {"parent": [], "random": [], "suggested": []}
    for draw in range(draws):
        drawn = experiment.draw_images(draw, labels)
        labelled = np.union1d(drawn, suggested)
        scores["parent"].append(experiment.score_parent(parent, labelled))
        for name, ids in (("random", drawn), ("suggested", suggested)):
            scores[name].append(experiment.score_child(experiment.train_semi(parent, ids, draw), labelled))
    mean = {name: 100 * statistics.mean(values) for name, values in scores.items()}
    cells = " | ".join(f"{mean[name]:.1f} ({format_percentages(scores[name])})" for name in ("random", "suggested"))
    classes = len(set(experiment.find_classes(suggested).tolist()))
    seconds = time.perf_counter() - started
    print(f"| {title} | {mean['parent']:.1f} | {cells} | {classes} | {seconds:.0f} |", flush=True)
    return mean


def main() -> None:
    """Train all runs and print a table."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+", help="digits, folders with one folder per class, or .npz files")
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--method", default="auto", choices=("auto", "two-stage"))
    parser.add_argument("--imbalance", action="store_true")
    parser.add_argument("--workspace", type=Path, help="stores datasets and runs; by default they are deleted")
    parser.add_argument("--progress", action="store_true", help="show the progress of each training run")
    options = parser.parse_args()
    print(f"{options.labels} labels, {options.draws} draws, {describe_machine()}, commit {read_commit()}")
    print("| data | parent | random (draws) | suggested (draws) | classes suggested | seconds |")
    print("|---|---|---|---|---|---|")
    means = []
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        for source in options.sources:
            dataset, _ = workspace.import_dataset(source)
            images = load_images(dataset, dataset.get_default_size())
            cuts = make_cuts(dataset.name, images) if options.imbalance else {}
            for title, subset in {dataset.name: images, **cuts}.items():
                experiment = Experiment(workspace, dataset, subset, verbose=options.progress)
                means.append(compare(title, experiment, options.labels, options.draws, options.method))
    totals = {name: statistics.mean(mean[name] for mean in means) for name in means[0]}
    print(f"| **mean** | {totals['parent']:.1f} | {totals['random']:.1f} | **{totals['suggested']:.1f}** | | |")


if __name__ == "__main__":
    main()
