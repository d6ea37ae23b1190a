"""Edits that a component in the browser numbers, and sends until each is confirmed: every edit is applied once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar


class NumberedEdit(Protocol):
    """An edit with the number that the browser assigned, from 1."""

    @property
    def number(self) -> int:
        """The number."""


T = TypeVar("T", bound=NumberedEdit)


class CardEdit(NamedTuple):
    """An edit on the cards of clusters: the new name of a cluster, or the selected clusters."""

    number: int
    cluster: int | None = None
    name: str = ""
    selected: tuple[int, ...] | None = None


class ReviewEdit(NamedTuple):
    """An edit in the review of reassigned images: labels of images, or the name of a cluster of one of the two runs."""

    number: int
    name: str
    """The label, or the name of the cluster; an empty label removes the label."""

    ids: tuple[int, ...] = ()
    cluster: int | None = None
    is_before: bool = False
    """True if the cluster is one of the older run."""


@dataclass
class EditSession:
    """The window that sent the last edits, and the number of its last applied edit."""

    window: str = ""
    answered: int = 0

    def iterate_new_edits(self, value: Any, parse: Callable[[Any], T]) -> Iterator[T]:
        """Yield the edits in a value from the browser that were not applied before, in their order.

        An edit counts as applied when the caller asks for the next one. Streamlit may interrupt the caller at any time
        to run the page again: then the browser sends the edit again.

        Args:
            value: the value; one that cannot be parsed has no edits.
            parse: returns one edit.
        """
        try:
            window, edits = str(value["window"]), sorted(map(parse, value["edits"]), key=lambda edit: edit.number)
        except (TypeError, KeyError, ValueError):
            return
        if window != self.window:
            self.window, self.answered = window, 0
        for edit in edits:
            if edit.number > self.answered:
                yield edit
                self.answered = edit.number


def parse_card_edit(value: Any) -> CardEdit:
    """Return an edit on the cards of clusters.

    Raises:
        KeyError, TypeError or ValueError: the value is not such an edit.
    """
    number = int(value["n"])
    if "selected" in value:
        return CardEdit(number, selected=tuple(sorted(int(cluster) for cluster in value["selected"])))
    return CardEdit(number, int(value["cluster"]), str(value["name"]))


def parse_review_edit(value: Any) -> ReviewEdit:
    """Return an edit in the review of reassigned images.

    Raises:
        KeyError, TypeError or ValueError: the value is not such an edit.
    """
    number, name = int(value["n"]), str(value["name"])
    if "ids" in value:
        return ReviewEdit(number, name, ids=tuple(int(image) for image in value["ids"]))
    return ReviewEdit(number, name, cluster=int(value["cluster"]), is_before=bool(value["is_before"]))
