"""Colours of clusters across runs, by hand."""

from __future__ import annotations

import numpy as np

from crlc.analysis.cluster_colours import PALETTE_SIZE, assign_first_colours, extend_colours, inherit_colours


def test_first_colours_are_in_order():
    assert assign_first_colours(3) == (0, 1, 2)
    assert assign_first_colours(22)[18:] == (18, 19, 0, 1)


def test_inherited_colours_follow_the_common_images():
    before = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    after = np.array([2, 2, 0, 0, 0, 0, 1, 1])  # 2 is the old 0, 0 the old 1, 1 the old 2
    assert inherit_colours((7, 4, 9), before, after, 3) == (4, 9, 7)


def test_inherited_colours_of_new_clusters_were_not_used_before():
    before, after = np.array([0, 0, 1, 1]), np.array([3, 3, 3, 0])
    # New 3 shares two images with old 0 and one with old 1, so it inherits from old 0; new 0 inherits from old 1.
    # New 1 and 2 have no match, and colours 0 and 5 are in use.
    assert inherit_colours((5, 0), before, after, 4) == (0, 1, 2, 5)
    # The colour of a cluster that disappeared is not reused while others are free.
    assert inherit_colours((0, 1, 2), np.array([0, 0, 0]), np.array([1, 1, 1]), 2) == (3, 0)


def test_inherited_colours_without_common_images_are_new():
    nothing = np.empty(0, np.int64)
    assert inherit_colours((0, 1), nothing, nothing, 2) == (2, 3)


def test_inherited_colours_are_distinct_while_colours_are_free():
    # Two clusters of a larger run had the same colour; it goes to the one with more common images.
    before = np.array([0] * 2 + [1] * 5 + [2])
    assert inherit_colours((6, 6, 1), before, before, 3) == (0, 6, 1)
    many = np.arange(50)
    colours = inherit_colours(assign_first_colours(50), many, many, 50)
    assert colours == assign_first_colours(50)
    assert np.bincount(colours).max() == 3
    fewer = inherit_colours(assign_first_colours(50), many[:20] * 2, many[:20], 20)
    assert sorted(fewer) == list(range(PALETTE_SIZE))


def test_extended_colours_use_free_colours():
    assert extend_colours((3, 0), 4) == (3, 0, 1, 2)
    assert extend_colours((3, 0), 2) == (3, 0)
