"""Heads on the same frozen features: `python benchmarks/heads.py scenes/ cifar10_5k/ fashion.npz [--imbalance]`.

k-means, a Gaussian mixture, a head trained with the loss of SCAN, and CRLC in two stages with each rule for the
subhead that speaks: its loss, agreement of neighbours, consensus of all subheads. ACC in per cent for each seed.
With --imbalance the first source is also cut to class sizes 437:250:125:100:75:50 in three ways (six classes).
Classes are used for nothing but these numbers.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.agreement import contingency, matched_accuracy
from crlc.config import ImportOptions
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, at_positions, images_of
from crlc.training.planning import TrainRequest, plan_run
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace

CPU = torch.device("cpu")
SIZES = (437, 250, 125, 100, 75, 50)
ORDERS = ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (2, 5, 0, 4, 1, 3))
Scores = dict[str, list[float]]


def unbalanced(images: TrainingImages, order: tuple[int, ...]) -> TrainingImages:
    """The first images of each class, as many as its place in the order says."""
    assert images.classes is not None
    kept = [np.flatnonzero(images.classes == number)[: SIZES[order[number]]] for number in range(len(SIZES))]
    return at_positions(images, np.sort(np.concatenate(kept)))


def scan_head(vectors: np.ndarray, neighbours: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """A linear head with SCAN's loss: neighbours alike, entropy of the mean with weight 5, as its authors have it."""
    torch.manual_seed(seed)
    x, near = torch.from_numpy(np.array(vectors)), torch.from_numpy(neighbours.astype(np.int64))
    head = nn.Linear(x.shape[1], clusters)
    optimiser = torch.optim.Adam(head.parameters(), 1e-3, weight_decay=1e-4)
    for _ in range(1500):
        rows = torch.randint(len(x), (256,))
        q = head(x[rows]).softmax(dim=1)
        other = head(x[near[rows, torch.randint(near.shape[1], (256,))]]).softmax(dim=1)
        mean = q.mean(dim=0)
        loss = -(q * other).sum(dim=1).log().mean() + 5 * (mean * mean.log()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return head(x).argmax(dim=1).numpy()


def consensus(q: np.ndarray, speaking: int) -> np.ndarray:
    """Clusters of the mean of all subheads' probabilities, (S, N, C), aligned to the one that speaks."""
    total = q[speaking].copy()
    for subhead in range(len(q)):
        if subhead != speaking:
            shared = np.zeros((q.shape[2],) * 2)
            table = contingency(q[speaking].argmax(axis=1), q[subhead].argmax(axis=1))
            shared[: table.shape[0], : table.shape[1]] = table
            total += q[subhead][:, linear_sum_assignment(shared, maximize=True)[1]]
    return total.argmax(axis=1)


def crlc(images: TrainingImages, clusters: int, seed: int, changes: tuple[str, ...]) -> tuple[dict[str, float], dict]:
    """ACC by each rule; and what other heads need: vectors and neighbours."""
    assert images.classes is not None
    request = TrainRequest(method="two-stage", named={"clusters": clusters, "seed": seed}, assignments=changes)
    settings = replace(plan_run(request, images, has_gpu=False).settings, evaluations=1)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place, "run"))
        folder.path.mkdir()
        trainer = Trainer(images, settings, folder, Compute(CPU))
        trainer.train_step()  # features, projection and neighbours are ready after it
        started = time.perf_counter()
        trainer.run()
        seconds = time.perf_counter() - started
        vectors = np.array(folder.result()[0]["h"])
        neighbours = np.load(folder.path / "neighbours.npy")
    with torch.no_grad():
        q = trainer.network.eval()(torch.from_numpy(vectors)).q.numpy()
    each = q.argmax(axis=2)
    speaking = trainer.subhead
    by_loss = trainer.subhead_by_loss
    scores = {
        "CRLC, subhead by loss": each[by_loss],
        "CRLC, subhead by neighbours (what is used)": each[speaking],
        "CRLC, consensus of subheads": consensus(q, speaking),
    }
    accuracy = {name: matched_accuracy(found, images.classes) for name, found in scores.items()}
    accuracy["CRLC, worst subhead"] = min(matched_accuracy(one, images.classes) for one in each)
    accuracy["CRLC, best subhead (nobody can know it)"] = max(matched_accuracy(one, images.classes) for one in each)
    return accuracy, {"vectors": vectors, "neighbours": neighbours, "seconds": seconds}


def compare(title: str, images: TrainingImages, seeds: list[int], changes: tuple[str, ...]) -> None:
    """Print the table of one set of images."""
    assert images.classes is not None
    clusters = len(set(images.classes.tolist()))
    scores: Scores = {}
    seconds = []
    for seed in seeds:
        accuracy, made = crlc(images, clusters, seed, changes)
        seconds.append(made["seconds"])
        others: dict[str, Callable[[], np.ndarray]] = {
            "k-means": lambda made=made, seed=seed: KMeans(clusters, n_init=10, random_state=seed).fit_predict(
                made["vectors"]
            ),
            "Gaussian mixture (diagonal, 64 components of the vectors)": lambda made=made, seed=seed: GaussianMixture(
                clusters, covariance_type="diag", n_init=3, random_state=seed
            ).fit_predict(made["vectors"][:, :64]),
            "head with SCAN's loss": lambda made=made, seed=seed: scan_head(
                made["vectors"], made["neighbours"], clusters, seed
            ),
        }
        for name, find in others.items():
            scores.setdefault(name, []).append(matched_accuracy(find().astype(np.int64), images.classes))
        for name, value in accuracy.items():
            scores.setdefault(name, []).append(value)
    print(f"\n{title}: {len(images):,} images, {clusters} classes, {statistics.median(seconds):.0f} s to train")
    print("| head | ACC by seed | median |\n|---|---|---|")
    for name, values in scores.items():
        print(f"| {name} | {', '.join(f'{100 * v:.1f}' for v in values)} | {100 * statistics.median(values):.1f} |")
    sys.stdout.flush()


def main() -> None:
    """Run everything and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--imbalance", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workspace", type=Path, help="keep features here between calls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"seeds {options.seeds}, {options.threads} threads, commit {commit.strip()}, {options.set or 'defaults'}")
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(options.workspace or Path(place))
        for number, source in enumerate(options.sources):
            dataset, _ = workspace.import_dataset(source, options=ImportOptions(size=160))
            images = images_of(dataset, 160)
            compare(dataset.name, images, options.seeds, tuple(options.set))
            if options.imbalance and number == 0:
                for order in ORDERS:
                    sizes = ":".join(str(SIZES[place]) for place in order)
                    compare(f"{dataset.name} {sizes}", unbalanced(images, order), options.seeds, tuple(options.set))


if __name__ == "__main__":
    main()
