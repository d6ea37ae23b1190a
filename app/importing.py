"""Imports asked for on the Start page: in the background, so that they go on when the page is closed or left."""

from __future__ import annotations

from dataclasses import dataclass

from app.exploring.background import Work, begin, dismiss, works
from crlc.config import ImportOptions
from crlc.errors import CrlcError
from crlc.workspace import Workspace


@dataclass(frozen=True)
class ImportOutcome:
    """What an import brought."""

    dataset: str
    readable: int
    seconds: float


def begin_import(
    workspace: Workspace, given: str, name: str | None = None, options: ImportOptions | None = None
) -> str:
    """Begin, or find the one that is on its way already; returns its key.

    Args:
        workspace: where to.
        given: a path or the name of a built-in set.
        name: of the data set, where it is one to be carried on.
        options: how; what they leave open stays as an earlier import had it.
    """

    def bring_in(on_its_way: Work) -> None:
        try:
            dataset, outcome = workspace.import_dataset(given, name=name, options=options, report=on_its_way.report)
        except OSError as error:
            raise CrlcError(
                f"{given} could not be imported: {error}. Check the path, your rights and the disk."
            ) from None
        on_its_way.result = ImportOutcome(dataset.name, outcome.readable, outcome.seconds)

    for key, found in imports_of(workspace).items():
        if not found.running and found.error is None:
            dismiss(key)  # whoever began it has gone
    key = f"{_prefix(workspace)}{given}"
    begin(key, f"Importing {given}", bring_in)
    return key


def imports_of(workspace: Workspace) -> dict[str, Work]:
    """All that are on their way, or have ended and were not dismissed."""
    return works(_prefix(workspace))


def _prefix(workspace: Workspace) -> str:
    return f"import-{workspace.root}-"
