"""Sample images of each cluster of a run, while it trains and afterwards."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.components.common.image_strip import format_images
from app.components.common.safe_text import show_caption
from app.view_models.cluster_samples import read_cluster_samples
from crlc.errors import CrlcError
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace

_MAX_CLUSTERS, _IMAGES_PER_CLUSTER, _IMAGE_HEIGHT_PIXELS = 12, 5, 44
_GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(244px,1fr));gap:12px 16px"
_DOT = "display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.4rem"


def show_cluster_samples(workspace: Workspace, run: RunFolder) -> None:
    """Show the most confident images of the largest clusters, once there is a result."""
    st.markdown("**Sample images**", help="The images of each cluster that the model is most confident about.")
    try:
        samples = read_cluster_samples(workspace, run, clusters=_MAX_CLUSTERS, images=_IMAGES_PER_CLUSTER)
        dataset = run.read_metadata()["dataset"]
    except CrlcError:
        show_caption("They appear with the first clusters.")
        return
    cells = "".join(
        f"<div><div style='font-size:.875rem;margin-bottom:4px;overflow-wrap:anywhere'>"
        f"<span style='{_DOT};background:{escape(sample.colour)}'></span>{escape(sample.title)} · {sample.size:,}</div>"
        f"<div style='display:flex;gap:4px;height:{_IMAGE_HEIGHT_PIXELS}px;overflow:hidden'>"
        f"{format_images(dataset, sample.records, height=_IMAGE_HEIGHT_PIXELS)}</div></div>"
        for sample in samples
    )
    st.html(f"<div style='{_GRID}'>{cells}</div>")
