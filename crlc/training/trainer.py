"""The training loop: one for every method. All that can be resumed is in `_state`; chance depends on seed and step."""

from __future__ import annotations

import math
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crlc.errors import CrlcError, UsageError
from crlc.memory_bank import MemoryBank
from crlc.progress import Progress
from crlc.training.assign import Assignments, assign
from crlc.training.batches import BatchMaker, LabelledImages
from crlc.training.checkpoint import load_checkpoint, save_checkpoint
from crlc.training.distributed import Compute, share_batch_norms, share_gradients
from crlc.training.epoch import INFORMATION, EpochTotals
from crlc.training.evaluation import measured
from crlc.training.health import shrunk_batch, warnings_of
from crlc.training.images import TrainingImages, require_enough
from crlc.training.inputs import Inputs
from crlc.training.journal import Journal, Length, Listener
from crlc.training.materials import build_network, components_in
from crlc.training.optimiser import make_optimiser
from crlc.training.randomness import generator_for
from crlc.training.run_folder import RunFolder
from crlc.training.schedule import learning_rate
from crlc.training.settings import NEIGHBOURS, TrainSettings
from crlc.training.speaking import subhead_by_neighbours
from crlc.training.stage_inputs import StageInputs
from crlc.training.stages import stages_of
from crlc.training.steps import Batch, StepOutcome, bank_step, pair_step

_EVALUATED_IMAGES = 10_000
_NO_MEMORY = re.compile("can't allocate memory|out of memory", re.IGNORECASE)
_LOOK_FOR_STOP_ON_GPU = 10


class TrainingError(CrlcError):
    """Training cannot go on; the last good checkpoint is kept."""


class _StoppedEarlyError(Exception):
    """Somebody wants the run to stop while a stage is being prepared."""


@dataclass(frozen=True)
class Extras:
    """What only some runs have."""

    evaluated: TrainingImages | None = None
    """Images to measure against their classes instead of those trained on."""

    labels: LabelledImages | None = None
    """What a person said of some images, for CRLC-semi."""

    first_weights: dict[str, Tensor] | None = None
    """For a run that goes on from another."""


class Trainer:
    """Trains one run to its end, to a stop, or to an error."""

    def __init__(
        self,
        images: TrainingImages,
        settings: TrainSettings,
        folder: RunFolder,
        compute: Compute,
        listener: Listener | None = None,
        extras: Extras | None = None,
    ) -> None:
        """Make the network, or take it from the run's checkpoint if there is one.

        Args:
            images: what to train on.
            settings: how.
            folder: where everything is written.
            compute: where, by whom, in which precision.
            listener: told how far it is.
            extras: what only some runs have.

        Raises:
            UsageError: too few images for the clusters.
        """
        require_enough(images, settings.clusters, compute.world.size)
        self.images, self.settings, self.folder = images, settings, folder
        self.device, self.world = device, world = compute.device, compute.world
        extras = extras or Extras()
        self._labels = extras.labels
        self._stop_requested = False
        self.stages = stages_of(settings)
        batch_size = max(world.size, min(settings.batch_size, len(images)) // world.size * world.size)
        epochs = sum(stage.settings.epochs for stage in self.stages)
        self.length = Length(batch_size, max(1, len(images) // batch_size), epochs)
        self.journal = Journal(folder, self.length, compute, listener or Listener())
        saved = load_checkpoint(folder.checkpoint_file, device) if folder.checkpoint_file.exists() else None
        known = saved["network"] if saved is not None else extras.first_weights
        self._built = build_network(settings, len(images), components=components_in(known))
        self.network = self._built.network.to(device, compute.dtype).to(memory_format=torch.channels_last)
        if not all(stage.on_features for stage in self.stages):
            share_batch_norms(self.network, world)
        self._inputs = StageInputs(self._built, images, extras.evaluated, settings, folder, compute)
        self.step, self.subhead, self.subhead_by_loss = 0, 0, 0
        self._stage_number = -1
        wide = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
        half = torch.bfloat16 if wide else torch.float16
        self._autocast = torch.autocast(device.type, dtype=half, enabled=device.type == "cuda")
        self._scaler = torch.amp.GradScaler(device.type, enabled=half == torch.float16)
        self._saved = saved
        if known is not None:
            self.network.load_learned_state(known)
        if saved is not None:
            self._restore(saved)
        elif world.is_writer:
            folder.cut_metrics(0)  # of a run that was cut off before its first checkpoint

    def request_stop(self, *_: object) -> None:
        """Stop after this step; also a signal handler."""
        self._stop_requested = True

    def run(self) -> str:
        """Train; returns `finished` or `stopped`.

        Raises:
            TrainingError: the loss is not a number, or memory ran out.
        """
        if self.world.is_writer:
            self.folder.forget_stop()
        self._last_checkpoint = time.monotonic()
        self.journal.status("running", self.step)
        try:
            while self.step < self.length.steps:
                self.train_step()
                if self._stopping():
                    self._save()
                    self.journal.status("stopped", self.step)
                    return "stopped"
                self._keep_up()
            self._finish()
        except _StoppedEarlyError:
            self.journal.status("stopped", self.step)  # nothing was trained since the last checkpoint
            return "stopped"
        except TrainingError:
            raise
        except Exception as error:
            if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _NO_MEMORY.search(str(error)):
                advice = "Train again with a smaller batch_size, image_size or backbone"
                raise self._failed(f"memory ran out. {advice}") from error
            self.journal.status("failed", self.step, message=str(error))
            raise
        return "finished"

    # ---- stages

    def _enter_stage(self) -> None:
        """Make ready what the stage of the present step needs, once."""
        number, begin = 0, 0
        while self.step >= begin + self.stages[number].settings.epochs * self.length.steps_per_epoch:
            begin += self.stages[number].settings.epochs * self.length.steps_per_epoch
            number += 1
        if number == self._stage_number:
            return
        self._stage_number, self._stage_begin, self.stage = number, begin, self.stages[number]
        self.journal.stage = self.stage.name
        self.journal.status("running", self.step)
        self.network.freeze_backbone(frozen=self.stage.on_features)
        inputs = self._inputs.enter(self.stage, self._prepared, fresh=self._saved is None)
        neighbours = None
        if self.stage.settings.pairs == NEIGHBOURS:
            neighbours = self._inputs.neighbours(self._look_at_all, self.stage, self._prepared)
        self._batches = BatchMaker(inputs, self.images, self.stage.settings, self.length.batch_size, self.world)
        self._batches.neighbours, self._batches.labels = neighbours, self._labels
        # Without a loss of its own the C-head must not shrink by weight decay alone.
        self.network.c_head.requires_grad_(self.stage.settings.clustering_weight > 0)
        self._optimiser = make_optimiser(self.network, self.stage.settings)
        self._bank = self._make_bank()
        self._model = share_gradients(self.network, self.world)
        self._totals = self._new_totals()
        if self._saved is not None and self._saved["stage"] == number:
            self._optimiser.load_state_dict(self._saved["optimiser"])
            self._totals.load_state_dict(self._saved["totals"])
            if self._bank is not None:
                self._bank.load_state_dict(self._saved["bank"])
        self._saved = None
        if self.step == begin and self.world.is_writer:
            self._write_beginning(number)

    def _prepared(self, progress: Progress) -> None:
        """Pass on how far a preparation is; it may be stopped as well, unless other processes wait for this one."""
        self.journal.preparation(progress, self.step)
        wanted = self._stop_requested or (self.world.is_writer and self.folder.stop_asked())
        if wanted and self.world.size == 1:
            raise _StoppedEarlyError

    def _write_beginning(self, number: int) -> None:
        found = {} if self._inputs.purity is None else {"neighbour_purity": self._inputs.purity}
        warnings = shrunk_batch(self.settings.batch_size, len(self.images)) if number == 0 else []
        self.journal.record("stage", self.step, **found, warnings=[warning.to_json() for warning in warnings])

    def _make_bank(self) -> MemoryBank | None:
        settings = self.stage.settings
        if settings.implementation != "memory-bank":
            return None
        clusterable = None
        if self.images.clusterable is not None:
            clusterable = torch.from_numpy(np.flatnonzero(self.images.clusterable))
        generator = generator_for(settings.seed, "bank")
        bank = MemoryBank(
            len(self.images), settings.clusters, settings.subheads, settings.bank_momentum, generator, clusterable
        )
        return bank.to(self.device).to(self.network.mean.dtype)

    def _new_totals(self) -> EpochTotals:
        settings = self.settings
        comparable = settings.subheads - settings.uneven
        return EpochTotals(settings.subheads, settings.clusters, self.device, comparable)

    # ---- one step

    def train_step(self) -> None:
        """One step of the run, with its lines of metrics."""
        self._enter_stage()
        started = time.monotonic()
        stage_step = self.step - self._stage_begin
        epoch, place = divmod(self.step, self.length.steps_per_epoch)
        if place == 0:
            self._totals = self._new_totals()
        self.network.train()
        rate = learning_rate(self.stage.settings, stage_step, self.length.steps_per_epoch)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        batch = self._batches.make(self.step, epoch, place)
        with self._autocast:
            outcome = self._objective(batch)
        self._require_finite(outcome.terms.total)
        self._optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(self._scaler.scale(outcome.terms.total * self.world.size))
        if self.settings.clip_norm:
            self._scaler.unscale_(self._optimiser)
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip_norm)
        self._scaler.step(self._optimiser)
        self._scaler.update()
        self._totals.add(outcome)
        self.step += 1
        if self.step % self.settings.log_steps == 0:
            self.journal.step(self.step, rate, outcome)
        if self.step % self.length.steps_per_epoch == 0:
            self._end_epoch(rate)
        self.journal.seconds += time.monotonic() - started  # with what is waited for and looked at

    def _objective(self, batch: Batch) -> StepOutcome:
        if self._bank is None:
            return pair_step(self._model, batch, self.stage.settings, self.world)
        return bank_step(self._model, batch, self.stage.settings, self._bank, self.world)

    def _require_finite(self, loss: Tensor) -> None:
        # On a GPU the look costs a wait for it, so it is not taken at every step.
        told = (self.step + 1) % self.settings.log_steps == 0 or (self.step + 1) % self.length.steps_per_epoch == 0
        looked_at = self.device.type == "cpu" or told
        if looked_at and not math.isfinite(float(loss.detach())):
            raise self._failed(
                f"the loss is not a number at step {self.step}. "
                "Train again with a lower learning_rate, or with clip_norm=5; "
                "the last good checkpoint is kept"
            )

    def _failed(self, message: str) -> TrainingError:
        self.journal.status("failed", self.step, message=message)
        return TrainingError(f"Training of {self.folder.id} stopped: {message}.")

    def _stopping(self) -> bool:
        """Whether somebody wants the run to stop; all processes answer alike."""
        if self.device.type != "cpu" and self.world.size > 1 and self.step % _LOOK_FOR_STOP_ON_GPU:
            return False
        return self.world.agreed(self._stop_requested or (self.world.is_writer and self.folder.stop_asked()))

    def _end_epoch(self, rate: float) -> None:
        epoch, epochs = self.length.epoch_of(self.step), self.length.epochs
        every = max(1, epochs // self.settings.evaluations)
        looks = self.stage.finds_clusters and epoch % every == 0 and epoch < epochs
        self.subhead_by_loss = self._totals.best_subhead()
        if looks or self._batches.neighbours is None:
            self._choose_subhead()
        metrics: dict[str, Any] = self._totals.metrics(self.subhead)
        if not self.stage.settings.feature_weight:
            metrics["feature"] = metrics["feature_bound"] = None  # not computed, which is not the same as zero
        if self._labels is None:
            metrics["labels"] = None
        if not self.stage.finds_clusters:
            metrics |= dict.fromkeys(INFORMATION)  # the C-head is not trained yet
        metrics["warnings"] = [warning.to_json() for warning in warnings_of(metrics, epoch / epochs)]
        if looks:
            metrics.update(self._evaluate(_EVALUATED_IMAGES, final=False))
        self.journal.record("epoch", self.step, learning_rate=rate, **metrics)

    # ---- looking at the clusters

    def _evaluate(self, most: int | None, *, final: bool) -> dict[str, Any]:
        """Write a result, and measure it; against classes only to report."""
        positions = None
        if most is not None and len(self.images) > most:
            positions = np.linspace(0, len(self.images) - 1, most).astype(np.int64)
        place = self.folder.new_result_folder(self.step, make=self.world.is_writer)
        self.world.wait()
        seen = assign(
            self.network, self._inputs.current, self.images.ids, self.subhead,
            positions=positions, folder=place, world=self.world,
        )  # fmt: skip
        facts = {"step": self.step, "subhead": self.subhead, "images": len(seen.ids), "of": len(self.images)}
        if self.world.is_writer:
            self.folder.publish_result(place, {**facts, "final": final})
        if self._inputs.evaluated is not None:
            return self._measure_others(*self._inputs.evaluated, most, final=final)
        classes = self.images.classes
        if classes is not None and positions is not None:
            classes = classes[positions]
        return measured(seen, classes, final=final)

    def _measure_others(
        self, images: TrainingImages, inputs: Inputs, most: int | None, *, final: bool
    ) -> dict[str, Any]:
        """Measure on images that were not trained on; their rows are not kept."""
        positions = np.linspace(0, len(images) - 1, min(len(images), most or len(images))).astype(np.int64)
        with tempfile.TemporaryDirectory(dir=self.folder.path, ignore_cleanup_errors=True) as place:
            seen = assign(self.network, inputs, images.ids, self.subhead, positions=positions, folder=Path(place))
            return measured(seen, None if images.classes is None else images.classes[positions], final=final)

    def _choose_subhead(self) -> None:
        """By the loss of the last epoch; or by the neighbours, where there are any."""
        self.subhead = self.subhead_by_loss
        if self._batches.neighbours is not None:
            uneven = self.settings.uneven
            self.subhead = subhead_by_neighbours(self.network, self._inputs.current, self._batches.neighbours, uneven)

    def _look_at_all(self, inputs: Inputs) -> Assignments:
        """For the neighbours between two stages: in files, deleted by whoever asked."""
        place = self.folder.new_result_folder(self.step, make=self.world.is_writer)
        self.world.wait()
        return assign(self.network, inputs, self.images.ids, 0, folder=place, world=self.world)

    def _finish(self) -> None:
        self._enter_last_stage()
        self._choose_subhead()
        self._save()  # before the last line: cut off from here on, a resumed run writes that line again
        last = self._totals.metrics(self.subhead)
        meters = {name: last[name] for name in ("cluster_information", "clusters_found", "largest_share", "subhead")}
        self.journal.record("end", self.step, **meters, **self._evaluate(None, final=True))
        if self.world.is_writer:
            self._inputs.clean_up()
        self.journal.status("finished", self.step)

    def _enter_last_stage(self) -> None:
        """A run that was cut off between its last step and its end has entered no stage yet."""
        if self._stage_number < 0:
            self.step -= 1
            self._enter_stage()
            self.step += 1

    # ---- keeping

    def _keep_up(self) -> None:
        # Processes look at clocks of their own: the first one's decides.
        due = time.monotonic() - self._last_checkpoint >= self.settings.checkpoint_seconds
        ends = self.step == self._stage_begin + self.stage.settings.epochs * self.length.steps_per_epoch
        if self.world.agreed(self.world.is_writer and due) or ends:
            self._save()
        self.journal.heartbeat(self.step)

    def _state(self) -> dict[str, Any]:
        return {
            "network": self.network.learned_state(),
            "optimiser": self._optimiser.state_dict(),
            "scaler": self._scaler.state_dict(),
            "bank": None if self._bank is None else self._bank.state_dict(),
            "totals": self._totals.state_dict(),
            "step": self.step,
            "batch_size": self.length.batch_size,
            "stage": self._stage_number,
            "subhead": self.subhead,
            "subhead_by_loss": self.subhead_by_loss,
            "latest": self.journal.latest,
            "seconds": self.journal.seconds,
            "metrics_length": self.folder.flush_metrics(),
            "settings": self.settings.to_json(),
        }

    def _save(self) -> None:
        """Write a checkpoint, but never one that could not go on.

        Raises:
            TrainingError: the weights are not numbers any more.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in self.network.parameters()):
            raise self._failed(
                f"the weights are not numbers any more at step {self.step}. Train again with a lower "
                "learning_rate, or with clip_norm=5; the last good checkpoint is kept"
            )
        if self.world.is_writer:
            save_checkpoint(self.folder.checkpoint_file, self._state())
        self._last_checkpoint = time.monotonic()

    def _restore(self, state: dict[str, Any]) -> None:
        if state["batch_size"] != self.length.batch_size:
            raise UsageError(
                f"{self.folder.id} was trained with batches of {state['batch_size']}, now they would be of "
                f"{self.length.batch_size}. Resume it with as many processes as before."
            )
        self._scaler.load_state_dict(state["scaler"])
        self.step, self.subhead, self.subhead_by_loss = state["step"], state["subhead"], state["subhead_by_loss"]
        self.journal.latest, self.journal.seconds = state["latest"], state["seconds"]
        if self.world.is_writer:
            self.folder.cut_metrics(state["metrics_length"])
