"""The first start on a workspace: the example is put there in the background, while the pages are served already."""

from __future__ import annotations

from app.exploring.background import Work, begin, work
from crlc.workspace import Workspace


def begin_first_start(workspace: Workspace) -> None:
    """Begin, once for each start of the server; where there is nothing to do it ends at once."""

    def place(on_its_way: Work) -> None:
        from crlc.workspace.sample import place_sample_once

        place_sample_once(workspace, report=on_its_way.report)

    begin(_key(workspace), "Putting the example in place", place)


def first_start(workspace: Workspace) -> Work | None:
    """The work on it, also after it has ended; none where it was not begun."""
    return work(_key(workspace))


def _key(workspace: Workspace) -> str:
    return f"first-start-{workspace.root}"
