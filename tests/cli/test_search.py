"""Command `search`, and the words that `clusters` prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crlc.workspace import Workspace
from tests.conftest import Outcome
from tests.fixtures.class_scores import write_class_scores
from tests.fixtures.handmade_dataset import write_handmade_dataset, write_handmade_run
from tests.fixtures.tiny_run import describe_run

Crlc = Callable[..., Outcome]


@pytest.fixture
def run(workspace: Workspace) -> str:
    """Create a run of four images with words, in two clusters."""
    dataset = write_handmade_dataset(workspace.root, ["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg"])
    write_class_scores(dataset)
    return write_handmade_run(workspace, dataset, [0, 0, 1, 1], 2).id


def test_search_prints_images_with_probability_reason_and_path(crlc: Crlc, run: str):
    found = crlc("search", run, "dog")
    assert found.code == 0
    lines = found.out.splitlines()
    assert "2 images" in lines[0]
    assert lines[2].split() == ["1", "0.750", "word:", "dog", "a/1.jpg"]
    assert "ImageNet's 1,000 classes" in lines[-1]
    assert "1 more" in crlc("search", run, "dog", "-n", "1").out
    images = crlc("search", run, "golden", "retriever", "--json").json["images"]
    assert images == [{"id": 1, "score": 0.5, "found_by": "word: golden retriever", "path": "a/1.jpg"}]
    assert len(crlc("search", run, "dog", "--at-least", "0.05", "--json").json["images"]) == 3


def test_search_reports_wrong_arguments(crlc: Crlc, run: str):
    assert crlc("search", run, "dog", "--at-least", "2").code == 2
    for count in ("0", "-3"):
        refused = crlc("search", run, "dog", "-n", count)
        assert (refused.code, f"-n {count} is not allowed" in refused.err) == (2, True)
    refused = crlc("search", run, "dog", "--in", "colour").err
    assert refused.startswith(
        "error: Searching only 'colour' is not possible. There are: label, cluster, word, file name"
    )
    assert "0 images" in crlc("search", run, "unicorn").out
    unknown = crlc("search", "sett", "dog")
    assert (unknown.code, "'set'" in unknown.err or "There are: set" in unknown.err) == (1, True)


def test_search_without_result_names_the_command_for_any_text(crlc: Crlc, run: str):
    command = f"run: crlc search {run} 'a red car' --model open_clip/"
    assert command in crlc("search", run, "a", "red", "car").out
    assert "open_clip" not in crlc("search", run, "unicorn", "--in", "label").out
    assert "open_clip" not in crlc("search", run, "dog").out
    refused = crlc("search", run, "a", "red", "car", "--in", "text")
    assert (refused.code, command in refused.err) == (1, True)


def test_search_in_a_dataset_that_was_not_explored_names_its_run_and_the_command(crlc: Crlc, workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, ["1.jpg", "2.jpg"])
    refused = crlc("search", dataset.name, "dog")
    assert (refused.code, f"run: crlc explore {dataset.name}" in refused.err) == (1, True)
    describe_run(workspace, dataset, f"{dataset.name}-20240101", clusters=2)
    assert f"Search its run {dataset.name}-20240101 instead" in crlc("search", dataset.name, "dog").err


def test_clusters_print_three_words_with_their_lift(crlc: Crlc, run: str):
    found = crlc("clusters", run)
    assert "words" in found.out.splitlines()[0]
    assert "dog 1." in found.out.splitlines()[1]
    assert "ImageNet's 1,000 classes" in found.out
    (first, _) = crlc("clusters", run, "--json").json["clusters"]
    assert first["words"][0] == {"word": "dog", "coverage": 0.5, "lift": pytest.approx(0.5 / 0.265625, abs=1e-6)}
    assert first["name"] is None  # a word is never set by itself


def test_clusters_with_own_words_names_the_command_that_computes_missing_features(crlc: Crlc, run: str):
    found = crlc("clusters", run, "--words", "red car, dog")
    assert found.code == 1
    assert f"run: crlc search {run} 'red car' --model open_clip/" in found.err


def test_clusters_without_words_print_no_words(crlc: Crlc, workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, ["1.jpg", "2.jpg"])
    write_handmade_run(workspace, dataset, [0, 1], 2)
    assert "words" not in crlc("clusters", "run-1").out
