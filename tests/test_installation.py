"""Folders of a checkout and of an installed wheel."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from crlc import subprocesses
from crlc.installation import PACKAGE_ROOT, get_studio_folder, is_found_by_python
from tests.conftest import ROOT


def test_studio_folder_is_the_checkout_or_the_folder_beside_an_installed_crlc(tmp_path: Path):
    assert get_studio_folder() == PACKAGE_ROOT == ROOT
    assert get_studio_folder(tmp_path) == tmp_path
    (tmp_path / "crlc_studio").mkdir()
    assert get_studio_folder(tmp_path) == tmp_path / "crlc_studio"


def test_python_finds_site_packages_but_no_checkout_by_itself():
    assert is_found_by_python(Path(sysconfig.get_path("purelib")).resolve())
    assert not is_found_by_python()


@pytest.mark.parametrize(("is_installed", "expected"), [(False, f"{ROOT}{os.pathsep}mine"), (True, "mine")])
def test_children_get_the_checkout_but_never_site_packages_on_the_path(
    is_installed: bool, expected: str, monkeypatch: pytest.MonkeyPatch
):
    # site-packages on PYTHONPATH would come before the standard library.
    monkeypatch.setattr(subprocesses, "is_found_by_python", lambda: is_installed)
    monkeypatch.setenv("PYTHONPATH", "mine")
    assert subprocesses.python_environment()["PYTHONPATH"] == expected
