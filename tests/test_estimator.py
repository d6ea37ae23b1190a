"""Tests of the scikit-learn estimator CRLC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from crlc.analysis.class_metrics import compute_accuracy
from crlc.errors import UsageError
from crlc.estimator import CRLC
from crlc.services.assign import assign_source
from crlc.training.checkpoint import save_checkpoint
from crlc.training.model_file import TrainedModel, load_model, save_model

pytestmark = pytest.mark.slow

FAST = {"epochs": 30, "batch_size": 32, "subheads": 3}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Return grey images of 16 px; horizontal and vertical bars alternate."""
    generator = np.random.default_rng(0)
    pixels = generator.normal(20, 8, (80, 16, 16))
    pixels[::2, 4:12] += 150
    pixels[1::2, :, 4:12] += 150
    return pixels.clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def fitted(images: np.ndarray) -> CRLC:
    return CRLC(n_clusters=2, settings=FAST, device="cpu").fit(images)


def test_fit_finds_two_classes_of_images(fitted: CRLC, images: np.ndarray):
    assert compute_accuracy(fitted.labels_, np.arange(80) % 2) > 0.95
    assert fitted.probabilities_.shape == (80, 2)
    assert fitted.features_.shape == (80, 128)
    np.testing.assert_array_equal(fitted.predict(images), fitted.labels_)
    np.testing.assert_allclose(fitted.transform(images), fitted.features_, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(images).sum(axis=1), 1, rtol=1e-5)


def test_estimator_has_the_parameter_methods_of_scikit_learn(fitted: CRLC):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "labels_")
    assert copy.set_params(n_clusters=5).n_clusters == 5
    with pytest.raises(NotFittedError):
        copy.predict(np.zeros((1, 16, 16), np.uint8))


def test_fit_with_the_same_random_state_gives_the_same_probabilities(images: np.ndarray):
    quick = {**FAST, "epochs": 2}
    first, second = (CRLC(2, settings=quick, device="cpu", random_state=3).fit(images) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities_, second.probabilities_)


def test_fit_and_save_accept_numpy_numbers(images: np.ndarray, tmp_path: Path):
    model = CRLC(np.int64(2), settings={**FAST, "epochs": np.int64(1)}, device="cpu").fit(images)
    model.save(tmp_path / "model.pt")
    assert CRLC.load(tmp_path / "model.pt").n_clusters == 2


def test_fit_accepts_image_size_for_a_folder_but_not_for_an_array(images: np.ndarray, tmp_path: Path):
    for number, image in enumerate(images[:12]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    model = CRLC(2, settings={**FAST, "epochs": 1, "image_size": 24}, device="cpu").fit(tmp_path)
    assert model.settings_.data.image_size == 24
    with pytest.raises(UsageError, match="image_size=24.* 16 px"):
        CRLC(2, settings={**FAST, "image_size": 24}, device="cpu").fit(images)


def test_load_restores_predictions_and_parameters(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    fitted.save(tmp_path / "model.pt")
    loaded = CRLC.load(tmp_path / "model.pt")
    np.testing.assert_array_equal(loaded.predict(images), fitted.labels_)
    assert loaded.get_params() == fitted.get_params()


def test_save_replaces_a_file_that_load_model_reads(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    file = tmp_path / "model.crlc"
    file.write_bytes(b"an earlier file")
    fitted.save(file)
    model = load_model(file, torch.device("cpu"))
    assert (model.run, model.subhead, model.settings) == ("", fitted.subhead_, fitted.settings_)
    for number, image in enumerate(images[:6]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    assigned = assign_source(model, str(tmp_path), tmp_path / "downloads", torch.device("cpu"))
    np.testing.assert_array_equal(assigned.clusters, fitted.labels_[:6])


def test_load_reads_a_model_that_was_exported_from_a_run(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    model = TrainedModel("run-1", fitted.network_, fitted.settings_, fitted.subhead_)
    save_model(model, tmp_path / "model.crlc")
    loaded = CRLC.load(tmp_path / "model.crlc")
    assert loaded.n_clusters == 2
    np.testing.assert_array_equal(loaded.predict(images), fitted.labels_)


def test_load_reads_files_of_version_0_1_0(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    content = {
        "network": fitted.network_.export_learned_state(),
        "subhead": fitted.subhead_,
        "settings": fitted.settings_.to_json(),
        "parameters": fitted.get_params(),
        "metrics": fitted.metrics_,
    }
    save_checkpoint(tmp_path / "model.pt", content)
    loaded = CRLC.load(tmp_path / "model.pt")
    assert (loaded.get_params(), loaded.metrics_) == (fitted.get_params(), fitted.metrics_)
    np.testing.assert_array_equal(loaded.predict(images), fitted.labels_)


def test_predict_accepts_a_folder(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    for number, image in enumerate(images[:10]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    np.testing.assert_array_equal(fitted.predict(tmp_path), fitted.labels_[:10])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((5, 16, 12), np.uint8), r"shape \(5, 16, 12\)"),
        (np.zeros((5, 16, 16), np.float32), "type float32"),
        (np.zeros((5, 16, 16, 4), np.uint8), r"\(5, 16, 16, 4\)"),
        (np.zeros((1, 16, 16), np.uint8), "at least 2"),
    ],
)
def test_fit_refuses_images_of_wrong_shape_type_or_number(given: np.ndarray, words: str):
    with pytest.raises(UsageError, match=words):
        CRLC(2).fit(given)


def test_fit_refuses_unknown_settings(images: np.ndarray):
    with pytest.raises(UsageError, match="'epoch'.*epochs"):
        CRLC(2, settings={"epoch": 3}).fit(images)


def test_predict_refuses_another_size(fitted: CRLC):
    with pytest.raises(UsageError, match="32 px.* 16 px"):
        fitted.predict(np.zeros((2, 32, 32), np.uint8))
