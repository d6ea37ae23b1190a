"""Start: bring images in, and see the data sets there are."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

import streamlit as st

from app.components.dataset_card import CardFacts, show_dataset_card
from app.components.heading import show_heading
from app.components.plain import show_caption, show_error
from app.components.waiting import watch
from app.field_help import field_help
from app.first_start import first_start
from app.importing import ImportOutcome, begin_import, imports_of
from app.pages import go_to, link_to
from app.run_lines import run_lines
from app.state import training
from app.state.imports import note_begun, note_import, take_note, was_begun
from app.state.selection import choose
from app.training_form import TrainForm
from crlc.cli.output import duration
from crlc.config import LARGEST_SIZE, SMALLEST_SIZE, ImportOptions
from crlc.errors import CrlcError
from crlc.jobs.shared import queue_of
from crlc.workspace import Workspace

_SHOWN = 5
_DIGITS = "digits"


def render() -> None:
    """The page."""
    workspace = Workspace()
    show_heading("start")
    _ask_for_source(workspace)
    with st.container():  # always there, so that what is below keeps its place and its state
        _show_imports(workspace)
        note = take_note()
        if note is not None:
            st.success(note)
            link_to("train", "Find its groups")
    _show_first_start(workspace)
    names = recent_datasets(workspace)
    if not names:
        if first_start(workspace) is None or not _is_placing(workspace):
            st.info("No images here yet. Enter the path of a folder above, or try the digits.")
        return
    _show_datasets(workspace, names)
    show_caption(f"Workspace: {workspace.root}")


def recent_datasets(workspace: Workspace) -> list[str]:
    """Names of all data sets, those that were made or brought up to date last first."""

    def changed(name: str) -> float:
        try:
            return (workspace.root / "datasets" / name / "dataset.json").stat().st_mtime
        except OSError:
            return 0.0  # removed this moment

    return sorted(workspace.dataset_names(), key=changed, reverse=True)


# ---- bringing images in


def _ask_for_source(workspace: Workspace) -> None:
    with st.form("import", border=False):
        path_box, import_button, digits_button = st.columns([6, 1.2, 1.5], vertical_alignment="bottom")
        path = path_box.text_input(
            "Folder of images",
            placeholder="for example /home/me/photos",
            help="Everything below the folder is looked at. A .zip, an .npz or a .csv of paths will do as well. "
            "Your files are only read, never moved or changed.",
        )
        wants_import = import_button.form_submit_button("Import", type="primary", width="stretch")
        wants_digits = digits_button.form_submit_button(
            "Try the digits",
            width="stretch",
            help="Trains on 1,797 small handwritten digits in a minute or two, and shows how it goes.",
        )
        with st.expander("More options"):
            asked = _ask_for_options()
    if wants_digits:
        _try_digits(workspace)
    elif wants_import and not path.strip():
        st.warning("Enter the path of a folder first.")
    elif wants_import:
        try:
            note_begun(begin_import(workspace, path.strip(), options=ImportOptions(**asked)))
        except CrlcError as error:
            show_error(str(error))


def _ask_for_options() -> dict[str, Any]:
    """Boxes that are empty while what is usual holds."""
    texts = field_help(ImportOptions)
    size_box, limit_box, classes_box = st.columns(3)
    return {
        "size": size_box.number_input(
            "Size in pixels", SMALLEST_SIZE, LARGEST_SIZE, value=None, step=1, placeholder="fits the images",
            key="import-size", help=texts["size"],
        ),
        "limit": limit_box.number_input(
            "Most images", 0, value=None, step=1, placeholder="all", key="import-limit", help=texts["limit"],
        ),
        "classes": classes_box.selectbox(
            "Classes", ("auto", "folders", "none"), index=None, placeholder="auto, or the path of a CSV file",
            accept_new_options=True, key="import-classes", help=texts["classes"],
        ),
    }  # fmt: skip


def _try_digits(workspace: Workspace) -> None:
    """Import them if need be, ask for a training, and go where it can be watched."""
    placing = first_start(workspace)
    try:
        with st.spinner("Bringing the digits in"):
            if placing is not None:
                placing.wait()  # it imports the same
            name = _imported_digits(workspace) or workspace.import_dataset(_DIGITS)[0].name
        job = queue_of(workspace).train(TrainForm(name, preset="quick").arguments(), title=name)
    except (CrlcError, OSError) as error:
        show_error(str(error))
        return
    choose(name, "")  # no run: the one to come is followed
    training.follow(job.id)
    go_to("train")


def _imported_digits(workspace: Workspace) -> str | None:
    """The name of the digits, where they are here already: importing them again would outdate what was computed."""
    for name in workspace.dataset_names():
        with suppress(CrlcError):
            dataset = workspace.dataset(name)
            if (dataset.info.source_kind, dataset.info.location) == ("builtin", _DIGITS) and dataset.summary().complete:
                return name
    return None


def _show_imports(workspace: Workspace) -> None:
    for key, found in imports_of(workspace).items():
        if not found.running and isinstance(found.result, ImportOutcome):
            if was_begun(key):
                watch(key)  # takes it off the list
                outcome = found.result
                note_import(f"{outcome.dataset}: {outcome.readable:,} images in {duration(outcome.seconds)}.")
                choose(outcome.dataset)
                st.rerun()  # the sidebar was drawn before there was anything to choose
        else:
            watch(key)


# ---- what there is


def _is_placing(workspace: Workspace) -> bool:
    placing = first_start(workspace)
    return placing is not None and placing.running


def _show_first_start(workspace: Workspace) -> None:
    """While the example is on its way, say so; the page runs again when it is there."""
    if _is_placing(workspace):
        _wait_for_example()
    elif (placing := first_start(workspace)) is not None and placing.error is not None:
        show_caption(f"The example could not be put in place: {placing.error}")


@st.fragment(run_every=0.5)
def _wait_for_example() -> None:
    if not _is_placing(Workspace()):
        st.rerun()
    show_caption("Putting an example in place ...")


def _show_datasets(workspace: Workspace, names: list[str]) -> None:
    st.subheader("Data sets")
    runs = defaultdict(list)
    for line in run_lines(workspace):
        runs[line.dataset].append(line.id)
    idle = _is_idle(workspace)

    def show(some: list[str]) -> None:
        for name in some:
            show_dataset_card(workspace, name, CardFacts(tuple(runs[name]), idle))

    show(names[:_SHOWN])
    older = names[_SHOWN:]
    if older and st.toggle(f"Show {len(older)} older", key="start-older"):
        show(older)


def _is_idle(workspace: Workspace) -> bool:
    try:
        trains = any(not job.has_ended for job in queue_of(workspace).jobs())
    except CrlcError:
        trains = False  # the Train page says what is wrong with the queue
    return not trains and not any(found.running for found in imports_of(workspace).values())
