"""Train page: start a run, and follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from app.background.commands import get_command_runner
from app.components.common.action_button import show_action_button
from app.components.common.current_view import show_no_datasets
from app.components.common.heading import show_heading
from app.components.common.safe_text import show_caption, show_error, show_text
from app.components.datasets.originals import show_missing_originals
from app.components.training.backbones import get_backbone_title, show_backbone_download, show_backbone_list
from app.components.training.estimate import (
    MAX_IMAGES_TO_MEASURE,
    PRESETS,
    build_estimate_command,
    read_planned_settings,
    show_cluster_count,
    show_estimate,
)
from app.components.training.live_run import has_finished_run, show_live_run
from app.components.training.paper_preset import list_default_values, show_paper_preset
from app.components.training.sweep import show_sweep
from app.state import training
from app.state.selection import get_selection
from app.view_models.training_form import (
    SettingField,
    TrainForm,
    list_setting_fields,
    parse_assignments,
    validate_changes,
)
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared_queue import get_queue
from crlc.training.device import DEVICES
from crlc.training.presets import choose_cluster_count
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

_WITHOUT_ORIGINALS = "Training uses the stored images. Only another image size needs the originals."
_PRESET_HELP = (
    "Sets how long to train at most: quick 2 minutes, balanced 10 minutes, best an hour. Without a GPU, "
    "photographs take less, and balanced and best are equal for them."
)
_METHOD_HELP = (
    "Sets the training method. auto chooses by the images and the device. two-stage uses a pretrained backbone, or "
    "pretrains one, then clusters neighbours."
)
_SHOWN_SETTINGS = (
    ("epochs", "batch_size", "learning_rate", "seed"),
    ("critic", "implementation", "augment", "schedule"),
    ("entropy_weight", "feature_weight", "smoothing", "temperature"),
    ("subheads", "neighbours", "image_size"),
)
_BACKBONE = "backbone"
"""Its names are long: the widget has a row of its own."""

_SETTING_COLUMNS = 2
_ADVANCED_WIDGETS = {
    **list_default_values(),
    "train-method": "auto",
    "train-device": "auto",
    "train-others": "",
    "train-sweep": None,
    "train-sweep-values": "",
}
"""Keys and defaults of the advanced widgets that are not settings."""


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    show_heading("train")
    chosen = get_selection()
    if chosen.dataset is None:
        show_no_datasets()
        return
    try:
        dataset = workspace.open_dataset(chosen.dataset)
        summary = _summarize(str(dataset.folder), dataset.info.uid, dataset.version)
        queue = get_queue(workspace)
        is_busy = any(not job.is_final for job in queue.read_jobs())
    except CrlcError as error:
        show_error(str(error))
        return
    results, form = st.columns([5, 2.6], gap="medium")  # fixed places: nothing moves when a training starts or ends
    with results:
        show_live_run(queue, chosen.run)
    with form, st.container(border=True):
        st.markdown("**New run**")
        show_missing_originals(workspace, dataset, _WITHOUT_ORIGINALS)
        _show_form(workspace, queue, dataset, summary, is_busy=is_busy)


@st.cache_data(show_spinner=False, max_entries=16)
def _summarize(folder: str, *version: object) -> DatasetSummary:
    """Summarise a dataset; cached per version, because 100,000 images take 0.25 s."""
    del version
    return ImageDataset(Path(folder)).summarize()


def _show_form(
    workspace: Workspace, queue: JobQueue, dataset: ImageDataset, summary: DatasetSummary, *, is_busy: bool
) -> None:
    """Show the form, the time estimate, and the start button."""
    training.set_default_count(dataset.name, choose_cluster_count(len(summary.classes), summary.readable))
    clusters = st.number_input(
        "Clusters",
        min_value=2,
        max_value=100_000,
        key=training.build_clusters_key(dataset.name),
        persist_state=training.PERSISTENCE,
        help="Sets the number of clusters. "
        + ("The default is the number of ground-truth classes." if len(summary.classes) > 1 else
           "The button “Suggest number” estimates it from the images."),
    )  # fmt: skip
    st.button(
        "Suggest number", on_click=training.request_count, args=(dataset.name,), key="suggest-count", width="stretch",
        help="Suggests the number of clusters beyond which one more adds little. Takes seconds to a minute.",
    )  # fmt: skip
    show_cluster_count(workspace, dataset)
    preset = st.segmented_control(
        "Preset", PRESETS, default=PRESETS[0], key="train-preset", help=_PRESET_HELP, required=True,
        persist_state=training.PERSISTENCE,
    )  # fmt: skip
    start_box = st.container()
    with st.expander("Advanced settings", key="advanced-settings"):
        form, base = _show_advanced_settings(
            workspace, dataset, TrainForm(dataset.name, int(clusters), preset or PRESETS[0])
        )
        forms = show_sweep(form, base)
    _show_deviations(form)
    problem = validate_changes(form.changes, base)
    with start_box:  # beside the button that they disable
        is_ready = show_backbone_download(form.changes.get(_BACKBONE))
        if problem:
            show_error(problem)
    if is_ready and not problem:
        command = build_estimate_command(workspace, dataset, form)
        if summary.readable <= MAX_IMAGES_TO_MEASURE or _show_measure_toggle():
            show_estimate(command, form.preset, images=summary.readable, may_measure=not is_busy)
    is_started = show_action_button(
        start_box,
        f"Start {format_count(len(forms), 'run')}"
        if len(forms) > 1
        else "Add to queue"
        if is_busy
        else "Start training",
        type="secondary" if has_finished_run(workspace, get_selection().run) else "primary",
        key="start-training",
        width="stretch",
        disabled=bool(problem) or not forms or not is_ready,
        help="Trains in the background. Training continues when you close the page.",
    )
    if is_started:
        # The training needs the computer now.
        get_command_runner().cancel(build_estimate_command(workspace, dataset, form))
        _start_training(queue, forms, is_busy=is_busy)


def _show_deviations(form: TrainForm) -> None:
    """Show the changes from the preset, even while the widgets are hidden, with a reset button."""
    changes = form.describe_changes(PRESETS)
    if not changes:
        return
    show_caption(f"Changed from preset: {' · '.join(changes)}")
    st.button(
        "Reset settings", key="reset-settings", width="stretch", type="tertiary", icon=":material/undo:",
        on_click=training.set_widget_values,
        args=({**_ADVANCED_WIDGETS, **dict.fromkeys(map(_build_widget_key, _list_shown_settings()))},),
        help="Resets the advanced settings to those of the preset.",
    )  # fmt: skip


def _list_shown_settings() -> list[str]:
    return [_BACKBONE, *(name for row in _SHOWN_SETTINGS for name in row)]


def _build_widget_key(setting: str) -> str:
    return f"train-set-{setting}"


def _show_measure_toggle() -> bool:
    return st.toggle(
        "Estimate time", key="measure-time", persist_state=training.PERSISTENCE,
        help="Times a few training steps. The images may have to be decoded at another size first.",
    )  # fmt: skip


def _start_training(queue: JobQueue, forms: Sequence[TrainForm], *, is_busy: bool) -> None:
    try:
        first, *_ = [queue.submit(form.to_arguments(), title=form.dataset) for form in forms]
    except (CrlcError, OSError) as error:
        show_error(str(error))
        return
    if is_busy:  # the curves of the current run stay; the queue below them has the new job
        st.toast("Added to the queue.", icon=":material/playlist_add:")
    else:
        training.follow_job(first.id)
    st.rerun()


def _show_advanced_settings(
    workspace: Workspace, dataset: ImageDataset, form: TrainForm
) -> tuple[TrainForm, TrainSettings | None]:
    """Show the advanced settings; empty widgets show the values of the preset once they are known."""
    first = (st.container(), st.container(), st.container())  # the form is narrow
    with first[0]:
        form = show_paper_preset(form)
    method = first[1].selectbox(
        "Method", ("auto", "end-to-end", "two-stage"), key="train-method", help=_METHOD_HELP,
        persist_state=training.PERSISTENCE,
    )  # fmt: skip
    device = first[2].selectbox(
        "Device", DEVICES, key="train-device", help="Sets the device to compute on. auto uses a GPU if there is one.",
        persist_state=training.PERSISTENCE,
    )  # fmt: skip
    form = replace(form, method=method, device=device)
    estimate = get_command_runner().get_result(build_estimate_command(workspace, dataset, form))
    base = read_planned_settings(estimate, form.preset)
    changes: dict[str, Any] = {}
    backbone = _show_setting(list_setting_fields()[_BACKBONE], base)
    if backbone is not None:
        changes[_BACKBONE] = backbone
    show_backbone_list()
    for row in _SHOWN_SETTINGS:
        columns = st.columns(_SETTING_COLUMNS) + st.columns(_SETTING_COLUMNS)
        for column, name in zip(columns, row, strict=False):
            with column:
                value = _show_setting(list_setting_fields()[name], base)
            if value is not None:
                changes[name] = value
    text = st.text_area(
        "Other settings", placeholder="name=value, one per line", key="train-others", height=68,
        persist_state=training.PERSISTENCE,
        help="Sets any other setting. “All settings” lists them.",
    )  # fmt: skip
    with st.popover("All settings"):
        show_text("\n".join(f"{one.group}.{one.name}: {one.help}" for one in list_setting_fields().values()))
    changes |= parse_assignments(text)
    form = replace(form, changes=changes)
    st.code(form.to_command(), language=None, wrap_lines=True)
    return form, base


def _show_setting(setting: SettingField, base: TrainSettings | None) -> Any:
    """Show a widget that is empty while the preset's value applies."""
    preset_value = None if base is None else base.as_dict()[setting.name]
    placeholder = f"{preset_value:g}" if isinstance(preset_value, float) else str(preset_value)
    if preset_value is None:
        placeholder = "default"  # a longer one does not fit into the narrow form
    key = _build_widget_key(setting.name)
    if setting.choices:
        return st.selectbox(
            setting.label, setting.choices, index=None, placeholder=placeholder, key=key, help=setting.help,
            accept_new_options=setting.name == _BACKBONE, persist_state=training.PERSISTENCE,
            format_func=get_backbone_title if setting.name == _BACKBONE else str,
        )  # fmt: skip
    return st.number_input(
        setting.label, value=None, step=1 if setting.kind is int else None,
        format=None if setting.kind is int else "%g", placeholder=placeholder, key=key, help=setting.help,
        persist_state=training.PERSISTENCE,
    )  # fmt: skip
