"""Colours that stay with clusters: counted by hand."""

from __future__ import annotations

import numpy as np

from crlc.analysis.colour_slots import DISTINCT_COLOURS, extended_slots, first_slots, inherited_slots


def test_without_a_run_before_they_are_in_order():
    assert first_slots(3) == (0, 1, 2)
    assert first_slots(22)[18:] == (18, 19, 0, 1)


def test_clusters_take_the_colours_of_those_they_share_most_images_with():
    before = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    after = np.array([2, 2, 0, 0, 0, 0, 1, 1])  # 2 is the old 0, 0 the old 1, 1 the old 2
    assert inherited_slots((7, 4, 9), before, after, 3) == (4, 9, 7)


def test_what_goes_with_none_takes_a_colour_that_meant_nothing():
    before, after = np.array([0, 0, 1, 1]), np.array([3, 3, 3, 0])
    # 3 is the old 0 (or 1: two images against one), 0 the other; 1 and 2 are new, and 0 and 5 are taken.
    assert inherited_slots((5, 0), before, after, 4) == (0, 1, 2, 5)
    # A cluster that vanished leaves its colour alone while others are free.
    assert inherited_slots((0, 1, 2), np.array([0, 0, 0]), np.array([1, 1, 1]), 2) == (3, 0)


def test_of_runs_with_no_image_in_common_nothing_is_taken():
    nothing = np.empty(0, np.int64)
    assert inherited_slots((0, 1), nothing, nothing, 2) == (2, 3)


def test_no_colour_is_used_twice_while_one_is_free():
    # Two clusters had the same colour among 40; among three it goes to the one that shares more images.
    before = np.array([0] * 2 + [1] * 5 + [2])
    assert inherited_slots((6, 6, 1), before, before, 3) == (0, 6, 1)
    many = np.arange(50)
    slots = inherited_slots(first_slots(50), many, many, 50)
    assert slots == first_slots(50)
    assert np.bincount(slots).max() == 3
    fewer = inherited_slots(first_slots(50), many[:20] * 2, many[:20], 20)
    assert sorted(fewer) == list(range(DISTINCT_COLOURS))


def test_a_cluster_that_was_split_off_takes_a_free_colour():
    assert extended_slots((3, 0), 4) == (3, 0, 1, 2)
    assert extended_slots((3, 0), 2) == (3, 0)
