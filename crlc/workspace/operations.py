"""What a person does to a data set and its clusters: one frozen class per operation, as it stands in the log.

An operation says what is to be, not how it was before; whether it fits is checked before it is made, so that
these classes hold nothing but values. `title` says in words what was done.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from crlc.errors import UsageError
from crlc.names import printable

LONGEST_NAME = 200
# Control characters, halves of characters, line ends, and what turns the direction of the text around it.
_FORBIDDEN_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_TURNS_TEXT = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """Give images a label, in place of any they had."""

    ids: Ids
    name: str
    contents: Ids
    """The content version of each image when it was labelled: with another one, the label is about another picture."""

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"label {images(len(self.ids))} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Unlabel:
    """Take the labels of images away."""

    ids: Ids

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"take away the label of {images(len(self.ids))}"


@dataclass(frozen=True, slots=True)
class Exclude:
    """Leave images out of what is learned and exported."""

    ids: Ids

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"exclude {images(len(self.ids))}"


@dataclass(frozen=True, slots=True)
class Include:
    """Take excluded images in again."""

    ids: Ids

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"include {images(len(self.ids))} again"


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Name a cluster, or take its name away."""

    run: str
    result: str
    """Fingerprint of the result that was edited: in another one the numbers mean other clusters."""

    cluster: int
    name: str | None

    @property
    def title(self) -> str:
        """What was done, in words."""
        if self.name is None:
            return f"take away the name of cluster {self.cluster}"
        return f"name cluster {self.cluster} {self.name!r}"


@dataclass(frozen=True, slots=True)
class MergeClusters:
    """Make one cluster of several; it keeps the smallest of their numbers."""

    run: str
    result: str
    clusters: Ids

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"merge clusters {_listed(self.clusters)}"


@dataclass(frozen=True, slots=True)
class SplitCluster:
    """Make several clusters of one; the first part keeps the number."""

    run: str
    result: str
    cluster: int
    parts: tuple[Ids, ...]
    """The images of each new cluster."""

    first_new: int
    """The number of the second part; the others follow."""

    @property
    def title(self) -> str:
        """What was done, in words."""
        new = range(self.first_new, self.first_new + len(self.parts) - 1)
        return f"split cluster {self.cluster} into {_listed((self.cluster, *new))}"


@dataclass(frozen=True, slots=True)
class MoveImages:
    """Put images into another cluster."""

    run: str
    result: str
    ids: Ids
    cluster: int

    @property
    def title(self) -> str:
        """What was done, in words."""
        return f"move {images(len(self.ids))} to cluster {self.cluster}"


ClusterEdit = NameCluster | MergeClusters | SplitCluster | MoveImages
Single = Label | Unlabel | Exclude | Include | ClusterEdit


@dataclass(frozen=True, slots=True)
class Group:
    """Several operations that are done and undone as one."""

    operations: tuple[Single, ...]
    title: str


Operation = Single | Group

# In the file an operation has this word; it may never change while the file's format does not.
KINDS: dict[str, type[Single]] = {
    "label": Label,
    "unlabel": Unlabel,
    "exclude": Exclude,
    "include": Include,
    "name-cluster": NameCluster,
    "merge-clusters": MergeClusters,
    "split-cluster": SplitCluster,
    "move-images": MoveImages,
}
_WORDS: dict[type[Single], str] = {kind: word for word, kind in KINDS.items()}
_GROUP = "group"


def to_record(operation: Operation) -> tuple[str, dict[str, Any]]:
    """The kind and the JSON content by which an operation is stored."""
    if isinstance(operation, Group):
        members = [dict(zip(("kind", "content"), to_record(member), strict=True)) for member in operation.operations]
        return _GROUP, {"operations": members, "title": operation.title}
    content = {name: getattr(operation, name) for name in type(operation).__slots__}
    if isinstance(operation, Label):
        content["contents"] = _shortened(operation.contents)
    return _WORDS[type(operation)], content


def from_record(kind: str, content: dict[str, Any]) -> Operation:
    """The inverse of `to_record`.

    Raises:
        ValueError: no such operation was ever stored by this program.
    """
    try:
        if kind == _GROUP:
            members = tuple(_single(member["kind"], member["content"]) for member in content["operations"])
            return Group(members, str(content["title"]))
        return _single(kind, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no readable operation of kind {kind!r}: {error}") from None


def run_of(operation: Operation) -> str | None:
    """The run that an operation is about; none for those about the data set."""
    if isinstance(operation, Group):
        runs = {run_of(member) for member in operation.operations}
        return runs.pop() if len(runs) == 1 else None
    return getattr(operation, "run", None)


def check_name(name: str, what: str = "name") -> str:
    """A label's or a cluster's name as it is kept: one spelling of each character, no blanks around it.

    Raises:
        UsageError: it is empty, too long, or holds what cannot be shown in one line.
    """
    plain = unicodedata.normalize("NFC", name).strip()
    shown = printable(plain[:LONGEST_NAME])
    if not plain:
        raise UsageError(f"{what}='{printable(name)}' is not allowed: it is empty. Give at least one character.")
    if len(plain) > LONGEST_NAME:
        raise UsageError(
            f"{what}='{shown}...' is not allowed: it has {len(plain)} characters, the most is {LONGEST_NAME}."
        )
    if any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES or character in _TURNS_TEXT for character in plain):
        raise UsageError(f"{what}='{shown}' is not allowed: it holds control characters. Leave them out.")
    return plain


def images(count: int) -> str:
    """`1 image`, `2,000 images`."""
    return f"{count:,} image" if count == 1 else f"{count:,} images"


def _listed(numbers: Ids) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _single(kind: str, content: dict[str, Any]) -> Single:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    if kind == "split-cluster":
        fields["parts"] = tuple(map(tuple, content["parts"]))
    if kind == "label" and isinstance(fields["contents"], int):
        fields["contents"] = (fields["contents"],) * len(fields["ids"])
    return KINDS[kind](**fields)


def _shortened(contents: Ids) -> int | Ids:
    """One number where all are the same, which is the usual case."""
    return contents[0] if len(set(contents)) == 1 else contents
