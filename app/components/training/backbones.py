"""Backbones on the Train page: the catalogue with sizes and purposes, and the download of one that is missing."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.background.tasks import BackgroundTask, get_task, start_task
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_warning
from crlc.backbone_catalogue import CATALOGUE, DEFAULT_BACKBONE, Availability, OfferedBackbone, find_offered_backbone
from crlc.services.backbones import describe_availability, download_backbone

_HEADER = ("Name", "Model", "MB", "Good for", "On this computer")


def get_backbone_title(name: str) -> str:
    """Return the title of an offered backbone; other texts stay as they are."""
    offered = find_offered_backbone(name)
    if offered is None:
        return name
    return f"{offered.title} (default)" if name == DEFAULT_BACKBONE else offered.title


def show_backbone_list() -> None:
    """Show a popover with all offered backbones."""
    with st.popover("About backbones", key="backbone-list"):
        rows = [
            (one.name, one.title, str(one.megabytes), one.good_for, describe_availability(one)) for one in CATALOGUE
        ]
        head = "".join(f"<th style='text-align:left;padding:.2rem .6rem'>{title}</th>" for title in _HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td style='padding:.2rem .6rem;vertical-align:top'>{escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in rows
        )  # fmt: skip
        st.html(
            f"<table style='font-size:.85rem;border-collapse:collapse;min-width:44rem'><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )
        show_caption("A backbone turns images into vectors. Other models can be named, too: timm/NAME, "
                     "torchvision/NAME or open_clip/NAME:WEIGHTS. Two names joined by + are concatenated.")  # fmt: skip


def show_backbone_download(name: str | None) -> bool:
    """Show what a chosen backbone needs before it can be used.

    Args:
        name: the chosen backbone; `None` for that of the preset.

    Returns:
        whether the backbone can be used now. Backbones that are not offered are downloaded by the training itself.
    """
    missing = [one for part in (name or "").split("+") if (one := find_offered_backbone(part)) is not None]
    missing = [one for one in missing if not _is_ready(one)]
    for offered in missing:
        _show_missing(offered)
    return not missing


def _is_ready(offered: OfferedBackbone) -> bool:
    return not offered.install_command and offered.check_availability() in (
        Availability.INSTALLED,
        Availability.CACHED,
    )


def _show_missing(offered: OfferedBackbone) -> None:
    if offered.install_command:
        show_warning(f"{offered.title} needs a package. Install it in a terminal, then refresh this page:")
        st.code(offered.install_command, language=None, wrap_lines=True)
        return
    key = f"download-{offered.name}"

    def start() -> None:
        start_task(key, offered.title, run)

    def run(task: BackgroundTask) -> None:
        download_backbone(offered.name, task.report)

    if show_task(key) is None:  # also after an error, to try again
        if get_task(key) is None:
            show_warning(f"{offered.title} is not on this computer.")
        st.button(
            f"Download this model ({offered.megabytes} MB)",
            key=f"start-{key}",
            on_click=start,
            width="stretch",
            icon=":material/download:",
            help=f"Downloads the weights from huggingface.co/{offered.repository} to the cache of this computer.",
        )
