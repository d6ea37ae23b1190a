"""Runs of several stages: two-stage from scratch, frozen on a pretrained backbone, fine-tuned, resumed anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.model import make_backbone
from crlc.training.features import FeatureCache, keys_of
from crlc.training.images import TrainingImages, at_positions, images_from_array
from crlc.training.journal import Listener
from crlc.training.materials import neighbour_purity
from crlc.training.model_file import model_of_run
from crlc.training.run_folder import RunFolder
from crlc.training.semi import first_weights, labelled_images, match_names, semi_settings
from crlc.training.settings import TrainSettings
from crlc.training.speaking import confirmation, neighbour_information
from crlc.training.stages import stages_of
from crlc.training.trainer import Extras, Trainer
from tests.conftest import ROOT
from tests.training.conftest import Whole
from tests.training.test_trainer import CPU, TINY, lines, shapes, trained

TWO_STAGE = replace(
    TINY, method="two-stage", pairs="neighbours", neighbours=6, pretrain_epochs=3, epochs=3, feature_weight=0.0
)
FROZEN = TrainSettings(
    clusters=3, method="two-stage", pairs="neighbours", frozen=True, backbone="default", image_size=32, epochs=4,
    batch_size=16, subheads=3, neighbours=4, hidden=16, components=8, dropout=0.2, log_steps=1,
)  # fmt: skip


def colours(count: int = 48) -> TrainingImages:
    """Red, green and blue pictures with noise."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 90, (count, 32, 32, 3))
    pixels[np.arange(count), :, :, np.arange(count) % 3] += 150
    return replace(images_from_array(pixels.astype(np.uint8)), classes=np.arange(count) % 3)


def test_the_stages_of_each_kind_of_run():
    names = [[stage.name for stage in stages_of(settings)] for settings in (TINY, TWO_STAGE, FROZEN)]
    assert names == [["training"], ["representation", "clusters"], ["clusters"]]
    fine_tuned = stages_of(replace(FROZEN, finetune_epochs=2, finetune_learning_rate=0.01))
    assert [(stage.name, stage.on_features) for stage in fine_tuned] == [("clusters", True), ("fine-tuning", False)]
    assert (fine_tuned[1].settings.epochs, fine_tuned[1].settings.learning_rate) == (2, 0.01)


def test_two_stages_from_scratch_find_the_shapes(tmp_path: Path):
    trainer = trained(tmp_path / "run", replace(TWO_STAGE, pretrain_epochs=30, epochs=20))
    records = lines(tmp_path / "run")
    beginnings = [record for record in records if record["kind"] == "stage"]
    assert [record["stage"] for record in beginnings] == ["representation", "clusters"]
    assert beginnings[1]["neighbour_purity"] > 0.9
    first = [record for record in records if record["kind"] == "epoch" and record["stage"] == "representation"]
    assert all(record["cluster_information"] is None for record in first)
    assert trainer.journal.latest["acc"] > 0.9


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import torch
from dataclasses import replace
from tests.training.test_stages import TWO_STAGE, CPU, shapes
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer

torch.set_num_threads(1)
folder, fatal_step = Path(sys.argv[1]), int(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)

class Doomed(Trainer):
    def train_step(self):
        super().train_step()
        if self.step == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

Doomed(shapes(), replace(TWO_STAGE, checkpoint_seconds=0.0), RunFolder(folder), CPU).run()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("fatal_step", [9, 10, 14])  # three steps an epoch: at the border, just after, in the second
def test_a_run_killed_in_any_stage_goes_on_exactly(tmp_path: Path, whole: Whole, fatal_step: int):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "cut"), str(fatal_step), str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr
    trained(tmp_path / "cut", TWO_STAGE)
    assert lines(tmp_path / "cut") == lines(whole(TWO_STAGE))


def test_a_frozen_run_needs_no_backbone_in_its_checkpoint_and_assigns_new_images(tmp_path: Path):
    trainer = trained(tmp_path / "run", replace(FROZEN, epochs=40), images=colours())
    assert trainer.journal.latest["acc"] > 0.9
    state = torch.load(trainer.folder.checkpoint_file, weights_only=True)
    assert not any(name.startswith("backbone.") for name in state["network"])
    assert not list((tmp_path / "run").glob("vectors-*"))  # only training needed them
    result = trainer.folder.result()[0]
    model = model_of_run(RunFolder(tmp_path / "run"), torch.device("cpu"))
    images = colours()
    with torch.no_grad():
        output = model.network(images.batch(np.arange(len(images)), torch.device("cpu")))
    np.testing.assert_array_equal(output.q[model.subhead].argmax(dim=1), result["cluster"])
    np.testing.assert_allclose(output.z, result["z"], atol=0.02)  # vectors are kept in half precision


def test_a_frozen_backbone_does_not_change_and_a_fine_tuned_one_does(tmp_path: Path):
    original = make_backbone("default", 32).module.state_dict()
    frozen = trained(tmp_path / "frozen", FROZEN, images=colours()).network.backbone.state_dict()
    assert all((frozen[name] == weights).all() for name, weights in original.items())
    settings = replace(FROZEN, finetune_epochs=1, augment="none")
    trainer = trained(tmp_path / "tuned", settings, images=colours())
    tuned = trainer.network.backbone.state_dict()
    assert not all((tuned[name] == weights).all() for name, weights in original.items())
    state = torch.load(trainer.folder.checkpoint_file, weights_only=True)
    assert any(name.startswith("backbone.") for name in state["network"])
    network = model_of_run(RunFolder(tmp_path / "tuned"), torch.device("cpu")).network
    assert all((network.backbone.state_dict()[name] == weights).all() for name, weights in tuned.items())


def test_a_frozen_run_that_was_stopped_goes_on_exactly(tmp_path: Path):
    trained(tmp_path / "whole", FROZEN, images=colours())
    folder = RunFolder(tmp_path / "cut")
    folder.path.mkdir()
    torch.set_num_threads(1)
    cut = Trainer(colours(), FROZEN, folder, CPU)
    for _ in range(5):
        cut.train_step()
    cut._save()
    trained(tmp_path / "cut", FROZEN, images=colours())
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")


def test_images_can_be_measured_that_were_not_trained_on(tmp_path: Path):
    for settings, images in ((TINY, shapes()), (FROZEN, colours())):
        folder = RunFolder(tmp_path / settings.method)
        folder.path.mkdir()
        # The classes of the images trained on are all wrong: nothing may be measured on them.
        trained_on = replace(images, classes=np.zeros(len(images), np.int64))
        long = replace(settings, epochs=40)
        trainer = Trainer(trained_on, long, folder, CPU, extras=Extras(evaluated=images))
        trainer.run()
        assert trainer.journal.latest["acc"] > 0.9
        assert trainer.journal.latest["nmi"] > 0.7


def test_the_c_head_waits_unchanged_while_the_representation_is_learned(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    heavy = replace(TWO_STAGE, weight_decay=0.5, pretrain_optimiser="sgd", pretrain_learning_rate=0.1)
    trainer = Trainer(shapes(), heavy, folder, CPU)
    before = {name: value.clone() for name, value in trainer.network.c_head.state_dict().items()}
    for _ in range(6):
        trainer.train_step()
    assert all((value == before[name]).all() for name, value in trainer.network.c_head.state_dict().items())
    for _ in range(6):
        trainer.train_step()
    assert not all((value == before[name]).all() for name, value in trainer.network.c_head.state_dict().items())


@pytest.mark.parametrize("parent", ["frozen", "fine-tuned", "two-stage", "memory-bank"])
def test_every_kind_of_run_can_be_gone_on_from_with_labels(tmp_path: Path, parent: str):
    settings, images = {
        "frozen": (replace(FROZEN, epochs=1), colours()),
        "fine-tuned": (replace(FROZEN, epochs=1, finetune_epochs=1, augment="none"), colours()),
        "two-stage": (replace(TWO_STAGE, pretrain_epochs=1, epochs=1), shapes()),
        "memory-bank": (replace(TINY, epochs=1, implementation="memory-bank", bank_negatives=16), shapes()),
    }[parent]
    trainer = trained(tmp_path / "parent", settings, images=images)
    result, facts = trainer.folder.result()
    kept = np.arange(3, len(images))  # as if the first three had been excluded since
    labelled, names = np.array([0, 1, 2]), ["a", "b", "a"]
    named = match_names(result["q"][kept], result["by_subhead"][kept], facts["subhead"], labelled, names)
    weights = first_weights(trainer.network.learned_state(), named, seed=0)
    child = replace(semi_settings(settings, named.clusters, len(kept)), epochs=1)
    folder = RunFolder(tmp_path / "child")
    folder.path.mkdir()
    extras = Extras(labels=labelled_images(labelled, names, named), first_weights=weights)
    assert Trainer(at_positions(images, kept), child, folder, CPU, extras=extras).run() == "finished"
    assert folder.result()[0]["q"].shape == (len(kept), named.clusters)


def test_features_computed_before_a_stop_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.progress._REPORT_EVERY_SECONDS", 0.0)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    images = replace(colours(96), features=tmp_path / "features")
    trainer = Trainer(images, FROZEN, folder, CPU, Listener(preparation=lambda _: trainer.request_stop()))
    assert trainer.run() == "stopped"
    assert folder.status()["state"] == "stopped"
    (cache,) = (path for path in (tmp_path / "features").iterdir() if path.is_dir())  # beside its lock
    assert FeatureCache(cache).has(keys_of(images)).sum() == 64  # one batch
    assert trained(tmp_path / "run", FROZEN, images=images).folder.status()["state"] == "finished"


def test_purity_and_information_by_hand():
    neighbours = np.array([[1, 2], [0, 2], [3, 0], [2, 1]])
    assert neighbour_purity(neighbours, np.array([0, 0, 1, 1])) == 0.5
    assert neighbour_purity(neighbours, np.array([0, 0, 1, -1])) == 0.4  # of five pairs that are known
    assert neighbour_purity(neighbours, None) is None
    own = np.array([0, 0, 1, 1])
    assert neighbour_information(own, own[:, None]) == pytest.approx(np.log(2))
    assert neighbour_information(own, np.array([[0, 1], [0, 1], [0, 1], [0, 1]])) == pytest.approx(0)
    assert neighbour_information(np.zeros(4, int), np.zeros((4, 2), int)) == 0  # one cluster says nothing
    assert confirmation(own, own[:, None]) == pytest.approx(np.log(2) / 2)
    assert confirmation(own, np.array([[0, 1], [0, 1], [0, 1], [0, 1]])) == pytest.approx(-np.log(2) / 2)
