"""Time estimate of a training run, measured in the background, and the suggested number of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.background.commands import (
    BackgroundCommand,
    CommandResult,
    build_dataset_command,
    build_timing_command,
    get_command_runner,
)
from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption, show_error
from app.figures.curves import plot_cluster_count
from app.state import training
from app.view_models.training_form import TrainForm
from crlc.data.dataset import ImageDataset
from crlc.formatting import format_count, format_duration_range, format_progress
from crlc.progress import Progress
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

PRESETS = ("quick", "balanced", "best")
MAX_IMAGES_TO_MEASURE = 20_000
"""With more images, decoding them at another size is slow: the user must request the estimate."""

_POLL_SECONDS = 1.0
_HEIGHT_PIXELS = 150
_MIN_CURVE_POINTS, _CURVE_MULTIPLE = 18, 2


def build_estimate_command(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> BackgroundCommand:
    """Return the command that estimates the time of a training run; it is the same for quick, balanced and best.

    One command times all three, so that their times are in order, and choosing another needs no new measurement.
    """
    form = replace(form, preset=PRESETS[0]) if form.preset in PRESETS else form
    return build_timing_command(workspace, dataset, "train", *form.to_arguments(), "--dry-run")


def build_count_command(workspace: Workspace, dataset: ImageDataset) -> BackgroundCommand:
    """Return the command that suggests a number of clusters."""
    return build_dataset_command(workspace, dataset, "count", dataset.name)


def read_planned_settings(result: CommandResult | None, preset: str) -> TrainSettings | None:
    """Return the settings of a preset for this dataset; `None` until the estimate is available."""
    if result is None or result.content is None:
        return None
    return TrainSettings.from_json(result.content["presets"][preset]["settings"])


def show_estimate(command: BackgroundCommand, preset: str, *, images: int, may_measure: bool) -> None:
    """Show the estimated time of a preset, and of the other main presets.

    Args:
        command: the estimate command.
        preset: the current preset.
        images: the number of images.
        may_measure: True to measure a missing estimate now.
    """
    known = get_command_runner().get_result(command)
    is_pending = known is None or not known.is_finished
    make_fragment(_show_estimate, run_every=_POLL_SECONDS if is_pending and may_measure else None)(
        command, preset, images, may_measure=may_measure, is_pending=is_pending
    )


def _show_estimate(
    command: BackgroundCommand, preset: str, images: int, *, may_measure: bool, is_pending: bool
) -> None:
    runner = get_command_runner()
    result = runner.submit(command) if may_measure else runner.get_result(command) or CommandResult()
    if is_pending and result.is_finished:
        st.rerun()  # the settings of the preset are also shown elsewhere on the page
    with st.container(height=_HEIGHT_PIXELS, border=False):  # fixed, so that nothing below moves
        if result.content is not None:
            _show_times(result.content["presets"], preset, images)
        elif result.is_finished:
            show_caption(f"The time could not be estimated: {result.error}")
            if st.button("Estimate again", type="tertiary", key="estimate-again"):
                runner.forget(command)
                st.rerun()
        elif may_measure:
            text = "" if result.progress is None else f" {format_progress(result.progress, ' · ')}"
            show_caption(f"Estimating time…{text}")
        else:
            show_caption("The time is estimated when no training is running.")


def _show_times(estimates: Mapping[str, Mapping[str, Any]], preset: str, images: int) -> None:
    others = describe_other_presets(estimates, preset)
    st.markdown(
        f"About **{_format_time(estimates[preset])}** on this computer" + (f" ({others})" if others else ""),
        help="Estimated from a few training steps and from earlier runs. The lower value applies if no other program "
        "uses the computer.",
    )
    epochs = TrainSettings.from_json(estimates[preset]["settings"]).stages.total_epochs
    show_caption(
        f"{format_count(epochs, 'epoch')} of {format_count(images, 'image')}. "
        f"Method: {estimates[preset]['method_reason']}."
    )


def describe_other_presets(estimates: Mapping[str, Mapping[str, Any]], preset: str) -> str:
    """Return the times of the main presets other than the current one; of two with equal settings only once."""
    words = []
    for number, name in enumerate(PRESETS):
        if name == preset or name not in estimates:
            continue
        settings = estimates[name]["settings"]
        earlier = [preset, *PRESETS[:number]] if preset in PRESETS else PRESETS[:number]
        same = next((one for one in earlier if one in estimates and estimates[one]["settings"] == settings), None)
        words.append(f"{name}: same as {same} here" if same else f"{name} {_format_time(estimates[name])}")
    return ", ".join(words)


def _format_time(estimate: Mapping[str, Any]) -> str:
    return format_duration_range(estimate["low"], estimate["high"])


def show_cluster_count(workspace: Workspace, dataset: ImageDataset) -> None:
    """Show the suggested number of clusters with its curve, if the user requested it."""
    if not training.is_count_requested(dataset.name):
        return
    command = build_count_command(workspace, dataset)
    known = get_command_runner().get_result(command)
    if known is None or not known.is_finished:
        make_fragment(_wait_for_count, run_every=_POLL_SECONDS)(command)
    else:  # outside a fragment: the button fills in a widget that is elsewhere on the page
        _show_count(command, known, dataset.name)


def _wait_for_count(command: BackgroundCommand) -> None:
    """Show the progress of the command; redraw the page when it has finished."""
    result = get_command_runner().submit(command, is_urgent=True)  # the user waits for it, unlike for an estimate
    if result.is_finished:
        st.rerun()
    st.progress(_get_fraction(result.progress), text="Estimating the number of clusters")
    show_caption("Starting…" if result.progress is None else format_progress(result.progress, " · "))


def _show_count(command: BackgroundCommand, result: CommandResult, dataset: str) -> None:
    if result.content is None:
        show_error(result.error)
        st.button("Try again", on_click=get_command_runner().forget, args=(command,), key="count-again")
        return
    found = result.content
    words, curve = st.container(), st.container()  # the form is narrow
    with words:
        st.markdown(
            f"**{found['suggestion']:,} clusters** suggested",
            help="Smallest number of clusters at which one more adds little information about an image's neighbours.",
        )
        show_caption(f"{found['reason']} Based on {found['read_from']}.")
        st.button(
            f"Use {found['suggestion']:,} clusters", on_click=training.apply_suggested_count,
            args=(dataset, found["suggestion"]),
            key="count-use",
        )  # fmt: skip
    shown = max(_MIN_CURVE_POINTS, _CURVE_MULTIPLE * found["highest"])  # far beyond, the curve is flat
    figure = plot_cluster_count(found["counts"][:shown], found["added_share"][:shown], found["suggestion"])
    curve.plotly_chart(figure, key="count-curve", config={"displayModeBar": False})


def _get_fraction(progress: Progress | None) -> float:
    """Return the finished fraction of a stage; 0 if it is unknown."""
    return 0.0 if progress is None or not progress.total else min(1.0, progress.done / progress.total)
