"""Two runs of a data set side by side: agreement, matched clusters, images that moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import streamlit as st

from app.components.gallery import show_strip
from app.components.plain import show_caption, show_error
from app.figures.compare import overlap_figure
from crlc.analysis.compare import Comparison
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.workspace import Workspace

_SHOWN = 36


@dataclass(frozen=True)
class Compared:
    """What was found, and what it takes to show it."""

    found: Comparison
    dataset: ImageDataset
    first_names: tuple[str, ...]
    second_names: tuple[str, ...]


def show_comparison(workspace: Workspace, first: str, second: str) -> None:
    """Compare two runs by their ids."""
    try:
        stamps = tuple((workspace.root / "runs" / run / "result.json").stat().st_mtime_ns for run in (first, second))
        edited = _edits(workspace, first)
        compared = _compared(workspace.root, first, second, (*stamps, edited))
    except FileNotFoundError:
        show_error("One of the two has no result yet. Wait for its first look at the clusters, or resume it.")
        return
    except CrlcError as error:
        show_error(str(error))
        return
    found = compared.found
    cells = (
        ("Images in both", f"{found.images:,}", "Only these are compared."),
        ("Stayed", f"{found.same_share:.1%}", "Images whose cluster in one run is the match of that in the other."),
        ("ARI", f"{found.ari:.3f}", "Agreement of the two groupings: 1 the same, 0 as by chance."),
        ("NMI", f"{found.nmi:.3f}", "Information that one grouping has about the other, from 0 to 1."),
        ("Moved", f"{len(found.moved_ids):,} images", "Images that are in another than the matching cluster."),
    )
    for column, (label, value, text) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(label, value, help=text)
    st.markdown("**Which clusters go together**", help="Images in both clusters; matched ones are on the diagonal.")
    figure = overlap_figure(found, compared.first_names, compared.second_names)
    st.plotly_chart(figure, key="overlap", config={"displayModeBar": False})
    _show_moved(compared)


def moves_of(found: Comparison) -> dict[tuple[int, int], int]:
    """How many images went from which cluster to which, most first."""
    pairs = np.stack([found.moved_from, found.moved_to], axis=1)
    if not len(pairs):
        return {}
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {(int(kinds[one][0]), int(kinds[one][1])): int(counts[one]) for one in order}


def moved_images(found: Comparison, move: tuple[int, int] | None, most: int) -> list[tuple[int, int, int]]:
    """Some of the images that moved, with both clusters; spread over all of them, not only the first."""
    kept = np.arange(len(found.moved_ids))
    if move is not None:
        kept = np.flatnonzero((found.moved_from == move[0]) & (found.moved_to == move[1]))
    chosen = kept[np.unique(np.linspace(0, len(kept) - 1, min(most, len(kept))).astype(np.int64))] if len(kept) else []
    return [(int(found.moved_ids[i]), int(found.moved_from[i]), int(found.moved_to[i])) for i in chosen]


def _show_moved(compared: Compared) -> None:
    found = compared.found
    if not len(found.moved_ids):
        show_caption("No image moved.")
        return
    moves = moves_of(found)
    first, second = compared.first_names, compared.second_names
    move = st.selectbox(
        "Images that moved",
        [None, *moves],
        format_func=lambda one: "all" if one is None else f"{first[one[0]]} to {second[one[1]]}: {moves[one]:,} images",
        key="moved-kind",
    )
    images = []
    for image, before, after in moved_images(found, move, _SHOWN):
        try:
            images.append((compared.dataset.record(image), f"{first[before]} to {second[after]}"))
        except CrlcError:
            continue  # gone since
    show_strip(compared.dataset.name, images)
    if len(found.moved_ids) > _SHOWN:
        show_caption(f"A sample of {len(images)}; `crlc compare FIRST SECOND --json` lists all.")


@lru_cache(maxsize=8)
def _compared(root: Path, first: str, second: str, _: object) -> Compared:
    from crlc.workspace.run_analysis import RunAnalysis
    from crlc.workspace.run_comparison import compare

    workspace = Workspace(root)
    one, other = RunAnalysis.open(workspace, first), RunAnalysis.open(workspace, second)
    found = compare(one, other)
    most = max(int(one.clusters.max(initial=0)), int(other.clusters.max(initial=0))) + 1
    return Compared(found, one.dataset, _names(one.names, most), _names(other.names, most))


def _names(names: Mapping[int, str], count: int) -> tuple[str, ...]:
    return tuple(f"{number} {names[number]}" if number in names else str(number) for number in range(count))


def _edits(workspace: Workspace, run: str) -> tuple[int, ...]:
    """Changes with whatever people say about the images and clusters."""
    from crlc.workspace.runs import Runs

    folder = Runs(workspace).dataset_of(Runs(workspace).open(run).description(), unchanged=False).folder
    files = (folder / "annotations.sqlite", folder / "annotations.sqlite-wal")
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
