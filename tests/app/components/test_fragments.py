"""Fragments: damaged files and errors of the system are shown in place, mistakes of the program are not hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import ROOT
from tests.fixtures.app_pages import alerts


def _show_page() -> None:
    from pathlib import Path

    import streamlit as st

    from app.components.common.fragments import make_fragment
    from crlc.files import load_required_array

    @make_fragment
    def show_shape() -> None:
        file = Path(st.session_state["file"])
        st.text(load_required_array(file, advice="Train again.").shape if file.suffix else 1 / 0)

    show_shape()
    st.text("below")


def run_page(file: Path) -> AppTest:
    test = AppTest.from_function(_show_page)
    test.session_state["file"] = str(file)
    return test.run()


@pytest.mark.usefixtures("empty")
def test_fragment_shows_damaged_file_in_place(tmp_path: Path):
    (tmp_path / "ids.npy").write_bytes(b"no array")
    test = run_page(tmp_path / "ids.npy")
    assert not test.exception
    assert "ids.npy cannot be read" in alerts(test)
    assert "Train again." in alerts(test)
    assert [one.value for one in test.text] == ["below"]


@pytest.mark.usefixtures("empty")
def test_fragment_shows_an_error_of_the_system_in_place(tmp_path: Path):
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    test = run_page(tmp_path / "loop.npy")
    assert not test.exception
    assert "loop.npy cannot be" in alerts(test)


@pytest.mark.usefixtures("empty")
def test_fragment_does_not_hide_mistakes_of_the_program():
    assert [one.message for one in run_page(Path("none")).exception] == ["division by zero"]


def test_all_fragments_of_the_app_show_errors_in_place():
    found = [str(file.relative_to(ROOT)) for file in (ROOT / "app").rglob("*.py") if "st.fragment" in file.read_text()]
    assert found == ["app/components/common/fragments.py"]
