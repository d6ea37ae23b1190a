"""Card of a dataset on the Start page: its contents, its problems, and the next steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

import streamlit as st

from app.background.imports import start_import
from app.background.previews import build_preview_key, get_preview, read_preview_stamp
from app.components.common.fragments import make_fragment
from app.components.common.image_strip import show_image_strip
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error, show_text, show_warning
from app.components.datasets.originals import show_missing_originals
from app.components.map.first_map_estimate import show_first_map_estimate
from app.navigation import go_to
from app.state.notices import record_started_task, watch_task
from app.state.selection import request_selection
from app.urls import build_duplicates_url, build_problems_url
from app.view_models.view_cache import evict_dataset
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.errors import CrlcError, DamagedError, explain_system_error
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.workspace import Workspace
from crlc.workspace.example import EXAMPLE_RUN
from crlc.workspace.removal import find_runs_of_dataset, remove_dataset_with_runs

_SAMPLE_IMAGES = 12
_STRIP_HEIGHT_PIXELS = 62
"""At this height, twelve square images fit beside each other without being cut."""

_MAX_REASONS, _REASONS_HEIGHT_PIXELS = 12, 320
"""More reasons than this scroll within the height."""

_IMPORT_POLL_SECONDS = 2.0
_WITHOUT_ORIGINALS = "Until then, thumbnails are shown at the stored size."


@dataclass(frozen=True)
class CardContext:
    """Information about a dataset from the rest of the workspace."""

    runs: tuple[str, ...]
    """Ids of its runs, oldest first."""

    may_measure: bool
    """True if no training or import is running, so that times can be measured."""

    is_newest: bool = False
    """True if it was imported last: the page's primary button is the one that opens it."""


def show_dataset_card(workspace: Workspace, name: str, context: CardContext) -> None:
    """Show the card of a dataset; while another process imports the dataset, only the progress of the import."""
    with st.container(border=True, key=f"dataset-{name}"):
        try:
            dataset, summary = _read_dataset(workspace, name)
        except (CrlcError, OSError) as error:
            if workspace.is_being_written(name):
                _show_import_in_progress(workspace, name)
            else:
                _show_damaged(workspace, name, error)
            return
        if not summary.complete and workspace.is_being_written(name):
            _show_import_in_progress(workspace, name)
            return
        _show_head(workspace, dataset, summary, context)
        show_image_strip(name, dataset.sample_records(_SAMPLE_IMAGES), height=_STRIP_HEIGHT_PIXELS)
        show_caption(_describe_location(dataset))
        _show_state(workspace, dataset, summary, context)


def describe_summary(summary: DatasetSummary) -> str:
    """Return the counts of a dataset in one line."""
    facts = [format_count(summary.readable, "image"), " and ".join(f"{size} px" for size in summary.sizes)]
    if summary.classes:
        facts.append(format_count(len(summary.classes), "ground-truth class", "ground-truth classes"))
    unreadable = sum(summary.unreadable.values())
    if unreadable:
        facts.append(f"{unreadable:,} unreadable")
    if summary.duplicates:
        facts.append(format_count(summary.duplicates, "exact duplicate"))
    return " · ".join(filter(None, facts))


# ---- reading


def _read_dataset(workspace: Workspace, name: str) -> tuple[ImageDataset, DatasetSummary]:
    try:
        return _open(workspace, name)
    except CrlcError:
        if workspace.is_being_written(name):
            raise
        return _open(workspace, name)  # an import that ended in between left it readable


def _open(workspace: Workspace, name: str) -> tuple[ImageDataset, DatasetSummary]:
    dataset = workspace.open_dataset(name)
    return dataset, _summarize(str(dataset.folder), dataset.info.uid, dataset.version, *_read_file_times(dataset))


@st.cache_data(show_spinner=False, max_entries=32)
def _summarize(folder: str, *version: object) -> DatasetSummary:
    """Summarise a dataset; cached per state of the manifest, because 100,000 images take 0.25 s."""
    del version
    return ImageDataset(Path(folder)).summarize()


def _read_file_times(dataset: ImageDataset) -> tuple[int, ...]:
    """Return the modification times of the manifest's files; they also change while an import writes."""
    files = (dataset.folder / name for name in ("manifest.sqlite", "manifest.sqlite-wal"))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)


# ---- datasets that cannot be opened


@partial(make_fragment, run_every=_IMPORT_POLL_SECONDS)
def _show_import_in_progress(workspace: Workspace, name: str) -> None:
    """Show the progress of an import by another process; redraw the page when it has ended."""
    if not workspace.is_being_written(name):
        st.rerun()
    try:
        summary = workspace.open_dataset(name).summarize()
        done, total = summary.readable, summary.readable + summary.pending
    except CrlcError:
        done = total = 0  # the manifest has no tables yet
    show_text(name)
    st.progress(done / total if total else 0.0)
    show_caption(
        f"Importing in another process: {done:,} of {format_count(total, 'image')}." if total else "Importing…"
    )


def _show_damaged(workspace: Workspace, name: str, error: CrlcError | OSError) -> None:
    """Show the error of a dataset; only one with damaged files can be deleted, not one that cannot be read now."""
    words, remove = st.columns([7, 1], vertical_alignment="center")
    with words:
        show_text(name)
    if isinstance(error, DamagedError):
        with remove:
            _show_removal(workspace, name, None)
    show_error(str(explain_system_error(error, workspace.root) or error))


# ---- parts of the card


def _show_head(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary, context: CardContext) -> None:
    words, explore, train, remove = st.columns([5.6, 1.2, 1, 1.25], vertical_alignment="center")
    is_example = EXAMPLE_RUN in context.runs
    with words:
        text = describe_summary(summary)
        st.html(f"<b style='font-size:1.1rem;margin-right:.6rem'>{escape(dataset.name)}</b> {escape(text)}")
    if explore.button(
        "Explore",
        key=f"explore-{dataset.name}",
        width="stretch",
        type="primary" if context.is_newest else "secondary",
        disabled=not summary.readable,
        help="Opens the map and images of the newest run, or an untrained preview.",
    ):
        request_selection(dataset.name, context.runs[-1] if context.runs else None)
        go_to("explore")
    if train.button(
        "Train",
        key=f"train-{dataset.name}",
        width="stretch",
        disabled=not summary.complete,
        help="Opens the Train page with this dataset.",
    ):
        request_selection(dataset.name, context.runs[-1] if context.runs else None)
        go_to("train")
    with remove:
        _show_removal(workspace, dataset.name, dataset)
    if is_example:
        show_text(f"Example: {summary.readable:,} handwritten digits, already clustered. Open it with Explore.")


def _show_removal(workspace: Workspace, name: str, dataset: ImageDataset | None) -> None:
    with st.popover("Delete", width="stretch", key=f"remove-box-{name}"):
        count = len(find_runs_of_dataset(workspace, name))
        runs = "" if not count else f" This also deletes {format_count(count, 'run')}."
        show_text(f"Delete the dataset {name} with its labels and cluster names?{runs}")
        show_caption("Your original images stay where they are.")
        if st.button("Delete permanently", type="primary", key=f"remove-{name}"):
            try:
                if dataset is not None:
                    evict_dataset(dataset)
                remove_dataset_with_runs(workspace, name)
            except (CrlcError, OSError) as error:
                show_error(str(error))
            else:
                st.rerun()


def _show_state(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary, context: CardContext) -> None:
    """Show the problems of a dataset, and the estimated time of its first map."""
    if not summary.complete:
        words, button = st.columns([5, 1.3], vertical_alignment="center")
        with words:
            done, total = summary.readable, summary.readable + summary.pending
            show_warning(f"Import paused after {done:,} of {format_count(total, 'image')}. Progress is saved.")
        if button.button("Resume import", key=f"carry-on-{dataset.name}", width="stretch"):
            key = start_import(workspace, dataset.info.location, dataset.name)
            record_started_task(key)
            watch_task(key)
            st.rerun()
    are_missing = show_missing_originals(workspace, dataset, _WITHOUT_ORIGINALS)
    is_new = not context.runs and read_preview_stamp(dataset) is None
    preview = get_preview(workspace, dataset.name)
    if preview is not None and preview.is_running:
        show_task(build_preview_key(workspace, dataset.name))
    elif summary.complete and is_new and not are_missing:
        show_first_map_estimate(workspace, dataset, may_measure=context.may_measure)
    _show_problems(dataset, summary)


def _describe_location(dataset: ImageDataset) -> str:
    if dataset.info.source_kind == "builtin":
        return "Included with scikit-learn" if dataset.info.location == "digits" else "Built-in dataset"
    return to_printable(dataset.info.location)


def _show_problems(dataset: ImageDataset, summary: DatasetSummary) -> None:
    count = sum(summary.unreadable.values())
    if count:
        with st.expander(f"{format_count(count, 'file')} could not be read", key=f"problems-{dataset.name}"):
            with st.container(height=_REASONS_HEIGHT_PIXELS if len(summary.unreadable) > _MAX_REASONS else "content"):
                reasons = summary.unreadable.items()
                show_text("\n".join(f"{number:,} × {reason}" for reason, number in reasons))  # noqa: RUF001
            st.html(
                f"<a href='{escape(build_problems_url(dataset.name))}' download>Download list of unreadable files</a>"
            )
    if summary.duplicates:
        with st.expander(format_count(summary.duplicates, "exact duplicate"), key=f"duplicates-{dataset.name}"):
            show_text("Duplicates are harmless, but you can exclude them.")
            if st.button("Review duplicates", key=f"review-duplicates-{dataset.name}", icon=":material/content_copy:"):
                request_selection(dataset.name)
                go_to("duplicates")
            st.html(f"<a href='{escape(build_duplicates_url(dataset.name))}' download>Download list of duplicates</a>")
