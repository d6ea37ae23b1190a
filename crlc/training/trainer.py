"""The training loop. All that can be resumed is in `_state`; chance depends only on seed and step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from crlc.analysis.agreement import agreement, mean_pairwise_nmi
from crlc.data.augment import RECIPES, suitable_recipe
from crlc.errors import CrlcError
from crlc.memory_bank import MemoryBank
from crlc.model import CrlcNetwork
from crlc.training.assign import Assignments, assign
from crlc.training.checkpoint import load_checkpoint, save_checkpoint
from crlc.training.epoch import EpochTotals
from crlc.training.images import TrainingImages, require_enough
from crlc.training.optimiser import make_optimiser
from crlc.training.randomness import generator_for
from crlc.training.run_folder import RunFolder
from crlc.training.schedule import learning_rate
from crlc.training.settings import TrainSettings
from crlc.training.steps import Batch, StepOutcome, candidates, memory_bank_step, simclr_step

_EVALUATED_IMAGES = 10_000
_SAMPLED_FOR_RECIPE = 64
_AGREEMENT_IMAGES = 2_000
_STATUS_SECONDS = 2.0


class TrainingError(CrlcError):
    """Training cannot go on; the last good checkpoint is kept."""


@dataclass(frozen=True)
class TrainProgress:
    """How far a run is."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    cluster_information: float | None
    """Of the last whole epoch."""

    images_per_second: float
    seconds_left: float


def ignore_progress(_: TrainProgress) -> None:
    """Listen to nothing."""


class Trainer:
    """Trains one run to its end, to a stop, or to an error."""

    def __init__(
        self,
        images: TrainingImages,
        settings: TrainSettings,
        folder: RunFolder,
        device: torch.device,
        report: Callable[[TrainProgress], None] = ignore_progress,
    ) -> None:
        """Make the network, or take it from the run's checkpoint if there is one.

        Raises:
            UsageError: too few images for the clusters.
        """
        require_enough(images, settings.clusters)
        self.images, self.settings, self.folder, self.device = images, settings, folder, device
        self._report = report
        self._stop_requested = False
        self.batch_size = min(settings.batch_size, len(images))
        self.steps_per_epoch = max(1, len(images) // self.batch_size)
        self.total_steps = settings.epochs * self.steps_per_epoch
        recipe = suitable_recipe(images.sample(_SAMPLED_FOR_RECIPE)) if settings.augment == "auto" else settings.augment
        self.recipe_name, self._recipe = recipe, RECIPES[recipe]
        self._build()
        if folder.checkpoint_file.exists():
            self._resume()
        else:
            folder.cut_metrics(0)  # of a run that was cut off before its first checkpoint

    def request_stop(self, *_: object) -> None:
        """Stop after this step; also a signal handler."""
        self._stop_requested = True

    def run(self) -> str:
        """Train; returns `finished` or `stopped`.

        Raises:
            TrainingError: the loss is not a number, or memory ran out.
        """
        self.folder.forget_stop()
        self._last_checkpoint = self._last_status = time.monotonic()
        self._status("running")
        try:
            while self.step < self.total_steps:
                self.train_step()
                if self._stop_requested or self.folder.stop_asked():
                    self._save()
                    self._status("stopped")
                    return "stopped"
                self._keep_up()
            self._finish()
        except TrainingError:
            raise
        except Exception as error:
            if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
                advice = "Train again with a smaller one of --set batch_size, --set image_size or --backbone"
                raise self._failed(f"memory ran out. {advice}") from error
            self._status("failed", message=str(error))
            raise
        return "finished"

    # ---- set-up

    def _build(self) -> None:
        settings = self.settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator_for(settings.seed, "weights").initial_seed())
            network = CrlcNetwork(settings.backbone, self.images.size, settings.clusters, settings.subheads)
        self.network = network.to(self.device).to(memory_format=torch.channels_last)
        self._optimiser = make_optimiser(self.network, settings)
        self._bank: MemoryBank | None = None
        if settings.implementation == "memory-bank":
            generator = generator_for(settings.seed, "bank")
            bank = MemoryBank(len(self.images), settings.clusters, settings.subheads, settings.bank_momentum, generator)
            self._bank = bank.to(self.device)
        self._totals = self._new_totals()
        wide = self.device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
        half = torch.bfloat16 if wide else torch.float16
        self._autocast = torch.autocast(self.device.type, dtype=half, enabled=self.device.type == "cuda")
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=half == torch.float16)
        self.step = 0
        self.subhead = 0
        self.last_metrics: dict[str, Any] = {}
        self.seconds = 0.0
        self._order_epoch = -1

    def _new_totals(self) -> EpochTotals:
        return EpochTotals(self.settings.subheads, self.settings.clusters, self.device)

    # ---- one step

    def train_step(self) -> None:
        """One step of the run, with its lines of metrics."""
        started = time.monotonic()
        if self.step % self.steps_per_epoch == 0:
            self._totals = self._new_totals()
        self.network.train()
        rate = learning_rate(self.settings, self.step, self.steps_per_epoch)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        batch = self._batch()
        with self._autocast:
            outcome = self._objective(batch)
        self._require_finite(outcome.terms.total)
        self._optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(self._scaler.scale(outcome.terms.total))
        if self.settings.clip_norm:
            self._scaler.unscale_(self._optimiser)
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip_norm)
        self._scaler.step(self._optimiser)
        self._scaler.update()
        self._totals.add(outcome)
        self.step += 1
        self._log(outcome, rate)
        self.seconds += time.monotonic() - started  # with what is waited for and looked at

    def _batch(self) -> Batch:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        if epoch != self._order_epoch:
            generator = generator_for(self.settings.seed, "order", epoch)
            self._order, self._order_epoch = torch.randperm(len(self.images), generator=generator), epoch
        positions = self._order[place * self.batch_size : (place + 1) * self.batch_size]
        clusterable = None
        if self.images.clusterable is not None:
            clusterable = torch.from_numpy(self.images.clusterable[positions.numpy()]).to(self.device)
        return Batch(
            self.images.batch(positions, self.device),
            positions.to(self.device),
            clusterable,
            generator_for(self.settings.seed, "step", self.step),
        )

    def _objective(self, batch: Batch) -> StepOutcome:
        if self._bank is None:
            return simclr_step(self.network, batch, self._recipe, self.settings)
        return memory_bank_step(self.network, batch, self._recipe, self.settings, self._bank)

    def _require_finite(self, loss: Tensor) -> None:
        # On a GPU the look costs a wait for it, so it is not taken at every step.
        looked_at = self.device.type == "cpu" or (self.step + 1) % self.settings.log_steps == 0
        if looked_at and not math.isfinite(float(loss.detach())):
            raise self._failed(
                f"the loss is not a number at step {self.step}. "
                "Train again with a lower learning rate (--set learning_rate=...) or with --set clip_norm=5; "
                "the last good checkpoint is kept"
            )

    def _failed(self, message: str) -> TrainingError:
        self._status("failed", message=message)
        return TrainingError(f"Training of {self.folder.id} stopped: {message}.")

    # ---- telling

    def _log(self, outcome: StepOutcome, rate: float) -> None:
        epoch = (self.step - 1) // self.steps_per_epoch
        if self.step % self.settings.log_steps == 0:
            terms = outcome.terms
            self.folder.append_metrics(
                {
                    "kind": "step",
                    "step": self.step,
                    "epoch": epoch + 1,
                    "learning_rate": rate,
                    "loss": float(terms.total.detach()),
                    "probability": float(terms.probability.detach().mean()),
                    "entropy": float(terms.entropy.detach().mean()),
                    "penalty": float(terms.penalty.detach().mean()),
                    "feature": float(terms.feature.detach()),
                }
            )
            self._tell(float(terms.total.detach()))
        if self.step % self.steps_per_epoch == 0:
            self._end_epoch(epoch + 1, rate)

    def _tell(self, loss: float) -> None:
        per_second = self.step * self.batch_size / max(self.seconds, 1e-9)
        left = (self.total_steps - self.step) * self.batch_size / max(per_second, 1e-9)
        information = self.last_metrics.get("cluster_information")
        epoch = min(self.step // self.steps_per_epoch + 1, self.settings.epochs)
        self._report(
            TrainProgress(epoch, self.settings.epochs, self.step, self.total_steps, loss, information, per_second, left)
        )

    def _end_epoch(self, epoch: int, rate: float) -> None:
        metrics: dict[str, Any] = self._totals.metrics(candidates(self.settings, self.batch_size))
        if not self.settings.feature_weight:
            metrics["feature"] = metrics["feature_bound"] = None  # not computed, which is not the same as zero
        self.subhead = int(metrics["subhead"])
        record: dict[str, Any] = {"kind": "epoch", "step": self.step, "epoch": epoch, "learning_rate": rate, **metrics}
        every = max(1, self.settings.epochs // self.settings.evaluations)
        if epoch % every == 0 and epoch < self.settings.epochs:
            record.update(self._evaluate(self._look(_EVALUATED_IMAGES), final=False))
        self._write_epoch(record)

    def _write_epoch(self, record: dict[str, Any]) -> None:
        timing = {
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.step * self.batch_size / max(self.seconds, 1e-9), 1),
            "memory_mb": round(peak_memory_mb(self.device), 1),
        }
        self.last_metrics = {**self.last_metrics, **record, **timing}
        self.folder.append_metrics({**record, "timing": timing})

    # ---- looking at the clusters

    def _look(self, most: int | None) -> Assignments:
        positions = None
        if most is not None and len(self.images) > most:
            positions = np.linspace(0, len(self.images) - 1, most).astype(np.int64)
        return assign(self.network, self.images, self.subhead, self.device, positions, 2 * self.batch_size)

    def _evaluate(self, seen: Assignments, *, final: bool) -> dict[str, Any]:
        """Write the result, and measure it; against classes only to report."""
        facts = {
            "step": self.step,
            "subhead": self.subhead,
            "images": len(seen.ids),
            "of": len(self.images),
            "final": final,
        }
        self.folder.write_result(seen.arrays(), facts)
        measured: dict[str, Any] = {"subhead_agreement": mean_pairwise_nmi(seen.by_subhead[:, :_AGREEMENT_IMAGES])}
        if self.images.classes is not None:
            where = np.searchsorted(self.images.ids, seen.ids)
            classes = self.images.classes[where]
            found = agreement(seen.clusters, classes)
            if found is not None:
                measured.update(found._asdict())
            if final:
                each = (agreement(clusters, classes) for clusters in seen.by_subhead)
                measured["acc_by_subhead"] = [round(one.acc, 4) for one in each if one is not None]
        return measured

    def _finish(self) -> None:
        self._save()  # before the last line: cut off from here on, a resumed run writes that line again
        record = {"kind": "end", "step": self.step, "epoch": self.settings.epochs}
        self._write_epoch({**record, **self._evaluate(self._look(None), final=True)})
        self._status("finished")

    # ---- keeping

    def _keep_up(self) -> None:
        now = time.monotonic()
        if now - self._last_checkpoint >= self.settings.checkpoint_seconds:
            self._save()
        if now - self._last_status >= _STATUS_SECONDS:
            self._status("running")

    def _status(self, state: str, **facts: Any) -> None:
        self._last_status = time.monotonic()
        place = {"epoch": self.step // self.steps_per_epoch, "epochs": self.settings.epochs, "step": self.step}
        self.folder.write_status(state, **place, steps=self.total_steps, **facts)

    def _state(self) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "scaler": self._scaler.state_dict(),
            "bank": None if self._bank is None else self._bank.state_dict(),
            "totals": self._totals.state_dict(),
            "step": self.step,
            "subhead": self.subhead,
            "last_metrics": self.last_metrics,
            "seconds": self.seconds,
            "metrics_length": self.folder.metrics_length(),
            "settings": self.settings.to_json(),
        }

    def _save(self) -> None:
        """Write a checkpoint, but never one that could not go on.

        Raises:
            TrainingError: the weights are not numbers any more.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in self.network.parameters()):
            raise self._failed(
                f"the weights are not numbers any more at step {self.step}. Train again with a lower learning rate "
                "(--set learning_rate=...) or with --set clip_norm=5; the last good checkpoint is kept"
            )
        save_checkpoint(self.folder.checkpoint_file, self._state())
        self._last_checkpoint = time.monotonic()

    def _resume(self) -> None:
        state = load_checkpoint(self.folder.checkpoint_file, self.device)
        self.network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._scaler.load_state_dict(state["scaler"])
        if self._bank is not None:
            self._bank.load_state_dict(state["bank"])
        self._totals.load_state_dict(state["totals"])
        self.step, self.subhead, self.seconds = state["step"], state["subhead"], state["seconds"]
        self.last_metrics = state["last_metrics"]
        self.folder.cut_metrics(state["metrics_length"])


def peak_memory_mb(device: torch.device) -> float:
    """The most memory this process (on a GPU: the device) has held, in megabytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset) / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
