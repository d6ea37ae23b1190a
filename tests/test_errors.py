"""Tests of the errors shown to the user."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from crlc.errors import CrlcError, DiskFullError, UsageError, explain_disk_full


def test_error_text_is_the_message_followed_by_the_advice():
    error = CrlcError("It broke.", advice="Mend it.", parameters=["size"])
    assert (error.message, error.advice, error.parameters) == ("It broke.", "Mend it.", ("size",))
    assert str(error) == "It broke. Mend it."
    assert str(CrlcError("It broke.")) == "It broke."


def test_error_keeps_its_parts_between_processes():
    error = pickle.loads(pickle.dumps(UsageError("It broke.", advice="Mend it.")))
    assert (type(error), error.message, error.advice) == (UsageError, "It broke.", "Mend it.")


def test_usage_error_is_a_value_error():
    with pytest.raises(ValueError, match="clusters=1"):
        raise UsageError("clusters=1 is not allowed: it must be from 2 to 100,000.")


def test_explain_disk_full_converts_only_errors_about_space(tmp_path: Path):
    with pytest.raises(DiskFullError) as caught, explain_disk_full(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path) in caught.value.message
    assert caught.value.parameters == ("workspace",)
    with pytest.raises(PermissionError), explain_disk_full(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
