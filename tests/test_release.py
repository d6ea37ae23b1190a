"""Files of a release agree with the code: versions and the newest section of the changelog."""

from __future__ import annotations

import re

from crlc import __version__
from tests.conftest import ROOT


def read_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_is_the_same_in_all_files():
    assert re.findall(r"^version: (.+)$", read_text("CITATION.cff"), re.MULTILINE) == [__version__]
    sections = re.findall(r"^## (.+)$", read_text("CHANGELOG.md"), re.MULTILINE)
    assert next(name for name in sections if name != "Unreleased") == __version__
