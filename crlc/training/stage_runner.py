"""One stage of a run in progress: its batches, optimizer, memory bank and epoch totals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crlc.model import CrlcNetwork
from crlc.model.memory_bank import MemoryBank
from crlc.training.batches import BatchBuilder, LabelTargets
from crlc.training.consensus import distil_consensus
from crlc.training.distributed import ComputeContext, synchronize_gradients
from crlc.training.epoch_metrics import EpochTotals
from crlc.training.inputs import FeatureInputs
from crlc.training.metric_names import CLUSTER_INFORMATION_METRICS, FEATURE_METRICS
from crlc.training.mixed_precision import MixedPrecision
from crlc.training.optimizer import compute_learning_rate, make_optimizer
from crlc.training.randomness import make_generator
from crlc.training.run_length import StagePosition
from crlc.training.stage_data import StageData
from crlc.training.steps import StepOutcome, compute_memory_bank_objective, compute_simclr_objective
from crlc.training.subhead_selection import select_subhead


class StageRunner:
    """Trains the network for the steps of one stage."""

    def __init__(
        self,
        position: StagePosition,
        network: CrlcNetwork,
        data: StageData,
        batch_size: int,
        compute: ComputeContext,
        precision: MixedPrecision,
        labels: LabelTargets | None = None,
    ) -> None:
        """Create the optimizer, the batches and the memory bank of the stage.

        Args:
            position: the stage and its steps.
            network: the network of the run, on its device.
            data: inputs and neighbours of the stage.
            batch_size: number of images per step, summed over all processes.
            compute: device, processes and precision of the weights.
            precision: autocast and gradient scaler of the run.
            labels: labelled images, for CRLC-semi.
        """
        self.position, self.stage, self.settings = position, position.stage, position.stage.settings
        self.neighbours = data.neighbours
        self._has_pseudo_labels = labels is not None and labels.probabilities is not None
        self.learning_rate = 0.0
        self._network, self._images, self._inputs, self._labels = network, data.images, data.inputs, labels
        self._compute, self._precision = compute, precision
        self._batches = BatchBuilder(
            data.inputs,
            data.images,
            self.stage,
            batch_size,
            neighbours=data.neighbours,
            labels=labels,
            world=compute.world,
        )
        # Without a clustering loss, weight decay alone would shrink the C-head.
        network.c_head.requires_grad_(self.settings.clustering_loss.clustering_weight > 0)
        self._optimizer = make_optimizer(network, self.settings.optimization)
        self._bank = self._create_bank()
        self._model = synchronize_gradients(network, compute.world)
        self._totals = self._create_totals()

    def compute_objective(self, step: int) -> StepOutcome:
        """Set the learning rate of a step, and compute the loss of its batch."""
        stage_step, steps_per_epoch = step - self.position.first_step, self.position.steps_per_epoch
        epoch, index = divmod(stage_step, steps_per_epoch)
        if index == 0:
            self._totals = self._create_totals()
        self._network.train()
        self.learning_rate = compute_learning_rate(self.settings, stage_step, steps_per_epoch)
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        batch = self._batches.build(step, self.position.first_epoch + epoch, index)
        with self._precision.autocast:
            if self._bank is None:
                return compute_simclr_objective(self._model, batch, self.settings, self._compute.world)
            return compute_memory_bank_objective(self._model, batch, self.settings, self._bank, self._compute.world)

    def update_weights(self, outcome: StepOutcome) -> None:
        """Make one optimizer step with the gradient of an outcome, and add the outcome to the totals of the epoch."""
        scaler, clip_norm = self._precision.scaler, self.settings.optimization.clip_norm
        self._optimizer.zero_grad(set_to_none=True)
        # DistributedDataParallel averages the gradients over the processes; the objective needs their sum.
        torch.autograd.backward(scaler.scale(outcome.terms.total * self._compute.world.size))
        if clip_norm:
            scaler.unscale_(self._optimizer)
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), clip_norm)
        scaler.step(self._optimizer)
        scaler.update()
        self._totals.add(outcome)

    def find_lowest_loss_subhead(self) -> int:
        """Return the subhead with the lowest clustering loss of the epoch."""
        return self._totals.find_lowest_loss_subhead()

    def select_result_subhead(self, lowest_loss_subhead: int) -> int:
        """Return the subhead whose clusters are the result; see `select_subhead`.

        Args:
            lowest_loss_subhead: the subhead with the lowest clustering loss of the last epoch.
        """
        return select_subhead(
            lowest_loss_subhead,
            self._network,
            self._inputs,
            self.neighbours,
            self.settings.effective_unbalanced_subheads,
            has_pseudo_labels=self._has_pseudo_labels,
        )

    def distil_consensus(self, selected: int) -> None:
        """Let the selected subhead learn the mean of the balanced subheads, if the settings request it.

        A run with labels has no consensus: its labels already unite the subheads. Neither has a result with clusters
        of different sizes: the few unbalanced subheads agree too little.

        Args:
            selected: the selected subhead.
        """
        balanced = self.settings.model.subheads - self.settings.effective_unbalanced_subheads
        if (
            self.settings.clustering_loss.consensus
            and isinstance(self._inputs, FeatureInputs)
            and self._labels is None
            and selected < balanced
        ):
            positions = self._images.list_clusterable()
            distil_consensus(self._network.c_head, self._inputs, positions, selected, balanced, self.settings.run.seed)

    def compute_epoch_metrics(self, subhead: int) -> dict[str, Any]:
        """Return the metrics of the epoch; those that the stage does not compute are `None`, not 0."""
        metrics: dict[str, Any] = self._totals.compute_metrics(subhead)
        if not self.settings.feature_loss.feature_weight:
            metrics |= dict.fromkeys(FEATURE_METRICS)
        if self._labels is None:
            metrics["labels"] = None
        if not self.stage.trains_c_head:
            metrics |= dict.fromkeys(CLUSTER_INFORMATION_METRICS)
        return metrics

    # ---- state for the checkpoint

    def export_state(self) -> dict[str, Any]:
        """Return the resumable state of the stage: fields of `TrainingState`."""
        return {
            "stage": self.position.number,
            "optimizer": self._optimizer.state_dict(),
            "bank": None if self._bank is None else self._bank.state_dict(),
            "totals": self._totals.state_dict(),
        }

    def load_state(self, optimizer: dict[str, Any], bank: dict[str, Tensor] | None, totals: dict[str, Tensor]) -> None:
        """Continue from a checkpoint of the same stage; the arguments are fields of `TrainingState`."""
        self._optimizer.load_state_dict(optimizer)
        self._totals.load_state_dict(totals)
        if self._bank is not None and bank is not None:
            self._bank.load_state_dict(bank)

    # ---- parts

    def _create_bank(self) -> MemoryBank | None:
        if self.settings.pairing.implementation != "memory-bank":
            return None
        has_others = self._images.clusterable is not None
        clusterable = torch.from_numpy(self._images.list_clusterable()) if has_others else None
        bank = MemoryBank(
            len(self._images),
            self.settings.model.clusters,
            self.settings.model.subheads,
            self.settings.pairing.bank_momentum,
            make_generator(self.settings.run.seed, "bank"),
            clusterable,
        )
        return bank.to(self._compute.device).to(self._network.mean.dtype)

    def _create_totals(self) -> EpochTotals:
        subheads, clusters = self.settings.model.subheads, self.settings.model.clusters
        comparable = subheads - self.settings.effective_unbalanced_subheads
        return EpochTotals(subheads, clusters, self._compute.device, comparable)
