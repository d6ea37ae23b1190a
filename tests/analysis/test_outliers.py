"""Outliers by their scores."""

from __future__ import annotations

import numpy as np

from crlc.analysis.outliers import find_outliers


def test_outliers_are_ordered_by_score():
    found = find_outliers(np.array([1, 5, 2, 5, 1.9], dtype=np.float32), limit=3)
    assert [(one.row, one.score) for one in found] == [(1, 5), (3, 5), (2, 2)]
    assert find_outliers(np.ones(4, dtype=np.float32)) == []
