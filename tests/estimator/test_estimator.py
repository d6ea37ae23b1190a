"""CRLC as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from crlc.analysis.agreement import matched_accuracy
from crlc.errors import UsageError
from crlc.estimator import CRLC

FAST = {"epochs": 30, "batch_size": 32, "subheads": 3}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Bars and columns, 16 px, grey."""
    generator = np.random.default_rng(0)
    pictures = generator.normal(20, 8, (80, 16, 16))
    pictures[::2, 4:12] += 150
    pictures[1::2, :, 4:12] += 150
    return pictures.clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def fitted(images: np.ndarray) -> CRLC:
    return CRLC(n_clusters=2, settings=FAST, device="cpu").fit(images)


def test_it_finds_the_two_kinds(fitted: CRLC, images: np.ndarray):
    assert matched_accuracy(fitted.labels_, np.arange(80) % 2) > 0.95
    assert fitted.probabilities_.shape == (80, 2)
    assert fitted.features_.shape == (80, 128)
    np.testing.assert_array_equal(fitted.predict(images), fitted.labels_)
    np.testing.assert_allclose(fitted.transform(images), fitted.features_, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(images).sum(axis=1), 1, rtol=1e-5)


def test_parameters_follow_the_conventions(fitted: CRLC):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "labels_")
    assert copy.set_params(n_clusters=5).n_clusters == 5
    with pytest.raises(NotFittedError):
        copy.predict(np.zeros((1, 16, 16), np.uint8))


def test_the_same_random_state_gives_the_same_labels(images: np.ndarray):
    quick = {**FAST, "epochs": 2}
    first, second = (CRLC(2, settings=quick, device="cpu", random_state=3).fit(images) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities_, second.probabilities_)


def test_numbers_of_numpy_will_do(images: np.ndarray, tmp_path: Path):
    model = CRLC(np.int64(2), settings={**FAST, "epochs": np.int64(1)}, device="cpu").fit(images)
    model.save(tmp_path / "model.pt")
    assert CRLC.load(tmp_path / "model.pt").n_clusters == 2


def test_a_size_of_its_own_for_a_folder_and_none_for_an_array(images: np.ndarray, tmp_path: Path):
    for number, image in enumerate(images[:12]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    model = CRLC(2, settings={**FAST, "epochs": 1, "image_size": 24}, device="cpu").fit(tmp_path)
    assert model.settings_.image_size == 24
    with pytest.raises(UsageError, match="image_size=24 does not fit images of 16 px"):
        CRLC(2, settings={**FAST, "image_size": 24}, device="cpu").fit(images)


def test_a_saved_model_says_the_same(fitted: CRLC, images: np.ndarray, tmp_path: Path):
    fitted.save(tmp_path / "model.pt")
    loaded = CRLC.load(tmp_path / "model.pt")
    np.testing.assert_array_equal(loaded.predict(images), fitted.labels_)
    assert loaded.get_params() == fitted.get_params()


def test_a_folder_can_be_given(fitted: CRLC, images: np.ndarray, tmp_path: Path):
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
def test_images_that_cannot_be_used(given: np.ndarray, words: str):
    with pytest.raises(UsageError, match=words):
        CRLC(2).fit(given)


def test_settings_that_do_not_exist(images: np.ndarray):
    with pytest.raises(UsageError, match="epoch"):
        CRLC(2, settings={"epoch": 3}).fit(images)


def test_another_size_than_the_fitted_one(fitted: CRLC):
    with pytest.raises(UsageError, match="Images of 32 px were given, but the model was fitted on 16 px"):
        fitted.predict(np.zeros((2, 32, 32), np.uint8))
