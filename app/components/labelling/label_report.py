"""Report about labels: names that are learnt badly, labels to review, and images to label next."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from app.components.common.safe_text import show_caption, show_warning
from app.state.exploring import select_images
from app.state.labelling import ALL_AT_ONCE, ONE_BY_ONE, set_label_page_inputs
from app.view_models.cluster_view import RunView
from app.view_models.label_queue import SELECTION
from crlc.annotations.label_set import LabelSet
from crlc.arrays import ImageIds
from crlc.errors import UsageError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.services.check_labels import LabelReport, NameCheck, check_labels


def load_label_report(view: RunView, labels: LabelSet) -> LabelReport | None:
    """Check the labels with the clusters of a run; `None` if there are too few. The newest reports are cached."""
    return _check_labels(view, tuple(labels.to_mapping().items()))


@lru_cache(maxsize=4)
def _check_labels(view: RunView, labels: tuple[tuple[int, str], ...]) -> LabelReport | None:
    try:
        return check_labels(view.analysis, LabelSet.from_mapping(dict(labels)))
    except UsageError:  # fewer than two labels
        return None


def show_label_report(report: LabelReport) -> None:
    """Show problems with the labels first, then all names in a table."""
    for check in report.names:
        if check.is_learnt_badly:
            _show_badly_learnt_name(check)
    if len(report.doubtful_ids):
        count = len(report.doubtful_ids)
        words, action = st.columns([4, 1.4], vertical_alignment="center")
        with words:
            verb = "contradicts" if count == 1 else "contradict"
            show_warning(f"{format_count(count, 'label')} {verb} the labels of similar images.")
        action.button(
            "Review labels",
            key="review-labels",
            width="stretch",
            on_click=_open_images,
            args=(report.doubtful_ids, "with doubtful labels", ALL_AT_ONCE),
            help="Opens these images. Change a label that is wrong; a correct label of an unusual image is useful.",
        )
    with st.expander(f"Labels predicted, by name ({len(report.names):,})"):
        st.dataframe(
            [
                {
                    "Name": to_printable(check.name),
                    "Labels": check.labels,
                    "Predicted": check.correct,
                    "Before": check.correct_before,
                    "Often taken for": to_printable(check.confused_with or ""),
                }
                for check in report.names
            ],
            hide_index=True,
            width="stretch",
        )
        show_caption("Each label is predicted from the other labels. A name with a single label cannot be predicted.")


def _show_badly_learnt_name(check: NameCheck) -> None:
    words, action = st.columns([4, 1.4], vertical_alignment="center")
    instead = f" It is often taken for “{to_printable(check.confused_with)}”." if check.confused_with else ""
    with words:
        show_warning(
            f"“{to_printable(check.name)}” is learnt badly: {check.correct:,} of {check.labels:,} labels are predicted."
            f"{instead}"
        )
    action.button(
        f"Label {format_count(len(check.next_images), 'image')}",
        key=f"label-next-{check.name}",
        width="stretch",
        disabled=not len(check.next_images),
        on_click=_open_images,
        args=(check.next_images, f"that may be “{check.name}”", ONE_BY_ONE),
        help="Opens unlabelled images between this name and others; their labels help most.",
    )


def _open_images(ids: ImageIds, title: str, mode: str) -> None:
    select_images(ids, title, is_ordered=True)
    set_label_page_inputs(SELECTION, mode)
