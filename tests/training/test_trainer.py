"""The training loop: learning, results, metrics, stops and failures."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.images import TrainingImages
from crlc.training.run_logger import ProgressListener, TrainProgress
from crlc.training.settings import TrainSettings
from crlc.training.trainer import TrainingError
from tests.fixtures.training_runs import MEMORY_BANK, TINY, create_trainer, make_shape_images, read_records, train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("settings", [TINY, MEMORY_BANK], ids=["simclr", "memory-bank"])
def test_trainer_finds_four_classes_of_shapes(tmp_path: Path, settings: TrainSettings):
    metrics = train(tmp_path / "run", settings.replace(epochs=60)).logger.latest_metrics
    assert metrics["acc"] > 0.9
    assert metrics["cluster_information"] > 0.7
    assert metrics["clusters_found"] == 4
    assert metrics["largest_share"] < 0.4


@pytest.mark.parametrize("settings", [TINY, MEMORY_BANK], ids=["simclr", "memory-bank"])
def test_trainer_repeats_a_run_exactly_with_the_same_seed(tmp_path: Path, settings: TrainSettings):
    train(tmp_path / "one", settings)
    train(tmp_path / "two", settings)
    train(tmp_path / "other seed", settings.replace(seed=1))
    assert read_records(tmp_path / "one") == read_records(tmp_path / "two")
    assert read_records(tmp_path / "one") != read_records(tmp_path / "other seed")


def test_trainer_writes_a_complete_and_consistent_result(tmp_path: Path):
    train(tmp_path / "run")
    arrays, metadata = RunFolder(tmp_path / "run").open_result()
    assert metadata["final"]
    assert (metadata["images"], metadata["of"]) == (96, 96)
    assert arrays["q"].shape == (96, 4)
    assert arrays["z"].shape == (96, 128)
    assert arrays["h"].shape == (96, 64)
    np.testing.assert_allclose(arrays["q"].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(arrays["z"], axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(arrays["cluster"], arrays["q"].argmax(axis=1))
    np.testing.assert_array_equal(arrays["confidence"], arrays["q"].max(axis=1))
    assert len(list((tmp_path / "run").glob("result-*"))) == 1
    sizes = np.bincount(arrays["cluster"], minlength=4)
    end = read_records(tmp_path / "run")[-1]
    assert end["largest_share"] == pytest.approx(sizes.max() / 96)
    assert end["clusters_found"] == (sizes >= 0.1 * 96 / 4).sum()


def test_trainer_logs_all_terms_of_steps_and_epochs(tmp_path: Path):
    train(tmp_path / "run")
    records = read_records(tmp_path / "run")
    steps = [record for record in records if record["kind"] == "step"]
    epochs = [record for record in records if record["kind"] == "epoch"]
    assert len(epochs) == 6
    assert [record["step"] for record in steps] == list(range(2, 19, 2))  # every second step; 3 steps per epoch
    assert {"loss", "probability", "entropy", "penalty", "feature", "learning_rate"} <= set(steps[0])
    cluster_metrics = {"cluster_information", "clusters_found", "largest_share", "subhead"}
    assert cluster_metrics | {"probability_bound", "feature_bound"} <= set(epochs[0])
    assert cluster_metrics | {"acc", "nmi", "ari", "subhead_agreement", "acc_by_subhead"} <= set(records[-1])
    assert len(records[-1]["acc_by_subhead"]) == 3


def test_trainer_logs_none_for_terms_that_are_not_computed(tmp_path: Path):
    train(tmp_path / "run", TINY.replace(feature_weight=0.0, epochs=1))
    epoch = next(record for record in read_records(tmp_path / "run") if record["kind"] == "epoch")
    assert (epoch["feature"], epoch["feature_bound"], epoch["labels"]) == (None, None, None)


def test_trainer_logs_no_accuracy_without_classes(tmp_path: Path):
    trainer = train(tmp_path / "run", images=replace(make_shape_images(), classes=None))
    assert "acc" not in trainer.logger.latest_metrics
    assert not any("acc" in record for record in read_records(tmp_path / "run"))


def test_trainer_uses_classes_for_reporting_only(tmp_path: Path):
    train(tmp_path / "right")
    train(tmp_path / "wrong", images=replace(make_shape_images(), classes=np.zeros(96, dtype=np.int64)))
    right, wrong = (RunFolder(tmp_path / name).open_result()[0] for name in ("right", "wrong"))
    for name in ("q", "z"):
        np.testing.assert_array_equal(right[name], wrong[name])


def test_trainer_stops_when_the_run_folder_requests_it(tmp_path: Path):
    folder = RunFolder(tmp_path)
    listener = ProgressListener(lambda progress: folder.request_stop() if progress.step == 4 else None)
    trainer = create_trainer(tmp_path, listener=listener)
    assert trainer.run() is RunState.STOPPED
    assert trainer.step == 4


def test_speed_is_known_after_the_first_step(tmp_path: Path):
    reported: list[TrainProgress] = []
    trainer = create_trainer(tmp_path, TINY.replace(log_steps=1), listener=ProgressListener(reported.append))
    started = time.monotonic()
    trainer.train_step()
    slowest = trainer.length.batch_size / (time.monotonic() - started)
    assert slowest <= reported[0].images_per_second < 1e6


@pytest.mark.parametrize(("count", "message"), [(3, "clusters=4 .* 3 images"), (1, "at least 2 .* 1")])
def test_trainer_refuses_too_few_images(tmp_path: Path, count: int, message: str):
    with pytest.raises(UsageError, match=message):
        create_trainer(tmp_path, images=make_shape_images(count))


@pytest.mark.parametrize("count", [4, 5, 31, 33])
def test_trainer_shrinks_the_batch_to_the_number_of_images(tmp_path: Path, count: int):
    trainer = train(tmp_path / "run", images=make_shape_images(count))
    assert trainer.length.batch_size == min(32, count)
    assert np.isfinite(RunFolder(tmp_path / "run").open_result()[0]["q"]).all()


def test_trainer_leaves_half_of_the_images_to_the_negatives_of_a_bank(tmp_path: Path):
    trainer = create_trainer(tmp_path, MEMORY_BANK, make_shape_images(33))
    trainer.train_step()
    assert trainer.length.batch_size == 17
    (start,) = read_records(tmp_path)[:1]
    assert "17 instead of 32" in start["warnings"][0]["text"]


def test_trainer_reports_the_best_subhead_by_classes_as_an_oracle(tmp_path: Path):
    train(tmp_path, TINY.replace(evaluations=6))
    evaluated = [record for record in read_records(tmp_path) if "oracle_acc" in record]
    assert len(evaluated) == 6  # five evaluations and the end
    assert all(record["oracle_acc"] >= record["acc"] for record in evaluated)
    end = evaluated[-1]
    assert end["oracle_acc"] == pytest.approx(max(end["acc_by_subhead"]), abs=1e-4)
    assert end["oracle_acc_any_epoch"] == max(record["oracle_acc"] for record in evaluated)


def test_trainer_assigns_identical_images_to_one_cluster(tmp_path: Path):
    identical = TrainingImages.from_array(np.full((40, 16, 16, 3), 128, np.uint8))
    trainer = train(tmp_path / "run", images=identical)
    assert np.isfinite(trainer.logger.latest_metrics["loss"])
    assert len(set(RunFolder(tmp_path / "run").open_result()[0]["cluster"].tolist())) == 1


def test_trainer_fails_with_advice_and_keeps_the_checkpoint_when_weights_are_not_finite(tmp_path: Path):
    def poison(progress: TrainProgress) -> None:
        if progress.step == 8:
            with torch.no_grad():
                next(trainer.network.parameters()).fill_(float("nan"))

    trainer = create_trainer(tmp_path, TINY.replace(checkpoint_seconds=0.0), listener=ProgressListener(poison))
    with pytest.raises(TrainingError, match="step 8.*learning_rate") as raised:
        trainer.run()
    assert "learning_rate" in raised.value.advice
    status = trainer.folder.read_status()
    assert status.state is RunState.FAILED
    assert "step 8" in status.message
    saved = torch.load(trainer.folder.checkpoint_file, weights_only=True)
    assert saved["step"] == 7
    assert all(tensor.isfinite().all() for tensor in saved["network"].values())


def test_trainer_fails_with_advice_when_memory_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trainer = create_trainer(tmp_path)

    def run_out_of_memory() -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(trainer, "train_step", run_out_of_memory)
    with pytest.raises(TrainingError, match="batch_size"):
        trainer.run()
    assert trainer.folder.read_status().state is RunState.FAILED
