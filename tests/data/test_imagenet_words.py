"""Words for ImageNet's classes: their hypernyms, and how texts find them."""

from __future__ import annotations

import numpy as np
import pytest
from timm.data import ImageNetInfo

from crlc.data.imagenet_words import Word, load_word_table

TABLE = load_word_table()


def find_names(text: str) -> list[str]:
    return [TABLE.words[index].name for index in TABLE.find(text).tolist()]


def test_word_table_starts_with_the_classes_in_their_usual_order():
    labels = ImageNetInfo()
    for number in range(1000):
        assert TABLE.words[number].classes == (number,)
        assert labels.index_to_description(number).split(", ")[0] == TABLE.words[number].short_name
    names = [word.name for word in TABLE.words]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("word", "included", "left_out"),
    [
        ("dog", range(151, 269), [269, 281]),  # the breeds, without the wolf and the cat
        ("bird", [*range(7, 25), *range(80, 101), 127, 146], [0, 151]),
        ("vehicle", [407, 511, 555, 829], [151]),
        ("food", [924, 933, 963], [407]),
        ("mountain", [970, 980], [975]),
    ],
)
def test_hypernym_has_all_of_its_classes(word: str, included: list[int], left_out: list[int]):
    classes = set(TABLE.list_classes(TABLE.find(word)).tolist())
    assert classes >= set(included)
    assert not classes & set(left_out)


def test_dog_has_exactly_the_118_breeds():
    assert TABLE.list_classes(TABLE.find("dog")).tolist() == list(range(151, 269))
    assert TABLE.list_classes(np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dog", ["dog"]),
        ("DOGS", ["dog"]),
        ("butterflies", ["butterfly"]),
        (" golden  retriever ", ["golden retriever"]),
        ("bike", ["moped", "bicycle"]),
        ("cat", ["cat"]),  # a synonym of big cat, too
        ("motorcar", ["car"]),
        ("crane", ["crane (wading bird)", "crane (lifting device)"]),
        ("crane (wading bird)", ["crane (wading bird)"]),
        ("glacier", []),
        ("", []),
    ],
)
def test_find_returns_names_before_synonyms_and_plurals(text: str, expected: list[str]):
    assert find_names(text) == expected


def test_complete_lists_starts_of_names_before_later_words_and_synonyms():
    names = [TABLE.words[index].name for index in TABLE.complete("retr").tolist()]
    assert names[0] == "retriever"
    assert "golden retriever" in names
    assert TABLE.complete("").tolist() == []


def test_short_name_leaves_the_meaning_out():
    assert Word("crane (wading bird)", (), (134,), is_everyday=True).short_name == "crane"


def test_membership_has_a_row_for_each_word():
    assert TABLE.membership.shape == (len(TABLE.words), 1000)
    np.testing.assert_array_equal(TABLE.membership.sum(axis=1), [len(word.classes) for word in TABLE.words])
