"""What a person does on the Label page: the row of images, decisions, names with keys, and what was said last."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import streamlit as st

from app.exploring.subject import Subject
from app.labelling.desk import Desk
from app.labelling.items import Items
from app.labelling.sources import Row

SOURCE, MODE = "label-source", "label-mode"
"""Keys of the boxes that ask which images, and how."""

ONE_BY_ONE, ALL_AT_ONCE, WHAT_CHANGED = "One by one", "All at once", "What changed"

_KEY = "labelling"


@dataclass
class Labelling:
    """Of one subject; another one begins anew."""

    subject: tuple[str, str] = ("", "")
    kept: Subject | None = None
    """The subject as it was opened first: labels and exclusions since do not make it another."""

    desk: Desk = field(default_factory=Desk)
    source: Hashable = None
    """What the row was made of."""

    row: Row = field(default_factory=Row)
    turn: str = ""
    """Another one for every new row."""

    names: list[str] = field(default_factory=list)
    items: Items | None = None

    imported: str | None = None
    """What an import of labels did."""

    import_problem: str | None = None


def labelling(kind: str = "", name: str = "") -> Labelling:
    """What is remembered of a subject; of the last one when none is named."""
    kept: Labelling | None = st.session_state.get(_KEY)
    if kept is None or (name and kept.subject != (kind, name)):
        kept = st.session_state[_KEY] = Labelling((kind, name))
    return kept


def desk_key(subject: Subject) -> str:
    """Of the component: what one sends about its images is never read as about another's."""
    return f"label-desk-{subject.kind}-{subject.name}"


def ask_for(source: str, mode: str) -> None:
    """Have the Label page begin with some source, one by one or all at once."""
    for key, value in ((SOURCE, source), (MODE, mode)):
        st.session_state.pop(key, None)
        st.session_state[f"{key}-last"] = value
