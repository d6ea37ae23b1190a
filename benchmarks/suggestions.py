"""Labels of suggested images against those of random images: `python benchmarks/suggestions.py digits` or `... FOLDER`.

Trains a parent run by `crlc train` (end to end for small grey images, on a frozen pretrained backbone for others), then
CRLC-semi with labels of 40 images from `crlc suggest`, and of 40 random images; the classes replace the user's labels.
ACC is computed over the images that have a label in neither run. Each draw has its own parent, random images and seed
of CRLC-semi. Target: the median ACC over 5 draws with suggested images is at least that with random images.
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

from benchmarks.support import create_parser, describe_machine, read_commit
from crlc.analysis.class_metrics import compute_accuracy
from crlc.arrays import IntArray
from crlc.cli.main import main as crlc
from crlc.data.dataset import ImageDataset
from crlc.services.analyse_run import RunAnalysis
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


class Experiment:
    """Runs of one dataset in one workspace."""

    def __init__(self, workspace: Workspace, source: str, labels: int, *, verbose: bool) -> None:
        """Open the dataset, or import it."""
        self.workspace, self.labels = workspace, labels
        self._quiet = contextlib.nullcontext if verbose else lambda: contextlib.redirect_stderr(io.StringIO())
        known = source in workspace.list_dataset_names()
        self.dataset: ImageDataset = workspace.open_dataset(source) if known else workspace.import_dataset(source)[0]
        metadata = self.dataset.read_metadata(self.dataset.open_pixels(self.dataset.get_default_size()).ids)
        if metadata.class_numbers is None:
            raise SystemExit(f"{source} has no classes, which replace the labels of a user here.")
        self.ids = self.dataset.open_pixels(self.dataset.get_default_size()).ids
        self.classes, self.names = metadata.class_numbers, metadata.class_names

    def train(self, *arguments: object) -> str:
        """Train by the command line; return the run id."""
        out = io.StringIO()
        command = ["train", self.dataset.name, *map(str, arguments), "--json", "--workspace", str(self.workspace.root)]
        with contextlib.redirect_stdout(out), self._quiet():
            code = crlc(command)
        if code:
            raise SystemExit(f"crlc {' '.join(command)} failed; run it to see the error.")
        return str(json.loads(out.getvalue())["run"])

    def suggest_images(self, parent: str) -> IntArray:
        """Return the ids of the images that are suggested for labelling."""
        found = RunAnalysis.open(self.workspace, parent).suggest(self.labels)
        return np.array([one.id for one in found.label])

    def draw_images(self, seed: int) -> IntArray:
        """Return the ids of as many random images."""
        return np.random.default_rng(seed).choice(self.ids, self.labels, replace=False)

    def train_semi(self, parent: str, ids: IntArray, seed: int, epochs: int | None) -> str:
        """Train CRLC-semi with the classes of these images as labels; return the run id."""
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary, "labels.csv")
            with file.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(("id", "label"))
                writer.writerows((number, self.names[self._get_class(number)]) for number in ids.tolist())
            more = () if epochs is None else ("--epochs", epochs)
            return self.train("--method", "semi", "--parent", parent, "--labels", file, "--seed", seed, *more)

    def score(self, run: str, excluded: IntArray) -> float:
        """Return the ACC of a run over all images except the excluded ones."""
        arrays, _ = RunStore(self.workspace).open(run).open_result()
        scored = ~np.isin(arrays["ids"], excluded)
        indices = np.searchsorted(self.ids, arrays["ids"][scored])
        return compute_accuracy(np.asarray(arrays["cluster"])[scored], self.classes[indices])

    def count_classes(self, ids: IntArray) -> int:
        """Return the number of classes of these images."""
        return len({self._get_class(number) for number in ids.tolist()})

    def _get_class(self, number: int) -> int:
        return int(self.classes[np.searchsorted(self.ids, number)])


def main() -> None:
    """Train all runs and print a table."""
    parser = create_parser(__doc__)
    parser.add_argument("source", help="digits, a folder with one folder per class, or a dataset of the workspace")
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="epochs of the parents; by default those of the preset")
    parser.add_argument("--semi-epochs", type=int, help="epochs of CRLC-semi; by default set automatically")
    parser.add_argument("--workspace", type=Path, help="stores datasets and runs; by default they are deleted")
    parser.add_argument("--progress", action="store_true", help="show the progress of each training run")
    options = parser.parse_args()
    scores: dict[str, list[float]] = {"parent": [], "random": [], "suggested": []}
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        experiment = Experiment(workspace, options.source, options.labels, verbose=options.progress)
        size = f"{len(experiment.ids):,} images, {len(experiment.names)} classes"
        print(f"{experiment.dataset.name}: {size}, {options.labels} labels")
        print(f"{describe_machine()}, commit {read_commit()}")
        print("| draw | parent | random | suggested | classes | seconds |\n|---|---|---|---|---|---|", flush=True)
        for draw in range(options.draws):
            started = time.perf_counter()
            parent = experiment.train("--seed", draw, *(() if options.epochs is None else ("--epochs", options.epochs)))
            labelled_ids = {"random": experiment.draw_images(draw), "suggested": experiment.suggest_images(parent)}
            labelled = np.union1d(labelled_ids["random"], labelled_ids["suggested"])
            scores["parent"].append(experiment.score(parent, labelled))
            for name, ids in labelled_ids.items():
                scores[name].append(
                    experiment.score(experiment.train_semi(parent, ids, draw, options.semi_epochs), labelled)
                )
            classes = " and ".join(str(experiment.count_classes(ids)) for ids in labelled_ids.values())
            each = " | ".join(f"{100 * values[-1]:.1f}" for values in scores.values())
            print(f"| {draw} | {each} | {classes} | {time.perf_counter() - started:.0f} |", flush=True)
    median = {name: 100 * statistics.median(values) for name, values in scores.items()}
    print(f"| median | {median['parent']:.1f} | {median['random']:.1f} | {median['suggested']:.1f} | | |")
    verdict = "met" if median["suggested"] >= median["random"] else "missed"
    print(f"target: suggested at least random: {verdict} ({median['suggested'] - median['random']:+.1f} points)")


if __name__ == "__main__":
    main()
