"""Write the word table of ImageNet's 1,000 classes: `python assets/make_word_table.py`.

It needs the noun files of WordNet 3.0, which Debian installs with the package `wordnet-base`, and timm. ImageNet's ids
of its classes are positions in these files. Each line of the table is one word: its name, its synonyms, the numbers of
its classes, and whether it may be suggested as a name of a cluster. The first 1,000 lines are the classes; the others
are their hypernyms, such as dog and vehicle. Hypernyms with the same classes are one word.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_WORDNET = Path("/usr/share/wordnet")
_TABLE = Path(__file__).resolve().parents[1] / "crlc" / "data" / "words" / "imagenet.tsv"
_HYPERNYM_POINTERS = ("@", "@i")

_ABSTRACT_WORDS = """
    entity|object|whole|instrumentation|sustenance
    |artifact|organism|animate being|vertebrate|instrumentality|device|container|covering|transport
    |commodity|structure|matter|equipment|implement|instrument|protection|solid|substance|produce|vessel|machine
    |domestic animal|electronic equipment|nourishment|establishment|barrier|obstruction|formation|outlet
    |place of business|game bird|game|cloth|cooking utensil|utensil|cause|relation|part|piece|housing|agent|system
    |support|article|liquid|fluid|simple machine|shelter|top|control|cap|weight|reflector|paraphernalia|string|staff
    |reservoir|communication|communication system|electronic device|attire|residence|column|filter|timer|transducer
    |percussive instrument|individual|abstraction|psychological feature|group|social group|measure|attribute|region
    |location|area|way|passage|opening|surface|line|creation|product|plant organ|material|mixture|compound|act|event
    |activity|content|cognition|indication|signal|writing|written communication|message|symbol|body part|body|extremity
    |fixture|assembly|collection|force|power|source|means|medium|unit|set|kit|craft|drug|dwelling|monument|sheath
    |connection|connector|strip|rod|bar|restraint|point|end|section|segment|layer|side|head|cover|enclosure|cavity
    |space|hole|depression|natural object|thing|body of water|hand tool|carrier|board|panel|frame|natural depression
"""
"""Hypernyms that describe too many things to be a name; they can be searched."""

_FURTHER_WORDS = """
    butterfly|turtle|whale|lobster|fungus|rodent|finch|amphibian|crustacean|arachnid|mollusk|insect|invertebrate
    |marsupial|monkey|domestic cat|big cat|wild dog|heron|seabird|waterfowl|bird of prey|retriever|poodle|setter
    |musical instrument|wind instrument|stringed instrument|wheeled vehicle|motor vehicle|public transport
    |home appliance|sports equipment|footwear|helmet|mask|van|sailing vessel|sailboat|warship|kitchen utensil
    |baked goods|dessert|mixed drink|alcoholic drink|citrus|edible fruit|vegetable|squash|personal computer
    |portable computer|flowering plant|lemur|stork|greyhound|corgi|boa|viper|sled|locomotive|headdress|clothing
    |furniture|swine|equine|feline|canine|primate|ungulate|snack food|sandwich|timepiece|weapon|place of worship
    |aquatic bird|wading bird|shorebird|sea turtle|small boat|measuring instrument|tableware
"""
"""Everyday hypernyms that the counted texts of WordNet do not contain."""


_MERGED_WORDS = ("food", "footwear", "robe")
"""Words whose meanings in WordNet, such as nutrients and solid food, are one for people."""

_DOMINANCE = 2
"""A meaning with this many times the classes of every other meaning of its word needs no distinction."""


class Synset(NamedTuple):
    """A meaning in WordNet: its nouns, and the meanings above it."""

    nouns: list[str]
    counts: list[int]
    """How often each noun has this meaning in the counted texts of WordNet."""

    hypernyms: list[str]


class Row(NamedTuple):
    """One line of the table."""

    name: str
    synonyms: list[str]
    classes: list[int]
    is_everyday: bool


def read_synsets() -> dict[str, Synset]:
    """Return all meanings of nouns by their position in WordNet's file, as in ImageNet's ids."""
    lines = (_WORDNET / "cntlist.rev").read_text("ascii").splitlines()
    counts = {key: int(count) for key, _, count in (line.split() for line in lines)}
    synsets = {}
    for line in (_WORDNET / "data.noun").read_text("ascii").splitlines():
        if line.startswith(" "):
            continue  # the licence
        position, lexical_file, _, noun_count, *fields = line.split(" | ")[0].split(" ")
        size = 2 * int(noun_count, 16)
        given = list(zip(fields[0:size:2], fields[1:size:2], strict=True))
        keys = [f"{noun.lower()}%1:{lexical_file}:{int(number, 16):02}::" for noun, number in given]
        pointers = fields[size + 1 :]
        hypernyms = [
            target for kind, target in zip(pointers[0::4], pointers[1::4], strict=False) if kind in _HYPERNYM_POINTERS
        ]
        nouns = [noun.replace("_", " ") for noun, _ in given]
        synsets[position] = Synset(nouns, [counts.get(key, 0) for key in keys], hypernyms)
    return synsets


def build_rows(synsets: dict[str, Synset], classes: list[str]) -> list[Row]:
    """Return the table for the positions of ImageNet's classes in WordNet."""
    members: dict[str, set[int]] = defaultdict(set)
    for number, position in enumerate(classes):
        above = list(synsets[position].hypernyms)
        while above:
            members[above[-1]].add(number)
            above += synsets[above.pop()].hypernyms
    by_classes: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for position, numbers in members.items():
        by_classes[tuple(sorted(numbers))].append(position)
    rows = []
    for number, position in enumerate(classes):
        same = [position, *by_classes.pop((number,), [])]
        rows.append(Row(synsets[position].nouns[0], _list_nouns(synsets, same)[1:], [number], True))
    general = []
    for group, positions in by_classes.items():
        counted = [pair for position in positions for pair in zip(*synsets[position][:2], strict=True)]
        name, count = _choose_name(counted)
        is_everyday = name not in _split(_ABSTRACT_WORDS) and (count > 0 or name in _split(_FURTHER_WORDS))
        synonyms = [noun for noun in _list_nouns(synsets, positions) if noun != name]
        general.append(Row(name, synonyms, list(group), is_everyday))
    general = _merge_meanings(general)
    general.sort(key=lambda row: (-len(row.classes), row.classes, row.name))
    return rows + general


def _merge_meanings(rows: list[Row]) -> list[Row]:
    """Return the rows with one row for all meanings of each of `_MERGED_WORDS`."""
    kept = [row for row in rows if row.name not in _MERGED_WORDS]
    for word in _MERGED_WORDS:
        same = [row for row in rows if row.name == word]
        classes = sorted({number for row in same for number in row.classes})
        kept.append(Row(word, list(dict.fromkeys(noun for row in same for noun in row.synonyms)), classes, True))
    return kept


def _choose_name(counted: list[tuple[str, int]]) -> tuple[str, int]:
    """Return the most frequent noun and its count; among nouns without a count an everyday one, or else the first."""
    name, count = max(counted, key=lambda pair: pair[1])
    if count:
        return name, count
    return next((pair for pair in counted if pair[0] in _split(_FURTHER_WORDS)), counted[0])


def _list_nouns(synsets: dict[str, Synset], positions: list[str]) -> list[str]:
    return list(dict.fromkeys(noun for position in positions for noun in synsets[position].nouns))


def _split(words: str) -> set[str]:
    return {word.strip() for word in words.split("|")}


def add_distinctions(rows: list[Row]) -> list[Row]:
    """Add a hypernym in brackets to names that several words have, such as crane (bird) and crane (machine)."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_name[row.name].append(index)
    found = list(rows)
    for indices in by_name.values():
        sizes = sorted((len(rows[index].classes) for index in indices), reverse=True)
        for index in indices if len(indices) > 1 else ():
            row = rows[index]
            if len(row.classes) == sizes[0] >= _DOMINANCE * sizes[1]:
                continue
            own = set(row.classes)
            above = [
                other for other in rows if own < set(other.classes) and other.is_everyday and other.name != row.name
            ]
            nearest = min(above, key=lambda other: len(other.classes)).name if above else ""
            hint = nearest or next(iter(row.synonyms), rows[row.classes[0]].name)
            found[index] = row._replace(name=f"{row.name} ({hint})", synonyms=[row.name, *row.synonyms])
    return found


def format_numbers(numbers: list[int]) -> str:
    """Return ascending numbers as ranges: 1-3,7."""
    ranges = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [number for _, number in run]
        ranges.append(str(values[0]) if len(values) == 1 else f"{values[0]}-{values[-1]}")
    return ",".join(ranges)


def main() -> None:
    """Write the table."""
    from timm.data import ImageNetInfo

    labels = ImageNetInfo()
    classes = [labels.index_to_label_name(number)[1:] for number in range(labels.num_classes())]
    rows = add_distinctions(build_rows(read_synsets(), classes))
    lines = [
        f"{row.name}\t{'|'.join(row.synonyms)}\t{format_numbers(row.classes)}\t{int(row.is_everyday)}\n" for row in rows
    ]
    _TABLE.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{len(rows):,} words in {_TABLE.name}\n")


if __name__ == "__main__":
    main()
