"""Export page: download or save the result of a run in one of the export formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.background.tasks import BackgroundTask, dismiss_task, get_task, start_task
from app.components.common.current_view import name_current_view, show_no_datasets
from app.components.common.download import show_download
from app.components.common.heading import show_heading, show_view_line
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_done, show_error, show_warning
from app.navigation import link_to
from app.server.routes.exports import build_download_name, build_export_url
from app.state.current import open_current_dataset, open_current_run
from app.state.notices import is_started_here, record_started_task
from app.state.selection import get_selection
from app.state.widgets import restore_widget_value
from app.urls import build_labels_url
from app.view_models.export_previews import (
    LINK_TITLES,
    open_exporter,
    open_provisional_exporter,
    preview_dataset_labels,
    preview_export,
)
from app.view_models.run_table import format_run_error
from app.view_models.training_progress import describe_partial_result
from crlc.analysis.maps.settings import DEFAULT_MAP_METHOD, MAP_METHODS
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError
from crlc.export.html_map import MAX_THUMBNAILS
from crlc.export.image_columns import describe_exported_columns
from crlc.export.tables import ALL_COLUMNS, COLUMNS, OPTIONAL_COLUMNS
from crlc.formatting import format_count
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.services.export import FORMATS, PROVISIONAL_FORMATS, resolve_destination
from crlc.services.export_types import DEFAULT_PREVIEW_ROWS, FEATURE_KINDS, ExportFormat, ExportOptions, ExportPreview
from crlc.services.exporters import Exporter, ProvisionalExporter
from crlc.workspace import Workspace

_CURRENT_MAP = "ready"
_TABLE_HEIGHT_PIXELS = 420
_ROUNDED = ("confidence", "second_probability", "map_x", "map_y")
_TEXTS = ("cluster_name", "label", "class")
_EXAMPLE_FOLDER = os.path.join(os.path.expanduser("~"), "sorted")


def render() -> None:
    """Show the page."""
    workspace, run = Workspace(), None
    beside = show_heading("export")
    try:
        run = open_current_run(workspace)
        exporter = _open_provisional(workspace) if run is None else open_exporter(workspace, run)
        if exporter is None:
            _show_empty_state()
            _show_label_download(workspace)
            return
        exporter.has_map()  # raises an error for a run without a result
    except NotFoundError as error:
        show_caption(str(error) if run is None else format_run_error(workspace, run.id, error))
        link_to("train", "Go to Train")
        _show_label_download(workspace)
        return
    except CrlcError as error:
        show_error(str(error))
        return
    show_view_line(beside, [name_current_view(workspace, exporter.dataset.name, None if run is None else run.id)])
    if run is None:
        show_warning("These clusters are provisional: made with k-means on image features, not trained.")
    else:
        _warn_if_unfinished(run)
    formats, rest = st.columns([2, 5], gap="medium")
    with formats:
        export_format = _show_formats(FORMATS if run is not None else PROVISIONAL_FORMATS)
    with rest:
        # Not as captions of the options: with them, the list of formats is longer than the window.
        show_caption(export_format.purpose)
        try:
            options = _show_options(exporter, export_format)
            if export_format.is_folder:
                _show_folder_form(exporter, export_format, options)
            else:
                name = build_download_name(exporter, export_format)
                show_download(
                    build_export_url(exporter, export_format, options), name, key=f"download-{export_format.key}"
                )
                with st.expander(
                    "Save on this computer instead",
                    key=f"save-here-{export_format.key}",
                    expanded=_has_export_task(exporter, export_format),
                ):
                    _show_file_form(exporter, export_format, options)
            _show_preview(exporter, export_format, options)
            _show_instructions(exporter, export_format)
        except CrlcError as error:
            show_error(str(error))


def _open_provisional(workspace: Workspace) -> Exporter | None:
    """Return the exporter of the provisional clusters of the current dataset; `None` if it has none yet."""
    dataset = open_current_dataset(workspace)
    try:
        return None if dataset is None else open_provisional_exporter(workspace, dataset)
    except NotFoundError:
        return None


def _warn_if_unfinished(run: RunFolder) -> None:
    """Warn if the clusters are those of a run that has not finished, which every export would contain."""
    metadata = read_result(run).metadata
    if not metadata.get("final", True):
        show_warning(f"{describe_partial_result(metadata, run.read_status())}. The export contains these clusters.")


def _show_empty_state() -> None:
    if get_selection().dataset is None:
        show_no_datasets()
        return
    st.info("No run selected. Select a run in the sidebar, or train one, to export its clusters.")
    link_to("train", "Go to Train")


def _show_label_download(workspace: Workspace) -> None:
    """Offer the labels of the dataset, which can be exported before any training."""
    try:
        dataset = open_current_dataset(workspace)
        found = None if dataset is None else preview_dataset_labels(dataset)
    except CrlcError as error:
        show_error(str(error))
        return
    if dataset is not None and found is not None and found.count:
        labels = FORMATS["labels"]
        st.header("Labels of this dataset", anchor=False)
        show_download(
            build_labels_url(dataset.name), f"{dataset.name}{labels.suffix}", key="download-labels-of-dataset"
        )
        _show_table(labels, found, dataset)


# ---- format and options


def _show_formats(formats: Mapping[str, ExportFormat]) -> ExportFormat:
    restore_widget_value("export-format", "csv", list(formats))
    chosen = st.radio(
        "Format",
        list(formats),
        key="export-format",
        format_func=lambda key: formats[key].title,
    )
    return formats[chosen]


def _show_options(exporter: Exporter, export_format: ExportFormat) -> ExportOptions:
    if export_format is FORMATS["vectors"] and not isinstance(exporter, ProvisionalExporter):
        return ExportOptions(features=_show_features_choice())
    if not export_format.has_coordinates:
        return ExportOptions(columns=not export_format.has_columns or _show_columns_choice())
    excluded, absolute_paths, columns = True, False, False
    map_box, more = st.columns([1, 2.6], vertical_alignment="bottom")
    with map_box:
        method = None if isinstance(exporter, ProvisionalExporter) else _show_map_choice(exporter, export_format)
    if export_format.is_table:
        with more, st.container(horizontal=True, gap="medium"):  # toggles that do not fit go to the next line
            excluded = not st.toggle(
                "Omit excluded images",
                key="export-without-excluded",
                help="Leaves excluded images out of the table. By default they are marked in the column `excluded`.",
            )
            absolute_paths = st.toggle(
                "Absolute paths",
                key="export-absolute-paths",
                help="Adds a column with the absolute paths of the originals on this computer.",
            )
            columns = _show_columns_choice()
    return ExportOptions(method, excluded, absolute_paths, columns)


def _show_columns_choice() -> bool:
    restore_widget_value("export-columns", True, [True, False])
    return st.toggle(
        "Columns",
        key="export-columns",
        help="Adds the columns of the dataset: date, camera, position, size, quality, and those of an imported "
        "list. A name that the export has already gets the prefix list_.",
    )


def _show_features_choice() -> str:
    restore_widget_value("export-features", "z", list(FEATURE_KINDS))
    chosen = st.segmented_control(
        "Features",
        list(FEATURE_KINDS),
        key="export-features",
        format_func=FEATURE_KINDS.__getitem__,
        required=True,
        help="Learned features describe the clusters of this run; backbone features are the same for all its clusters.",
    )
    return chosen or "z"


def _show_map_choice(exporter: Exporter, export_format: ExportFormat) -> str | None:
    """Show the choice of the map; return its method, or `None` for a stored map."""
    maps = [_CURRENT_MAP, *MAP_METHODS]
    restore_widget_value("export-map", _CURRENT_MAP, maps)
    chosen = st.selectbox(
        "Map",
        maps,
        key="export-map",
        format_func=lambda name: MAP_METHODS.get(name, "Current map"),
        help="Sets the map whose coordinates are in the columns map_x and map_y."
        if export_format.is_table
        else "Sets the map that the file shows.",
    )
    method = None if chosen == _CURRENT_MAP else chosen
    if method is None and not exporter.has_map():
        method = DEFAULT_MAP_METHOD
    if not exporter.has_map(method):
        show_caption(f"The {MAP_METHODS[method or DEFAULT_MAP_METHOD]} map is computed first: seconds to minutes.")
    return method


# ---- saving on this computer


def _show_file_form(exporter: Exporter, export_format: ExportFormat, options: ExportOptions) -> None:
    name = exporter.build_default_file_name(export_format)
    with st.form(f"save-{export_format.key}", border=False):
        box, button = st.columns([4, 1.2], vertical_alignment="bottom")
        text = box.text_input(
            "Destination",
            key=f"export-destination-{export_format.key}",
            placeholder=f"e.g. {os.path.join(os.path.expanduser('~'), name)}",
            help="Folder or file on the computer that runs the app. Existing files are not overwritten.",
        )
        is_submitted = button.form_submit_button("Save file", width="stretch", key=f"export-save-{export_format.key}")
    if is_submitted:
        _start_export(exporter, export_format, lambda: resolve_destination(text, name, export_format), options)
    _show_export_task(exporter, export_format)


def _show_folder_form(exporter: Exporter, export_format: ExportFormat, options: ExportOptions) -> None:
    restore_widget_value("export-links", "absolute", list(LINK_TITLES))
    kind = st.segmented_control(
        "Folder contents",
        list(LINK_TITLES),
        key="export-links",
        format_func=LINK_TITLES.__getitem__,
        required=True,
        help="Links take no space and point to your images. Relative links still work when both folders are moved "
        "together. Copies also work without the originals.",
    )
    with st.form(f"save-{export_format.key}", border=False):
        box, button = st.columns([4, 1.2], vertical_alignment="bottom")
        text = box.text_input(
            "New folder",
            key=f"export-destination-{export_format.key}",
            placeholder=f"e.g. {_EXAMPLE_FOLDER}",
            help="New or empty folder on the computer that runs the app, outside the originals.",
        )
        is_submitted = button.form_submit_button(
            "Create folders" if export_format is FORMATS["folders"] else "Create folder",
            type="primary",
            width="stretch",
            key=f"export-save-{export_format.key}",
        )
    if is_submitted:
        options = replace(options, links=kind or "absolute")
        _start_export(exporter, export_format, lambda: resolve_destination(text, "", export_format), options)
    _show_export_task(exporter, export_format)


def _start_export(
    exporter: Exporter, export_format: ExportFormat, get_destination: Callable[[], Path], options: ExportOptions
) -> None:
    dismiss_task(_build_task_key(exporter, export_format))
    try:
        destination = get_destination()
    except CrlcError as error:
        show_error(str(error))
        return
    start_task(
        _build_task_key(exporter, export_format),
        f"Writing {export_format.title}",
        partial(_write, exporter, export_format, destination, options),
    )
    record_started_task(_build_task_key(exporter, export_format))


def _write(
    exporter: Exporter, export_format: ExportFormat, destination: Path, options: ExportOptions, task: BackgroundTask
) -> None:
    task.result = exporter.write(export_format, destination, options, task.report).text


def _show_export_task(exporter: Exporter, export_format: ExportFormat) -> None:
    if not _has_export_task(exporter, export_format):
        return
    found = get_task(_build_task_key(exporter, export_format))
    if found is not None and not found.is_running and isinstance(found.result, str):
        show_done(found.result)
    else:
        show_task(_build_task_key(exporter, export_format))


def _has_export_task(exporter: Exporter, export_format: ExportFormat) -> bool:
    """Return whether an export is running, or has ended and was started in this session."""
    found = get_task(_build_task_key(exporter, export_format))
    return found is not None and (found.is_running or is_started_here(_build_task_key(exporter, export_format)))


def _build_task_key(exporter: Exporter, export_format: ExportFormat) -> str:
    return f"export-{exporter.folder}-{export_format.key}"


# ---- preview


def _show_preview(exporter: Exporter, export_format: ExportFormat, options: ExportOptions) -> None:
    if export_format.key == "model":
        settings = exporter.get_run().read_metadata()["settings"]
        show_caption(
            f"{settings['clusters']:,} clusters with their names · backbone {settings['backbone']} · "
            f"{settings['image_size']} px images. Safe to open: contains no executable code."
        )
        return
    found = preview_export(exporter, export_format, options)
    if found is None:
        return
    if export_format.key == "html":
        thumbnails = (
            "with thumbnails" if found.count <= MAX_THUMBNAILS else "without thumbnails, because there are many"
        )
        show_caption(
            f"{format_count(found.count, 'point')} and names, {thumbnails}. Opens in any browser, also offline."
        )
        return
    if export_format.key == "labels" and not found.count:
        st.info("This dataset has no labels yet.")
        link_to("label", "Go to Label")
        return
    _show_table(export_format, found, exporter.dataset)
    if export_format.key == "labels":
        link_to("label", "Import labels from a CSV file on the Label page")


def _show_instructions(exporter: Exporter, export_format: ExportFormat) -> None:
    """Show how to load the export in its tool."""
    if export_format.instructions is None:
        return
    st.header("Use it", anchor=False)
    path = "FOLDER" if export_format.is_folder else exporter.build_default_file_name(export_format)
    language = {"label-studio": None, "onnx": "bash"}.get(export_format.key, "python")
    st.code(export_format.instructions(exporter, path), language=language, wrap_lines=True)


def _show_table(export_format: ExportFormat, found: ExportPreview, dataset: ImageDataset) -> None:
    unit = {"folders": "folder", "labels": "label"}.get(export_format.key, "row")
    total = format_count(found.count, unit)
    how = "First" if export_format.key == "labels" else "Sample of"
    shown = total if found.count <= len(found.rows) else f"{how} {len(found.rows):,} of {total}"
    show_caption(" ".join([f"{shown}.", *found.remarks]))
    st.dataframe(
        [
            {name: "" if value is None and name in _TEXTS else value for name, value in row.items()}
            for row in found.rows
        ],
        hide_index=True,
        placeholder="",  # as in a CSV file: provisional clusters have no confidence
        key=f"preview-{export_format.key}",
        height="content" if len(found.rows) <= DEFAULT_PREVIEW_ROWS else _TABLE_HEIGHT_PIXELS,
        column_config=_build_columns(export_format, dataset),
    )


def _build_columns(export_format: ExportFormat, dataset: ImageDataset) -> dict[str, Any]:
    """Return the help of each column; numbers are rounded on the page and exact in the file."""
    further = describe_exported_columns(dataset, ALL_COLUMNS) if export_format.is_table else {}
    helps = {**COLUMNS, **OPTIONAL_COLUMNS, **further} | (
        {"images": "Number of images in the folder.", "name": "Name of the cluster."} if export_format.is_folder else {}
    )
    return {
        name: st.column_config.NumberColumn(name, format="%.3f", help=f"{text} Rounded here, exact in the file.")
        if name in _ROUNDED
        else st.column_config.Column(name, help=text)
        for name, text in helps.items()
    }
