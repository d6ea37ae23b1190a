"""Tests of durations, sizes, counts and progress as text."""

from __future__ import annotations

import pytest

from crlc.formatting import (
    format_bytes,
    format_count,
    format_duration,
    format_duration_range,
    format_list,
    format_progress,
    shorten_middle,
)
from crlc.progress import Progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (8.24, "8.2 s"),
        (59, "59 s"),
        (120, "2 min"),
        (200, "3 min 20 s"),
        (7205, "2 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_format_duration_uses_at_most_two_units(seconds: float, text: str):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2.0, 3.5, "2.6 s"),  # the geometric mean; seconds need no range
        (40, 50, "45 s"),  # ends that are close are one value
        (58.9, 61, "1 min"),
        (20, 40, "20 to 40 s"),
        (40, 130, "40 s to 2 min"),
        (100, 290, "1.5 to 5 min"),
        (700, 1400, "12 to 23 min"),
        (1800, 9000, "30 min to 2.5 h"),
    ],
)
def test_format_duration_range_is_coarse(low: float, high: float, text: str):
    assert format_duration_range(low, high) == text


@pytest.mark.parametrize(
    ("count", "text"), [(7, "7 bytes"), (6400, "6.4 kB"), (83_000_000, "83 MB"), (2.7e9, "2.7 GB")]
)
def test_format_bytes_uses_decimal_units(count: float, text: str):
    assert format_bytes(count) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 copies"), (1, "1 copy"), (2000, "2,000 copies")])
def test_format_count_uses_the_plural_except_for_one(count: int, text: str):
    assert format_count(count, "copy", "copies") == text
    assert format_count(count, "image").endswith("image") == (count == 1)


def test_format_list_counts_the_hidden_texts():
    assert format_list(["a", "b"], 2) == "a, b"
    assert format_list(["a", "b", "c", "d"], 2, "; ") == "a; b and 2 more"


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("Listing", 1200, None, 3400.0), "Listing  1,200  3,400 images/s"),
        (Progress("Loading the network", 0, None, 0.0), "Loading the network"),
        (Progress("Decoding", 500, 2000, 100.0), "Decoding   25%  500/2,000  100 images/s  15 s left"),
        (Progress("Decoding", 2000, 2000, 100.0, finished=True), "Decoding  100%  2,000/2,000  100 images/s"),
        (Progress("Decoding", 2000, 2000, 100.0), "Decoding  100%  2,000/2,000  100 images/s"),  # no 0 s left
        (Progress("Features", 1, 4, 0.04), "Features   25%  1/4  1 min 15 s left"),  # no 0.0 images/s
        (Progress("UMAP", 50, 200, 2.5, unit="rounds"), "UMAP   25%  50/200  2.5 rounds/s  1 min left"),
    ],
)
def test_format_progress_shows_count_speed_and_time_left(progress: Progress, text: str):
    assert format_progress(progress) == text


def test_format_progress_separates_the_parts_for_a_page():
    progress = Progress("Decoding", 500, 2000, 100.0)
    assert format_progress(progress, " · ") == "Decoding · 25% · 500/2,000 · 100 images/s · 15 s left"


@pytest.mark.parametrize(
    ("limit", "expected"), [(12, "IMG_0001.jpg"), (11, "IMG_0…1.jpg"), (10, "IMG_…1.jpg"), (3, "I…g")]
)
def test_shorten_middle_keeps_start_and_end(limit: int, expected: str):
    assert shorten_middle("IMG_0001.jpg", limit) == expected
