"""A data set on the Start page: what is in it, what is wrong with it, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st

from app.components.first_map import show_first_map
from app.components.originals import show_missing_originals
from app.components.plain import show_caption, show_error, show_text
from app.exploring.opened import forget_dataset
from app.image_routes import image_url
from app.importing import begin_import
from app.pages import go_to
from app.routes import duplicates_url, problems_url
from app.state.imports import note_begun
from app.state.selection import choose
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.data.manifest import ImageRecord
from crlc.data.thumbnails import is_tiny
from crlc.errors import CrlcError
from crlc.names import printable
from crlc.workspace import Workspace
from crlc.workspace.removal import remove_with_runs, runs_of_dataset
from crlc.workspace.sample import SAMPLE_RUN

_SAMPLES = 12
_THUMBNAIL_SIDE = 160
_STRIP_HEIGHT = 62
"""In pixels: so high, twelve square images fit beside each other without being cut."""

_SHOWN_REASONS = 6
_WITHOUT_ORIGINALS = "Small images are shown from what was decoded at import until then."


@dataclass(frozen=True)
class CardFacts:
    """What a card needs to know from elsewhere."""

    runs: tuple[str, ...]
    """Of the data set, oldest first."""

    may_measure: bool
    """Whether the computer is free to time something."""


def show_dataset_card(workspace: Workspace, name: str, facts: CardFacts) -> None:
    """Draw it."""
    with st.container(border=True):
        try:
            dataset = workspace.dataset(name)
            summary = _summary(str(dataset.folder), dataset.info.uid, dataset.version, *_stamp(dataset))
        except CrlcError as error:
            words, remove = st.columns([7, 1], vertical_alignment="center")
            with words:
                show_text(name)
            with remove:
                _show_removal(workspace, name, None)
            show_error(str(error))
            return
        _show_head(workspace, dataset, summary, facts)
        _show_samples(dataset)
        show_caption(_place(dataset))
        _show_state(workspace, dataset, summary, facts)


def facts_of(summary: DatasetSummary) -> str:
    """What a scan found, in one line."""
    facts = [f"{summary.readable:,} images", " and ".join(f"{size} px" for size in summary.sizes)]
    if summary.classes:
        facts.append(f"{len(summary.classes)} classes known")
    unreadable = sum(summary.unreadable.values())
    if unreadable:
        facts.append(f"{unreadable:,} unreadable")
    if summary.duplicates:
        facts.append(f"{summary.duplicates:,} exact cop{'y' if summary.duplicates == 1 else 'ies'}")
    return " · ".join(filter(None, facts))


@st.cache_data(show_spinner=False, max_entries=32)
def _summary(folder: str, *version: object) -> DatasetSummary:
    """Counted once for each state of the manifest: with 100,000 images it takes a quarter of a second."""
    del version
    return ImageDataset(Path(folder)).summary()


def _stamp(dataset: ImageDataset) -> tuple[int, int]:
    """Changes while an import writes, too."""
    files = (dataset.folder / name for name in ("manifest.sqlite", "manifest.sqlite-wal"))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)  # type: ignore[return-value]


def _show_head(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary, facts: CardFacts) -> None:
    words, explore, train, remove = st.columns([5.6, 1.2, 1, 1.25], vertical_alignment="center")
    is_example = SAMPLE_RUN in facts.runs
    with words:
        said = facts_of(summary)
        st.html(f"<b style='font-size:1.1rem;margin-right:.6rem'>{escape(dataset.name)}</b> {escape(said)}")
    if explore.button(
        "Explore",
        key=f"explore-{dataset.name}",
        width="stretch",
        type="primary" if is_example else "secondary",
        disabled=not summary.readable,
        help="The map and the images: of its newest run, or as they are before training.",
    ):
        choose(dataset.name, SAMPLE_RUN if is_example and len(facts.runs) == 1 else None)
        go_to("explore")
    if train.button("Train", key=f"train-{dataset.name}", width="stretch", disabled=not summary.complete):
        choose(dataset.name)
        go_to("train")
    with remove:
        _show_removal(workspace, dataset.name, dataset)
    if is_example:
        show_text(f"Example: {summary.readable:,} handwritten digits, already clustered. Look at it in Explore.")


def _show_removal(workspace: Workspace, name: str, dataset: ImageDataset | None) -> None:
    with st.popover("Remove", width="stretch", key=f"remove-box-{name}"):
        count = len(runs_of_dataset(workspace, name))
        runs = "It has no runs." if not count else f"Its {count:,} run{'s go' if count > 1 else ' goes'} with it."
        show_text(f"Remove {name} from the workspace, with its labels and the names of its clusters? {runs}")
        show_caption("The images themselves stay where they are: they were only read.")
        if st.button("Remove for good", type="primary", key=f"remove-{name}"):
            try:
                if dataset is not None:
                    forget_dataset(dataset)
                remove_with_runs(workspace, name)
            except (CrlcError, OSError) as error:
                show_error(str(error))
            else:
                st.rerun()


def _show_state(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary, facts: CardFacts) -> None:
    """What is wrong, and how long it takes to see something."""
    if not summary.complete and workspace.is_being_written(dataset.name):
        show_caption("It is being imported.")
    elif not summary.complete:
        words, button = st.columns([5, 1], vertical_alignment="center")
        with words:
            show_error("Its import was interrupted. What was decoded is kept; the rest is still to do.")
        if button.button("Carry on", key=f"carry-on-{dataset.name}", width="stretch"):
            note_begun(begin_import(workspace, dataset.info.location, dataset.name))
            st.rerun()
    are_missing = show_missing_originals(workspace, dataset, _WITHOUT_ORIGINALS)
    is_new = not facts.runs and not (dataset.folder / "exploration.json").exists()
    if summary.complete and is_new and not are_missing:
        show_first_map(workspace, dataset, may_measure=facts.may_measure)
    _show_problems(dataset, summary)


def _place(dataset: ImageDataset) -> str:
    if dataset.info.source_kind == "builtin":
        return "comes with scikit-learn" if dataset.info.location == "digits" else "built in"
    return printable(dataset.info.location)


def _show_samples(dataset: ImageDataset) -> None:
    """A strip of images; small ones are enlarged without blurring, so that a pixel stays a pixel."""
    images = "".join(
        f"<img src='{escape(image_url(dataset.name, record.id, record.hash or '', _THUMBNAIL_SIDE))}' "
        f"loading='lazy' alt='' style='flex:none;width:{_strip_width(record)}px;object-fit:contain;border-radius:4px;"
        f"background:#8882;image-rendering:{'pixelated' if is_tiny(record) else 'auto'}'>"
        for record in dataset.sample(_SAMPLES)
    )
    st.html(f"<div style='display:flex;gap:6px;height:{_STRIP_HEIGHT}px;overflow:hidden'>{images}</div>")


def _strip_width(record: ImageRecord) -> int:
    """Known before the image arrives, so that nothing moves then."""
    if not record.width or not record.height:
        return _STRIP_HEIGHT
    return round(min(2.0, max(0.5, record.width / record.height)) * _STRIP_HEIGHT)


def _show_problems(dataset: ImageDataset, summary: DatasetSummary) -> None:
    count = sum(summary.unreadable.values())
    if count:
        with st.expander(f"{count:,} file{'' if count == 1 else 's'} could not be read"):
            reasons = list(summary.unreadable.items())[:_SHOWN_REASONS]
            show_text("\n".join(f"{number:,} x {reason}" for reason, number in reasons))
            st.html(f"<a href='{escape(problems_url(dataset.name))}' download>Download the list</a>")
    if summary.duplicates:
        several = f"{summary.duplicates:,} images are exact copies of another"
        with st.expander("1 image is an exact copy of another" if summary.duplicates == 1 else several):
            show_text("They do no harm; a cluster of many copies may be one you want to exclude.")
            st.html(f"<a href='{escape(duplicates_url(dataset.name))}' download>Download the list of copies</a>")
