"""Dismissed suggestions: stored with the run and its result, until the clusters have changed."""

from __future__ import annotations

import pytest

from crlc.clusters.dismissed_suggestions import Dismissal, dismiss_suggestion, read_dismissals, restore_suggestions
from crlc.errors import FormatVersionError
from crlc.runs.folder import RunFolder


def test_dismissed_suggestions_belong_to_one_result(tmp_path):
    run = RunFolder(tmp_path)
    assert read_dismissals(run, "a") == []
    dismiss_suggestion(run, "a", (1, 4), (100, 50))
    dismiss_suggestion(run, "a", (3,), (30,))
    dismiss_suggestion(run, "a", (1, 4), (110, 50))  # again, after the cluster has grown
    assert read_dismissals(run, "a") == [Dismissal((3,), (30,)), Dismissal((1, 4), (110, 50))]
    assert read_dismissals(run, "b") == []
    restore_suggestions(run, "a")
    assert read_dismissals(run, "a") == []
    (tmp_path / "dismissed.json").write_text("{")
    assert read_dismissals(run, "a") == []


def test_dismissed_suggestions_of_a_newer_version_are_not_overwritten(tmp_path):
    run = RunFolder(tmp_path)
    dismiss_suggestion(run, "a", (3,), (30,))
    newer = (tmp_path / "dismissed.json").read_text().replace('"version": 1', '"version": 2')
    assert '"version": 2' in newer
    (tmp_path / "dismissed.json").write_text(newer)
    assert read_dismissals(run, "a") == []
    with pytest.raises(FormatVersionError, match=r"dismissed\.json has format version 2"):
        dismiss_suggestion(run, "a", (1, 4), (100, 50))
    with pytest.raises(FormatVersionError, match=r"dismissed\.json has format version 2"):
        restore_suggestions(run, "a")
    assert (tmp_path / "dismissed.json").read_text() == newer


@pytest.mark.parametrize(
    ("clusters", "sizes", "is_same"),
    [((1, 4), (100, 50), True), ((1, 4), (120, 40), True), ((1, 4), (121, 50), False), ((1, 4), (100, 39), False),
     ((1, 3), (100, 50), False), ((1,), (100,), False)],
)  # fmt: skip
def test_dismissal_matches_clusters_of_about_the_same_size(clusters, sizes, is_same: bool):
    assert Dismissal((1, 4), (100, 50)).matches(clusters, sizes) == is_same
