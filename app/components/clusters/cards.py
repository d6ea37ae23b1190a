"""Cards of clusters, some on a page: header with confidence, typical images, name field and selection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from app.components.clusters.cluster_cards import CardEditing, CardWord, ClusterCard, show_cluster_cards
from app.components.clusters.editing import rename_cluster
from app.components.common.metadata_line import Fact
from app.components.gallery.tiles import build_tile_images_url, build_tiles
from app.state.clusters import get_clusters_state, show_parts
from app.state.exploring import close_image, get_explore_state, open_cluster, open_image, set_page
from app.view_models.cluster_view import MOST_TYPICAL, ClusterView, RunView
from app.view_models.numbered_edits import parse_card_edit
from app.view_models.words import describe_suggested_name, get_words
from crlc.formatting import format_count
from crlc.services.words import SuggestedName

_CARDS_PER_PAGE = 15
_TYPICAL_IMAGES = 6
_PAGER = "cards"


def show_cards(view: ClusterView, numbers: Sequence[int]) -> None:
    """Show the cards of clusters, with buttons for further pages."""
    pages = -(-len(numbers) // _CARDS_PER_PAGE)
    page = min(get_explore_state().gallery_pages.get(_PAGER, 0), max(0, pages - 1))
    cards = [_build_card(view, number) for number in numbers[page * _CARDS_PER_PAGE : (page + 1) * _CARDS_PER_PAGE]]
    editing = None
    if isinstance(view, RunView) and view.shown_level is None:
        session = get_clusters_state(view.name).cards
        selected = get_explore_state().clusters_to_merge
        editing = CardEditing(partial(_apply_edits, view), session.window, session.answered, selected)
    show_cluster_cards(
        cards,
        build_tile_images_url(view, [tile for card in cards for tile in card.images]),
        key=f"cards-{view.kind}-{view.name}",
        opened=_open_cluster,
        image_opened=partial(_open_image, view),
        editing=editing,
    )
    if pages > 1:
        _show_pager(page, pages)


def _open_cluster(number: int) -> None:
    close_image()  # Streamlit drops the message that its dialog was closed if the next action follows at once
    show_parts(())
    open_cluster(number)


def _open_image(view: ClusterView, image_id: int) -> None:
    """Open the dialog of an image, whose arrows go through the images of its cluster."""
    rows = np.flatnonzero(view.clusters == view.clusters[view.find_row(image_id)])
    get_explore_state().listed_ids = view.ids[view.sort_rows(rows, MOST_TYPICAL)]
    open_image(image_id)


def _apply_edits(view: RunView, value: Any) -> None:
    """Store the edits that came from the browser; an edit that is sent twice is stored once."""
    for edit in get_clusters_state(view.name).cards.iterate_new_edits(value, parse_card_edit):
        if edit.selected is not None:
            get_explore_state().clusters_to_merge = [
                number for number in edit.selected if number in view.cluster_numbers
            ]
        elif edit.cluster is not None:
            rename_cluster(view, edit.cluster, edit.name)


def _show_pager(page: int, pages: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="center"):
        for text, to in (("Previous", page - 1), ("Next", page + 1)):
            st.button(
                text,
                key=f"{text.lower()}-cards",
                disabled=not 0 <= to < pages,
                on_click=set_page,
                args=(_PAGER, to),
            )
        st.html(f"<span style='white-space:nowrap'>Page {page + 1:,} of {pages:,}</span>")


def _build_card(view: ClusterView, number: int) -> ClusterCard:
    rows = np.flatnonzero(view.clusters == number)
    facts = list_cluster_facts(view, number)
    confidence = closest = None
    if isinstance(view, RunView) and len(rows):
        quality = view.compute_quality().clusters
        confidence, closest = float(quality.confidence[number]), int(quality.closest[number])
    return ClusterCard(
        number=number,
        title=view.format_cluster(number),
        name=view.cluster_names.get(number, "") if isinstance(view, RunView) else "",
        colour=view.get_colour(number),
        size=facts[0].text,
        confidence=confidence,
        closest=f"closest: {view.format_cluster(closest)}" if closest is not None and closest >= 0 else "",
        help="\n".join(f"{fact.text}: {fact.help}" for fact in facts[1:]),
        images=build_tiles(view, view.sort_rows(rows, MOST_TYPICAL)[:_TYPICAL_IMAGES]),
        words=_build_words(view, number) if len(rows) else None,
    )


def _build_words(view: ClusterView, number: int) -> list[CardWord] | None:
    """Return the suggested names of a cluster; `None` before the classes of its images are computed."""
    own = get_clusters_state(view.name).own_suggestions if isinstance(view, RunView) else None
    if own is not None:
        return [CardWord(one.name, one.lift, _describe_own_word(one)) for one in own.get(number, [])]
    words = get_words(view)
    if words is None:
        return None
    return [CardWord(one.name, one.lift, describe_suggested_name(one)) for one in words.by_cluster.get(number, [])]


def _describe_own_word(word: SuggestedName) -> str:
    coverage = f"Mean probability {word.coverage:.0%} among your words in these images"
    return f"{coverage}, {word.lift:.1f} times that in all images; compared by an image-text model."


def list_cluster_facts(view: ClusterView, number: int) -> list[Fact]:
    """Return the metadata of a cluster for one line."""
    size = int((view.clusters == number).sum())
    facts = [Fact(format_count(size, "image"), "Images in the cluster.")]
    if not isinstance(view, RunView) or not size:
        return facts
    quality = view.compute_quality().clusters
    facts += [
        Fact(
            f"{quality.confidence[number]:.0%} confidence",
            "Mean probability that the model gives this cluster for its images.",
        ),
        Fact(
            f"{quality.neighbour_agreement[number]:.0%} neighbour agreement",
            "Mean fraction of an image's nearest neighbours in the same cluster: an estimate of purity that needs no "
            "ground-truth classes.",
        ),
    ]
    closest = int(quality.closest[number])
    if closest >= 0:
        mixing = f"{quality.closest_mixing[number]:.2f}"
        facts.append(
            Fact(
                f"closest: {view.format_cluster(closest)}",
                f"The cluster with the largest overlap: {mixing}, from 0 (none) to 1 (as one cluster).",
            )
        )
    return facts
