"""Masks of images, against naive loops and by hand."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import pytest

from app.view_models.image_selection import encode_mask, normalize_coordinates, select_inside_polygon, select_outcome


def naive_inside(x: float, y: float, corners: list[list[float]]) -> bool:
    odd = False
    for index, (x1, y1) in enumerate(corners):
        x2, y2 = corners[index - 1]
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            odd = not odd
    return odd


@pytest.mark.parametrize("count", [3, 4, 7, 60])
def test_select_inside_polygon_equals_a_naive_loop(count: int):
    generator = np.random.default_rng(count)
    coordinates = generator.uniform(-1, 1, (500, 2)).astype(np.float32)
    corners = generator.uniform(-0.9, 0.9, (count, 2)).tolist()  # crosses itself, as a hand-drawn lasso may
    expected = [naive_inside(float(x), float(y), corners) for x, y in coordinates]
    assert select_inside_polygon(coordinates, corners).tolist() == expected
    assert any(expected)


def test_select_inside_polygon_of_a_box_and_a_triangle():
    coordinates = np.array([[0, 0], [2, 0], [0.5, 0.5], [-0.9, 0.9], [np.nan, 0]], np.float32)
    box = [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    assert select_inside_polygon(coordinates, box).tolist() == [True, False, True, True, False]
    assert select_inside_polygon(coordinates, box[::-1]).tolist() == [True, False, True, True, False]
    triangle = [[-1, -1], [1, -1], [1, 1]]
    assert select_inside_polygon(coordinates + np.float32([0.1, -0.1]), triangle).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("corners", [[], [[0, 0]], [[0, 0], [1, 1]], [[0, 0], [1, 0], [float("nan"), 1]], [0, 1, 2]])
def test_select_inside_polygon_without_a_polygon_is_empty(corners):
    assert not select_inside_polygon(np.zeros((3, 2), np.float32), corners).any()
    assert select_inside_polygon(np.empty((0, 2), np.float32), [[0, 0], [1, 0], [0, 1]]).shape == (0,)


def test_select_outcome_finds_correct_and_wrong_images():
    classes = np.array([0, 0, 1, 1, 2, -1])
    clusters = np.array([5, 1, 1, 5, 0, 5])
    matched = np.array([5, 1, -1])  # class 2 has no cluster of its own; cluster 0 no class

    def found(outcome: str, of: int | None = None) -> list[int]:
        return np.flatnonzero(select_outcome(outcome, classes, clusters, matched, of)).tolist()

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


def test_encode_mask_has_the_bit_order_of_the_browser():
    mask = np.array([True, False, False, True, False, False, False, False, True])
    assert b64decode(encode_mask(mask)) == bytes([0b00001001, 0b1])
    assert encode_mask(None) is None


def test_normalize_coordinates_keeps_the_aspect_ratio():
    coordinates = normalize_coordinates(np.array([[0, 0], [10, 5], [10, 0]]))
    np.testing.assert_allclose(coordinates, [[-1, -0.5], [1, 0.5], [1, -0.5]])
    assert coordinates.dtype == np.float32
    np.testing.assert_array_equal(normalize_coordinates(np.full((3, 2), 7.0)), np.zeros((3, 2)))
    np.testing.assert_array_equal(normalize_coordinates(np.array([[0, 0], [np.inf, np.nan], [2, 2]]))[1], [0, 0])
    assert normalize_coordinates(np.empty((0, 2))).shape == (0, 2)
