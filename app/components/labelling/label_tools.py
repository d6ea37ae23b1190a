"""Tools of the Label page for all labels of a dataset: rename, remove, and import from a CSV file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from app.components.clusters.editing import apply_edit
from app.components.common.safe_text import show_caption, show_error, show_text
from app.state.exploring import get_explore_state
from app.state.labelling import get_label_state
from app.state.widgets import get_widget_value, restore_widget_value, set_widget_value
from app.view_models.cluster_view import ClusterView
from app.view_models.view_cache import open_annotations
from crlc.annotations.label_csv import LabelImportReport, import_label_file
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.paths import parse_typed_path

_LABEL_TO_EDIT, _UPLOAD, _PATH = "label-to-edit", "label-upload", "label-path"


def show_names_popover(view: ClusterView) -> None:
    """Show a popover that renames or removes a label on all its images.

    The options are the names alone: Streamlit identifies an option by its text, and a count in it would reset the
    choice with every new label. Field and buttons belong to one name by their keys, so that a click never reaches the
    form of another name.
    """
    counts = open_annotations(view.dataset).refresh().to_label_set().count_by_name()
    with st.popover("Names", icon=":material/edit:", width="stretch", help="Renames or removes a label."):
        if not counts:
            show_caption("No labels yet.")
            return
        restore_widget_value(_LABEL_TO_EDIT, None, [*counts, None])
        name: str | None = st.selectbox(
            "Label", list(counts), index=None, key=_LABEL_TO_EDIT, placeholder="Choose a label"
        )
        if name is not None:
            _show_name_form(view, name, counts[name])


def _show_name_form(view: ClusterView, name: str, count: int) -> None:
    new = st.text_input("New name", key=build_new_name_key(name), placeholder=name, max_chars=200)
    one, two = st.columns(2)
    one.button(
        "Rename label", key=f"rename-label-{name}", disabled=not new.strip(), on_click=_rename, args=(view, name),
        width="stretch",
        help="Renames the label on all its images. If the new name exists, the two labels are merged.",
    )  # fmt: skip
    two.button(
        f"Remove label ({count:,})", key=f"remove-label-{name}", on_click=_remove, args=(view, name),
        width="stretch",
        help="Removes the label from all its images.",
    )  # fmt: skip


def build_new_name_key(name: str) -> str:
    """Return the key of the field for the new name of a label."""
    return f"label-new-name-{name}"


def _rename(view: ClusterView, old: str) -> None:
    new = (get_widget_value(build_new_name_key(old)) or "").strip()
    apply_edit(lambda: open_annotations(view.dataset).rename_label(old, new))
    if get_explore_state().problem is None:
        state = get_label_state(view.kind, view.name)
        state.names = list(dict.fromkeys(new if name == old else name for name in state.names))
        set_widget_value(build_new_name_key(old), "")
        set_widget_value(_LABEL_TO_EDIT, new)


def _remove(view: ClusterView, name: str) -> None:
    apply_edit(lambda: open_annotations(view.dataset).remove_label(name))
    if get_explore_state().problem is None:
        state = get_label_state(view.kind, view.name)
        state.names = [one for one in state.names if one != name]


def show_import_popover(view: ClusterView) -> None:
    """Show a popover that imports labels from a CSV file, uploaded or by its path on this computer."""
    with st.popover("Import", icon=":material/upload_file:", width="stretch", help="Imports labels from a CSV file."):
        show_caption("The CSV file needs a column path or id, and a column label. One undo reverts the whole import.")
        uploaded = st.file_uploader("CSV file", type="csv", key=_UPLOAD)
        path = st.text_input("Path of a CSV file on this computer", key=_PATH, placeholder="e.g. /home/me/labels.csv")
        st.button(
            "Import labels",
            key="import-labels",
            type="primary",
            disabled=uploaded is None and not path.strip(),
            on_click=_receive_import,
            args=(view,),
        )
        state = get_label_state(view.kind, view.name)
        if state.import_problem is not None:
            show_error(state.import_problem)
        elif state.imported is not None:
            show_text(state.imported)


def _receive_import(view: ClusterView) -> None:
    state, uploaded = get_label_state(view.kind, view.name), get_widget_value(_UPLOAD)
    state.imported = state.import_problem = None
    get_explore_state().saved = get_explore_state().problem = None
    try:
        if uploaded is None:
            state.imported = _import(view, Path(parse_typed_path(get_widget_value(_PATH) or "")))
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, Path(uploaded.name).name)
            file.write_bytes(uploaded.getvalue())
            state.imported = _import(view, file)
    except (CrlcError, OSError) as error:
        state.import_problem = str(error)


def _import(view: ClusterView, file: Path) -> str:
    return describe_import(import_label_file(open_annotations(view.dataset), view.dataset, file))


def describe_import(report: LabelImportReport) -> str:
    """Return the outcome of an import, line by line."""
    lines = [
        f"Matched {format_count(report.matched, 'image')}: {report.changed:,} labelled, {report.unchanged:,} unchanged."
    ]
    if report.unknown:
        more = ", …" if report.unknown > len(report.first_unknown) else ""
        lines.append(
            f"{format_count(report.unknown, 'line')} without a matching image: {', '.join(report.first_unknown)}{more}"
        )
    if report.blank:
        lines.append(f"{format_count(report.blank, 'line')} without a label.")
    return "\n".join(lines)
