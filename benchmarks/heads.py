"""Heads on the same frozen features: `python benchmarks/heads.py scenes/ cifar10_5k/ fashion.npz [--imbalance]`.

Compares k-means, a Gaussian mixture, a head trained with the loss of SCAN, and two-stage CRLC with each rule of subhead
selection: by loss, by two scores of neighbour information, and three kinds of consensus. Prints ACC in per cent for
each seed. With --imbalance, a source of six classes is also reduced to class sizes 437:250:125:100:75:50 in three
orders, and a source of forty classes to sizes that fall geometrically from all to 12. Classes are used for
these numbers only.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, format_percentages, read_commit
from crlc.analysis.class_metrics import compute_accuracy, compute_contingency
from crlc.arrays import FloatArray, IntArray, LabelArray
from crlc.data.options import ImportOptions
from crlc.runs.folder import RunFolder
from crlc.training.consensus import distil_consensus
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages, load_images, select_positions
from crlc.training.inputs import FeatureInputs
from crlc.training.planning import plan_run
from crlc.training.request import TrainRequest
from crlc.training.subhead_selection import weight_subheads
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace

CPU = torch.device("cpu")
IMAGE_SIZE = 160
CLASS_SIZES = (437, 250, 125, 100, 75, 50)
GEOMETRIC_CLASSES, GEOMETRIC_SMALLEST = 40, 12
ORDERS = ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (2, 5, 0, 4, 1, 3))


def make_unbalanced(images: TrainingImages, order: tuple[int, ...]) -> TrainingImages:
    """Return the first images of each class, with the class sizes in the given order."""
    assert images.classes is not None
    kept = [
        np.flatnonzero(images.classes == number)[: CLASS_SIZES[order[number]]] for number in range(len(CLASS_SIZES))
    ]
    return select_positions(images, np.sort(np.concatenate(kept)))


def make_cuts(name: str, images: TrainingImages) -> dict[str, TrainingImages]:
    """Return the unbalanced subsets of a source by title; none for other numbers of classes."""
    assert images.classes is not None
    counts = np.bincount(images.classes)
    if len(counts) == len(CLASS_SIZES):
        titles = (":".join(str(CLASS_SIZES[index]) for index in order) for order in ORDERS)
        return {f"{name} {title}": make_unbalanced(images, order) for title, order in zip(titles, ORDERS, strict=True)}
    if len(counts) == GEOMETRIC_CLASSES:
        sizes = np.geomspace(counts.max(), GEOMETRIC_SMALLEST, len(counts)).round().astype(int)
        kept = [np.flatnonzero(images.classes == number)[:size] for number, size in enumerate(sizes)]
        return {f"{name}, geometric": select_positions(images, np.sort(np.concatenate(kept)))}
    return {}


def train_scan_head(vectors: FloatArray, neighbours: IntArray, clusters: int, seed: int) -> IntArray:
    """Train a linear head with the loss of SCAN, with its authors' weight of 5 for the entropy; return the clusters."""
    torch.manual_seed(seed)
    x, near = torch.from_numpy(np.array(vectors)), torch.from_numpy(neighbours.astype(np.int64))
    head = nn.Linear(x.shape[1], clusters)
    optimizer = torch.optim.Adam(head.parameters(), 1e-3, weight_decay=1e-4)
    for _ in range(1500):
        rows = torch.randint(len(x), (256,))
        q = head(x[rows]).softmax(dim=1)
        other = head(x[near[rows, torch.randint(near.shape[1], (256,))]]).softmax(dim=1)
        mean = q.mean(dim=0)
        loss = -(q * other).sum(dim=1).log().mean() + 5 * (mean * mean.log()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        clusters_found: IntArray = head(x).argmax(dim=1).numpy()
    return clusters_found


def compute_consensus(q: FloatArray, members: Iterable[int], reference: int) -> IntArray:
    """Return the clusters of the mean probabilities of some subheads, aligned to the reference; q is (S, N, C)."""
    total = np.zeros_like(q[reference])
    for subhead in members:
        shared = np.zeros((q.shape[2],) * 2)
        table = compute_contingency(q[reference].argmax(axis=1), q[subhead].argmax(axis=1))
        shared[: table.shape[0], : table.shape[1]] = table
        total += q[subhead][:, linear_sum_assignment(shared, maximize=True)[1]]
    clusters: IntArray = total.argmax(axis=1)
    return clusters


class Inputs(NamedTuple):
    """Inputs of the other heads, and the seconds of training CRLC."""

    vectors: FloatArray
    neighbours: IntArray
    seconds: float


def train_crlc(
    images: TrainingImages, clusters: int, seed: int, changes: tuple[str, ...]
) -> tuple[dict[str, float], Inputs]:
    """Train CRLC; return ACC by each rule of subhead selection, and the inputs of the other heads."""
    assert images.classes is not None
    request = TrainRequest(method="two-stage", values={"clusters": clusters, "seed": seed}, assignments=changes)
    planned = plan_run(request, images, has_gpu=False).settings
    settings = planned.replace(evaluations=1, consensus=False)  # the consensus is computed below
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder(Path(temporary, "run"))
        folder.path.mkdir()
        trainer = Trainer(images, settings, folder, ComputeContext(CPU))
        trainer.train_step()  # computes features, projection and neighbours
        started = time.perf_counter()
        trainer.run()
        seconds = time.perf_counter() - started
        vectors = np.array(folder.open_result()[0]["h"])
        neighbours = np.load(folder.path / "neighbours.npy")
    with torch.no_grad():
        q = trainer.network.eval()(torch.from_numpy(vectors)).q.numpy()
    each = q.argmax(axis=2)
    selected, balanced = trainer.subhead, settings.model.subheads - settings.effective_unbalanced_subheads
    inputs = FeatureInputs(vectors, 0.0, CPU)
    relative = np.argsort(-weight_subheads(trainer.network, inputs, neighbours))
    scores = {
        "CRLC, subhead by loss": each[trainer.subhead_by_loss],
        "CRLC, subhead by I - H / 2 between neighbours, with margin": each[selected],
        "CRLC, subhead by I / H between neighbours": each[relative[0]],
        "CRLC, consensus of the five best by I / H": compute_consensus(q, relative[:5], relative[0]),
        "CRLC, consensus of all subheads": compute_consensus(q, range(len(q)), selected),
    }
    if planned.clustering_loss.consensus and selected < balanced:
        distil_consensus(trainer.network.c_head, inputs, np.arange(len(inputs)), selected, balanced, seed)
    with torch.no_grad():
        final: IntArray = trainer.network(torch.from_numpy(vectors)).q[selected].argmax(dim=1).numpy()
    scores["**CRLC, by I - H / 2, consensus of the balanced subheads distilled (default)**"] = final
    accuracy = {name: compute_accuracy(found, images.classes) for name, found in scores.items()}
    accuracy["CRLC, worst subhead"] = min(compute_accuracy(one, images.classes) for one in each)
    accuracy["CRLC, best subhead (needs classes)"] = max(compute_accuracy(one, images.classes) for one in each)
    return accuracy, Inputs(vectors, neighbours, seconds)


def compare(title: str, images: TrainingImages, seeds: list[int], changes: tuple[str, ...]) -> None:
    """Print the table of one dataset."""
    assert images.classes is not None
    clusters = len(set(images.classes.tolist()))
    scores: dict[str, list[float]] = {}
    seconds = []
    for seed in seeds:
        accuracy, inputs = train_crlc(images, clusters, seed, changes)
        seconds.append(inputs.seconds)
        others: dict[str, LabelArray] = {
            "k-means": KMeans(clusters, n_init=10, random_state=seed).fit_predict(inputs.vectors),
            "Gaussian mixture (diagonal, 64 components of the vectors)": GaussianMixture(
                clusters, covariance_type="diag", n_init=3, random_state=seed
            ).fit_predict(inputs.vectors[:, :64]),
            "head with SCAN's loss": train_scan_head(inputs.vectors, inputs.neighbours, clusters, seed),
        }
        for name, found in others.items():
            scores.setdefault(name, []).append(compute_accuracy(found.astype(np.int64), images.classes))
        for name, value in accuracy.items():
            scores.setdefault(name, []).append(value)
    print(f"\n{title}: {len(images):,} images, {clusters} classes, {statistics.median(seconds):.0f} s to train")
    print("| head | ACC by seed | median |\n|---|---|---|")
    for name, values in scores.items():
        print(f"| {name} | {format_percentages(values)} | {100 * statistics.median(values):.1f} |")
    sys.stdout.flush()


def main() -> None:
    """Train all heads on all sources and print tables."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--imbalance", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workspace", type=Path, help="stores features between calls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"seeds {options.seeds}, {options.threads} threads, commit {read_commit()}, {options.set or 'defaults'}")
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        for source in options.sources:
            dataset, _ = workspace.import_dataset(source, options=ImportOptions(size=IMAGE_SIZE))
            images = load_images(dataset, IMAGE_SIZE)
            cuts = make_cuts(dataset.name, images) if options.imbalance else {}
            for title, subset in {dataset.name: images, **cuts}.items():
                compare(title, subset, options.seeds, tuple(options.set))


if __name__ == "__main__":
    main()
