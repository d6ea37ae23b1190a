"""Train: ask for a run, and watch it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app.components.estimate import (
    MEASURED_UNASKED,
    PRESETS,
    estimate_question,
    planned,
    preset_questions,
    show_count,
    show_estimate,
)
from app.components.heading import show_heading
from app.components.live_run import show_live
from app.components.originals import show_missing_originals
from app.components.plain import show_caption, show_error, show_text
from app.measuring import measuring
from app.pages import link_to
from app.state import training
from app.state.selection import selection
from app.training_form import Setting, TrainForm, known_settings, problem_with, read_assignments
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.errors import CrlcError
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared import queue_of
from crlc.training.presets import DEFAULT_CLUSTERS, PRESET_NAMES
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

_WITHOUT_ORIGINALS = "Training works on what was decoded at import, as long as no other image size is needed."
_PRESET_HELP = (
    "quick: about a minute for a few thousand images. balanced: three times as long. best: as good as it gets here."
)
_SHOWN_SETTINGS = (
    ("epochs", "batch_size", "learning_rate", "seed"),
    ("critic", "implementation", "augment", "backbone"),
    ("entropy_weight", "feature_weight", "smoothing", "temperature"),
    ("subheads", "neighbours", "image_size", "schedule"),
)
_ADVANCED_BOXES = {"train-paper": None, "train-method": "auto", "train-device": "auto", "train-others": ""}
"""Boxes beside those of the settings, and what is in them when nothing is asked for."""

_SYMBOLS = {"entropy_weight": "λ1", "feature_weight": "λ2", "smoothing": "γ", "temperature": "τ"}


def render() -> None:
    """The page."""
    workspace = Workspace()
    show_heading("train")
    chosen = selection()
    if chosen.dataset is None:
        st.info("There are no images yet. Bring some in on the Start page, or try the digits there.")
        link_to("start", "Go to Start")
        return
    try:
        dataset = workspace.dataset(chosen.dataset)
        summary = _summary(str(dataset.folder), dataset.info.uid, dataset.version)
        queue = queue_of(workspace)
        busy = any(not job.has_ended for job in queue.jobs())
    except CrlcError as error:
        show_error(str(error))
        return
    if busy:  # what goes on comes first; asking for more can wait
        show_live(queue, chosen.run)
        st.subheader("Another training", anchor=False)
    with st.container(border=True):
        show_missing_originals(workspace, dataset, _WITHOUT_ORIGINALS)
        _ask(workspace, queue, dataset, summary, busy=busy)
    if not busy:
        show_live(queue, chosen.run)


@st.cache_data(show_spinner=False, max_entries=16)
def _summary(folder: str, *version: object) -> DatasetSummary:
    """Counted once for each version of a data set: with 100,000 images it takes a quarter of a second."""
    del version
    return ImageDataset(Path(folder)).summary()


def _ask(workspace: Workspace, queue: JobQueue, dataset: ImageDataset, summary: DatasetSummary, *, busy: bool) -> None:
    """The form, how long it takes, and the button."""
    count_box, suggest_box, preset_box, start_box = st.columns([1.3, 1.2, 2.6, 1.5], vertical_alignment="bottom")
    clusters = count_box.number_input(
        "Clusters",
        min_value=2,
        max_value=100_000,
        value=max(2, len(summary.classes) or DEFAULT_CLUSTERS),
        key=training.clusters_box(dataset.name),
        persist_state=training.KEPT,
        help="How many groups to look for. "
        + (f"{len(summary.classes)} classes are known, so that many unless you say otherwise." if summary.classes else
           "Suggest looks at the images and proposes a number."),
    )  # fmt: skip
    suggest_box.button(
        "Suggest", on_click=training.ask_for_count, args=(dataset.name,), key="suggest-count", width="stretch",
        help="Look for the number at which one more cluster adds little; takes some seconds to a minute.",
    )  # fmt: skip
    preset = preset_box.segmented_control(
        "Preset", PRESETS, default=PRESETS[0], key="train-preset", help=_PRESET_HELP, required=True,
        persist_state=training.KEPT,
    )  # fmt: skip
    show_count(workspace, dataset)
    with st.expander("Advanced settings"):
        form, base = _ask_more(workspace, dataset, TrainForm(dataset.name, int(clusters), preset or PRESETS[0]))
    _show_deviations(form)
    problem = problem_with(form.changes, base)
    if problem:
        show_error(problem)
    else:
        questions = preset_questions(workspace, dataset, form)
        if summary.readable <= MEASURED_UNASKED or _measure_button():
            show_estimate(questions, images=summary.readable, may_measure=not busy)
    start = start_box.button(
        "Add to the queue" if busy else "Start training",
        type="primary",
        key="start-training",
        width="stretch",
        disabled=bool(problem),
        help="It goes on when you close the page, and the app finds it again after a restart.",
    )
    if start:
        for question in preset_questions(workspace, dataset, form).values():
            measuring().drop(question)  # the training needs the computer now
        _start(queue, form)


def _show_deviations(form: TrainForm) -> None:
    """What is set otherwise than the preset says, also while the boxes are folded away; with a way back."""
    said = form.deviations(PRESETS)
    if not said:
        return
    words, back = st.columns([5, 1.2], vertical_alignment="center")
    with words:
        show_caption(f"Set otherwise than the preset: {' · '.join(said)}")
    back.button(
        "Reset", key="reset-settings", width="stretch", type="tertiary", icon=":material/undo:",
        on_click=training.reset_boxes, args=({**_ADVANCED_BOXES, **dict.fromkeys(map(_box_of, _shown_names()))},),
        help="Empty the boxes of the advanced settings: everything as the preset has it.",
    )  # fmt: skip


def _shown_names() -> list[str]:
    return [name for row in _SHOWN_SETTINGS for name in row]


def _box_of(setting: str) -> str:
    return f"train-set-{setting}"


def _measure_button() -> bool:
    return st.toggle(
        "Measure the time", key="measure-time", persist_state=training.KEPT,
        help="Decodes the images at the size that the training needs, if that is not done yet, and times a few steps.",
    )  # fmt: skip


def _start(queue: JobQueue, form: TrainForm) -> None:
    try:
        job = queue.train(form.arguments(), title=form.dataset)
    except (CrlcError, OSError) as error:
        show_error(str(error))
        return
    training.follow(job.id)
    st.rerun()


def _ask_more(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> tuple[TrainForm, TrainSettings | None]:
    """What is folded away; the settings that the preset means, if known, stand in the empty boxes."""
    first = st.columns(3)
    paper = [name for name in PRESET_NAMES if name not in PRESETS]
    preset = first[0].selectbox(
        "Preset of the paper", paper, index=None, placeholder="none", key="train-paper", persist_state=training.KEPT,
        help="The settings of the paper's experiments in place of the preset above. They want a GPU and hours.",
    )  # fmt: skip
    method = first[1].selectbox(
        "Method", ("auto", "end-to-end", "two-stage"), key="train-method", help=known_settings()["method"].help,
        persist_state=training.KEPT,
    )  # fmt: skip
    device = first[2].selectbox(
        "Compute on", ("auto", "cpu", "cuda", "mps"), key="train-device", help="auto takes a GPU where there is one.",
        persist_state=training.KEPT,
    )  # fmt: skip
    form = TrainForm(form.dataset, form.clusters, preset or form.preset, method, device)
    base = planned(measuring().known(estimate_question(workspace, dataset, form)))
    changes: dict[str, Any] = {}
    for row in _SHOWN_SETTINGS:
        for column, name in zip(st.columns(len(row)), row, strict=True):
            with column:
                value = _ask_setting(known_settings()[name], base)
            if value is not None:
                changes[name] = value
    text = st.text_area(
        "Other settings", placeholder="name=value, one to a line", key="train-others", height=68,
        persist_state=training.KEPT,
        help="Any setting of a run. Their names and meanings are in the list below.",
    )  # fmt: skip
    with st.popover("All settings"):
        show_text("\n".join(f"{one.name}: {one.help}" for one in known_settings().values()))
    changes |= read_assignments(text)
    form = TrainForm(form.dataset, form.clusters, form.preset, method, device, changes)
    st.code(form.command(), language=None, wrap_lines=True)
    return form, base


def _ask_setting(setting: Setting, base: TrainSettings | None) -> Any:
    """A box that is empty while the preset's value holds."""
    usual = None if base is None else getattr(base, setting.name)
    label = f"{setting.label} {_SYMBOLS[setting.name]}" if setting.name in _SYMBOLS else setting.label
    shown = "the preset's" if usual is None else f"{usual:g}" if isinstance(usual, float) else str(usual)
    key = _box_of(setting.name)
    if setting.choices:
        return st.selectbox(
            label, setting.choices, index=None, placeholder=shown, key=key, help=setting.help,
            accept_new_options=setting.name == "backbone", persist_state=training.KEPT,
        )  # fmt: skip
    return st.number_input(
        label, value=None, step=1 if setting.kind is int else None, format=None if setting.kind is int else "%g",
        placeholder=shown, key=key, help=setting.help, persist_state=training.KEPT,
    )  # fmt: skip
