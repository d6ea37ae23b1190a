"""Operations of the annotation log: one frozen dataclass for each kind of label, exclusion or cluster edit.

An operation holds the new values, not the previous ones. Callers validate the values before they create an operation.
`title` describes the operation for the user.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from crlc.arrays import ImageIds
from crlc.errors import UsageError
from crlc.formatting import format_cluster, format_count
from crlc.paths import to_printable

MAX_NAME_LENGTH = 200
MAX_IMAGE_ID = 2**31 - 1
_MAX_CLUSTER = 2**24
# Control characters, unpaired surrogates, line separators, and characters that change the text direction.
_FORBIDDEN_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_CHARACTERS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

Ids = tuple[int, ...]
ClusterNames = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Label:
    """Set the label of images, replacing any previous label."""

    ids: Ids
    name: str
    contents: Ids
    """Content version of each image when it was labelled. If the image changes later, the label is out of date."""

    @property
    def title(self) -> str:
        """Description for the user."""
        return f"label {format_count(len(self.ids), 'image')} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Unlabel:
    """Remove the labels of images."""

    ids: Ids

    @property
    def title(self) -> str:
        """Description for the user."""
        return f"remove the label of {format_count(len(self.ids), 'image')}"


@dataclass(frozen=True, slots=True)
class Exclude:
    """Exclude images from training and export."""

    ids: Ids

    @property
    def title(self) -> str:
        """Description for the user."""
        return f"exclude {format_count(len(self.ids), 'image')}"


@dataclass(frozen=True, slots=True)
class Include:
    """Include excluded images again."""

    ids: Ids

    @property
    def title(self) -> str:
        """Description for the user."""
        return f"include {format_count(len(self.ids), 'image')} again"


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Set or remove the name of a cluster."""

    run: str
    result: str
    """Fingerprint of the edited result: the cluster numbers are valid only in this result."""

    cluster: int
    name: str | None

    @property
    def title(self) -> str:
        """Description for the user."""
        return self.describe({})

    def describe(self, names: ClusterNames) -> str:
        """Return the description with the names that clusters have before the edit."""
        if self.name is None:
            return f"remove the name of {format_cluster(self.cluster, names)}"
        if self.cluster in names:
            return f"rename {format_cluster(self.cluster, names)} to {self.name!r}"
        return f"name cluster {self.cluster} {self.name!r}"


@dataclass(frozen=True, slots=True)
class MergeClusters:
    """Merge clusters into the one with the smallest number."""

    run: str
    result: str
    clusters: Ids

    @property
    def title(self) -> str:
        """Description for the user."""
        return self.describe({})

    def describe(self, names: ClusterNames) -> str:
        """Return the description with the names that clusters have before the edit."""
        if not any(cluster in names for cluster in self.clusters):
            return f"merge clusters {_join([*map(str, self.clusters)])}"
        return f"merge {_join([format_cluster(cluster, names) for cluster in self.clusters])}"


@dataclass(frozen=True, slots=True)
class SplitCluster:
    """Split a cluster; the first part keeps its number."""

    run: str
    result: str
    cluster: int
    parts: tuple[Ids, ...]
    """Image ids of each part."""

    first_new: int
    """Number of the second part; the other parts follow."""

    @property
    def title(self) -> str:
        """Description for the user."""
        return self.describe({})

    def describe(self, names: ClusterNames) -> str:
        """Return the description with the names that clusters have before the edit."""
        new = range(self.first_new, self.first_new + len(self.parts) - 1)
        return f"split {format_cluster(self.cluster, names)} into {_join([*map(str, (self.cluster, *new))])}"


@dataclass(frozen=True, slots=True)
class MoveImages:
    """Move images to another cluster."""

    run: str
    result: str
    ids: Ids
    cluster: int

    @property
    def title(self) -> str:
        """Description for the user."""
        return self.describe({})

    def describe(self, names: ClusterNames) -> str:
        """Return the description with the names that clusters have before the edit."""
        return f"move {format_count(len(self.ids), 'image')} to {format_cluster(self.cluster, names)}"


ClusterEdit = NameCluster | MergeClusters | SplitCluster | MoveImages
SingleOperation = Label | Unlabel | Exclude | Include | ClusterEdit


@dataclass(frozen=True, slots=True)
class OperationGroup:
    """Several operations that are applied and undone as one."""

    operations: tuple[SingleOperation, ...]
    title: str


Operation = SingleOperation | OperationGroup

# Names of the operations in the file: they must not change without a new format version.
KINDS: dict[str, type[SingleOperation]] = {
    "label": Label,
    "unlabel": Unlabel,
    "exclude": Exclude,
    "include": Include,
    "name-cluster": NameCluster,
    "merge-clusters": MergeClusters,
    "split-cluster": SplitCluster,
    "move-images": MoveImages,
}
_WORDS: dict[type[SingleOperation], str] = {kind: word for word, kind in KINDS.items()}
_GROUP = "group"


def to_record(operation: Operation) -> tuple[str, dict[str, Any]]:
    """Return the kind and the JSON content with which an operation is stored."""
    if isinstance(operation, OperationGroup):
        members = [dict(zip(("kind", "content"), to_record(member), strict=True)) for member in operation.operations]
        return _GROUP, {"operations": members, "title": operation.title}
    content = {name: getattr(operation, name) for name in type(operation).__slots__}
    if isinstance(operation, Label):
        content["contents"] = _shorten_versions(operation.contents)
    return _WORDS[type(operation)], content


def from_record(kind: str, content: dict[str, Any]) -> Operation:
    """Rebuild an operation from its kind and JSON content; the inverse of `to_record`.

    Raises:
        ValueError: the kind is unknown, or the content is not valid for it.
    """
    try:
        if kind == _GROUP:
            members = tuple(_read_single(member["kind"], member["content"]) for member in content["operations"])
            return OperationGroup(members, str(content["title"]))
        return _read_single(kind, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an operation of kind {kind!r} cannot be read: {error}") from None


def _check(operation: SingleOperation) -> None:
    """Check the values of an operation from a file, which become indices of arrays.

    Raises:
        ValueError: a value has a wrong type, or a number is out of range.
    """
    for field in fields(operation):
        value = getattr(operation, field.name)
        if field.name in ("run", "result", "name"):
            is_valid = isinstance(value, str) or (value is None and isinstance(operation, NameCluster))
        elif field.name == "parts":
            is_valid = len(value) > 0 and all(_are_numbers(part, 1, MAX_IMAGE_ID) for part in value)
        elif field.name in ("cluster", "first_new"):
            is_valid = _are_numbers((value,), 0, _MAX_CLUSTER)
        elif field.name == "clusters":
            is_valid = len(value) > 0 and _are_numbers(value, 0, _MAX_CLUSTER)
        else:
            is_valid = _are_numbers(value, 0 if field.name == "contents" else 1, MAX_IMAGE_ID)
        if not is_valid:
            raise ValueError(f"{field.name} has values that are not allowed")
    if isinstance(operation, Label) and len(operation.ids) != len(operation.contents):
        raise ValueError("ids and contents have different lengths")


def _are_numbers(values: Sequence[object], low: int, high: int) -> bool:
    """Return whether all values are whole numbers in a range; with NumPy, because there may be 100,000."""
    numbers = np.asarray(values)
    if not numbers.size:
        return True
    return numbers.ndim == 1 and numbers.dtype.kind in "iu" and low <= numbers.min() <= numbers.max() <= high


def get_run(operation: Operation) -> str | None:
    """Return the run whose clusters an operation edits, or `None` for an operation on the dataset."""
    if isinstance(operation, OperationGroup):
        runs = {get_run(member) for member in operation.operations}
        return runs.pop() if len(runs) == 1 else None
    return getattr(operation, "run", None)


def normalize_ids(ids: Iterable[int]) -> ImageIds:
    """Return the unique ids in ascending order.

    Raises:
        UsageError: there are no ids, or they are not whole numbers.
    """
    given = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if not given.size:
        raise UsageError("No image was given: at least one is needed.")
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise UsageError(
            f"Image ids of type {given.dtype} and shape {given.shape} are not allowed: they must be whole numbers."
        )
    return np.unique(given.astype(np.int64))


def normalize_name(name: str, what: str = "name") -> str:
    """Return the name of a label or cluster in its stored form: Unicode NFC, without surrounding whitespace.

    Args:
        name: name that the user gave.
        what: name of the parameter, for the error message.

    Raises:
        UsageError: the name is empty or too long, or has characters that cannot be shown in one line.
    """
    normalized = unicodedata.normalize("NFC", name).strip()
    shown = to_printable(normalized[:MAX_NAME_LENGTH])
    if not normalized:
        raise UsageError(
            f"{what}='{to_printable(name)}' is not allowed: it is empty. It must have at least one character."
        )
    if len(normalized) > MAX_NAME_LENGTH:
        raise UsageError(
            f"{what}='{shown}...' is not allowed: it has {len(normalized)} characters and may have at most "
            f"{MAX_NAME_LENGTH}."
        )
    if any(map(_is_forbidden, normalized)):
        raise UsageError(f"{what}='{shown}' is not allowed: it has control characters.", advice="Leave them out.")
    return normalized


def _is_forbidden(character: str) -> bool:
    return unicodedata.category(character) in _FORBIDDEN_CATEGORIES or character in _DIRECTION_CHARACTERS


def _join(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _read_single(kind: str, content: dict[str, Any]) -> SingleOperation:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    if kind == "split-cluster":
        values["parts"] = tuple(map(tuple, content["parts"]))
    if kind == "label" and isinstance(values["contents"], int):
        values["contents"] = (values["contents"],) * len(values["ids"])
    operation = KINDS[kind](**values)
    _check(operation)
    return operation


def _shorten_versions(contents: Ids) -> int | Ids:
    """Return a single number if all versions are equal, which is the usual case."""
    return contents[0] if len(set(contents)) == 1 else contents
