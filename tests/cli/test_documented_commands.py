"""Commands in the documents: every `crlc` command of a code block has arguments that the command line accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from crlc.cli.main import build_parser
from tests.conftest import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def list_commands(document: Path) -> list[str]:
    """Return the `crlc` commands in the code blocks of a document, without comments; a line may have several."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line.partition("  #")[0].partition(" # ")[0] for block in blocks for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r" ; | && ", line)]
    return [part for part in parts if part.startswith("crlc ")]


@pytest.mark.parametrize("command", [command for document in DOCUMENTS for command in list_commands(document)])
def test_documented_command_is_accepted(command: str):
    build_parser().parse_args(shlex.split(command)[1:])


def test_readme_has_commands():
    assert len(list_commands(ROOT / "README.md")) > 40
