"""RunState and RunStatus: properties of the states, and status files of earlier versions."""

from __future__ import annotations

import pytest

from crlc.runs.state import RunState, RunStatus


def test_run_state_is_either_active_or_final():
    assert [state.value for state in RunState if state.is_active] == ["queued", "running", "stopping"]
    assert [state.value for state in RunState if state.is_resumable] == ["stopped", "failed", "interrupted"]
    assert all(state.is_active != state.is_final for state in RunState)


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ({"state": "failed", "message": "interrupted: its process is gone. It can be resumed."}, RunState.INTERRUPTED),
        ({"state": "failed", "message": "the loss is not a number"}, RunState.FAILED),
        ({"state": "finished", "message": None, "added_by_a_later_version": 1}, RunState.FINISHED),
    ],
)
def test_run_status_reads_files_of_other_versions(content: dict[str, object], state: RunState):
    assert RunStatus.from_json(content).state is state


def test_run_status_refuses_an_unknown_state():
    with pytest.raises(ValueError, match="dreaming"):
        RunStatus.from_json({"state": "dreaming"})
