"""How long a training would take, measured in the background; and how many clusters to ask for."""

from __future__ import annotations

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


def show_estimate(question: Question, *, images: int, may_measure: bool) -> None:
    """One line about time and method; measured now if it may be, and nobody trains."""
    known = measuring().known(question)
    pending = known is None or known.state == "running"
    st.fragment(_show_estimate, run_every=_LOOK_SECONDS if pending and may_measure else None)(
        question, images, may_measure=may_measure, pending=pending
    )


def _show_estimate(question: Question, images: int, *, may_measure: bool, pending: bool) -> None:
    answer = measuring().ask(question) if may_measure else measuring().known(question) or Answer()
    if pending and answer.state in ("done", "failed"):
        st.rerun()  # the settings that the preset means are shown elsewhere on the page, too
    with st.container(height=62, border=False):
        if answer.content is not None:
            settings = answer.content["settings"]
            epochs = settings["epochs"] + settings["pretrain_epochs"] + settings["finetune_epochs"]
            st.markdown(
                f"About **{duration(answer.content['seconds'])}** on this computer",
                help="From a few timed steps of this training here. It takes longer while other programs compute.",
            )
            show_caption(f"{epochs:,} epochs of {images:,} images. Method: {answer.content['method_reason']}.")
        elif answer.state == "failed":
            show_error(answer.text)
        elif not may_measure:
            show_caption("The time is measured when nothing else is being trained.")
        else:
            show_caption(f"Measuring how long it takes here ... {answer.text}")


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
    if pending and answer.state in ("done", "failed"):
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
