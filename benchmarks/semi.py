"""Effect of a few labels: `python benchmarks/semi.py scenes/ objects40/ cifar10_5k/ fashion_10k.npz --imbalance`.

Trains a parent run with the default settings (small grey images: `--method two-stage` for frozen features) and seed 0,
then CRLC-semi from it with N random labels per class, several times. The classes of the drawn images replace the user's
labels. Prints, in per cent and on images without a label only: ACC of the parent (Hungarian), the classification
accuracy of a logistic regression on the same backbone features (centred, unit length) and of CRLC-semi (by the names of
its outputs), and the seconds of both trainings. With --imbalance, sources of six or forty classes are also reduced to
unbalanced subsets, as in heads.py.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.heads import make_cuts
from benchmarks.support import create_parser, read_commit
from crlc.analysis.class_metrics import compute_accuracy
from crlc.arrays import FloatArray, IntArray
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.runs.folder import RunFolder
from crlc.services.semi import SemiPlan, plan_semi
from crlc.training.distributed import ComputeContext
from crlc.training.feature_cache import load_or_compute_features
from crlc.training.images import TrainingImages, load_images
from crlc.training.network_builder import build_network
from crlc.training.planning import plan_run
from crlc.training.request import TrainRequest
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

CPU = ComputeContext(torch.device("cpu"))


class Parent(NamedTuple):
    """A finished run to start from."""

    run: RunFolder
    dataset: ImageDataset
    images: TrainingImages
    features: FloatArray
    """Backbone features, centred and of unit length, (N, d)."""

    seconds: float


def load_source(workspace: Workspace, source: str, method: str) -> tuple[ImageDataset, TrainingImages]:
    """Import a source at the image size of its training."""
    dataset, _ = workspace.import_dataset(source)
    images = load_images(dataset, dataset.get_default_size())
    size = plan_run(TrainRequest(method=method), images, has_gpu=False).settings.data.image_size
    if size != images.size:
        workspace.import_dataset(source, name=dataset.name, options=ImportOptions(size=size))
        images = load_images(dataset, size)
    return dataset, images


def train_parent(workspace: Workspace, dataset: ImageDataset, images: TrainingImages, method: str) -> Parent:
    """Train with all defaults and the number of classes as the number of clusters."""
    assert images.classes is not None
    request = TrainRequest(method=method, values={"clusters": len(set(images.classes.tolist()))})
    settings = plan_run(request, images, has_gpu=False).settings
    run = RunStore(workspace).create(dataset, images.ids, settings, "quick", "cpu")
    trainer = Trainer(images, settings, run, CPU)
    trainer.train_step()  # computes features and neighbours, which the child finds in the cache
    started = time.perf_counter()
    trainer.run()
    seconds = time.perf_counter() - started
    return Parent(run, dataset, images, load_features(images, settings, run.path), seconds)


def load_features(images: TrainingImages, settings: TrainSettings, folder: Path) -> FloatArray:
    """Return the features of a frozen backbone, centred and of unit length; h of the run for other backbones."""
    if settings.model.frozen:
        built = build_network(settings, len(images))
        features = load_or_compute_features(built.network, images, built.identity, folder / "features")
        vectors = np.concatenate([chunk.float().numpy() for chunk in features.iterate_chunks()])
    else:
        vectors = np.array(RunFolder(folder).open_result()[0]["h"])
    centred = vectors - vectors.mean(axis=0)
    normalized = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    rows: FloatArray = normalized.astype(np.float32, copy=False)
    return rows


def train_child(workspace: Workspace, parent: Parent, plan: SemiPlan) -> tuple[IntArray, float]:
    """Train CRLC-semi; return the class of the name of each image's cluster, -1 without a name, and the seconds."""
    run = RunStore(workspace).create(parent.dataset, parent.images.ids, plan.settings, "semi", "cpu")
    started = time.perf_counter()
    Trainer(parent.images, plan.settings, run, CPU, optional_inputs=plan.optional_inputs).run()
    seconds = time.perf_counter() - started
    class_names = parent.dataset.read_metadata(parent.images.ids).class_names
    by_output = np.full(plan.named.clusters, -1)
    for output, name in plan.named.get_names_by_output().items():
        by_output[output] = class_names.index(name)
    return by_output[np.asarray(run.open_result()[0]["cluster"])], seconds


def classify(parent: Parent, labelled: IntArray) -> IntArray:
    """Return the classes that a logistic regression predicts from the same labels and features."""
    from sklearn.linear_model import LogisticRegression

    assert parent.images.classes is not None
    classifier = LogisticRegression(C=10.0, max_iter=2_000)
    classifier.fit(parent.features[labelled], parent.images.classes[labelled])
    predicted: IntArray = classifier.predict(parent.features)
    return predicted


def compare(workspace: Workspace, title: str, parent: Parent, labels: list[int], draws: int) -> None:
    """Print the rows of one dataset."""
    classes = parent.images.classes
    assert classes is not None
    before = np.array(parent.run.open_result()[0]["cluster"])
    for each in labels:
        rows = []
        for draw in range(draws):
            plan = plan_semi(parent.run, parent.dataset, f"classes:{each}", seed=draw)
            unlabelled = np.ones(len(classes), bool)
            unlabelled[plan.labels.positions] = False
            after, seconds = train_child(workspace, parent, plan)
            regression = classify(parent, plan.labels.positions)
            rows.append(
                (
                    compute_accuracy(before[unlabelled], classes[unlabelled]),
                    float((regression == classes)[unlabelled].mean()),
                    float((after == classes)[unlabelled].mean()),
                    seconds,
                )
            )
        *scores, seconds = (statistics.mean(column) for column in zip(*rows, strict=True))
        by_draw = ", ".join(f"{100 * row[2]:.1f}" for row in rows)
        cells = " | ".join(f"{100 * score:.1f}" for score in scores)
        print(f"| {title} | {each} | {cells} ({by_draw}) | {parent.seconds:.0f} | {seconds:.0f} |", flush=True)


def main() -> None:
    """Train all runs and print one table."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 4, 10])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--method", default="auto", choices=("auto", "two-stage"))
    parser.add_argument("--imbalance", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workspace", type=Path, help="stores datasets and features between calls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.draws} draws, {options.threads} threads, commit {read_commit()}")
    print("| data | labels per class | parent | regression | CRLC-semi (draws) | parent, s | CRLC-semi, s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        for source in options.sources:
            dataset, images = load_source(workspace, source, options.method)
            cuts = make_cuts(dataset.name, images) if options.imbalance else {}
            for title, cut in {dataset.name: images, **cuts}.items():
                parent = train_parent(workspace, dataset, cut, options.method)
                compare(workspace, title, parent, options.labels, options.draws)


if __name__ == "__main__":
    main()
