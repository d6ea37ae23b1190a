"""Evaluation of a run: assign images to clusters, publish the result, and compare it with the classes.

Classes are for reporting only: no weight, subhead or checkpoint depends on them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.analysis.class_metrics import (
    compute_agreement,
    compute_classification_accuracy,
    compute_mean_nmi,
    compute_top5_accuracy,
)
from crlc.runs.folder import RunFolder
from crlc.training.batches import LabelTargets
from crlc.training.distributed import World
from crlc.training.epoch_metrics import compute_size_metrics
from crlc.training.images import TrainingImages
from crlc.training.inference import Assignments, assign_images
from crlc.training.inputs import Inputs
from crlc.training.metric_names import CLASSIFICATION_ACCURACY, ORACLE_ACC
from crlc.training.stage_data import StageData

_SUBHEAD_AGREEMENT_IMAGES = 2_000
_ACC5_MIN_CLUSTERS = 50


class Evaluator:
    """Writes the results of one run and computes their metrics."""

    def __init__(
        self,
        network: nn.Module,
        data: StageData,
        folder: RunFolder,
        world: World,
        labels: LabelTargets | None = None,
    ) -> None:
        """Store the parts of the run.

        Args:
            network: the network of the run.
            data: images and inputs of the current stage, and the images to evaluate on.
            folder: folder of the run, where results are published.
            world: the processes of the run; each assigns a part of the images.
            labels: labels of CRLC-semi, which give every cluster a meaning; `None` without labels.
        """
        self._network, self._data, self._folder, self._world = network, data, folder, world
        self._labels = labels

    def evaluate(
        self, step: int, epoch: int, subhead: int, max_images: int | None = None, *, final: bool
    ) -> dict[str, Any]:
        """Publish a result of the current network, and return its metrics.

        Args:
            step: the current step of the run.
            epoch: number of complete epochs of the run.
            subhead: the selected subhead.
            max_images: maximum number of images, evenly spaced; all by default.
            final: whether the run is finished; the metrics then include those of every subhead, and the sizes of the
                clusters.
        """
        positions = None
        if max_images is not None and len(self._data.images) > max_images:
            positions = _space_evenly(len(self._data.images), max_images)
        result_folder = self._folder.create_result_folder(step, make=self._world.is_rank_zero)
        self._world.wait_for_all()
        assignments = assign_images(
            self._network,
            self._data.inputs,
            self._data.images.ids,
            subhead,
            positions=positions,
            folder=result_folder,
            world=self._world,
        )
        if self._world.is_rank_zero:
            counts = {"images": len(assignments.ids), "of": len(self._data.images)}
            position = {"step": step, "epoch": epoch}
            self._folder.publish_result(result_folder, {**position, "subhead": subhead, **counts, "final": final})
        clusters = np.asarray(assignments.cluster)
        # Those of the last epoch are of augmented images, and the consensus of the subheads changes them afterwards.
        sizes = compute_size_metrics(_count_images(clusters, assignments.q.shape[1])) if final else {}
        if self._data.evaluation is not None:
            return sizes | self._evaluate_others(*self._data.evaluation, subhead, max_images, final=final)
        classes = self._data.images.classes
        unlabelled = np.ones(len(self._data.images), bool)
        if self._labels is not None:
            unlabelled[self._labels.positions] = False
        if classes is not None and positions is not None:
            classes, unlabelled = classes[positions], unlabelled[positions]
        metrics = compute_metrics(assignments, classes, final=final)
        return sizes | metrics | self._classify(clusters, classes, unlabelled)

    def _evaluate_others(
        self, images: TrainingImages, inputs: Inputs, subhead: int, max_images: int | None, *, final: bool
    ) -> dict[str, Any]:
        """Return the metrics of images that were not trained on; their assignments are not stored."""
        positions = _space_evenly(len(images), min(len(images), max_images or len(images)))
        with tempfile.TemporaryDirectory(dir=self._folder.path, ignore_cleanup_errors=True) as temporary:
            assignments = assign_images(
                self._network, inputs, images.ids, subhead, positions=positions, folder=Path(temporary)
            )
            classes = None if images.classes is None else images.classes[positions]
            metrics = compute_metrics(assignments, classes, final=final)
            return metrics | self._classify(np.asarray(assignments.cluster), classes, np.ones(len(positions), bool))

    def _classify(
        self, clusters: NDArray[Any], classes: NDArray[np.int64] | None, scored: NDArray[np.bool_]
    ) -> dict[str, float]:
        """Return the classification accuracy of a run with labels; nothing without labels or classes."""
        trained = self._data.images.classes
        if self._labels is None or classes is None or trained is None:
            return {}
        accuracy = compute_classification_accuracy(
            clusters[scored], classes[scored], self._labels.targets, trained[self._labels.positions]
        )
        return {} if accuracy is None else {CLASSIFICATION_ACCURACY: accuracy}


def compute_metrics(assignments: Assignments, classes: NDArray[np.int64] | None, *, final: bool) -> dict[str, Any]:
    """Return agreement between subheads, and ACC, NMI and ARI where classes are known.

    The metrics of the best subhead by classes are added as an oracle; see `ORACLE_ACC`.

    Args:
        assignments: clusters of some images.
        classes: classes of the same images, -1 where unknown; `None` where no class is known.
        final: whether to add the accuracy of every subhead.
    """
    by_subhead = np.asarray(assignments.by_subhead).T
    metrics: dict[str, Any] = {"subhead_agreement": compute_mean_nmi(by_subhead[:, :_SUBHEAD_AGREEMENT_IMAGES])}
    if classes is None:
        return metrics
    agreement = compute_agreement(np.asarray(assignments.cluster), classes)
    if agreement is None:
        return metrics
    metrics.update(agreement._asdict())
    if assignments.q.shape[1] >= _ACC5_MIN_CLUSTERS:
        metrics["acc5"] = compute_top5_accuracy(assignments.q, np.asarray(assignments.cluster), classes)
    each = [found for clusters in by_subhead if (found := compute_agreement(clusters, classes)) is not None]
    oracle = max(each, key=lambda found: found.acc)
    metrics.update({ORACLE_ACC: oracle.acc, "oracle_nmi": oracle.nmi, "oracle_ari": oracle.ari})
    if final:
        metrics["acc_by_subhead"] = [round(found.acc, 4) for found in each]
    return metrics


def _count_images(clusters: NDArray[Any], number: int) -> Tensor:
    return torch.bincount(torch.from_numpy(clusters.astype(np.int64)), minlength=number)


def _space_evenly(total: int, count: int) -> NDArray[np.int64]:
    return np.linspace(0, total - 1, count).astype(np.int64)
