"""What the clusters of a run are called: by a person, or else by the labels that the run was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crlc.errors import UsageError
from crlc.names import printable
from crlc.workspace.clusterings import EditedClustering
from crlc.workspace.operations import check_name


def names_of_run(description: Mapping[str, Any]) -> dict[int, str]:
    """The names that a CRLC-semi run was trained with, by output; empty for other runs.

    They may have been classes, so any text: what could not be a label is written in printable form.
    """
    return {int(output): _one_line(name) for output, name in description.get("names", {}).items()}


def shown_names(description: Mapping[str, Any], edited: EditedClustering) -> dict[int, str]:
    """The name of every cluster that has one. A merged cluster without one gets that of its smallest part."""
    trained = names_of_run(description)
    names: dict[int, str] = {}
    for output in sorted(trained):
        names.setdefault(edited.merged.get(output, output), trained[output])
    return {**names, **edited.names}


def _one_line(name: str) -> str:
    try:
        return check_name(name)
    except UsageError:
        return printable(name)
