"""Do suggested labels help more than random ones? `python benchmarks/suggestions.py digits` or `... FOLDER`.

A parent run, as `crlc train` makes it (end to end for small grey images, on a frozen pretrained backbone for others);
then CRLC-semi with 40 labels that `crlc suggest` asks for, and with 40 random ones; the known classes are the person's
answers. ACC over the images that neither of the two has a label for, so that both are measured on the same ones. Each
draw has a parent, random labels and a CRLC-semi seed of its own. Bar: the median over 5 draws with suggested labels is
at least the one with random labels.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.agreement import matched_accuracy
from crlc.cli.main import main as crlc
from crlc.data.dataset import ImageDataset
from crlc.workspace import Workspace
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.runs import Runs


class Experiment:
    """One data set in one workspace."""

    def __init__(self, workspace: Workspace, source: str, labels: int, *, talkative: bool) -> None:
        """Import the data set, or find it there."""
        self.workspace, self.labels = workspace, labels
        self._quiet = contextlib.nullcontext if talkative else lambda: contextlib.redirect_stderr(io.StringIO())
        known = source in workspace.dataset_names()
        self.dataset: ImageDataset = workspace.dataset(source) if known else workspace.import_dataset(source)[0]
        facts = self.dataset.facts(self.dataset.pixels(self.dataset.usual_size()).ids)
        if facts.class_numbers is None:
            raise SystemExit(f"{source} has no classes: there is nobody to answer for its images.")
        self.ids = self.dataset.pixels(self.dataset.usual_size()).ids
        self.classes, self.names = facts.class_numbers, facts.class_names

    def train(self, *arguments: object) -> str:
        """Train as a person would; returns the run's id."""
        out = io.StringIO()
        command = ["train", self.dataset.name, *map(str, arguments), "--json", "--workspace", str(self.workspace.root)]
        with contextlib.redirect_stdout(out), self._quiet():
            code = crlc(command)
        if code:
            raise SystemExit(f"crlc {' '.join(command)} failed; try it by hand.")
        return str(json.loads(out.getvalue())["run"])

    def suggested(self, parent: str) -> np.ndarray:
        """The images that are suggested to be labelled."""
        found = RunAnalysis.open(self.workspace, parent).suggestions(self.labels)
        return np.array([one.id for one in found.label])

    def random(self, seed: int) -> np.ndarray:
        """As many images by chance."""
        return np.random.default_rng(seed).choice(self.ids, self.labels, replace=False)

    def semi(self, parent: str, ids: np.ndarray, seed: int, epochs: int | None) -> str:
        """CRLC-semi with the classes of these images as their labels; returns the run's id."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "labels.csv")
            with file.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(("id", "label"))
                writer.writerows((number, self.names[self._class(number)]) for number in ids.tolist())
            more = () if epochs is None else ("--epochs", epochs)
            return self.train("--method", "semi", "--parent", parent, "--labels", file, "--seed", seed, *more)

    def acc(self, run: str, without: np.ndarray) -> float:
        """ACC of a run over all images but some."""
        arrays, _ = Runs(self.workspace).open(run).result()
        scored = ~np.isin(arrays["ids"], without)
        places = np.searchsorted(self.ids, arrays["ids"][scored])
        return matched_accuracy(np.asarray(arrays["cluster"])[scored], self.classes[places])

    def classes_met(self, ids: np.ndarray) -> int:
        """How many classes some images have."""
        return len({self._class(number) for number in ids.tolist()})

    def _class(self, number: int) -> int:
        return int(self.classes[np.searchsorted(self.ids, number)])


def main() -> None:
    """Compare, draw by draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="digits, a folder with a folder for each class, or a data set of the workspace")
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="of the parents; by default the preset's")
    parser.add_argument("--semi-epochs", type=int, help="of CRLC-semi; by default as long as it thinks right")
    parser.add_argument("--workspace", type=Path, help="to keep what is computed; by default thrown away")
    parser.add_argument("--progress", action="store_true", help="show how far each training is")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    scores: dict[str, list[float]] = {"parent": [], "random": [], "suggested": []}
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(options.workspace or Path(place))
        one = Experiment(workspace, options.source, options.labels, talkative=options.progress)
        print(f"{one.dataset.name}: {len(one.ids):,} images, {len(one.names)} classes, {options.labels} labels")
        print(f"{platform.machine()}, Python {platform.python_version()}, commit {commit.strip()}")
        print("| draw | parent | random | suggested | classes met | seconds |\n|---|---|---|---|---|---|", flush=True)
        for draw in range(options.draws):
            started = time.perf_counter()
            parent = one.train("--seed", draw, *(() if options.epochs is None else ("--epochs", options.epochs)))
            chosen = {"random": one.random(draw), "suggested": one.suggested(parent)}
            labelled = np.union1d(chosen["random"], chosen["suggested"])
            scores["parent"].append(one.acc(parent, labelled))
            for name, ids in chosen.items():
                scores[name].append(one.acc(one.semi(parent, ids, draw, options.semi_epochs), labelled))
            met = " and ".join(str(one.classes_met(ids)) for ids in chosen.values())
            each = " | ".join(f"{100 * values[-1]:.1f}" for values in scores.values())
            print(f"| {draw} | {each} | {met} | {time.perf_counter() - started:.0f} |", flush=True)
    median = {name: 100 * statistics.median(values) for name, values in scores.items()}
    print(f"| median | {median['parent']:.1f} | {median['random']:.1f} | {median['suggested']:.1f} | | |")
    verdict = "reached" if median["suggested"] >= median["random"] else "missed"
    print(f"bar: suggested at least random: {verdict} ({median['suggested'] - median['random']:+.1f} points)")


if __name__ == "__main__":
    main()
