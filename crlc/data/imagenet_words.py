"""Words for ImageNet's 1,000 classes and their hypernyms, such as dog and vehicle, from WordNet.

The table is `words/imagenet.tsv`, which `assets/make_word_table.py` writes; its licence is beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from crlc.arrays import BoolArray, IntArray

CLASS_COUNT = 1000
WORDS_ORIGIN = "words from ImageNet's 1,000 classes"
"""Origin of the words, as it is shown beside them."""

_TABLE = Path(__file__).with_name("words") / "imagenet.tsv"
_PLURALS = (("ies", "y"), ("es", ""), ("s", ""))


@dataclass(frozen=True)
class Word:
    """A word for one or more classes."""

    name: str
    """Text for people; unique. A meaning may be added in brackets: crane (wading bird)."""

    synonyms: tuple[str, ...]
    classes: tuple[int, ...]
    """Numbers of its classes, ascending."""

    is_everyday: bool
    """Whether it may be suggested as a name: object and placental are only for searching."""

    @property
    def short_name(self) -> str:
        """Name without a meaning in brackets."""
        return self.name.partition(" (")[0]


class WordTable:
    """All words, with the classes of each."""

    def __init__(self, words: tuple[Word, ...]) -> None:
        """Store the words."""
        self.words = words
        names = [(word.name,) for word in words]
        short_names = [(word.short_name,) for word in words]
        synonyms = [word.synonyms for word in words]
        # Searched in this order: `cat` is the word cat, not also its synonym big cat.
        self._indices_by_text = [_index_texts(texts) for texts in (names, short_names, synonyms)]

    @cached_property
    def membership(self) -> BoolArray:
        """Whether each word has each class, (W, 1000)."""
        found = np.zeros((len(self.words), CLASS_COUNT), np.bool_)
        for row, word in zip(found, self.words, strict=True):
            row[list(word.classes)] = True
        return found

    def list_classes(self, indices: IntArray) -> IntArray:
        """Return the classes of some words, ascending."""
        return np.unique(np.concatenate([self.words[index].classes for index in indices.tolist()] or [[]])).astype(
            np.int64
        )

    def find(self, text: str) -> IntArray:
        """Return the indices of the words with a name or synonym, ignoring case and a plural ending."""
        given = " ".join(text.casefold().split())
        singular = [given[: -len(plural)] + ending for plural, ending in _PLURALS if given.endswith(plural)]
        for candidate in (given, *singular):
            for indices in self._indices_by_text:
                if candidate in indices:
                    return np.array(indices[candidate], np.int64)
        return np.empty(0, np.int64)

    def complete(self, text: str) -> IntArray:
        """Return the indices of the words that have a name or synonym starting with a text; names come first."""
        given = " ".join(text.casefold().split())
        found: dict[int, None] = {}
        for indices in self._indices_by_text if given else ():
            for is_first_word in (True, False):
                for name, same in indices.items():
                    if name.startswith(given) if is_first_word else f" {given}" in name:
                        found |= dict.fromkeys(same)
        return np.array(list(found), np.int64)


def _index_texts(texts: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """Return the positions at which each text occurs, ignoring case."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, same in enumerate(texts):
        for text in dict.fromkeys(name.casefold() for name in same):
            indices[text].append(index)
    return indices


@cache
def load_word_table() -> WordTable:
    """Return the table; it is read once."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    return WordTable(tuple(_parse_word(line) for line in lines))


def _parse_word(line: str) -> Word:
    name, synonyms, classes, is_everyday = line.split("\t")
    numbers: list[int] = []
    for part in classes.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return Word(name, tuple(synonyms.split("|")) if synonyms else (), tuple(numbers), is_everyday == "1")
