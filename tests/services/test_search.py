"""Search by label, cluster name, word and file name, in a run and in an explored dataset."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.annotations.store import AnnotationStore
from crlc.errors import NotFoundError, UsageError
from crlc.services.search import ImageSearch, Match, SearchScope, SearchSuggestion, combine_matches, open_search_scope
from crlc.services.search_matchers import create_matchers
from crlc.workspace import Workspace
from tests.fixtures.class_scores import write_class_scores
from tests.fixtures.handmade_dataset import write_handmade_dataset, write_handmade_run

PATHS = ["park/DOG-1.jpg", "park/2.jpg", "town/3.jpg", "town/4.jpg"]


@pytest.fixture
def search(workspace: Workspace) -> ImageSearch:
    """Return a search in a run of four images with words, one label and one named cluster."""
    dataset = write_handmade_dataset(workspace.root, PATHS)
    write_class_scores(dataset)
    write_handmade_run(workspace, dataset, [0, 0, 1, 1], 2)
    with AnnotationStore(dataset) as annotations:
        annotations.label([4], "dog run")
    scope = open_search_scope(workspace, "run-1")
    named = SearchScope(scope.dataset, scope.ids, scope.clusters, {1: "Trams"}, scope.annotations)
    return ImageSearch(named, create_matchers(named))


def test_word_finds_all_breeds_ranked_by_their_summed_probability(search: ImageSearch):
    found = search.search("dogs", "word")
    assert found.ids.tolist() == [1, 2]
    assert found.scores.tolist() == [0.75, 0.25]
    assert found.reasons == ("word: dog",)


def test_search_combines_all_kinds_and_lists_each_image_once(search: ImageSearch):
    found = search.search("dog")
    assert found.ids.tolist() == [4, 1, 2]
    assert found.scores.tolist() == [1, 0.75, 0.25]
    assert [found.reasons[index] for index in found.reason_indices] == ["label: dog run", "word: dog", "word: dog"]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/1.jpg", "a/2.jpg", "dogs/3.jpg", "hotdog.jpg"], [1, 2, 3, 4]),  # parts of paths after the words
        (["a/1.jpg", "a/2.jpg", "Dog/3.jpg", "hotdog.jpg"], [3, 1, 2, 4]),  # the name of a folder before them
        (["a/1.jpg", "a/2.jpg", "dogs/3.jpg", "a/dog.jpg"], [4, 1, 2, 3]),  # and that of a file
    ],
)
def test_words_are_listed_before_parts_of_paths_and_after_exact_names(
    workspace: Workspace, paths: list[str], expected: list[int]
):
    dataset = write_handmade_dataset(workspace.root, paths)
    write_class_scores(dataset)
    write_handmade_run(workspace, dataset, [0, 0, 1, 1], 2)
    scope = open_search_scope(workspace, "run-1")
    found = ImageSearch(scope, create_matchers(scope)).search("dog")
    assert found.ids.tolist() == expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("trams", None, [3, 4, 2]),  # the cluster, then the word
        ("TRAM", "cluster", [3, 4]),
        ("park/", None, [1, 2]),
        ("park", "word", []),
        ("streetcar", None, [3, 2]),
        ("tram", "word", [3, 2]),  # a synonym
        ("unicorn", None, []),
    ],
)
def test_search_finds(search: ImageSearch, text: str, kind: str | None, expected: list[int]):
    assert search.search(text, kind).ids.tolist() == expected


def test_suggestions_have_numbers_of_images_and_exact_texts_first(search: ImageSearch):
    found = search.suggest("dog")
    assert found[:2] == [SearchSuggestion("word", "dog", 2, is_exact=True), SearchSuggestion("label", "dog run", 1)]
    files = [SearchSuggestion("file name", "dog", 1), SearchSuggestion("file name", "DOG-1.jpg", 1)]
    assert found[-2:] == files
    assert search.suggest("dog", 3) == [*found[:2], files[0]]
    assert search.suggest("tra")[0] == SearchSuggestion("cluster", "Trams", 2)
    assert SearchSuggestion("word", "streetcar", 2) in search.suggest("stre")
    assert search.suggest(" ") == []
    assert search.suggest("xyz") == []


def test_search_refuses_an_empty_text_and_an_unknown_kind(search: ImageSearch):
    with pytest.raises(UsageError, match="empty"):
        search.search("  ")
    with pytest.raises(UsageError, match="'colour' .* label, cluster, word, file name"):
        search.search("red", "colour")


def test_search_leaves_excluded_images_out(search: ImageSearch, workspace: Workspace):
    with AnnotationStore(search.scope.dataset) as annotations:
        annotations.exclude([1])
    scope = open_search_scope(workspace, "run-1")
    assert ImageSearch(scope, create_matchers(scope)).search("dog", "word").ids.tolist() == [2]


def test_search_without_words_still_finds_names_and_files(workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, PATHS)
    write_handmade_run(workspace, dataset, [0, 0, 1, 1], 2)
    scope = open_search_scope(workspace, "run-1")
    search = ImageSearch(scope, create_matchers(scope))
    assert search.search("dog").ids.tolist() == [1]
    assert search.suggest("dog")[0] == SearchSuggestion("file name", "dog", 1)


def test_suggestions_complete_the_names_of_folders_and_files(workspace: Workspace):
    paths = ["trip/Bonn/1.jpg", "trip/Bonn/2.jpg", "trip/Bonn am Rhein/3.jpg", "old/bonn.png", "old/4.jpg", "x/aBonn"]
    dataset = write_handmade_dataset(workspace.root, paths)
    write_handmade_run(workspace, dataset, [0, 0, 1, 1, 1, 1], 2)
    scope = open_search_scope(workspace, "run-1")
    search = ImageSearch(scope, create_matchers(scope))

    def complete(text: str) -> list[tuple[str, int]]:
        return [(one.text, one.images) for one in search.suggest(text)]

    # The text itself with all images; then names that start with it, those of the most images first.
    assert complete("bon") == [("bon", 5), ("Bonn", 5), ("Bonn am Rhein", 1), ("bonn.png", 1)]
    assert complete("Bonn/") == [("Bonn/", 2), ("Bonn/1.jpg", 1), ("Bonn/2.jpg", 1)]
    assert complete("abonn") == [("abonn", 1)]  # complete already
    assert search.search("Bonn am Rhein", "file name").ids.tolist() == [3]


def test_search_in_a_dataset_that_was_not_explored_is_refused(workspace: Workspace):
    write_handmade_dataset(workspace.root, PATHS)
    with pytest.raises(NotFoundError, match="not explored"):
        open_search_scope(workspace, "set")


def test_combined_matches_keep_the_best_reason_of_an_image():
    first = Match("a", np.array([1, 2]), np.array([0.5, 0.25], np.float32))
    second = Match("b", np.array([2, 3]), np.array([0.75, 0.125], np.float32))
    found = combine_matches([first, second])
    assert found.ids.tolist() == [2, 1, 3]
    assert found.reason_indices.tolist() == [1, 0, 1]
    assert combine_matches([first, second._replace(rank=1)]).ids.tolist() == [1, 2, 3]
    assert len(combine_matches([]).ids) == 0
