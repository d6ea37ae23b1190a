"""Edits that the cards of the Clusters page send: names of clusters, and selected clusters.

The browser numbers its edits and sends each until it is confirmed, as on the Label page: an edit is applied once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class CardEdit(NamedTuple):
    """An edit of the user: the new name of a cluster, or the selected clusters."""

    number: int
    """Number that the browser assigned, from 1."""

    cluster: int | None = None
    name: str = ""
    selected: tuple[int, ...] | None = None


@dataclass
class CardSession:
    """The window that sent the last edits, and the number of its last applied edit."""

    window: str = ""
    answered: int = 0

    def take_new_edits(self, value: Any) -> list[CardEdit]:
        """Return the edits in a value from the browser that were not returned before, in their order."""
        try:
            window, edits = str(value["window"]), sorted(map(_parse_edit, value["edits"]))
        except (TypeError, KeyError, ValueError):
            return []
        if window != self.window:
            self.window, self.answered = window, 0
        new = [edit for edit in edits if edit.number > self.answered]
        if new:
            self.answered = new[-1].number
        return new


def _parse_edit(value: Any) -> CardEdit:
    number = int(value["n"])
    if "selected" in value:
        return CardEdit(number, selected=tuple(sorted(int(cluster) for cluster in value["selected"])))
    return CardEdit(number, int(value["cluster"]), str(value["name"]))
