"""The trainer: it learns, repeats itself exactly, goes on after a kill, and refuses what cannot work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.errors import UsageError
from crlc.memory_bank import MemoryBank
from crlc.model import CrlcNetwork, make_backbone
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, images_from_array
from crlc.training.journal import Listener
from crlc.training.randomness import generator_for
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.steps import Batch, bank_step, pair_step
from crlc.training.trainer import Trainer, TrainingError
from tests.conftest import ROOT
from tests.training.conftest import Whole

CPU = Compute(torch.device("cpu"))
TINY = TrainSettings(
    clusters=4, epochs=6, batch_size=32, image_size=16, subheads=3, feature_weight=1.0, augment="glyph", log_steps=2
)


def shapes(count: int = 96) -> TrainingImages:
    """Four kinds of grey pictures, a little different each: bars, columns, a disc, a frame."""
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:16, :16]
    kinds = [
        (y // 3) % 2,
        (x // 3) % 2,
        (x - 7.5) ** 2 + (y - 7.5) ** 2 < 25,
        (np.maximum(abs(x - 7.5), abs(y - 7.5)) > 5),
    ]
    pictures = np.stack([kinds[number % 4] * 200.0 + generator.normal(20, 8, (16, 16)) for number in range(count)])
    pixels = pictures.clip(0, 255).astype(np.uint8)[..., None].repeat(3, axis=3)
    return replace(images_from_array(pixels), classes=np.arange(count) % 4)


def trained(folder: Path, settings: TrainSettings = TINY, images: TrainingImages | None = None) -> Trainer:
    torch.set_num_threads(1)
    trainer = Trainer(images or shapes(), settings, RunFolder(folder), CPU)
    folder.mkdir(parents=True, exist_ok=True)
    trainer.run()
    return trainer


def lines(folder: Path) -> list[dict]:
    """The metrics, without what depends on the clock."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "timing"} for record in records]


# ---- learning


@pytest.mark.parametrize("implementation", ["simclr", "memory-bank"])
def test_it_finds_four_kinds_of_shapes(tmp_path: Path, implementation: str):
    settings = replace(TINY, epochs=60, implementation=implementation, bank_negatives=64)
    trainer = trained(tmp_path / "run", settings)
    metrics = trainer.journal.latest
    assert metrics["acc"] > 0.9
    assert metrics["cluster_information"] > 0.7
    assert metrics["clusters_found"] == 4
    assert metrics["largest_share"] < 0.4


def test_the_result_is_complete_and_consistent(tmp_path: Path):
    trained(tmp_path / "run")
    arrays, facts = RunFolder(tmp_path / "run").result()
    assert facts["final"]
    assert (facts["images"], facts["of"]) == (96, 96)
    assert arrays["q"].shape == (96, 4)
    assert arrays["z"].shape == (96, 128)
    assert arrays["h"].shape == (96, 64)
    np.testing.assert_allclose(arrays["q"].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(arrays["z"], axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(arrays["cluster"], arrays["q"].argmax(axis=1))
    np.testing.assert_array_equal(arrays["confidence"], arrays["q"].max(axis=1))
    assert len(list((tmp_path / "run").glob("result-*"))) == 1


def test_metrics_have_every_term_for_steps_and_epochs(tmp_path: Path):
    trained(tmp_path / "run")
    records = lines(tmp_path / "run")
    steps = [record for record in records if record["kind"] == "step"]
    epochs = [record for record in records if record["kind"] == "epoch"]
    assert len(epochs) == 6
    assert [record["step"] for record in steps] == list(range(2, 19, 2))  # 3 steps an epoch, every second
    assert {"loss", "probability", "entropy", "penalty", "feature", "learning_rate"} <= set(steps[0])
    assert {"cluster_information", "clusters_found", "largest_share", "probability_bound", "feature_bound"} <= set(
        epochs[0]
    )
    assert {"acc", "nmi", "ari", "subhead_agreement", "acc_by_subhead"} <= set(records[-1])
    assert len(records[-1]["acc_by_subhead"]) == 3


def test_without_classes_no_accuracy_is_made_up(tmp_path: Path):
    trainer = trained(tmp_path / "run", images=replace(shapes(), classes=None))
    assert "acc" not in trainer.journal.latest
    assert not any("acc" in record for record in lines(tmp_path / "run"))


def test_classes_change_nothing_but_the_report(tmp_path: Path):
    trained(tmp_path / "with")
    trained(tmp_path / "without", images=replace(shapes(), classes=np.zeros(96, dtype=np.int64)))
    for name in ("q", "z"):
        np.testing.assert_array_equal(
            RunFolder(tmp_path / "with").result()[0][name], RunFolder(tmp_path / "without").result()[0][name]
        )


# ---- exactness


@pytest.mark.parametrize("implementation", ["simclr", "memory-bank"])
def test_the_same_seed_gives_the_same_run(tmp_path: Path, implementation: str):
    settings = replace(TINY, implementation=implementation, bank_negatives=64)
    trained(tmp_path / "one", settings)
    trained(tmp_path / "two", settings)
    trained(tmp_path / "other", replace(settings, seed=1))
    assert lines(tmp_path / "one") == lines(tmp_path / "two")
    assert lines(tmp_path / "one") != lines(tmp_path / "other")


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
import torch
from dataclasses import replace
from tests.training.test_trainer import TINY, shapes, CPU
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer

torch.set_num_threads(1)
folder, implementation, fatal_step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)

class Doomed(Trainer):
    def train_step(self):
        super().train_step()
        if self.step == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

pause = 0.0 if fatal_step % 2 else 0.05
settings = replace(TINY, implementation=implementation, bank_negatives=64, checkpoint_seconds=pause)
Doomed(shapes(), settings, RunFolder(folder), CPU).run()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("implementation", "fatal_step"), [("simclr", 1), ("simclr", 9), ("simclr", 18), ("memory-bank", 7)]
)
def test_a_killed_run_goes_on_exactly(tmp_path: Path, whole: Whole, implementation: str, fatal_step: int):
    settings = replace(TINY, implementation=implementation, bank_negatives=64)
    command = [sys.executable, "-c", KILLED_RUN, str(tmp_path / "cut"), implementation, str(fatal_step), str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr
    status = RunFolder(tmp_path / "cut").status()
    assert status["state"] == "failed"
    assert "interrupted" in status["message"]
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "step", "torn')  # as a kill in the middle of a write leaves it
    trained(tmp_path / "cut", settings)
    assert lines(tmp_path / "cut") == lines(whole(settings))
    np.testing.assert_array_equal(
        RunFolder(tmp_path / "cut").result()[0]["q"], RunFolder(whole(settings)).result()[0]["q"]
    )


KILLED_WHILE_KEEPING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import torch
from dataclasses import replace
from tests.training.test_trainer import TINY, shapes, CPU
from crlc.training import checkpoint
from crlc.training.journal import Journal
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer

torch.set_num_threads(1)
folder, moment = Path(sys.argv[1]), sys.argv[2]
folder.mkdir(parents=True, exist_ok=True)
save, record, publish, saved = torch.save, Journal.record, RunFolder.publish_result, []

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def half_a_checkpoint(content, stream):
    saved.append(content)
    if moment == "half a checkpoint" and len(saved) == 3:
        stream.write(b"PK half of it")
        stream.flush()
        die()
    save(content, stream)

def at_the_end(self, kind, *args, **content):
    if kind == "end" and moment == "before the last line":
        die()
    record(self, kind, *args, **content)
    if kind == "end" and moment == "after the last line":
        die()

def at_a_result(self, place, facts):
    if moment == "before a result is published" and self.checkpoint_file.exists():
        die()
    publish(self, place, facts)

torch.save, Journal.record, RunFolder.publish_result = half_a_checkpoint, at_the_end, at_a_result
Trainer(shapes(), replace(TINY, checkpoint_seconds=0.0), RunFolder(folder), CPU).run()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(
    "moment", ["half a checkpoint", "before the last line", "after the last line", "before a result is published"]
)
def test_a_run_killed_while_it_keeps_something_goes_on_exactly(tmp_path: Path, whole: Whole, moment: str):
    command = [sys.executable, "-c", KILLED_WHILE_KEEPING, str(tmp_path / "cut"), moment, str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr
    trained(tmp_path / "cut")
    assert lines(tmp_path / "cut") == lines(whole(TINY))
    cut, uncut = (RunFolder(folder).result()[0] for folder in (tmp_path / "cut", whole(TINY)))
    np.testing.assert_array_equal(cut["q"], uncut["q"])


def test_a_stopped_run_goes_on_exactly(tmp_path: Path, whole: Whole):
    folder = RunFolder(tmp_path / "cut")
    folder.path.mkdir()
    trainer = Trainer(
        shapes(), TINY, folder, CPU, Listener(lambda progress: trainer.request_stop() if progress.step == 8 else None)
    )
    assert trainer.run() == "stopped"
    assert folder.status()["state"] == "stopped"
    assert folder.status()["step"] == 8
    trained(tmp_path / "cut")
    assert folder.status()["state"] == "finished"
    assert lines(tmp_path / "cut") == lines(whole(TINY))


def test_a_stop_may_be_asked_for_by_a_file(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    trainer = Trainer(
        shapes(), TINY, folder, CPU, Listener(lambda progress: folder.ask_to_stop() if progress.step == 4 else None)
    )
    assert trainer.run() == "stopped"
    assert trainer.step == 4


# ---- what cannot work, and what must


def test_too_few_images_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="clusters=4 is not allowed: there are only 3 images"):
        trained(tmp_path / "run", images=shapes(3))
    with pytest.raises(UsageError, match="at least 2 readable images to cluster; there are 1"):
        trained(tmp_path / "run", images=shapes(1))


@pytest.mark.parametrize("count", [4, 5, 31, 33])
def test_fewer_images_than_a_batch_and_odd_numbers(tmp_path: Path, count: int):
    trainer = trained(tmp_path / "run", images=shapes(count))
    assert trainer.length.batch_size == min(32, count)
    assert np.isfinite(RunFolder(tmp_path / "run").result()[0]["q"]).all()


def test_identical_images_give_no_crash_and_no_nan(tmp_path: Path):
    same = images_from_array(np.full((40, 16, 16, 3), 128, np.uint8))
    trainer = trained(tmp_path / "run", images=same)
    assert np.isfinite(trainer.journal.latest["loss"])
    assert len(set(RunFolder(tmp_path / "run").result()[0]["cluster"].tolist())) == 1


def test_a_loss_that_is_not_a_number_stops_with_advice_and_keeps_the_checkpoint(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()

    def poison(progress) -> None:
        if progress.step == 8:
            with torch.no_grad():
                next(trainer.network.parameters()).fill_(float("nan"))

    trainer = Trainer(shapes(), replace(TINY, checkpoint_seconds=0.0), folder, CPU, Listener(poison))
    with pytest.raises(TrainingError, match="not numbers any more at step 8. Train again with a lower learning_rate"):
        trainer.run()
    assert folder.status()["state"] == "failed"
    saved = torch.load(folder.checkpoint_file, weights_only=True)
    assert saved["step"] == 7
    assert all(tensor.isfinite().all() for tensor in saved["network"].values())


def test_images_for_the_rl_head_only_leave_the_c_head_alone():
    torch.manual_seed(0)
    network = CrlcNetwork(make_backbone("small", 16), clusters=3, subheads=2)
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([True] * 5 + [False] * 3)
    batch = Batch((images, images), torch.arange(8), generator_for(0, "step"), mask)
    outcome = pair_step(network, batch, TINY)
    assert outcome.counts.sum(dim=1).tolist() == [10.0, 10.0]  # two views of five images
    everything = pair_step(network, batch._replace(clusterable=None), TINY)
    assert (outcome.cluster_candidates, outcome.feature_candidates) == (9, 15)
    assert everything.cluster_candidates == 15
    torch.testing.assert_close(outcome.terms.feature, everything.terms.feature)
    assert not torch.allclose(outcome.terms.probability, everything.terms.probability)


def test_the_bank_is_compared_with_before_it_is_updated():
    torch.manual_seed(0)
    network = CrlcNetwork(make_backbone("small", 16), clusters=3, subheads=2)
    bank = MemoryBank(20, 3, 2, 0.5, torch.Generator().manual_seed(0))
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    batch = Batch((images,), torch.arange(8), generator_for(0, "step"))
    settings = replace(TINY, clusters=3, subheads=2, bank_negatives=16)
    outcome = bank_step(network, batch, settings, bank)
    # Before its first update every row is uniform, so each of the 17 candidates is as likely.
    torch.testing.assert_close(outcome.terms.probability, torch.full((2,), np.log(17.0), dtype=torch.float32))
    assert not torch.allclose(bank.probabilities[:, :8], torch.full((2, 8, 3), 1 / 3))
    assert (bank.probabilities[:, 8:] == 1 / 3).all()


def test_a_batch_without_an_image_for_the_c_head_trains_the_rl_head():
    torch.manual_seed(0)
    network = CrlcNetwork(make_backbone("small", 16), clusters=3, subheads=2)
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    batch = Batch((images, images), torch.arange(8), generator_for(0, "step"), torch.zeros(8, dtype=torch.bool))
    terms = pair_step(network, batch, TINY).terms
    torch.testing.assert_close(terms.total, TINY.feature_weight * terms.feature)
    terms.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_what_is_not_computed_is_not_shown_as_zero(tmp_path: Path):
    trained(tmp_path / "run", replace(TINY, feature_weight=0.0, epochs=1))
    epoch = next(record for record in lines(tmp_path / "run") if record["kind"] == "epoch")
    assert epoch["feature"] is None
    assert epoch["feature_bound"] is None
