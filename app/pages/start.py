"""Start page: import images, and list the datasets of the workspace."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial

import streamlit as st

from app.background.example import get_example_task
from app.background.imports import ImportInProgress, ImportOutcome, find_locations_being_imported, list_imports
from app.background.tasks import BackgroundTask, dismiss_task
from app.components.common.action_button import show_action_button
from app.components.common.fragments import make_fragment
from app.components.common.heading import show_heading
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error
from app.components.datasets.dataset_card import CardContext, show_dataset_card
from app.components.datasets.import_form import show_import_form
from app.navigation import go_to
from app.state import training
from app.state.importing import get_path
from app.state.notices import is_started_here, is_watched, set_import_notice, watch_task
from app.state.selection import request_selection
from app.view_models.run_table import list_runs
from app.view_models.training_form import TrainForm
from crlc.data.dataset import DatasetInfo
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.jobs.shared_queue import get_queue
from crlc.workspace import Workspace

_CARDS_AT_FIRST = 5
_DIGITS = "digits"
_EXAMPLE_POLL_SECONDS = 0.5


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    is_sample_requested = show_action_button(
        show_heading("start").container(horizontal=True, horizontal_alignment="right"),
        "Try the sample data",
        key="try-digits",
        help="Trains on 1,797 small images of handwritten digits. It takes a minute or two.",
    )
    names = list_datasets(workspace)
    show_import_form(workspace, is_first=not names)
    if is_sample_requested:
        _train_on_digits(workspace)
    with st.container():  # always created, so that the elements below keep their state
        _show_imports(workspace)
    _show_example_progress(workspace)
    if names:
        _show_datasets(workspace, names)
        show_caption(f"Workspace: {workspace.root}")
    elif not _is_example_installing(workspace) and not _is_importing(workspace):
        st.info("No datasets yet. Choose a folder or drop images above, or try the sample data.")


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
    """Show the imports of this server: running ones with their progress, failed ones with the reason.

    If the user waits on this page for an import, Explore opens as soon as there are images to show.
    """
    for key, task in list_imports(workspace).items():
        found, is_expected = task.result, is_started_here(key) and is_watched(key)
        if not task.is_running and isinstance(found, ImportOutcome):
            if is_started_here(key):
                show_task(key)  # removes it from the list
                set_import_notice(found.text)
                request_selection(found.dataset)
                if is_expected:
                    go_to("explore")
                st.rerun()  # the sidebar was drawn before the dataset existed
        elif task.is_cancelled and not task.is_running:
            dismiss_task(key)
        elif task.is_running and is_expected and isinstance(found, ImportInProgress):
            request_selection(found.dataset)
            go_to("explore")
        else:
            watch_task(key)
            with st.container(border=True):
                show_task(key, partial(_has_images, task) if is_started_here(key) else None)


def _has_images(task: BackgroundTask) -> bool:
    return isinstance(task.result, ImportInProgress)


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


@partial(make_fragment, run_every=_EXAMPLE_POLL_SECONDS)
def _wait_for_example() -> None:
    if not _is_example_installing(Workspace()):
        st.rerun()
    show_caption("Installing the example…")


def _show_datasets(workspace: Workspace, names: list[str]) -> None:
    st.header("Datasets", anchor=False)
    runs = defaultdict(list)
    for line in list_runs(workspace):
        runs[line.dataset].append(line.id)
    is_idle = _is_idle(workspace)

    newest = names[0]

    def show_cards(names: list[str]) -> None:
        for name in names:
            context = CardContext(tuple(runs[name]), is_idle, is_newest=name == newest and not get_path())
            show_dataset_card(workspace, name, context)

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
