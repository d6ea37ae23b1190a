"""`crlc count`."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import Outcome


def test_a_number_of_clusters_with_its_curve(crlc: Callable[..., Outcome]):
    assert crlc("import", "digits", "--limit", 400).code == 0
    found = crlc("count", "digits", "--most", 14, "--json").json
    assert found["dataset"] == "digits"
    assert found["counts"] == list(range(2, 17))
    assert len(found["added_share"]) == len(found["information"]) == len(found["counts"])
    assert 2 <= found["suggestion"] <= 14
    said = crlc("count", "digits", "--most", 14).out
    assert said.startswith(f"digits: {found['suggestion']} clusters suggested, read from the pixels")


def test_mistakes(crlc: Callable[..., Outcome]):
    assert "No data set is named 'nothing'" in crlc("count", "nothing").err
    crlc("import", "digits", "--limit", 60)
    assert "must be at least 3" in crlc("count", "digits", "--most", 2).err
