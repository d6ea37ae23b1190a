"""Export: take a run's result away, as a file, a folder per cluster, a page or a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from app.components.download import download
from app.components.heading import show_heading
from app.components.plain import show_caption, show_done, show_error
from app.components.waiting import watch
from app.exploring.background import Work, begin, dismiss, work
from app.exploring.subject import METHODS
from app.export_routes import export_url
from app.exporting import (
    FORMATS,
    LINK_KINDS,
    PREVIEWED,
    WITH_MAP,
    ExportOptions,
    Format,
    Preview,
    destination,
    file_name,
    has_map,
    labels_preview,
    pictures_on_page,
    preview,
    write_export,
    write_folders,
)
from app.pages import has_page, link_to
from app.routes import labels_url
from app.state.chosen import chosen_dataset, chosen_run
from app.state.exploring import remembered
from app.state.imports import note_begun, was_begun
from app.state.selection import selection
from crlc.errors import CrlcError, NotFoundError
from crlc.progress import ProgressCallback
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace

_ANY_MAP = "ready"
_TALLEST = 420
_ROUNDED = ("confidence", "second_probability", "map_x", "map_y")
_TEXTS = ("cluster_name", "label", "class")
_HELPS = {
    "path": "Of the image, inside the folder that was imported.",
    "cluster": "Number of the cluster, as people edited it.",
    "cluster_name": "What a person called the cluster; empty if nobody did.",
    "confidence": "How sure the run is of the cluster it chose, from 0 to 1.",
    "second_cluster": "Number of the most probable other cluster.",
    "second_probability": "How probable the other cluster is, from 0 to 1.",
    "label": "What a person said the image is; empty if nobody did.",
    "source": "Who says so: model, or person where the image was labelled or moved by hand.",
    "excluded": "Whether a person left the image out.",
    "map_x": "Place on the map, to the right; without a unit.",
    "map_y": "Place on the map, upwards; without a unit.",
    "class": "What came with the data; never used to train.",
    "run": "Which run found the cluster.",
    "image_id": "Number of the image in its data set.",
}
_Writer = Callable[[Path, ProgressCallback], str]
_EXAMPLE_PLACE = os.path.join(os.path.expanduser("~"), "sorted")


def render() -> None:
    """The page."""
    workspace = Workspace()
    show_heading("export")
    try:
        run = chosen_run(workspace)
        if run is None:
            _say_what_to_do()
            _offer_labels(workspace)
            return
        has_map(run, None)  # whether there is a result at all
    except NotFoundError as error:
        show_caption(str(error))
        link_to("train", "Go to Train")
        _offer_labels(workspace)
        return
    except CrlcError as error:
        show_error(str(error))
        return
    formats, rest = st.columns([2, 5], gap="medium")
    with formats:
        one = _ask_for_format()
    with rest:
        try:
            options = _ask_for_options(run, one)
            if one.ending:
                download(export_url(run, one, options), file_name(run, one), key=f"download-{one.key}")
                with st.expander("Save it on this computer instead", expanded=_has_work(run, one)):
                    _ask_for_place(workspace, run, one, options)
            else:
                _ask_for_folder(workspace, run, one)
            _show_preview(workspace, run, one, options)
        except CrlcError as error:
            show_error(str(error))


def _say_what_to_do() -> None:
    if selection().dataset is None:
        st.info("There is nothing to export yet. Bring images in on the Start page first, or try the digits there.")
        link_to("start", "Go to Start")
        return
    st.info("No run is chosen. Choose one in the sidebar, or train one: its clusters are what is exported.")
    link_to("train", "Go to Train")


def _offer_labels(workspace: Workspace) -> None:
    """What people said is of the data set: it can be taken away before anything was trained."""
    try:
        dataset = chosen_dataset(workspace)
        found = None if dataset is None else labels_preview(dataset)
    except CrlcError as error:
        show_error(str(error))
        return
    if dataset is not None and found is not None and found.count:
        labels = FORMATS["labels"]
        st.subheader("Labels of this data set", anchor=False)
        download(labels_url(dataset.name), f"{dataset.name}{labels.ending}", key="download-labels-of-dataset")
        _show_table(labels, found)


# ---- what is asked


def _ask_for_format() -> Format:
    remembered("export-format", "csv", list(FORMATS))
    chosen = st.radio(
        "What to take away",
        list(FORMATS),
        key="export-format",
        format_func=lambda key: FORMATS[key].title,
        captions=[one.purpose for one in FORMATS.values()],
    )
    return FORMATS[chosen]


def _ask_for_options(run: RunFolder, one: Format) -> ExportOptions:
    if one.key not in WITH_MAP:
        return ExportOptions()
    method, excluded = None, True
    map_box, excluded_box = st.columns(2, vertical_alignment="bottom")
    with map_box:
        maps = [_ANY_MAP, *METHODS]
        remembered("export-map", _ANY_MAP, maps)
        chosen = st.selectbox(
            "Map",
            maps,
            key="export-map",
            format_func=lambda name: METHODS.get(name, "the one that is drawn already"),
            help="Which map the page shows."
            if one.key == "html"
            else "Which map the columns map_x and map_y are of: the place of each image on it.",
        )
        method = None if chosen == _ANY_MAP else chosen
    if one.key != "html":
        with excluded_box:
            excluded = not st.toggle(
                "Leave out excluded images",
                key="export-without-excluded",
                help="Otherwise they are in the table, and the column `excluded` says so. Pages and folders never have "
                "them.",
            )
    options = ExportOptions(method, excluded)
    if not has_map(run, method):
        if method is None and one.key != "html":
            show_caption("No map was drawn of this run yet: the columns for places will be empty.")
        else:
            show_caption("This map is not drawn yet: that is done first, and takes some seconds to minutes.")
    return options


# ---- onto this computer


def _ask_for_place(workspace: Workspace, run: RunFolder, one: Format, options: ExportOptions) -> None:
    with st.form(f"save-{one.key}", border=False):
        box, button = st.columns([4, 1], vertical_alignment="bottom")
        text = box.text_input(
            "Folder or file",
            placeholder=f"for example {os.path.join(os.path.expanduser('~'), file_name(run, one))}",
            help="On the computer that runs the app. Nothing that exists is overwritten.",
        )
        wanted = button.form_submit_button("Save", width="stretch")
    if wanted:
        _begin(run, one, lambda: destination(text, file_name(run, one), one),
               lambda file, report: write_export(workspace, run, one, file, options, report))  # fmt: skip
    _show_work(run, one)


def _ask_for_folder(workspace: Workspace, run: RunFolder, one: Format) -> None:
    remembered("export-links", "absolute", list(LINK_KINDS))
    kind = st.segmented_control(
        "As",
        list(LINK_KINDS),
        key="export-links",
        format_func=LINK_KINDS.__getitem__,
        required=True,
        help="Links take no space and point to your images. Relative ones live on when both folders are moved "
        "together. Copies live on without the originals.",
    )
    with st.form("save-folders", border=False):
        box, button = st.columns([4, 1], vertical_alignment="bottom")
        text = box.text_input(
            "New folder",
            placeholder=f"for example {_EXAMPLE_PLACE}",
            help="On the computer that runs the app: one that is not there yet, or empty, and not among the originals.",
        )
        wanted = button.form_submit_button("Make", type="primary", width="stretch")
    if wanted:
        _begin(run, one, lambda: destination(text, "", one),
               lambda folder, report: write_folders(workspace, run, folder, kind or "absolute", report))  # fmt: skip
    _show_work(run, one)


def _begin(run: RunFolder, one: Format, place_of: Callable[[], Path], write: _Writer) -> None:
    dismiss(_key(run, one))
    try:
        place = place_of()
    except CrlcError as error:
        show_error(str(error))
        return
    begin(_key(run, one), f"Writing {one.title}", partial(_write, write, place))
    note_begun(_key(run, one))


def _write(write: _Writer, place: Path, on_its_way: Work) -> None:
    on_its_way.result = write(place, on_its_way.report)


def _show_work(run: RunFolder, one: Format) -> None:
    if not _has_work(run, one):
        return
    found = work(_key(run, one))
    if found is not None and not found.running and isinstance(found.result, str):
        show_done(found.result)
    else:
        watch(_key(run, one))


def _has_work(run: RunFolder, one: Format) -> bool:
    """Whether there is something to say: what goes on is everybody's, how it ended only theirs who began it."""
    found = work(_key(run, one))
    return found is not None and (found.running or was_begun(_key(run, one)))


def _key(run: RunFolder, one: Format) -> str:
    return f"export-{run.path}-{one.key}"


# ---- what it will be


def _show_preview(workspace: Workspace, run: RunFolder, one: Format, options: ExportOptions) -> None:
    if one.key == "model":
        settings = run.description()["settings"]
        show_caption(
            f"{settings['clusters']} clusters · backbone {settings['backbone']} · images of {settings['image_size']} px"
            " · with the names of the clusters. Read without running code from it."
        )
        return
    found = preview(workspace, run, one, options)
    if one.key == "html":
        pictures = "with a picture each" if pictures_on_page(found.count) else "without pictures, as they are many"
        show_caption(f"{found.count:,} points, {pictures}. It opens in any browser and needs no internet.")
        return
    if one.key == "labels" and not found.count:
        st.info("Nobody has labelled an image of this data set yet.")
        if has_page("label"):
            link_to("label", "Go to Label")
        return
    _show_table(one, found)
    if one.key == "labels" and has_page("label"):
        link_to("label", "Labels from a CSV file are brought in on the Label page")


def _show_table(one: Format, found: Preview) -> None:
    what = {"folders": "folders", "labels": "labels"}.get(one.key, "rows")
    shown = "" if found.count <= len(found.rows) else f" of which these are the first {len(found.rows)}"
    show_caption(" ".join([f"{found.count:,} {what}{shown}.", *found.remarks]))
    st.dataframe(
        [
            {name: "" if value is None and name in _TEXTS else value for name, value in row.items()}
            for row in found.rows
        ],
        hide_index=True,
        key=f"preview-{one.key}",
        height="content" if len(found.rows) <= PREVIEWED else _TALLEST,
        column_config=_columns(one),
    )


def _columns(one: Format) -> dict[str, st.column_config.NumberColumn | st.column_config.Column]:
    """What each column means; numbers are rounded here and exact in the file."""
    helps = _HELPS | (
        {"images": "How many images the folder gets.", "name": "Of the cluster."} if not one.ending else {}
    )
    return {
        name: st.column_config.NumberColumn(name, format="%.3f", help=f"{text} Rounded here; exact in the file.")
        if name in _ROUNDED
        else st.column_config.Column(name, help=text)
        for name, text in helps.items()
    }
