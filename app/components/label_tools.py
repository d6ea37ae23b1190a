"""Labels as a whole, from the Label page: a name changed or removed, labels brought in from a CSV file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from app.components.editing import edit
from app.components.plain import show_caption, show_error, show_text
from app.exploring.opened import annotations_of
from app.exploring.subject import Subject
from app.state.exploring import box, exploring, fill_box
from app.state.labelling import labelling
from crlc.errors import CrlcError
from crlc.workspace.label_names import remove_label, rename_label
from crlc.workspace.label_table import LabelImport, import_labels
from crlc.workspace.operations import images

_NEW_NAME, _UPLOAD, _PATH = "label-new-name", "label-upload", "label-path"


def show_names_popover(subject: Subject) -> None:
    """Rename or remove a label."""
    counts = annotations_of(subject.dataset).refresh().labelled().counts()
    with st.popover("Names", icon=":material/edit:", width="stretch", help="Rename or remove a label."):
        if not counts:
            show_caption("No image has a label yet.")
            return
        old = st.selectbox(
            "Label", list(counts), format_func=lambda name: f"{name} ({counts.get(name, 0):,})", key="label-to-edit"
        )
        new = st.text_input("New name", key=_NEW_NAME, placeholder=old, max_chars=200)
        one, two = st.columns(2)
        one.button(
            "Rename", disabled=not new.strip(), on_click=_rename, args=(subject, old), width="stretch",
            help="On all images that have it. A name that exists already takes these images in.",
        )  # fmt: skip
        two.button(
            f"Remove ({counts.get(old, 0):,})", on_click=_remove, args=(subject, old), width="stretch",
            help="Take it from all images that have it.",
        )  # fmt: skip


def _rename(subject: Subject, old: str) -> None:
    new = (box(_NEW_NAME) or "").strip()
    edit(lambda: rename_label(annotations_of(subject.dataset), old, new))
    if exploring().problem is None:
        state = labelling(subject.kind, subject.name)
        state.names = list(dict.fromkeys(new if name == old else name for name in state.names))
        fill_box(_NEW_NAME, "")


def _remove(subject: Subject, name: str) -> None:
    edit(lambda: remove_label(annotations_of(subject.dataset), name))
    if exploring().problem is None:
        state = labelling(subject.kind, subject.name)
        state.names = [one for one in state.names if one != name]


def show_import_popover(subject: Subject) -> None:
    """Labels from a CSV file: uploaded, or by its path on this computer."""
    with st.popover("Import", icon=":material/upload_file:", width="stretch", help="Labels from a CSV file."):
        show_caption(
            "A CSV file with a column of paths (path) or ids (id), and one of labels (label). One undo takes it back."
        )
        uploaded = st.file_uploader("CSV file", type="csv", key=_UPLOAD)
        path = st.text_input("Or its path on this computer", key=_PATH, placeholder="/home/me/labels.csv")
        st.button(
            "Import labels",
            type="primary",
            disabled=uploaded is None and not path.strip(),
            on_click=_take_import,
            args=(subject,),
        )
        state = labelling(subject.kind, subject.name)
        if state.import_problem is not None:
            show_error(state.import_problem)
        elif state.imported is not None:
            show_text(state.imported)


def _take_import(subject: Subject) -> None:
    state, uploaded = labelling(subject.kind, subject.name), box(_UPLOAD)
    state.imported = state.import_problem = None
    exploring().saved = exploring().problem = None
    try:
        if uploaded is None:
            state.imported = _import(subject, Path((box(_PATH) or "").strip()).expanduser())
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, Path(uploaded.name).name)
            file.write_bytes(uploaded.getvalue())
            state.imported = _import(subject, file)
    except (CrlcError, OSError) as error:
        state.import_problem = str(error)


def _import(subject: Subject, file: Path) -> str:
    return import_words(import_labels(annotations_of(subject.dataset), subject.dataset, file))


def import_words(report: LabelImport) -> str:
    """What an import did, line by line."""
    lines = [
        f"{images(report.matched)} matched: {report.changed:,} labelled, {report.unchanged:,} had their label already."
    ]
    if report.unknown:
        more = ", ..." if report.unknown > len(report.first_unknown) else ""
        lines.append(
            f"{report.unknown:,} lines name no image of this data set: {', '.join(report.first_unknown)}{more}"
        )
    if report.blank:
        lines.append(f"{report.blank:,} lines have no label.")
    return "\n".join(lines)
