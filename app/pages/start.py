"""Start page: import images, and list the datasets of the workspace."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

import streamlit as st

from app.background.example import get_example_task
from app.background.imports import ImportOutcome, find_locations_being_imported, list_imports, start_import
from app.components.common.heading import show_heading
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error
from app.components.datasets.dataset_card import CardContext, show_dataset_card
from app.navigation import go_to, link_to
from app.state import training
from app.state.notices import is_started_here, pop_import_notice, record_started_task, set_import_notice
from app.state.selection import request_selection
from app.view_models.run_table import list_runs
from app.view_models.training_form import TrainForm
from crlc.data.dataset import DatasetInfo
from crlc.data.options import MAX_SIZE, MIN_SIZE, ImportOptions
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.jobs.shared_queue import get_queue
from crlc.paths import parse_typed_path
from crlc.workspace import Workspace

_CARDS_AT_FIRST = 5
_DIGITS = "digits"
_EXAMPLE_POLL_SECONDS = 0.5
_CLASS_SOURCES = {"auto": "Detect automatically", "folders": "From folder names", "none": "Ignore"}


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    show_heading("start")
    _show_import_form(workspace)
    with st.container():  # always created, so that the elements below keep their state
        _show_imports(workspace)
        note = pop_import_notice()
        if note is not None:
            st.success(note)
            link_to("train", "Train clusters")
    _show_example_progress(workspace)
    names = list_datasets(workspace)
    if names:
        _show_datasets(workspace, names)
        show_caption(f"Workspace: {workspace.root}")
    elif not _is_example_installing(workspace) and not _is_importing(workspace):
        st.info("No datasets yet. Enter the path of a folder above, or try the sample data.")


def list_datasets(workspace: Workspace) -> list[str]:
    """Return the names of the datasets, the last imported or updated first.

    A dataset whose first import runs in this server is left out: the import has its own card.
    """

    def get_change_time(name: str) -> float:
        try:
            return (workspace.root / "datasets" / name / "dataset.json").stat().st_mtime
        except OSError:
            return 0.0  # just removed

    imported = find_locations_being_imported(workspace)
    names = [
        name for name in workspace.list_dataset_names() if not imported or not _is_imported(workspace, name, imported)
    ]
    return sorted(names, key=get_change_time, reverse=True)


def _is_imported(workspace: Workspace, name: str, locations: set[str]) -> bool:
    try:
        dataset = workspace.open_dataset(name)
        return dataset.info.location in locations and not dataset.summarize().complete
    except CrlcError:
        return False


# ---- importing


def _show_import_form(workspace: Workspace) -> None:
    with st.form("import", border=False):
        path_box, import_button, digits_button = st.columns([6, 1.2, 1.6], vertical_alignment="bottom")
        path = path_box.text_input(
            "Folder of images",
            key="import-path",
            placeholder="e.g. /home/me/photos",
            help="Imports all images in the folder and its subfolders. Also accepts .zip, .npz or .csv. Your files are "
            "only read, never moved or changed.",
        )
        is_import_submitted = import_button.form_submit_button(
            "Import folder", type="primary", width="stretch", key="import-folder"
        )
        is_digits_submitted = digits_button.form_submit_button(
            "Try the sample data",
            width="stretch",
            key="try-digits",
            help="Trains on 1,797 small images of handwritten digits. It takes a minute or two.",
        )
        with st.expander("Import options", key="import-options"):
            options = _show_import_options()
    if is_digits_submitted:
        _train_on_digits(workspace)
    elif is_import_submitted and not parse_typed_path(path):
        st.warning("Enter the path of a folder first.")
    elif is_import_submitted:
        try:
            record_started_task(start_import(workspace, parse_typed_path(path), options=ImportOptions(**options)))
        except CrlcError as error:
            show_error(str(error))


def _show_import_options() -> dict[str, Any]:
    """Return the options that differ from the defaults; the widgets of the others are empty."""
    size_box, limit_box, classes_box = st.columns(3)
    return {
        "size": size_box.number_input(
            "Stored size (px)", MIN_SIZE, MAX_SIZE, value=None, step=1, placeholder="Automatic",
            key="import-size",
            help="Sets the side of the stored square images. By default it fits the images, up to 160 px.",
        ),
        "limit": limit_box.number_input(
            "Image limit", 0, value=None, step=1, placeholder="All images", key="import-limit",
            help="Imports a random sample of at most this many images. The same images are drawn each time.",
        ),
        "classes": classes_box.selectbox(
            "Ground-truth classes", list(_CLASS_SOURCES), index=None, placeholder=_CLASS_SOURCES["auto"],
            format_func=lambda source: _CLASS_SOURCES.get(source, source),
            accept_new_options=True, key="import-classes",
            help="Sets where the classes of the images come from; enter a path to use a CSV file with the columns path "
            "and class. Classes are only used to measure accuracy, never to train.",
        ),
    }  # fmt: skip


def _train_on_digits(workspace: Workspace) -> None:
    """Import the digits if needed, queue a training run, and open the Train page."""
    example = get_example_task(workspace)
    try:
        with st.spinner("Importing the sample data"):
            if example is not None:
                example.wait()  # it imports the same dataset
            name = _find_digits(workspace) or workspace.import_dataset(_DIGITS)[0].name
        queue = get_queue(workspace)
        running = next((job for job in queue.read_jobs() if job.is_running and job.run is not None), None)
        job = queue.submit(TrainForm(name, preset="quick").to_arguments(), title=name)
    except (CrlcError, OSError) as error:
        show_error(str(error))
        return
    if running is not None:  # its curves stay; the queue below them has the new job
        request_selection(running.title, running.run)
    else:
        request_selection(name, "")  # no run: the page follows the new job
        training.follow_job(job.id)
    go_to("train")


def _find_digits(workspace: Workspace) -> str | None:
    """Return the name of the imported digits; importing them again would outdate everything computed from them."""
    for name in workspace.list_dataset_names():
        with suppress(CrlcError):
            dataset = workspace.open_dataset(name)
            if _is_digits(dataset.info) and dataset.summarize().complete:
                return name
    return None


def _is_digits(info: DatasetInfo) -> bool:
    return (info.source_kind, info.location) == ("builtin", _DIGITS)


def _show_imports(workspace: Workspace) -> None:
    """Show the imports of this server: running ones with their progress, failed ones with the reason."""
    for key, task in list_imports(workspace).items():
        if not task.is_running and isinstance(task.result, ImportOutcome):
            if is_started_here(key):
                show_task(key)  # removes it from the list
                outcome = task.result
                set_import_notice(f"Imported {format_count(outcome.readable, 'image')} from {outcome.dataset}.")
                request_selection(outcome.dataset)
                st.rerun()  # the sidebar was drawn before the dataset existed
        else:
            with st.container(border=True):
                show_task(key)


def _is_importing(workspace: Workspace) -> bool:
    return any(task.is_running for task in list_imports(workspace).values())


# ---- the example and the list of datasets


def _is_example_installing(workspace: Workspace) -> bool:
    task = get_example_task(workspace)
    return task is not None and task.is_running


def _show_example_progress(workspace: Workspace) -> None:
    """Show that the example is being installed; redraw the page when it is installed."""
    if _is_example_installing(workspace):
        _wait_for_example()
    elif (task := get_example_task(workspace)) is not None and task.error is not None:
        show_caption(f"The example could not be installed: {task.error}")


@st.fragment(run_every=_EXAMPLE_POLL_SECONDS)
def _wait_for_example() -> None:
    if not _is_example_installing(Workspace()):
        st.rerun()
    show_caption("Installing the example…")


def _show_datasets(workspace: Workspace, names: list[str]) -> None:
    st.subheader("Datasets", anchor=False)
    runs = defaultdict(list)
    for line in list_runs(workspace):
        runs[line.dataset].append(line.id)
    is_idle = _is_idle(workspace)

    def show_cards(names: list[str]) -> None:
        for name in names:
            show_dataset_card(workspace, name, CardContext(tuple(runs[name]), is_idle))

    show_cards(names[:_CARDS_AT_FIRST])
    older = names[_CARDS_AT_FIRST:]
    if older and st.toggle(f"Show {format_count(len(older), 'older dataset')}", key="start-older"):
        show_cards(older)


def _is_idle(workspace: Workspace) -> bool:
    try:
        is_training = any(not job.is_final for job in get_queue(workspace).read_jobs())
    except CrlcError:
        is_training = False  # the Train page shows this error
    return not is_training and not _is_importing(workspace)
