"""Which images are meant, against naive loops and by hand."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import pytest

from app.exploring.choosing import inside_polygon, outcome_mask, packed, spread


def naive_inside(x: float, y: float, corners: list[list[float]]) -> bool:
    odd = False
    for place, (x1, y1) in enumerate(corners):
        x2, y2 = corners[place - 1]
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            odd = not odd
    return odd


@pytest.mark.parametrize("count", [3, 4, 7, 60])
def test_inside_is_what_a_loop_finds(count: int):
    generator = np.random.default_rng(count)
    places = generator.uniform(-1, 1, (500, 2)).astype(np.float32)
    corners = generator.uniform(-0.9, 0.9, (count, 2)).tolist()  # crosses itself, as hands do
    expected = [naive_inside(float(x), float(y), corners) for x, y in places]
    assert inside_polygon(places, corners).tolist() == expected
    assert any(expected)


def test_inside_by_hand():
    places = np.array([[0, 0], [2, 0], [0.5, 0.5], [-0.9, 0.9], [np.nan, 0]], np.float32)
    box = [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    assert inside_polygon(places, box).tolist() == [True, False, True, True, False]
    assert inside_polygon(places, box[::-1]).tolist() == [True, False, True, True, False]
    triangle = [[-1, -1], [1, -1], [1, 1]]
    assert inside_polygon(places + np.float32([0.1, -0.1]), triangle).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("corners", [[], [[0, 0]], [[0, 0], [1, 1]], [[0, 0], [1, 0], [float("nan"), 1]], [0, 1, 2]])
def test_what_is_no_polygon_holds_nothing(corners):
    assert not inside_polygon(np.zeros((3, 2), np.float32), corners).any()
    assert inside_polygon(np.empty((0, 2), np.float32), [[0, 0], [1, 0], [0, 1]]).shape == (0,)


def test_right_and_wrong_images():
    classes = np.array([0, 0, 1, 1, 2, -1])
    clusters = np.array([5, 1, 1, 5, 0, 5])
    matched = np.array([5, 1, -1])  # class 2 has no cluster of its own; cluster 0 no class

    def found(outcome: str, of: int | None = None) -> list[int]:
        return np.flatnonzero(outcome_mask(outcome, classes, clusters, matched, of)).tolist()

    assert found("all") == [0, 1, 2, 3, 4, 5]
    assert found("all", 1) == [2, 3]
    assert found("correct") == [0, 2]
    assert found("correct", 0) == [0]
    assert found("false negative") == [1, 3, 4]
    assert found("false negative", 0) == [1]
    assert found("false negative", 2) == [4]
    assert found("false positive") == [1, 3]
    assert found("false positive", 0) == [3]
    assert found("false positive", 2) == []


def test_bits_are_in_the_order_that_the_browser_reads():
    mask = np.array([True, False, False, True, False, False, False, False, True])
    assert b64decode(packed(mask)) == bytes([0b00001001, 0b1])
    assert packed(None) is None


def test_a_map_is_spread_with_its_shape_kept():
    places = spread(np.array([[0, 0], [10, 5], [10, 0]]))
    np.testing.assert_allclose(places, [[-1, -0.5], [1, 0.5], [1, -0.5]])
    assert places.dtype == np.float32
    np.testing.assert_array_equal(spread(np.full((3, 2), 7.0)), np.zeros((3, 2)))
    np.testing.assert_array_equal(spread(np.array([[0, 0], [np.inf, np.nan], [2, 2]]))[1], [0, 0])
    assert spread(np.empty((0, 2))).shape == (0, 2)
