"""Command `app`."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import Outcome


def test_app_reports_an_address_of_another_computer_and_a_wrong_port(crlc: Callable[..., Outcome]):
    other = crlc("app", "--no-browser", "--host", "192.0.2.1")
    assert (other.code, other.err.count("\n")) == (1, 1)
    assert "192.0.2.1" in other.err
    port = crlc("app", "--no-browser", "--port", 70000)
    assert port.code == 1
    assert "70000" in port.err
