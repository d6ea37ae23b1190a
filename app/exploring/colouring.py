"""By what points are coloured: one number per image for the browser, and the legend that explains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.exploring.subject import RunSubject, Subject
from app.figures.colours import RAMP, UNKNOWN, colour_of
from crlc.errors import NotFoundError
from crlc.names import printable
from crlc.progress import ProgressCallback, no_progress

NO_VALUE = 65535
_HIGHEST = 65534
COLOURS = {
    "cluster": "cluster",
    "label": "label",
    "class": "class",
    "confidence": "confidence",
    "agreement": "agreement",
}


@dataclass(frozen=True)
class Colouring:
    """Values of all images and what they mean."""

    values: NDArray[np.uint16]
    """A category's number, or 0 to 65534 for nothing to all; 65535 where nothing is known."""

    scale: dict[str, Any]
    """For the browser: `categories` with their entries, or a `continuous` ramp."""


def colours_of(subject: Subject) -> tuple[str, ...]:
    """By what this subject can be coloured."""
    is_run = isinstance(subject, RunSubject)
    possible = {
        "cluster": True,
        "label": bool(subject.curation.has_label(subject.ids).any()),
        "class": subject.classes is not None,
        "confidence": is_run,
        "agreement": is_run and len(subject.ids) > 1,
    }
    return tuple(name for name in COLOURS if possible[name])


def colouring(subject: Subject, by: str, report: ProgressCallback = no_progress) -> Colouring:
    """The colours of all images.

    Args:
        subject: whose.
        by: one of `colours_of`.
        report: told how far agreement is, which may take long the first time.

    Raises:
        NotFoundError: it cannot be coloured by that.
    """
    if by not in colours_of(subject):
        raise NotFoundError(f"{subject.name} cannot be coloured by {by!r}. Choose one of: {', '.join(COLOURS)}.")
    if by == "cluster":
        return _categories(subject.clusters, subject.cluster_text, colour=subject.colour_of)
    if by == "label":
        names = subject.curation.label_names
        return _categories(subject.curation.label_numbers(subject.ids), lambda number: names[number], "not labelled")
    if by == "class":
        assert subject.classes is not None
        class_names, numbers = subject.classes
        return _categories(numbers, lambda number: class_names[number], "class not known")
    assert isinstance(subject, RunSubject)
    if by == "confidence":
        assert subject.confidence is not None
        return _continuous(subject.confidence, "confidence")
    return _continuous(subject.quality(report).images.neighbour_agreement, "agreement")


def _categories(
    numbers: NDArray[np.int64],
    text: Callable[[int], str],
    without: str = "",
    colour: Callable[[int], str] = colour_of,
) -> Colouring:
    values = np.where(numbers < 0, NO_VALUE, np.minimum(numbers, _HIGHEST)).astype(np.uint16)
    there, counts = np.unique(numbers, return_counts=True)
    entries = [
        {
            "value": NO_VALUE if number < 0 else min(number, _HIGHEST),
            "text": without if number < 0 else printable(text(number)),
            "count": count,
            "colour": UNKNOWN if number < 0 else colour(number),
        }
        for number, count in zip(there.tolist(), counts.tolist(), strict=True)
    ]
    entries.sort(key=lambda entry: entry["value"])  # what has none comes last
    return Colouring(values, {"kind": "categories", "entries": entries})


def _continuous(shares: NDArray[np.floating], title: str) -> Colouring:
    known = np.isfinite(shares)
    scaled = np.rint(np.clip(np.nan_to_num(shares), 0, 1) * _HIGHEST)
    values = np.where(known, scaled, NO_VALUE).astype(np.uint16)
    scale = {"kind": "continuous", "ramp": list(RAMP), "low": f"{title} 0 %", "high": "100 %", "title": title}
    return Colouring(values, scale)
