"""The training loop of a run, one for every method.

Its resumable state is `TrainingState`; random draws depend only on the seed and the step. With the same seed and number
of threads, an interrupted run therefore ends with the same metrics as an uninterrupted one.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crlc.errors import CrlcError, UsageError, explain_disk_full, explain_system_error, is_out_of_memory
from crlc.progress import Progress
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.batches import LabelTargets
from crlc.training.checkpoint import TrainingState, explain_damaged_checkpoint
from crlc.training.distributed import ComputeContext, synchronize_batch_norms
from crlc.training.evaluation import Evaluator
from crlc.training.health import find_batch_warnings, find_warnings
from crlc.training.images import TrainingImages, require_enough_images
from crlc.training.metric_names import FINAL_EPOCH_METRICS, ORACLE_ACC, ORACLE_ACC_ANY_EPOCH
from crlc.training.mixed_precision import MixedPrecision
from crlc.training.network_builder import build_network, count_components
from crlc.training.run_length import StagePosition, count_batch_images, plan_length
from crlc.training.run_logger import ProgressListener, RunLogger
from crlc.training.settings import TrainSettings
from crlc.training.stage_data import StageData
from crlc.training.stage_runner import StageRunner
from crlc.training.stages import plan_stages

MAX_EVALUATED_IMAGES = 10_000
"""Maximum number of images in an evaluation during training; the final one uses all images."""

_GPU_CHECK_STEPS = 10
_DIVERGENCE_ADVICE = "Train again with a lower learning_rate, or with clip_norm=5. The last good checkpoint is kept."
_MEMORY_ADVICE = "Train again with a smaller batch_size, image_size or backbone."


class TrainingError(CrlcError):
    """Training cannot continue; the last good checkpoint is kept."""


class _PreparationStoppedError(Exception):
    """Raised when a stop is requested during stage preparation."""


@dataclass(frozen=True)
class OptionalInputs:
    """Inputs that only some runs have."""

    evaluation_images: TrainingImages | None = None
    """Images to evaluate on; `None` for the images trained on."""

    labels: LabelTargets | None = None
    """Labelled images, for CRLC-semi."""

    initial_weights: dict[str, Tensor] | None = None
    """Weights of the network of a parent run."""


class Trainer:
    """Trains one run until it is finished, stopped or failed."""

    def __init__(
        self,
        images: TrainingImages,
        settings: TrainSettings,
        folder: RunFolder,
        compute: ComputeContext,
        listener: ProgressListener | None = None,
        optional_inputs: OptionalInputs | None = None,
    ) -> None:
        """Build the network, and restore the state of the run's checkpoint if there is one.

        Args:
            images: the images to train on.
            settings: settings of the run.
            folder: folder of the run, for all files.
            compute: device, processes and precision.
            listener: called with the progress.
            optional_inputs: evaluation images, labels, and weights of a parent run.

        Raises:
            UsageError: there are fewer images than clusters, or the checkpoint was written with another batch size.
        """
        require_enough_images(images, settings.model.clusters, compute.world.size)
        optional = optional_inputs or OptionalInputs()
        self.images, self.settings, self.folder = images, settings, folder
        self.device, self.world = compute.device, compute.world
        self._compute, self._labels = compute, optional.labels
        self._stop_requested = False
        self.stages = plan_stages(settings)
        self.length = plan_length(self.stages, images, settings, compute.world.size)
        self.logger = RunLogger(folder, self.length, compute, listener or ProgressListener())
        self._precision = MixedPrecision(compute.device, enabled=settings.optimization.mixed_precision)
        checkpoint = folder.checkpoint_file
        restored = TrainingState.load(checkpoint) if checkpoint.exists() else None
        weights = restored.network if restored is not None else optional.initial_weights
        built = build_network(settings, len(images), components=count_components(weights))
        self.network = built.network.to(compute.device, compute.dtype).to(memory_format=torch.channels_last)
        if not all(stage.freezes_backbone for stage in self.stages):
            synchronize_batch_norms(self.network, compute.world)
        self._data = StageData(built, images, optional.evaluation_images, settings, folder, compute)
        self._evaluator = Evaluator(self.network, self._data, folder, compute.world, optional.labels)
        self._runner: StageRunner | None = None
        self._restored: TrainingState | None = None
        self.step, self.subhead, self.subhead_by_loss = 0, 0, 0
        self._is_result_selected = False
        self._last_checkpoint = time.monotonic()
        if weights is not None:
            with explain_damaged_checkpoint(checkpoint):
                self.network.load_learned_state(weights)
        if restored is not None:
            self._restore_state(restored)
        elif compute.world.is_rank_zero:
            folder.metrics_log.truncate(0)  # records of a run that was interrupted before its first checkpoint

    def request_stop(self, *_: object) -> None:
        """Stop after the current step; can be used as a signal handler."""
        self._stop_requested = True

    def run(self) -> RunState:
        """Train until the run is finished or a stop is requested.

        Returns:
            `finished` or `stopped`.

        Raises:
            TrainingError: the loss or the weights are not finite, or memory ran out.
        """
        if self.world.is_rank_zero:
            self.folder.clear_stop_request()
        self._last_checkpoint = time.monotonic()
        self.logger.write_status(RunState.RUNNING, self.step)
        try:
            with explain_disk_full(self.folder.path):
                return self._train()
        except _PreparationStoppedError:
            self.logger.write_status(RunState.STOPPED, self.step)  # nothing was trained since the last checkpoint
            return RunState.STOPPED
        except TrainingError:
            raise
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError) or is_out_of_memory(error):
                raise self._fail("memory ran out", _MEMORY_ADVICE) from error
            with suppress(OSError):  # a full disk: the error of training must not be replaced by that of its status
                explained = explain_system_error(error, self.folder.path) or error
                self.logger.write_status(RunState.FAILED, self.step, message=str(explained))
            raise

    def _train(self) -> RunState:
        while self.step < self.length.steps:
            self.train_step()
            if self._is_stop_requested():
                self.save_checkpoint()
                self.logger.write_status(RunState.STOPPED, self.step)
                return RunState.STOPPED
            self._save_if_due()
            self.logger.write_heartbeat(self.step)
        self._finish()
        return RunState.FINISHED

    def train_step(self) -> None:
        """Train one step, and log its metrics and those of an epoch that ends with it."""
        runner = self._enter_stage()
        started = time.monotonic()
        outcome = runner.compute_objective(self.step)
        self._require_finite(outcome.terms.total)
        runner.update_weights(outcome)
        self.step += 1
        trained = time.monotonic()
        self.logger.seconds += trained - started  # before logging, which reports the speed
        if self.step % self.settings.run.log_steps == 0:
            self.logger.log_step(self.step, runner.learning_rate, outcome)
        if self.length.is_epoch_end(self.step):
            self._end_epoch(runner)
        self.logger.seconds += time.monotonic() - trained  # evaluations

    # ---- stages and epochs

    def _enter_stage(self) -> StageRunner:
        """Return the runner of the stage that the current step belongs to; prepare the stage if it is new."""
        position = self.length.locate_stage(self.stages, self.step)
        if self._runner is not None and self._runner.position.number == position.number:
            return self._runner
        self._runner = self._prepare_stage(position)
        if self.step == position.first_step and self.world.is_rank_zero:
            self._log_stage_start(position.number)
        return self._runner

    def _prepare_stage(self, position: StagePosition) -> StageRunner:
        """Load the inputs and neighbours of a stage, and create its runner with the state of the checkpoint."""
        stage, restored = position.stage, self._restored
        self.logger.stage = stage.name
        self.logger.write_status(RunState.RUNNING, self.step)
        self.network.set_backbone_frozen(frozen=stage.freezes_backbone)
        self._data.load_stage(stage, self.step, self._report_preparation, fit_projection=restored is None)
        labels = self._labels
        if labels is not None and stage.uses_pseudo_labels:
            labels = self._data.add_pseudo_labels(labels)
        runner = StageRunner(
            position, self.network, self._data, self.length.batch_size, self._compute, self._precision, labels
        )
        if restored is not None and restored.stage == position.number:
            with explain_damaged_checkpoint(self.folder.checkpoint_file):
                runner.load_state(restored.optimizer, restored.bank, restored.totals)
        self._restored = None
        return runner

    def _report_preparation(self, progress: Progress) -> None:
        """Report the progress of a preparation, and stop it on request unless other processes wait for this one."""
        self.logger.report_preparation(progress, self.step)
        if self.world.size == 1 and self._is_stop_requested_here():
            raise _PreparationStoppedError

    def _log_stage_start(self, number: int) -> None:
        purity = self._data.neighbour_purity
        metrics = {} if purity is None else {"neighbour_purity": purity}
        warnings = []
        if number == 0:
            available = count_batch_images(self.stages, self.images, self.settings)
            warnings = find_batch_warnings(self.settings.data.batch_size, len(self.images), available)
        self.logger.log_record("stage", self.step, **metrics, warnings=[warning.to_json() for warning in warnings])

    def _end_epoch(self, runner: StageRunner) -> None:
        epoch, epochs = self.length.count_epochs(self.step), self.length.epochs
        interval = max(1, epochs // self.settings.run.evaluations)
        is_evaluated = runner.stage.trains_c_head and epoch % interval == 0 and epoch < epochs
        self.subhead_by_loss = runner.find_lowest_loss_subhead()
        if is_evaluated or runner.neighbours is None:
            self.subhead = runner.select_result_subhead(self.subhead_by_loss)
        metrics = runner.compute_epoch_metrics(self.subhead)
        metrics["warnings"] = [warning.to_json() for warning in find_warnings(metrics, epoch / epochs)]
        if is_evaluated:
            metrics |= self._evaluate(MAX_EVALUATED_IMAGES, final=False)
        self.logger.log_record("epoch", self.step, learning_rate=runner.learning_rate, **metrics)

    def _evaluate(self, max_images: int | None = None, *, final: bool) -> dict[str, Any]:
        """Publish a result, and return its metrics with the highest oracle ACC of all evaluations so far."""
        epoch = self.length.count_epochs(self.step)
        metrics = self._evaluator.evaluate(self.step, epoch, self.subhead, max_images, final=final)
        if ORACLE_ACC in metrics:
            before = self.logger.latest_metrics.get(ORACLE_ACC_ANY_EPOCH, 0.0)
            metrics[ORACLE_ACC_ANY_EPOCH] = max(before, metrics[ORACLE_ACC])
        return metrics

    def _finish(self) -> None:
        """Select the subhead, save the last checkpoint, and write the final result and metrics."""
        runner = self._enter_stage()
        if not self._is_result_selected:
            self.subhead = runner.select_result_subhead(self.subhead_by_loss)
            runner.distil_consensus(self.subhead)
            self._is_result_selected = True
        # Save before writing the last record: a run that is interrupted after this line writes the record when resumed.
        self.save_checkpoint()
        last_epoch = runner.compute_epoch_metrics(self.subhead)
        metrics = {name: last_epoch[name] for name in FINAL_EPOCH_METRICS}
        metrics |= self._evaluate(final=True)
        self.logger.log_record("end", self.step, **metrics)
        if self.world.is_rank_zero:
            self._data.delete_training_files()
        self.logger.write_status(RunState.FINISHED, self.step)

    # ---- stopping and failing

    def _is_stop_requested_here(self) -> bool:
        return self._stop_requested or (self.world.is_rank_zero and self.folder.is_stop_requested())

    def _is_stop_requested(self) -> bool:
        return self._is_check_due() and self.world.any_rank(self._is_stop_requested_here())

    def _is_check_due(self) -> bool:
        """Return whether the processes compare notes: with several GPUs only every tenth step, because all wait."""
        return self.device.type == "cpu" or self.world.size == 1 or self.step % _GPU_CHECK_STEPS == 0

    def _require_finite(self, loss: Tensor) -> None:
        # On a GPU, reading the loss waits for the step to finish, so it is read only at logged steps.
        step = self.step + 1
        is_logged = step % self.settings.run.log_steps == 0 or self.length.is_epoch_end(step)
        if (self.device.type == "cpu" or is_logged) and not math.isfinite(float(loss.detach())):
            raise self._fail(f"the loss is not finite at step {self.step}", _DIVERGENCE_ADVICE)

    def _fail(self, reason: str, advice: str) -> TrainingError:
        """Write the status of a failed run, and return its error."""
        self.logger.write_status(RunState.FAILED, self.step, message=f"{reason}. {advice}")
        return TrainingError(f"Training of {self.folder.id} stopped: {reason}.", advice=advice)

    # ---- checkpoints

    def save_checkpoint(self) -> None:
        """Write a checkpoint, unless training could not continue from it.

        Raises:
            TrainingError: some weights are not finite.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in self.network.parameters()):
            raise self._fail(f"the weights are not finite at step {self.step}", _DIVERGENCE_ADVICE)
        if self.world.is_rank_zero:
            self._capture_state().save(self.folder.checkpoint_file)
        self._last_checkpoint = time.monotonic()

    def _save_if_due(self) -> None:
        assert self._runner is not None
        is_due = time.monotonic() - self._last_checkpoint >= self.settings.run.checkpoint_seconds
        is_stage_end = self.step == self._runner.position.end_step
        # Rank 0 decides: clocks differ between processes.
        if is_stage_end or (self._is_check_due() and self.world.any_rank(self.world.is_rank_zero and is_due)):
            self.save_checkpoint()

    def _capture_state(self) -> TrainingState:
        assert self._runner is not None
        return TrainingState(
            settings=self.settings.to_json(),
            batch_size=self.length.batch_size,
            step=self.step,
            network=self.network.export_learned_state(),
            scaler=self._precision.scaler.state_dict(),
            subhead=self.subhead,
            subhead_by_loss=self.subhead_by_loss,
            latest_metrics=self.logger.latest_metrics,
            seconds=self.logger.seconds,
            metrics_length=self.folder.metrics_log.flush(),
            is_result_selected=self._is_result_selected,
            **self._runner.export_state(),
        )

    def _restore_state(self, state: TrainingState) -> None:
        """Continue from a checkpoint; the state of its stage is loaded when the stage is entered."""
        if state.batch_size != self.length.batch_size:
            raise UsageError(
                f"{self.folder.id} was trained with batch_size={state.batch_size}, but it would be "
                f"{self.length.batch_size} now.",
                advice="Resume it with as many processes as before.",
            )
        self._restored = state
        with explain_damaged_checkpoint(self.folder.checkpoint_file):
            self._precision.load_scaler_state(state.scaler)
        self.step, self.subhead, self.subhead_by_loss = state.step, state.subhead, state.subhead_by_loss
        self._is_result_selected = state.is_result_selected
        self.logger.latest_metrics, self.logger.seconds = state.latest_metrics, state.seconds
        if self.world.is_rank_zero:
            self.folder.metrics_log.truncate(state.metrics_length)
