"""How long a training would take, measured in the background; and how many clusters to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from app.components.plain import show_caption, show_error
from app.figures.curves import count_figure
from app.measuring import Answer, Question, measuring
from app.state import training
from app.training_form import TrainForm
from crlc.cli.output import duration
from crlc.data.dataset import ImageDataset
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

PRESETS = ("quick", "balanced", "best")
MEASURED_UNASKED = 20_000
"""Of more images, decoding them at another size takes long: a person has to ask for it."""

_LOOK_SECONDS = 1.0
_ENDED = ("done", "failed")
_CLEAR = 0.75


def estimate_question(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> Question:
    """What is asked to learn how long a training takes."""
    return Question(workspace.root, ("train", *form.arguments(), "--dry-run"), _version(dataset))


def count_question(workspace: Workspace, dataset: ImageDataset) -> Question:
    """What is asked to learn how many clusters there seem to be."""
    return Question(workspace.root, ("count", dataset.name), _version(dataset))


def planned(answer: Answer | None) -> TrainSettings | None:
    """The settings that a preset means here, once they are known."""
    return None if answer is None or answer.content is None else TrainSettings.from_json(answer.content["settings"])


def preset_questions(workspace: Workspace, dataset: ImageDataset, form: TrainForm) -> dict[str, Question]:
    """The chosen preset first; then those that could be chosen instead, so that their times can be compared."""
    presets = dict.fromkeys([form.preset, *PRESETS]) if form.preset in PRESETS else (form.preset,)
    return {preset: estimate_question(workspace, dataset, replace(form, preset=preset)) for preset in presets}


def show_estimate(questions: Mapping[str, Question], *, images: int, may_measure: bool) -> None:
    """How long the chosen preset, the first of these, takes and why so; and the times of the others.

    Args:
        questions: by the name of each preset.
        images: how many there are.
        may_measure: whether what is not known yet is measured now.
    """
    known = [measuring().known(question) for question in questions.values()]
    pending = sum(answer is None or answer.state not in _ENDED for answer in known)
    st.fragment(_show_estimate, run_every=_LOOK_SECONDS if pending and may_measure else None)(
        questions, images, may_measure=may_measure, pending=pending
    )


def _show_estimate(questions: Mapping[str, Question], images: int, *, may_measure: bool, pending: int) -> None:
    look = measuring().ask if may_measure else lambda question: measuring().known(question) or Answer()
    answers = {preset: look(question) for preset, question in questions.items()}
    if sum(answer.state not in _ENDED for answer in answers.values()) < pending:
        st.rerun()  # the settings that the preset means are shown elsewhere on the page, too
    chosen, *others = answers
    answer = answers[chosen]
    with st.container(height=62, border=False):
        if answer.content is not None:
            settings = answer.content["settings"]
            epochs = settings["epochs"] + settings["pretrain_epochs"] + settings["finetune_epochs"]
            times = [f"{one} {duration(found['seconds'])}" for one in others if (found := answers[one].content)]
            st.markdown(
                f"About **{duration(answer.content['seconds'])}** on this computer"
                + (f" ({', '.join(times)})" if times else ""),
                help="From a few timed steps of this training here. It takes longer while other programs compute.",
            )
            show_caption(f"{epochs:,} epochs of {images:,} images. Method: {answer.content['method_reason']}.")
        elif answer.state == "failed":
            show_caption(f"The time could not be measured: {answer.text}")
            if st.button("Measure again", type="tertiary", key="estimate-again"):
                measuring().forget(questions[chosen])
                st.rerun()
        elif may_measure:
            show_caption(f"Measuring how long it takes here ... {answer.text}")
        else:
            show_caption("How long it takes is measured when nothing is being trained.")


def show_count(workspace: Workspace, dataset: ImageDataset) -> None:
    """The suggested number with its curve, if it was asked for."""
    if not training.wants_count(dataset.name):
        return
    question = count_question(workspace, dataset)
    known = measuring().known(question)
    pending = known is None or known.state == "running"
    st.fragment(_show_count, run_every=_LOOK_SECONDS if pending else None)(question, dataset.name, pending=pending)


def _show_count(question: Question, dataset: str, *, pending: bool) -> None:
    answer = measuring().ask(question)
    if pending and answer.state in _ENDED:
        st.rerun()
    if answer.content is None:
        if answer.state == "failed":
            show_error(answer.text)
            st.button("Try again", on_click=measuring().forget, args=(question,), key="count-again")
        else:
            st.progress(_share_in(answer.text), text="Looking for groups")
            show_caption(answer.text or "Starting ...")
        return
    found = answer.content
    words, curve = st.columns([1, 2])
    with words:
        st.markdown(
            f"**{found['suggestion']} clusters** suggested",
            help="Where one more cluster stops adding information about an image's neighbours.",
        )
        show_caption(f"Read from {found['read_from']}.")
        if found["clearness"] <= _CLEAR:
            show_caption("There is no clear step in the curve: look at other numbers, too.")
        st.button(
            f"Use {found['suggestion']}", on_click=training.take_clusters, args=(dataset, found["suggestion"]),
            key="count-use",
        )  # fmt: skip
    figure = count_figure(found["counts"], found["added_share"], found["suggestion"])
    curve.plotly_chart(figure, key="count-curve", config={"displayModeBar": False})


def _share_in(text: str) -> float:
    """The share of a line such as `Decoding  43%  430/1,000`."""
    for word in text.split():
        if word.endswith("%") and word[:-1].isdigit():
            return min(1.0, int(word[:-1]) / 100)
    return 0.0


def _version(dataset: ImageDataset) -> str:
    return f"{dataset.info.uid} {dataset.version}"
