"""What a few labels give: `python benchmarks/semi.py digits scenes/ --labels 1 4 --draws 3`.

A parent run with the default settings and seed 0, then CRLC-semi from it with N labels for each class, drawn three
times. ACC (Hungarian) in per cent, only on images without a label, of the parent and of the child; and the share of
the parent's errors that is gone. Classes stand in for a person here, who would say the same of the drawn images.
For comparison: what a classifier (SVM) on the parent's h reaches that knows the classes of two thirds of all images.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.agreement import matched_accuracy
from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, images_of
from crlc.training.planning import TrainRequest, plan_run
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from crlc.workspace.semi_runs import plan_semi

CPU = Compute(torch.device("cpu"))


def parent_run(workspace: Workspace, source: str) -> tuple[RunFolder, ImageDataset, TrainingImages]:
    """A finished run of the source with all defaults."""
    dataset, _ = workspace.import_dataset(source)
    images = images_of(dataset, dataset.usual_size())
    clusters = len(dataset.summary().classes)
    settings = plan_run(TrainRequest(named={"clusters": clusters}), images, has_gpu=False).settings
    if settings.image_size != images.size:
        workspace.import_dataset(source, name=dataset.name, options=ImportOptions(size=settings.image_size))
        images = images_of(dataset, settings.image_size)
    run = Runs(workspace).create(dataset, images.ids, settings, "quick", "cpu")
    Trainer(images, settings, run, CPU).run()
    return run, dataset, images


def supervised_accuracy(h: np.ndarray, classes: np.ndarray) -> float:
    """What these vectors can tell at all: an SVM with radial kernel, three folds."""
    from sklearn.model_selection import cross_val_predict
    from sklearn.svm import SVC

    centred = h - h.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return float((cross_val_predict(SVC(C=10.0, gamma=2.0), unit, classes, cv=3) == classes).mean())


def compare(workspace: Workspace, source: str, labels: list[int], draws: int) -> None:
    """Print the table of one source."""
    parent, dataset, images = parent_run(workspace, source)
    assert images.classes is not None
    before = np.array(parent.result()[0]["cluster"])
    most = supervised_accuracy(np.array(parent.result()[0]["h"]), images.classes)
    print(f"\n{dataset.name}: parent {100 * matched_accuracy(before, images.classes):.1f} % on all images; ", end="")
    print(f"with two thirds of all classes known {100 * most:.1f} %")
    print("| labels for each class | parent | CRLC-semi | errors gone | seconds |\n|---|---|---|---|---|")
    for each in labels:
        rows = []
        for draw in range(draws):
            plan = plan_semi(parent, dataset, f"classes:{each}", seed=draw)
            run = Runs(workspace).create(dataset, images.ids, plan.settings, "semi", "cpu")
            started = time.perf_counter()
            Trainer(images, plan.settings, run, CPU, extras=plan.extras).run()
            seconds = time.perf_counter() - started
            unseen = np.ones(len(images), bool)
            unseen[plan.labels.positions] = False
            after = np.array(run.result()[0]["cluster"])
            old, new = (matched_accuracy(found[unseen], images.classes[unseen]) for found in (before, after))
            rows.append((old, new, (new - old) / (1 - old), seconds))
        old, new, gone, seconds = (statistics.median(column) for column in zip(*rows, strict=True))
        each_gone = ", ".join(f"{100 * row[2]:.0f}" for row in rows)
        print(f"| {each} | {100 * old:.1f} | {100 * new:.1f} | {100 * gone:.0f} % ({each_gone}) | {seconds:.0f} |")
        sys.stdout.flush()


def main() -> None:
    """Run everything and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workspace", type=Path, help="keep data sets and features here between calls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"{options.draws} draws, {options.threads} threads, commit {commit.strip()}")
    with tempfile.TemporaryDirectory() as place:
        for source in options.sources:
            compare(Workspace(options.workspace or Path(place)), source, options.labels, options.draws)


if __name__ == "__main__":
    main()
