"""Time estimate of a training run, measured in the background, and the suggested number of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from app.background.commands import Command, CommandResult, build_dataset_command, get_command_runner
from app.components.common.safe_text import show_caption, show_error
from app.figures.curves import plot_cluster_count
from app.state import training
from app.view_models.training_form import TrainForm
from crlc.data.dataset import ImageDataset
from crlc.formatting import format_count, format_duration, format_progress
from crlc.progress import Progress
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

PRESETS = ("quick", "balanced", "best")
MAX_IMAGES_TO_MEASURE = 20_000
"""With more images, decoding them at another size is slow: the user must request the estimate."""

_POLL_SECONDS = 1.0
_MIN_CURVE_POINTS, _CURVE_MULTIPLE = 18, 2


def build_estimate_command(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> Command:
    """Return the command that estimates the time of a training run."""
    return build_dataset_command(workspace, dataset, "train", *form.to_arguments(), "--dry-run")


def build_count_command(workspace: Workspace, dataset: ImageDataset) -> Command:
    """Return the command that suggests a number of clusters."""
    return build_dataset_command(workspace, dataset, "count", dataset.name)


def read_planned_settings(result: CommandResult | None) -> TrainSettings | None:
    """Return the settings of a preset for this dataset; `None` until the estimate is available."""
    return None if result is None or result.content is None else TrainSettings.from_json(result.content["settings"])


def build_preset_commands(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> dict[str, Command]:
    """Return the estimate commands of the presets, the current one first, so that their times can be compared."""
    presets = dict.fromkeys([form.preset, *PRESETS]) if form.preset in PRESETS else (form.preset,)
    return {preset: build_estimate_command(workspace, dataset, replace(form, preset=preset)) for preset in presets}


def show_estimate(commands: Mapping[str, Command], *, images: int, may_measure: bool) -> None:
    """Show the estimated time of the current preset, which is the first, and of the others.

    Args:
        commands: the estimate command of each preset.
        images: the number of images.
        may_measure: True to measure missing estimates now.
    """
    known = [get_command_runner().get_result(command) for command in commands.values()]
    pending = sum(result is None or not result.is_finished for result in known)
    st.fragment(_show_estimate, run_every=_POLL_SECONDS if pending and may_measure else None)(
        commands, images, may_measure=may_measure, pending=pending
    )


def _show_estimate(commands: Mapping[str, Command], images: int, *, may_measure: bool, pending: int) -> None:
    get_result = (
        get_command_runner().submit
        if may_measure
        else lambda command: get_command_runner().get_result(command) or CommandResult()
    )
    results = {preset: get_result(command) for preset, command in commands.items()}
    if sum(not result.is_finished for result in results.values()) < pending:
        st.rerun()  # the settings of the preset are also shown elsewhere on the page
    chosen, *others = results
    result = results[chosen]
    with st.container(height=62, border=False):
        settings = read_planned_settings(result)
        if result.content is not None and settings is not None:
            times = [f"{one} {format_duration(found['seconds'])}" for one in others if (found := results[one].content)]
            st.markdown(
                f"About **{format_duration(result.content['seconds'])}** on this computer"
                + (f" ({', '.join(times)})" if times else ""),
                help="Estimated from a few training steps on this computer. Other running programs slow it down.",
            )
            show_caption(
                f"{format_count(settings.stages.total_epochs, 'epoch')} of {format_count(images, 'image')}. "
                f"Method: {result.content['method_reason']}."
            )
        elif result.is_finished:
            show_caption(f"The time could not be estimated: {result.error}")
            if st.button("Estimate again", type="tertiary", key="estimate-again"):
                get_command_runner().forget(commands[chosen])
                st.rerun()
        elif may_measure:
            text = "" if result.progress is None else f" {format_progress(result.progress)}"
            show_caption(f"Estimating time…{text}")
        else:
            show_caption("The time is estimated when no training is running.")


def show_cluster_count(workspace: Workspace, dataset: ImageDataset) -> None:
    """Show the suggested number of clusters with its curve, if the user requested it."""
    if not training.is_count_requested(dataset.name):
        return
    command = build_count_command(workspace, dataset)
    known = get_command_runner().get_result(command)
    if known is None or not known.is_finished:
        st.fragment(_wait_for_count, run_every=_POLL_SECONDS)(command)
    else:  # outside a fragment: the button fills in a widget that is elsewhere on the page
        _show_count(command, known, dataset.name)


def _wait_for_count(command: Command) -> None:
    """Show the progress of the command; redraw the page when it has finished."""
    result = get_command_runner().submit(command)
    if result.is_finished:
        st.rerun()
    st.progress(_get_fraction(result.progress), text="Estimating the number of clusters")
    show_caption("Starting…" if result.progress is None else format_progress(result.progress))


def _show_count(command: Command, result: CommandResult, dataset: str) -> None:
    if result.content is None:
        show_error(result.error)
        st.button("Try again", on_click=get_command_runner().forget, args=(command,), key="count-again")
        return
    found = result.content
    words, curve = st.columns([1, 2])
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
