"""Free text with a tiny image-text model: features, ranking, name suggestions, and the search box's matcher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.data.feature_source import FeatureSource, find_feature_sources
from crlc.errors import NotFoundError, UsageError
from crlc.model.image_text import load_text_encoder
from crlc.services.analyse_run import RunAnalysis
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.services.image_text import (
    ImageTextFeatures,
    OwnWords,
    compute_text_features,
    parse_words,
    require_text_features,
)
from crlc.services.search import ImageSearch, SearchScope, SearchSuggestion, open_search_scope
from crlc.services.search_matchers import create_matchers
from crlc.training.images import load_images
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from tests.fixtures.tiny_clip import IMAGE_SIZE, NAME, load_whole_model, write_tiny_clip
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset, write_tiny_run

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_clip(tmp_path / "models" / "tiny")


@pytest.fixture
def scope(workspace: Workspace, tmp_path: Path, weights: Path) -> SearchScope:
    """Return twelve images of a run, with features of the tiny model."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    compute_text_features(workspace, dataset, FeatureSource(NAME, str(weights)), device=CPU)
    return open_search_scope(workspace, "tiny-run")


def encode_texts(weights: Path, texts: list[str]) -> np.ndarray:
    """Return the mean of each text and its caption, normalised, as open_clip computes them."""
    model = load_whole_model(weights)
    with torch.no_grad():
        parts = [
            torch.nn.functional.normalize(model.encode_text(open_clip.tokenize([prompt.format(one) for one in texts])))
            for prompt in ("{}", "a photo of {}")
        ]
    return torch.nn.functional.normalize((parts[0] + parts[1]) / 2).numpy()


def encode_images(scope: SearchScope, weights: Path) -> np.ndarray:
    """Return the unit vectors of the images of a dataset, as open_clip computes them."""
    images = load_images(scope.dataset, IMAGE_SIZE)
    pixels = images.load_batch(np.searchsorted(images.ids, scope.ids), CPU)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)))
    with torch.no_grad():
        return torch.nn.functional.normalize(load_whole_model(weights).encode_image((pixels - mean) / std)).numpy()


def test_text_ranks_images_by_their_similarity_beyond_neutral_texts(scope: SearchScope, weights: Path):
    texts = ["a red bicycle", "a photo", "an image of something"]
    similarity = encode_images(scope, weights) @ encode_texts(weights, texts).T
    advantage = similarity[:, 0] - similarity[:, 1:].max(axis=1)
    found = ImageSearch(scope, create_matchers(scope)).search("a red  bicycle", "text")
    assert sorted(found.ids.tolist()) == scope.ids.tolist()
    assert found.reasons == ("text: a red bicycle",)
    rows = np.searchsorted(scope.ids, found.ids)
    np.testing.assert_allclose(advantage[rows], np.sort(advantage)[::-1], atol=2e-3)  # stored in half precision
    np.testing.assert_allclose(found.scores, 1 / (1 + np.exp(-advantage[rows] / 0.07)), atol=5e-3)


def test_search_box_offers_free_text_only_with_features_of_an_image_text_model(
    scope: SearchScope, workspace: Workspace, tmp_path: Path
):
    suggestions = ImageSearch(scope, create_matchers(scope)).suggest("red bicycle")
    assert suggestions == [SearchSuggestion("text", "red bicycle", 12)]
    with AnnotationStore(scope.dataset) as annotations:
        annotations.exclude([2])
    kept = open_search_scope(workspace, "tiny-run")
    assert 2 not in ImageSearch(kept, create_matchers(kept)).search("red", "text").ids

    other = import_tiny_dataset(workspace, tmp_path / "other")
    ids = np.arange(1, 13)
    assert ImageTextFeatures.find(other, ids) is None
    with pytest.raises(NotFoundError, match="other has no features of an image-text model"):
        require_text_features(other, ids)


def test_features_are_computed_once_and_name_their_model(scope: SearchScope, workspace: Workspace, weights: Path):
    (source,) = find_feature_sources(scope.dataset.folder / "features").values()
    assert source == FeatureSource(NAME, str(weights))
    assert compute_text_features(workspace, scope.dataset, source, device=CPU) == 0
    with pytest.raises(UsageError, match="'default' is no image-text model"):
        compute_text_features(workspace, scope.dataset, FeatureSource("default", ""), device=CPU)


def test_removed_weights_are_named_by_a_search(scope: SearchScope, weights: Path):
    weights.unlink()
    load_text_encoder.cache_clear()
    with pytest.raises(UsageError, match=r"open_clip_model\.safetensors cannot be used"):
        ImageSearch(scope, create_matchers(scope)).search("red", "text")


def test_own_words_are_suggested_by_their_mean_probability(scope: SearchScope, weights: Path):
    words = ["cat", "dog", "red bicycle"]
    logits = encode_images(scope, weights) @ encode_texts(weights, words).T / 0.07
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    features = require_text_features(scope.dataset, scope.ids)
    np.testing.assert_allclose(features.compute_probabilities(words), probabilities, atol=5e-3)
    found = OwnWords(features, np.array(CLUSTERS), words).by_cluster
    assert sorted(found) == [0, 1, 2]
    overall = probabilities.mean(axis=0)
    for cluster, suggested in found.items():
        coverage = probabilities[np.array(CLUSTERS) == cluster].mean(axis=0)
        for one in suggested:
            index = words.index(one.name)
            assert one.coverage == pytest.approx(coverage[index], abs=5e-3)
            assert one.lift == pytest.approx(coverage[index] / overall[index], rel=0.02)


def test_parse_words_accepts_commas_and_lines():
    assert parse_words(" cat, dog\nred  bicycle;cat\n\n") == ["cat", "dog", "red bicycle"]
    for text in ("", "cat", ",".join(map(str, range(2001)))):
        with pytest.raises(UsageError, match="words are not allowed"):
            parse_words(text)


def test_search_and_clusters_commands_use_the_model(crlc, workspace: Workspace, tmp_path: Path, weights: Path):
    write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    assert "no features of an image-text model" in crlc("clusters", "tiny-run", "--words", "cat,dog").err
    found = crlc("search", "tiny-run", "a", "cat", "--in", "text", "--model", NAME, "--weights", weights, "--json")
    assert len(found.json["images"]) == 12
    assert found.json["images"][0]["found_by"] == "text: a cat"
    file = tmp_path / "words.txt"
    file.write_text("cat\ndog\n")
    for given in ("cat, dog", file):
        assert "your words" in crlc("clusters", "tiny-run", "--words", given).out or not any(
            row["words"] for row in crlc("clusters", "tiny-run", "--words", given, "--json").json["clusters"]
        )
    assert "1 words are not allowed" in crlc("clusters", "tiny-run", "--words", "cat").err
    assert RunAnalysis.open(workspace, "tiny-run").names == {}, "a suggestion is never set by itself"


def test_exploration_with_an_image_text_backbone_takes_text(workspace: Workspace, tmp_path: Path, weights: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    network = FROZEN_HEADS.replace(backbone=NAME, weights=str(weights), image_size=IMAGE_SIZE)
    explore_dataset(workspace, dataset, ExplorationSettings(3, MapSettings("pca"), network=network))
    scope = open_search_scope(workspace, "set")
    assert len(ImageSearch(scope, create_matchers(scope)).search("anything", "text").ids) == 12
