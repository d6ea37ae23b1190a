"""Image-text models: a tiny one from a local file against open_clip itself, errors, and the hub offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from crlc.errors import SourceError, UsageError
from crlc.model.image_text import build_untrained_image_encoder, load_image_encoder, load_text_encoder
from crlc.model.pretrained import load_pretrained
from tests.conftest import ROOT
from tests.fixtures.tiny_clip import DIMENSIONS, IMAGE_SIZE, NAME, load_whole_model, write_tiny_clip

pytestmark = pytest.mark.slow

TEXTS = ["a dog on a beach", "Ein Hund", "🙂"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_clip(tmp_path_factory.mktemp("models") / "tiny")


def test_image_encoder_gives_the_vectors_of_open_clip(weights: Path):
    backbone = load_pretrained(NAME, str(weights))
    assert (backbone.dimensions, backbone.image_size) == (DIMENSIONS, IMAGE_SIZE)
    assert (backbone.mean, backbone.std) == ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    assert backbone.identity.startswith("open_clip-tiny-open_clip_model@")
    assert backbone.classifier is None
    images = torch.rand(3, 3, IMAGE_SIZE, IMAGE_SIZE)
    with torch.no_grad():
        torch.testing.assert_close(backbone.module(images), load_whole_model(weights).encode_image(images))


def test_text_encoder_gives_the_unit_vectors_of_open_clip(weights: Path):
    model, encoder = load_whole_model(weights), load_text_encoder(NAME, str(weights))
    with torch.no_grad():
        expected = model.encode_text(open_clip.tokenize(TEXTS))
    found = encoder.encode(TEXTS)
    np.testing.assert_allclose(found, torch.nn.functional.normalize(expected, dim=1).numpy(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert encoder.scale == pytest.approx(1 / 0.07)


def test_local_file_of_another_architecture_is_refused(weights: Path, tmp_path: Path):
    alone = tmp_path / "alone.safetensors"  # without a configuration beside it, the name decides
    alone.write_bytes(weights.read_bytes())
    with pytest.raises(SourceError, match=r"alone\.safetensors cannot be used"):
        load_image_encoder("open_clip/RN50", str(alone))
    with pytest.raises(UsageError, match="no architecture 'ViT-B-23'.*Did you mean open_clip/ViT-B-"):
        load_image_encoder("open_clip/ViT-B-23", str(alone))


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_damaged_local_file_is_refused(weights: Path, tmp_path: Path, content: bytes):
    damaged = write_tiny_clip(tmp_path / "tiny")
    damaged.write_bytes(content or weights.read_bytes()[:2000])
    with pytest.raises(SourceError, match=r"open_clip_model\.safetensors cannot be used"):
        load_image_encoder(NAME, str(damaged))


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        (NAME, "missing.safetensors", "must be a file that ends in"),
        (NAME, "open_clip_config.json", "must be a file that ends in"),
        ("open_clip/tiny:openai", "open_clip_model.safetensors", "which names its weights"),
        ("open_clip/ViT-B-32", "", r"has no known weights.*open_clip/ViT-B-32:"),
        ("open_clip/ViT-B-32:nonsense", "", "has no known weights"),
    ],
)
def test_wrong_names_and_files_are_refused(weights: Path, name: str, file: str, message: str):
    with pytest.raises(UsageError, match=message):
        load_image_encoder(name, str(weights.parent / file) if file else "")


def test_untrained_image_encoder_has_the_layers_of_its_name():
    assert build_untrained_image_encoder("open_clip/RN50:openai").visual.image_size == 224


def test_weights_on_the_hub_offline_raise_an_error_with_address_and_cache(tmp_path: Path):
    script = (
        "from crlc.model.image_text import load_image_encoder\n"
        "load_image_encoder('open_clip/ViT-B-32:laion2b_s34b_b79k')"
    )
    environment = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    for part in ("SourceError: The weights of open_clip/ViT-B-32:laion2b_s34b_b79k ", str(tmp_path / "hf" / "hub"),
                 "laion/CLIP-ViT-B-32-laion2B-s34B-b79K/resolve/main/open_clip_model.safetensors", "refused",
                 "Connect to the internet", "local file of its weights"):  # fmt: skip
        assert part in done.stderr
    assert "default" not in done.stderr.rpartition("SourceError")[2]  # it takes no text


def test_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(SourceError, match="python -m pip install open_clip_torch"):
        load_image_encoder("open_clip/ViT-B-32:laion2b_s34b_b79k")
