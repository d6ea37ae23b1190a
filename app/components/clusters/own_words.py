"""Name suggestions from the user's own words, with an image-text model: a popover on the Clusters page."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import streamlit as st

from app.background.tasks import BackgroundTask, dismiss_task, get_task, start_task
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error
from app.components.training.backbones import show_backbone_download
from app.state.clusters import get_clusters_state
from app.state.widgets import get_widget_value
from app.view_models.cluster_view import RunView
from crlc.backbone_catalogue import CATALOGUE
from crlc.data.feature_source import FeatureSource, find_feature_sources
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.services.image_text import OwnWords, compute_text_features, parse_words, require_text_features
from crlc.workspace import Workspace

_WORDS = "own-words-text"
_MODEL = next(one for one in CATALOGUE if one.takes_text)


def show_own_words(view: RunView) -> None:
    """Show the popover; the suggestions appear on the cards in place of ImageNet's words."""
    _receive_suggestions(view)
    with st.popover("Own words", key="own-words", width="stretch"):
        if find_feature_sources(view.dataset.features_folder):
            _show_words_form(view)
        else:
            _show_model(view)


def _receive_suggestions(view: RunView) -> None:
    """Store the result of a task that has ended."""
    state = get_clusters_state(view.name)
    task = None if state.words_task is None else get_task(state.words_task)
    if task is not None and not task.is_running and isinstance(task.result, dict):
        state.own_suggestions = task.result
        assert state.words_task is not None
        dismiss_task(state.words_task)
        state.words_task = None


def _show_words_form(view: RunView) -> None:
    state = get_clusters_state(view.name)
    st.text_area(
        "Your words", key=_WORDS, placeholder="cat, dog, red bicycle", height=100,
        help="Suggests for each cluster the words that describe it best. Separate words by commas or lines.",
    )  # fmt: skip
    st.button("Suggest names", key="own-words-suggest", type="primary", on_click=partial(_start_suggesting, view))
    if state.own_suggestions is not None:
        st.button("Use ImageNet's words again", key="own-words-clear", on_click=_clear_suggestions, type="tertiary")
    if state.words_problem:
        show_error(state.words_problem)
    if state.words_task is not None:
        show_task(state.words_task)


def _start_suggesting(view: RunView) -> None:
    state = get_clusters_state(view.name)
    try:
        words = parse_words(str(get_widget_value(_WORDS) or ""))
    except CrlcError as error:
        state.words_problem = str(error)
        return
    state.words_problem, state.words_task = "", f"own-words-{uuid4().hex}"

    def run(task: BackgroundTask) -> None:
        features = require_text_features(view.dataset, view.ids)
        task.result = OwnWords(features, view.clusters, words).by_cluster

    start_task(state.words_task, "Names from your words", run)


def _clear_suggestions() -> None:
    get_clusters_state().own_suggestions = None


def _show_model(view: RunView) -> None:
    """Show the download of the image-text model, then the button that computes its features."""
    show_caption(
        f"Names from your own words, and search by any text, need an image-text model: {_MODEL.title}. Its features "
        "are computed once."
    )
    key = f"text-features-{view.dataset.folder}"
    if not show_backbone_download(_MODEL.name) or show_task(key) is not None:
        return

    def run(task: BackgroundTask) -> None:
        from crlc.training.device import choose_device

        source = FeatureSource(_MODEL.name, "")
        compute_text_features(Workspace(), view.dataset, source, device=choose_device("auto"), report=task.report)

    def start() -> None:
        start_task(key, "Features for text", run)

    st.button(f"Compute features of {format_count(len(view.ids), 'image')}", key="text-features", on_click=start)
