"""Name of a run for people and files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from crlc.runs.folder import RunFolder
from crlc.runs.run_title import build_file_stem, format_run_title, read_run_title


def test_run_title_is_that_of_the_user_or_start_preset_and_clusters():
    created = datetime(2026, 3, 4, 15, 6).astimezone()
    metadata = {"created": created.isoformat(), "preset": "quick", "settings": {"clusters": 7}}
    assert format_run_title(metadata) == "04 Mar 15:06 · quick · 7 clusters"
    assert format_run_title({**metadata, "title": "Cats"}) == "Cats"
    assert format_run_title({**metadata, "title": None}) == format_run_title(metadata)
    assert format_run_title({**metadata, "preset": "semi"}) == "04 Mar 15:06 · with labels · 7 clusters"


def test_run_title_leaves_out_what_the_metadata_does_not_have():
    assert format_run_title({"preset": "quick", "settings": {}}) == "quick"
    assert format_run_title({"created": "yesterday", "settings": {"clusters": 7}}) == "7 clusters"
    assert format_run_title({"created": "0001-01-01T00:00:00", "settings": {"clusters": None}}) == "run"
    assert format_run_title({"settings": {}, "title": "Cats"}) == "Cats"


def test_messages_have_the_title_of_a_run_or_the_id_of_a_damaged_one(tmp_path: Path):
    run = RunFolder(tmp_path / "set-20260304")
    assert read_run_title(run) == "set-20260304"
    run.path.mkdir()
    created = datetime(2026, 3, 4, 15, 6).astimezone().isoformat()
    entries = {"dataset": "set", "dataset_uid": "u", "manifest_version": 1, "settings": {"clusters": 7}}
    run.write_metadata({**entries, "created": created, "preset": "quick"})
    assert read_run_title(run) == "04 Mar 15:06 · quick · 7 clusters"
    run.write_metadata({**entries, "created": created, "preset": "quick", "title": "Cats"})
    assert read_run_title(run) == "Cats"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("04 Mar 15:06 · quick · 7 clusters", "set-04-Mar-15-06-quick-7-clusters"),
        ("../../etc/passwd", "set-etc-passwd"),
        ("Katzen & Hündchen", "set-Katzen-Hündchen"),
        ("???", "set"),
    ],
)
def test_file_stem_has_neither_spaces_nor_separators(title: str, expected: str):
    assert build_file_stem("set", title) == expected
