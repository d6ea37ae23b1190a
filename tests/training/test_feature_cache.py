"""Cache of backbone features: computed once, reused, and computed again for changed content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from crlc.analysis.class_scores import rank_classes
from crlc.files import writer_lock
from crlc.model.class_head import ImageNetClassifier
from crlc.progress import Progress
from crlc.training.feature_cache import (
    WAITING_STAGE,
    BackboneFeatures,
    FeatureCache,
    load_or_compute_features,
    make_feature_keys,
)
from crlc.training.images import select_positions
from tests.conftest import ROOT
from tests.fixtures.known_features import build_network, compute_expected, make_random_images


def assert_close(features: BackboneFeatures, expected: NDArray[np.float32]) -> None:
    """Compare features that are cached in half precision."""
    found = torch.cat(list(features.iterate_chunks())).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_features_equal_the_backbone_output_and_are_computed_once(tmp_path: Path):
    network, images = build_network(), make_random_images(200, tmp_path / "features")
    assert_close(load_or_compute_features(network, images, "colours@1", tmp_path), compute_expected(images))
    assert network.backbone.image_count == 200
    network = build_network()
    load_or_compute_features(network, images, "colours@1", tmp_path)
    assert network.backbone.image_count == 0
    load_or_compute_features(network, images, "colours@2", tmp_path)  # other weights
    assert network.backbone.image_count == 200


def test_features_are_computed_for_new_and_changed_images_only(tmp_path: Path):
    images = make_random_images(100, tmp_path / "features")
    load_or_compute_features(build_network(), select_positions(images, np.arange(60)), "colours", tmp_path)
    versions = np.ones(100, np.int64)
    versions[[3, 7]] = 2
    network = build_network()
    features = load_or_compute_features(network, replace(images, content_versions=versions), "colours", tmp_path)
    assert network.backbone.image_count == 42
    assert_close(features, compute_expected(images))


def test_features_wait_for_another_task_and_use_those_it_has_computed(tmp_path: Path):
    images = make_random_images(100, tmp_path / "features")
    folder = tmp_path / "features" / "colours-8"
    other = ExitStack()
    other.enter_context(writer_lock(folder.with_suffix(".0.lock"), "the cache"))
    reported: list[str] = []

    def end_other_task(progress: Progress) -> None:
        reported.append(progress.stage)
        if reported.count(WAITING_STAGE) == 2 and len(reported) == 2:
            cache = FeatureCache(folder)  # the other task computes the first 60 images, and ends
            known = compute_expected(images)[:60].astype(np.float16)
            cache.add(make_feature_keys(images)[:60], known, None)
            other.close()

    network = build_network()
    features = load_or_compute_features(network, images, "colours", tmp_path, report=end_other_task)
    assert reported[:2] == [WAITING_STAGE, WAITING_STAGE]
    assert WAITING_STAGE not in reported[2:]
    assert network.backbone.image_count == 40
    assert_close(features, compute_expected(images))


def test_features_stop_waiting_if_the_report_raises(tmp_path: Path):
    images = make_random_images(10, tmp_path / "features")

    def stop(_: Progress) -> None:
        raise InterruptedError

    lock = tmp_path / "features" / "colours-8.0.lock"
    with writer_lock(lock, "the cache"), pytest.raises(InterruptedError):
        load_or_compute_features(build_network(), images, "colours", tmp_path, report=stop)


def test_features_of_selected_images_keep_their_order(tmp_path: Path):
    images = make_random_images(100, tmp_path / "features")
    load_or_compute_features(build_network(), images, "colours", tmp_path)
    network, positions = build_network(), np.array([90, 5, 61])
    features = load_or_compute_features(network, select_positions(images, positions), "colours", tmp_path)
    assert network.backbone.image_count == 0
    assert_close(features, compute_expected(images)[positions])


def test_features_of_images_without_a_feature_folder_are_cached_in_the_fallback(tmp_path: Path):
    images = make_random_images(10)
    load_or_compute_features(build_network(), images, "colours", tmp_path / "run")
    assert FeatureCache(tmp_path / "run" / "colours-8").contains(make_feature_keys(images)).all()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_features_computed_before_a_kill_are_cached(tmp_path: Path):
    command = [sys.executable, "-m", "tests.fixtures.known_features", str(tmp_path)]
    assert subprocess.run(command, check=False, timeout=60, cwd=ROOT).returncode == -signal.SIGKILL
    network, images = build_network(), make_random_images(500, tmp_path)
    features = load_or_compute_features(network, images, "colours", tmp_path)
    assert network.backbone.image_count == 500 - 192
    assert_close(features, compute_expected(images))


def test_feature_cache_ignores_a_shard_without_keys(tmp_path: Path):
    cache = FeatureCache(tmp_path)
    cache.add(np.array([5, 9]), np.ones((2, 3), np.float16))
    (tmp_path / "000002.npy").write_bytes(b"half a file")
    reopened = FeatureCache(tmp_path)
    assert reopened.contains(np.array([5, 6, 9])).tolist() == [True, False, True]
    reopened.add(np.array([6]), np.zeros((1, 3), np.float16))  # does not overwrite the incomplete shard
    assert (tmp_path / "000002.npy").read_bytes() == b"half a file"
    assert FeatureCache(tmp_path).read(np.array([6, 5])).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_features_raise_errors_of_reading_pixels(tmp_path: Path):
    def fail(_: NDArray[np.int64]) -> NDArray[np.uint8]:
        raise OSError("the disk was unplugged")

    with pytest.raises(OSError, match="unplugged"):
        load_or_compute_features(build_network(), replace(make_random_images(10), read=fail), "colours", tmp_path)


def test_features_report_progress_after_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.progress._REPORT_SECONDS", 0.0)
    done: list[int] = []
    images = make_random_images(200, tmp_path)
    load_or_compute_features(
        build_network(), images, "colours", tmp_path, report=lambda progress: done.append(progress.done)
    )
    assert done == [0, 64, 128, 192, 200, 200]  # 0: the engine is being loaded


def test_classes_are_stored_with_features_and_with_those_of_earlier_versions_and_merged_parts(tmp_path: Path):
    images = make_random_images(30, tmp_path / "features")
    folder, keys = tmp_path / "features" / "colours-8", make_feature_keys(images)
    load_or_compute_features(build_network(), select_positions(images, np.arange(10)), "colours", tmp_path)
    assert not FeatureCache(folder).read_classes(keys)["probability"].any()  # the backbone had no classifier
    generator = np.random.default_rng(0)
    weight = generator.normal(size=(1000, 6)).astype(np.float32)
    classifier = ImageNetClassifier(weight, np.zeros(1000, np.float32))
    features = compute_expected(images).astype(np.float16)
    part = FeatureCache(folder / "part-1")  # left by an interrupted process
    part.add(keys[10:20], features[10:20], rank_classes(features[10:20], *classifier))
    network = build_network()
    network.classifier = classifier
    load_or_compute_features(network, images, "colours", tmp_path)
    assert network.backbone.image_count == 10
    found = FeatureCache(folder).read_classes(keys)
    expected = np.argmax(compute_expected(images) @ weight.T, axis=1)
    assert (found["number"][:, 0] == expected).mean() > 0.9  # features are rounded to half precision
    assert (found["probability"][:, 0] > 0).all()
    assert not list((folder / "part-1").glob("*.npy"))
