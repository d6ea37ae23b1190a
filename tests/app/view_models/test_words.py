"""Words and text search of a view."""

from __future__ import annotations

import numpy as np

from app.background.tasks import get_task
from app.view_models.cluster_view import RunView
from app.view_models.words import (
    FoundImages,
    describe_suggested_name,
    get_text_search,
    get_words,
    suggest_names_for,
)
from crlc.services.words import SuggestedName
from tests.fixtures.class_scores import write_class_scores

ALPS = {"alp": 0.75}
DOGS = {"golden retriever": 0.5, "beagle": 0.25}


def test_words_appear_once_their_classes_are_computed(view: RunView):
    assert get_words(view) is None
    assert suggest_names_for(view, view.ids) == []
    assert get_text_search(view).search("dog", "word").ids.tolist() == []
    write_class_scores(view.dataset, [DOGS] * 4 + [ALPS] * 8)
    words = get_words(view)
    assert words is not None
    assert get_words(view) is words  # loaded once
    assert suggest_names_for(view, np.arange(1, 5))[0].name == "dog"
    assert get_text_search(view).search("dog").ids.tolist() == [1, 2, 3, 4]
    assert get_task(f"words-{view.dataset.folder}") is None  # nothing was left to compute


def test_found_images_have_their_probability_or_their_reason_as_caption(view: RunView):
    write_class_scores(view.dataset, [DOGS, ALPS])
    search = get_text_search(view)
    found = FoundImages.from_result("dog", search.search("dog"))
    assert found.format_caption(1) == "dog 75%"
    files = FoundImages.from_result("00001", search.search("00001"))
    assert {files.format_caption(number) for number in files.result.ids.tolist()} == {None}  # shown by its name


def test_found_images_have_their_similarity_to_an_image_as_caption():
    found = FoundImages.from_similarities(np.array([7, 3]), np.array([1.0, 0.812], np.float32))
    assert [found.format_caption(number) for number in (7, 3)] == ["similarity 1.00", "similarity 0.81"]
    assert found.text == ""  # the search box stays empty


def test_suggested_name_is_described_with_scores_and_origin():
    text = describe_suggested_name(SuggestedName("dog", 0.375, 2.5))
    assert "38%" in text
    assert "2.5 times" in text
    assert "ImageNet's 1,000 classes" in text
