"""Names of the clusters of a run: set by the user, or else taken from the labels that it was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crlc.annotations.operations import normalize_name
from crlc.clusters.clustering import EditedClustering
from crlc.errors import UsageError
from crlc.paths import to_printable


def get_trained_names(metadata: Mapping[str, Any]) -> dict[int, str]:
    """Return the label names that a CRLC-semi run was trained with, by cluster; empty for other runs.

    Ground-truth classes may have any text as a name. Names that are not allowed as labels are made printable.
    """
    names = metadata.get("names", {}).items()
    return {int(output): _one_line(name) for output, name in names if output.isdecimal()}


def get_display_names(metadata: Mapping[str, Any], edited: EditedClustering) -> dict[int, str]:
    """Return the names of all named clusters. An unnamed merged cluster gets the name of its lowest-numbered part.

    Args:
        metadata: metadata of the run.
        edited: its clusters after all edits.
    """
    trained = get_trained_names(metadata)
    names: dict[int, str] = {}
    for output in sorted(trained):
        names.setdefault(edited.merged.get(output, output), trained[output])
    return {**names, **edited.names}


def _one_line(name: str) -> str:
    try:
        return normalize_name(name)
    except UsageError:
        return to_printable(name)
