"""Command count."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import Outcome


def test_count_prints_a_suggestion_and_its_curve(crlc: Callable[..., Outcome]):
    assert crlc("import", "digits", "--limit", 400).code == 0
    found = crlc("count", "digits", "--most", 14, "--json").json
    assert found["dataset"] == "digits"
    assert found["counts"] == list(range(2, 17))
    assert len(found["added_share"]) == len(found["information"]) == len(found["counts"])
    assert 2 <= found["lowest"] <= found["suggestion"] <= found["highest"] <= 16
    printed = crlc("count", "digits", "--most", 14).out
    assert printed.startswith(f"digits: {found['suggestion']} clusters")
    assert found["reason"] in printed


def test_count_rejects_wrong_arguments(crlc: Callable[..., Outcome]):
    assert "'nothing'" in crlc("count", "nothing").err
    crlc("import", "digits", "--limit", 60)
    assert "from 3 to 100" in crlc("count", "digits", "--most", 2).err
