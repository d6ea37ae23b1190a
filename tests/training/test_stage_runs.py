"""Runs of several stages: two-stage from scratch, frozen backbones, fine-tuning, and runs from a parent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from crlc.annotations.label_set import LabelSet
from crlc.model import build_backbone
from crlc.model.backbones import build_resnet
from crlc.runs.state import RunState
from crlc.training import stage_data
from crlc.training.feature_cache import FeatureCache, make_feature_keys
from crlc.training.images import TrainingImages, select_positions
from crlc.training.inputs import FeatureInputs
from crlc.training.model_file import load_run_model
from crlc.training.neighbour_pairs import find_neighbours
from crlc.training.run_logger import ProgressListener
from crlc.training.semi import build_initial_weights, build_semi_settings, make_label_targets, match_names_to_outputs
from crlc.training.settings import TrainSettings
from crlc.training.trainer import OptionalInputs
from tests.fixtures.training_runs import (
    CPU,
    FROZEN,
    MEMORY_BANK,
    TINY,
    TWO_STAGE,
    create_trainer,
    make_colour_images,
    make_shape_images,
    read_records,
    train,
)

pytestmark = pytest.mark.slow


def test_two_stage_run_finds_the_classes(tmp_path: Path):
    trainer = train(tmp_path / "run", TWO_STAGE.replace(pretrain_epochs=30, epochs=20))
    records = read_records(tmp_path / "run")
    starts = [record for record in records if record["kind"] == "stage"]
    assert [record["stage"] for record in starts] == ["representation", "clusters"]
    assert starts[1]["neighbour_purity"] > 0.9
    first = [record for record in records if record["kind"] == "epoch" and record["stage"] == "representation"]
    assert all(record["cluster_information"] is None for record in first)
    assert trainer.logger.latest_metrics["acc"] > 0.9


def test_unlabelled_images_train_the_rl_head_only_in_two_stages(tmp_path: Path):
    images = make_shape_images()
    clusterable = np.arange(96) % 3 == 0
    trainer = create_trainer(tmp_path, TWO_STAGE.replace(batch_size=16), replace(images, clusterable=clusterable))
    # After the first stage, noise replaces the pixels of the unlabelled images. It must not affect the C-head.
    while trainer.step < 18:
        trainer.train_step()
    before = trainer.network.export_learned_state()
    noise = np.random.default_rng(1).integers(0, 256, (96, 16, 16, 3), dtype=np.uint8)

    def read_with_noise(ids: np.ndarray) -> np.ndarray:
        return np.where(clusterable[ids - 1][:, None, None, None], images.read(ids), noise[ids - 1])

    outcomes = []
    for name, read in (("images", images.read), ("noise", read_with_noise)):
        trainer = create_trainer(
            tmp_path / name,
            TWO_STAGE.replace(batch_size=16),
            replace(images, clusterable=clusterable, read=read),
        )
        trainer.step = 18
        trainer.network.load_learned_state(before)
        trainer.run()
        assert trainer.length.steps == 18 + 6  # 96 / 16 steps in each of three epochs, then 32 / 16
        assert trainer.folder.open_result()[1]["epoch"] == 6
        outcomes.append(trainer.network.c_head.state_dict())
    assert all((value == outcomes[1][name]).all() for name, value in outcomes[0].items())


def test_representation_stage_does_not_change_the_c_head(tmp_path: Path):
    settings = TWO_STAGE.replace(weight_decay=0.5, pretrain_optimizer="sgd", pretrain_learning_rate=0.1)
    trainer = create_trainer(tmp_path, settings)
    before = {name: value.clone() for name, value in trainer.network.c_head.state_dict().items()}
    for _ in range(6):
        trainer.train_step()
    assert all((value == before[name]).all() for name, value in trainer.network.c_head.state_dict().items())
    for _ in range(6):
        trainer.train_step()
    assert not all((value == before[name]).all() for name, value in trainer.network.c_head.state_dict().items())


def test_frozen_run_saves_no_backbone_and_its_model_assigns_images(tmp_path: Path):
    images = make_colour_images()
    trainer = train(tmp_path / "run", FROZEN.replace(epochs=40), images)
    assert trainer.logger.latest_metrics["acc"] > 0.9
    state = torch.load(trainer.folder.checkpoint_file, weights_only=True)
    assert not any(name.startswith("backbone.") for name in state["network"])
    assert not list((tmp_path / "run").glob("vectors-*"))  # the cached vectors are deleted after training
    result = trainer.folder.open_result()[0]
    model = load_run_model(trainer.folder, CPU.device)
    with torch.no_grad():
        output = model.network(images.load_batch(np.arange(len(images)), CPU.device))
    np.testing.assert_array_equal(output.q[model.subhead].argmax(dim=1), result["cluster"])
    np.testing.assert_allclose(output.z, result["z"], atol=0.02)  # features are cached in half precision


def test_frozen_run_on_views_trains_the_heads_only_and_finds_the_classes(tmp_path: Path):
    # Augmentations change colours, which are the classes here: whether the run finds them would depend on the draws.
    settings = FROZEN.replace(
        stored_features=False, pca_components=0, feature_weight=0.0, augment="none", learning_rate=1e-2, epochs=20
    )
    original = build_backbone("default", 32).module.state_dict()
    trainer = create_trainer(tmp_path, settings, make_colour_images())
    assert not trainer.stages[0].uses_frozen_features
    trainer.run()
    assert all((value == original[name]).all() for name, value in trainer.network.backbone.state_dict().items())
    assert trainer.logger.latest_metrics["acc"] > 0.9
    assert not any(name.startswith("backbone.") for name in trainer.network.export_learned_state())


def test_frozen_run_on_views_draws_another_view_in_every_step(tmp_path: Path):
    settings = FROZEN.replace(
        stored_features=False, pca_components=0, feature_weight=0.0, augment="photo", batch_size=48
    )
    trainer = create_trainer(tmp_path, settings, make_colour_images())
    seen: list[torch.Tensor] = []
    trainer.network.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().clone()))
    for _ in range(2):
        trainer.train_step()
    (first, second) = [images for images in seen if len(images) == 2 * 48]  # both views of a batch share one pass
    sums = torch.cat([first, second]).sum(dim=(1, 2, 3))
    assert len(sums.unique()) == len(sums)


def test_neighbours_of_stored_features_are_those_of_a_pretrained_rl_head(tmp_path: Path):
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
    weights = {f"fc.{name}": value for name, value in head.state_dict().items()}
    weights |= build_resnet("resnet18", 32).module.state_dict()
    torch.save({"state_dict": {f"module.encoder_q.{name}": value for name, value in weights.items()}}, tmp_path / "w")
    settings = FROZEN.replace(
        backbone="resnet18", stem="small", weights=str(tmp_path / "w"), pca_components=0, hidden_width=0
    )
    trainer = create_trainer(tmp_path / "run", settings, make_colour_images())
    trainer.train_step()
    inputs = trainer._data.inputs
    assert isinstance(inputs, FeatureInputs)
    with torch.no_grad():
        z = head(torch.from_numpy(np.array(inputs.vectors))).numpy()
    found = np.load(tmp_path / "run" / "neighbours.npy")
    by_head = find_neighbours(z, 4, tmp_path / "z.npy")
    by_backbone = find_neighbours(np.array(inputs.vectors), 4, tmp_path / "h.npy")
    assert (found == by_head).mean() > 0.95 > (found == by_backbone).mean()


@pytest.mark.parametrize(
    ("settings", "exact"),
    [(TWO_STAGE.replace(pretrain_epochs=1, epochs=1), True), (FROZEN.replace(epochs=1), None)],
    ids=["network", "stored features"],
)
def test_neighbours_are_exact_if_the_images_pass_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: TrainSettings, exact: bool | None
):
    requested = []

    def find(*values: object, exact: bool | None = None) -> object:
        requested.append(exact)
        return find_neighbours(*values, exact=exact)  # type: ignore[arg-type]

    monkeypatch.setattr(stage_data, "find_neighbours", find)
    train(tmp_path, settings, make_colour_images() if settings.model.frozen else make_shape_images())
    assert requested == [exact]


def test_backbone_changes_only_in_fine_tuning(tmp_path: Path):
    original = build_backbone("default", 32).module.state_dict()
    frozen = train(tmp_path / "frozen", FROZEN, make_colour_images()).network.backbone.state_dict()
    assert all((frozen[name] == weights).all() for name, weights in original.items())
    trainer = train(tmp_path / "tuned", FROZEN.replace(finetune_epochs=1, augment="none"), make_colour_images())
    tuned = trainer.network.backbone.state_dict()
    assert not all((tuned[name] == weights).all() for name, weights in original.items())
    state = torch.load(trainer.folder.checkpoint_file, weights_only=True)
    assert any(name.startswith("backbone.") for name in state["network"])
    network = load_run_model(trainer.folder, CPU.device).network
    assert all((network.backbone.state_dict()[name] == weights).all() for name, weights in tuned.items())


@pytest.mark.parametrize(
    ("settings", "images"), [(TINY, make_shape_images()), (FROZEN, make_colour_images())], ids=["scratch", "frozen"]
)
def test_evaluation_uses_the_evaluation_images_instead_of_the_training_images(
    tmp_path: Path, settings: TrainSettings, images: TrainingImages
):
    # All classes of the training images are wrong: accuracy can only come from the evaluation images.
    wrong = replace(images, classes=np.zeros(len(images), np.int64))
    optional = OptionalInputs(evaluation_images=images)
    trainer = create_trainer(tmp_path, settings.replace(epochs=40), wrong, optional_inputs=optional)
    trainer.run()
    assert trainer.logger.latest_metrics["acc"] > 0.9
    assert trainer.logger.latest_metrics["nmi"] > 0.7


@pytest.mark.parametrize("parent", ["frozen", "fine-tuned", "two-stage", "memory-bank"])
def test_semi_run_can_start_from_every_kind_of_parent(tmp_path: Path, parent: str):
    settings, images = {
        "frozen": (FROZEN.replace(epochs=1), make_colour_images()),
        "fine-tuned": (FROZEN.replace(epochs=1, finetune_epochs=1, augment="none"), make_colour_images()),
        "two-stage": (TWO_STAGE.replace(pretrain_epochs=1, epochs=1), make_shape_images()),
        "memory-bank": (MEMORY_BANK.replace(epochs=1, bank_negatives=16), make_shape_images()),
    }[parent]
    trainer = train(tmp_path / "parent", settings, images)
    result, metadata = trainer.folder.open_result()
    remaining = np.arange(3, len(images))  # the first three images were excluded after the parent run
    labelled, names = np.array([0, 1, 2]), ["a", "b", "a"]
    named = match_names_to_outputs(
        result["q"][remaining], result["by_subhead"][remaining], metadata["subhead"], labelled, names
    )
    weights = build_initial_weights(trainer.network.export_learned_state(), named, seed=0)
    labels = LabelSet.from_mapping(dict(zip(images.ids[remaining][labelled].tolist(), names, strict=True)))
    child = create_trainer(
        tmp_path / "child",
        build_semi_settings(settings, named.clusters, len(remaining)).replace(epochs=1),
        select_positions(images, remaining),
        optional_inputs=OptionalInputs(
            labels=make_label_targets(labels, images.ids[remaining], named), initial_weights=weights
        ),
    )
    assert child.run() is RunState.FINISHED
    assert child.folder.open_result()[0]["q"].shape == (len(remaining), named.clusters)


def test_features_computed_before_a_stop_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.progress._REPORT_SECONDS", 0.0)
    images = replace(make_colour_images(96), feature_folder=tmp_path / "features")
    listener = ProgressListener(on_preparation=lambda progress: progress.done and trainer.request_stop())
    trainer = create_trainer(tmp_path / "run", FROZEN, images, listener)
    assert trainer.run() is RunState.STOPPED
    assert trainer.folder.read_status().state is RunState.STOPPED
    (cache,) = (path for path in (tmp_path / "features").iterdir() if path.is_dir())  # beside its lock
    assert FeatureCache(cache).contains(make_feature_keys(images)).sum() == 64  # one batch
    assert train(tmp_path / "run", FROZEN, images).folder.read_status().state is RunState.FINISHED
