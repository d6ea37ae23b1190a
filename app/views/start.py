"""Start: bring images in, and see the data sets there are."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.components.plain import show_caption, show_error, show_text
from app.pages import link_to
from app.routes import image_url, problems_url
from app.state.imports import note_import, take_note
from app.state.selection import choose
from crlc.cli.output import describe, duration
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.errors import CrlcError
from crlc.names import printable
from crlc.progress import Progress
from crlc.workspace import Workspace

_SAMPLES = 12
_THUMBNAIL_SIDE = 160
_SHOWN_REASONS = 6


def render() -> None:
    """The page."""
    workspace = Workspace()
    st.title("CRLC Studio")
    st.markdown("Find the groups in a folder of images nobody has labelled.")
    given = _ask_for_source()
    with st.container():  # always there, so that what is below keeps its place and its state
        if given == "":
            st.warning("Enter the path of a folder first.")
        elif given is not None:
            _import(workspace, given)
        note = take_note()
        if note is not None:
            st.success(note)
            link_to("train", "Find its groups")
    names = workspace.dataset_names()
    if not names:
        st.info("No images here yet. Enter the path of a folder above, or try the digits.")
        return
    st.subheader("Data sets")
    for name in names:
        _show_dataset(workspace, name)
    show_caption(f"Workspace: {workspace.root}")


def _ask_for_source() -> str | None:
    """What the person wants to import now; an empty path if they forgot it, `None` if nothing."""
    with st.form("import", border=False):
        path_box, import_button, digits_button = st.columns([6, 1.2, 1.5], vertical_alignment="bottom")
        path = path_box.text_input(
            "Folder of images",
            placeholder="for example /home/me/photos",
            help="Everything below the folder is looked at. A .zip, an .npz or a .csv of paths will do as well. "
            "Your files are only read, never moved or changed.",
        )
        wants_import = import_button.form_submit_button("Import", type="primary", width="stretch")
        wants_digits = digits_button.form_submit_button("Try the digits", width="stretch")
    if wants_digits:
        return "digits"
    return path.strip() if wants_import else None


def _import(workspace: Workspace, given: str) -> None:
    bar = st.progress(0.0, text="Listing")

    def report(progress: Progress) -> None:
        bar.progress(progress.done / progress.total if progress.total else 0.0, text=describe(progress))

    try:
        dataset, outcome = workspace.import_dataset(given, report=report)
    except CrlcError as error:
        bar.empty()
        show_error(str(error))
        return
    except OSError as error:
        bar.empty()
        show_error(f"{given} could not be imported: {error}. Check the path, your rights and the disk.")
        return
    note_import(f"{dataset.name}: {outcome.readable:,} images in {duration(outcome.seconds)}.")
    choose(dataset.name)
    st.rerun()  # the sidebar was drawn before there was anything to choose


def _show_dataset(workspace: Workspace, name: str) -> None:
    with st.container(border=True):
        try:
            dataset = workspace.dataset(name)
            summary = dataset.summary()
        except CrlcError as error:
            show_text(name)
            show_error(str(error))
            return
        st.html(f"<b style='font-size:1.1rem'>{escape(name)}</b> &nbsp; {escape(_facts(summary))}")
        _show_samples(dataset)
        show_caption(_place(dataset))
        _show_problems(dataset, summary)


def _facts(summary: DatasetSummary) -> str:
    facts = [f"{summary.readable:,} images", " and ".join(f"{size} px" for size in summary.sizes)]
    if summary.classes:
        facts.append(f"{len(summary.classes)} classes known")
    if summary.duplicates:
        facts.append(f"{summary.duplicates:,} exact copies")
    if not summary.complete:
        facts.append("import interrupted: import it again to carry on")
    return " · ".join(filter(None, facts))


def _place(dataset: ImageDataset) -> str:
    if dataset.info.source_kind == "builtin":
        return "comes with scikit-learn" if dataset.name == "digits" else "built in"
    return printable(dataset.info.location)


def _show_samples(dataset: ImageDataset) -> None:
    """A strip of images; small ones are enlarged without blurring, so that a pixel stays a pixel."""
    images = "".join(
        f"<img src='{escape(image_url(dataset.name, record.id, record.hash or '', _THUMBNAIL_SIDE))}' "
        "loading='lazy' alt='' style='height:84px;min-width:42px;max-width:168px;object-fit:cover;border-radius:4px;"
        f"background:#8882;image-rendering:{'pixelated' if (record.height or 0) < _THUMBNAIL_SIDE // 3 else 'auto'}'>"
        for record in dataset.sample(_SAMPLES)
    )
    st.html(f"<div style='display:flex;gap:6px;height:84px;overflow:hidden'>{images}</div>")


def _show_problems(dataset: ImageDataset, summary: DatasetSummary) -> None:
    count = sum(summary.unreadable.values())
    if not count:
        return
    with st.expander(f"{count:,} files could not be read"):
        reasons = list(summary.unreadable.items())[:_SHOWN_REASONS]
        show_text("\n".join(f"{number:,} x {reason}" for reason, number in reasons))
        st.html(f"<a href='{escape(problems_url(dataset.name))}' download>Download the list</a>")
