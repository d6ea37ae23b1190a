"""Vectors of a frozen backbone: computed once, kept, found again; new content is computed anew."""

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
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.data.augment import to_images
from crlc.model import Backbone, CrlcNetwork
from crlc.training.features import BackboneFeatures, FeatureCache, backbone_features
from crlc.training.images import TrainingImages, at_positions, images_from_array
from tests.conftest import ROOT


class MeanColours(nn.Module):
    """A backbone whose vectors are known: the mean of each channel of the (normalised) image, and their squares."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        means = images.mean(dim=(2, 3))
        return torch.cat([means, means.square()], dim=1)


def network() -> CrlcNetwork:
    built = CrlcNetwork(Backbone(MeanColours(), 6), clusters=2, subheads=1, projected=3)
    built.freeze_backbone(frozen=True)
    return built


def pictures(count: int, features: Path | None = None) -> TrainingImages:
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return replace(images_from_array(pixels), versions=np.ones(count, np.int64), features=features)


def vectors(found: BackboneFeatures) -> NDArray[np.float32]:
    return torch.cat(list(found.chunks())).numpy()


def expected(images: TrainingImages) -> NDArray[np.float32]:
    means = (to_images(images.pixels(np.arange(len(images)))).mean(dim=(2, 3)) - 0.5) / 0.25
    return torch.cat([means, means.square()], dim=1).numpy()


def test_vectors_are_the_backbones_and_are_computed_once(tmp_path: Path):
    net, images = network(), pictures(200, tmp_path / "features")
    found = backbone_features(net, images, "colours@1", tmp_path)
    np.testing.assert_allclose(vectors(found), expected(images), rtol=2e-3, atol=2e-3)  # kept in half precision
    assert net.backbone.seen == 200
    again = network()
    backbone_features(again, images, "colours@1", tmp_path)
    assert again.backbone.seen == 0
    backbone_features(again, images, "colours@2", tmp_path)  # other weights
    assert again.backbone.seen == 200


def test_only_what_is_new_or_changed_is_computed(tmp_path: Path):
    images = pictures(100, tmp_path / "features")
    backbone_features(network(), at_positions(images, np.arange(60)), "colours", tmp_path)
    versions = np.ones(100, np.int64)
    versions[[3, 7]] = 2
    net = network()
    found = backbone_features(net, replace(images, versions=versions), "colours", tmp_path)
    assert net.backbone.seen == 42
    np.testing.assert_allclose(vectors(found), expected(images), rtol=2e-3, atol=2e-3)
    part = at_positions(images, np.array([90, 5, 61]))
    net = network()
    np.testing.assert_allclose(
        vectors(backbone_features(net, part, "colours", tmp_path)), expected(images)[[90, 5, 61]], rtol=2e-3, atol=2e-3
    )
    assert net.backbone.seen == 0


def test_images_without_a_place_are_kept_with_the_run(tmp_path: Path):
    backbone_features(network(), pictures(10), "colours", tmp_path / "run")
    assert len(FeatureCache(tmp_path / "run" / "colours-8")._keys) == 10


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from crlc.training import features
from tests.training.test_features import network, pictures

features._SHARD = 64
net = network()
forward = net.backbone.forward
def doomed(images):
    if net.backbone.seen >= 192:
        os.kill(os.getpid(), signal.SIGKILL)
    return forward(images)
net.backbone.forward = doomed
features.backbone_features(net, pictures(500, Path(sys.argv[1])), "colours", Path(sys.argv[1]))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_an_interrupted_computation_keeps_what_it_finished(tmp_path: Path):
    outcome = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(ROOT)], check=False, timeout=120)
    assert outcome.returncode == -signal.SIGKILL
    net, images = network(), pictures(500, tmp_path)
    found = backbone_features(net, images, "colours", tmp_path)
    assert net.backbone.seen == 500 - 192
    np.testing.assert_allclose(vectors(found), expected(images), rtol=2e-3, atol=2e-3)


def test_vectors_without_their_keys_do_not_count(tmp_path: Path):
    cache = FeatureCache(tmp_path)
    cache.add(np.array([5, 9]), np.ones((2, 3), np.float16))
    (tmp_path / "000002.npy").write_bytes(b"half a file")
    again = FeatureCache(tmp_path)
    assert again.has(np.array([5, 6, 9])).tolist() == [True, False, True]
    again.add(np.array([6]), np.zeros((1, 3), np.float16))  # does not touch the leftover
    assert FeatureCache(tmp_path).read(np.array([6, 5])).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_an_error_of_the_reader_is_not_swallowed(tmp_path: Path):
    def broken(_: NDArray[np.int64]) -> NDArray[np.uint8]:
        raise OSError("the disk was unplugged")

    with pytest.raises(OSError, match="unplugged"):
        backbone_features(network(), replace(pictures(10), read=broken), "colours", tmp_path)


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.progress._REPORT_EVERY_SECONDS", 0.0)
    told: list[int] = []
    images = pictures(200, tmp_path)
    backbone_features(network(), images, "colours", tmp_path, report=lambda progress: told.append(progress.done))
    assert told == [64, 128, 192, 200, 200]
