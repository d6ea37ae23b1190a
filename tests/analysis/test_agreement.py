"""Agreement with classes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.agreement import agreement, contingency, matched_accuracy, mean_pairwise_nmi


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("clusters", "classes", "expected"),
    [
        (numbers(2, 2, 0, 0, 1, 1), numbers(0, 0, 1, 1, 2, 2), 1.0),  # only the names differ
        (numbers(0, 0, 0, 0, 0, 0), numbers(0, 0, 1, 1, 2, 2), 1 / 3),
        (numbers(0, 0, 1, 1), numbers(0, 1, 0, 1), 0.5),
        (numbers(0, 1, 2, 3), numbers(0, 0, 1, 1), 0.5),  # two of four clusters stay unmatched and wrong
        (numbers(0, 0, 1, 1), numbers(0, 1, 2, 3), 0.5),  # and so do classes
        (numbers(0, 0, 0, 1, 1), numbers(1, 1, 0, 0, 0), 0.8),
    ],
)
def test_accuracy_is_the_best_one_to_one_match(clusters: np.ndarray, classes: np.ndarray, expected: float):
    assert matched_accuracy(clusters, classes) == pytest.approx(expected)


def test_images_without_a_class_do_not_count():
    found = agreement(numbers(0, 0, 1, 1, 1), numbers(0, 0, 1, -1, 1))
    assert found == pytest.approx((1.0, 1.0, 1.0))
    assert agreement(numbers(0, 1), numbers(-1, -1)) is None


def test_contingency():
    assert contingency(numbers(0, 0, 2), numbers(1, 1, 0)).tolist() == [[0, 2], [0, 0], [1, 0]]


def test_agreement_between_clusterings():
    same = np.stack([numbers(0, 0, 1, 1), numbers(1, 1, 0, 0)])
    crossed = np.stack([numbers(0, 0, 1, 1), numbers(0, 1, 0, 1)])
    assert mean_pairwise_nmi(same) == pytest.approx(1.0)
    assert mean_pairwise_nmi(crossed) == pytest.approx(0.0, abs=1e-9)
    assert mean_pairwise_nmi(same[:1]) == 1.0
