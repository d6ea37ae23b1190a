"""Engines that compute features: OpenVINO against torch, order of batches, the cache, and the choice of an engine."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from crlc.errors import UsageError
from crlc.model import CrlcNetwork
from crlc.model.backbones import Backbone
from crlc.training.feature_cache import load_or_compute_features
from crlc.training.feature_engine import (
    OpenVinoEngine,
    TorchEngine,
    create_engine,
    find_converted_backbone,
    measure_seconds_per_image,
)
from tests.fixtures.training_runs import make_colour_images

needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="openvino is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder."""
    monkeypatch.setenv("CRLC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_network(module: nn.Module | None = None) -> CrlcNetwork:
    """Return a network with a small convolutional backbone with batch norm, in evaluation mode."""
    torch.manual_seed(0)
    module = module or nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return CrlcNetwork(Backbone(module, 8, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)), 3, 2).eval()


def make_pixels(count: int = 11) -> torch.Tensor:
    return torch.randint(0, 256, (count, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@needs_openvino
def test_openvino_computes_the_features_of_torch_in_the_order_of_the_batches():
    network, pixels = make_network(), make_pixels()
    engine = create_engine("openvino", network, pixels[:2], "small")
    assert engine.name == "openvino"
    batches = [pixels[start : start + 2] for start in range(0, len(pixels), 2)]  # more batches than requests; one short
    found = list(engine.compute(iter(batches)))
    assert [len(one) for one in found] == [2, 2, 2, 2, 2, 1]
    with torch.no_grad():
        expected = network.compute_backbone_vectors(pixels.permute(0, 3, 1, 2) / 255).numpy()
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)
    again = np.concatenate(list(engine.compute(batches)))  # an engine can be used again
    np.testing.assert_array_equal(again, np.concatenate(found))
    assert measure_seconds_per_image(engine, pixels) > 0


@needs_openvino
def test_converted_backbone_is_cached_and_a_damaged_file_is_replaced(cache: Path):
    network, pixels = make_network(), make_pixels()
    expected = np.concatenate(list(create_engine("openvino", network, pixels[:2], "small").compute([pixels])))
    file = find_converted_backbone("small", 16)
    assert file.exists()
    assert file.parent.parent == cache
    written = file.stat().st_mtime_ns
    OpenVinoEngine(network, pixels[:2], "small")
    assert file.stat().st_mtime_ns == written

    file.write_bytes(file.read_bytes()[:100])
    found = np.concatenate(list(create_engine("openvino", network, pixels[:2], "small").compute([pixels])))
    np.testing.assert_array_equal(found, expected)

    # Other weights under the same name: the check against torch notices it.
    other = make_network(nn.Sequential(nn.Conv2d(3, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    found = np.concatenate(list(create_engine("openvino", other, pixels[:2], "small").compute([pixels])))
    np.testing.assert_allclose(found, np.concatenate(list(TorchEngine(other, pixels[:2]).compute([pixels]))), atol=1e-5)


class CountsInPython(nn.Module):
    """A layer that depends on the values of its input, which cannot be converted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = sorted(x.flatten().tolist())[:8]
        return torch.tensor(values).expand(len(x), 8)


def test_auto_uses_torch_for_a_backbone_that_cannot_be_converted():
    network, pixels = make_network(CountsInPython()), make_pixels()
    assert create_engine("auto", network, pixels[:2], "odd").name == "torch"
    with pytest.raises(UsageError, match="openvino"):
        create_engine("openvino", network, pixels[:2], "odd")


def test_auto_uses_torch_without_openvino(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "openvino", None)  # as if it were not installed
    network, pixels = make_network(), make_pixels()
    assert create_engine("auto", network, pixels[:2], "small").name == "torch"
    with pytest.raises(UsageError, match="not installed"):
        create_engine("openvino", network, pixels[:2], "small")


@needs_openvino
def test_feature_cache_has_equal_features_with_both_engines(tmp_path: Path):
    images, network = make_colour_images(), make_network()
    found = {
        engine: torch.cat(
            list(load_or_compute_features(network, images, engine, tmp_path, engine=engine).iterate_chunks())
        )
        for engine in ("torch", "openvino")
    }
    torch.testing.assert_close(found["torch"], found["openvino"], atol=2e-3, rtol=2e-3)  # half precision on disk


@needs_openvino
def test_nothing_is_reported_to_the_makers_of_openvino():
    make_pixels()
    OpenVinoEngine(make_network(), make_pixels()[:2], "small")
    assert sys.modules["openvino_telemetry"] is None
