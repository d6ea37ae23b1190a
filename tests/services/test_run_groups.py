"""Groups of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.errors import NotFoundError
from crlc.runs.run_title import format_run_title
from crlc.services.run_groups import _rank_value, find_run_group, find_swept_setting, list_run_groups
from crlc.services.run_summary import METRICS
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([{"a": 1, "seed": 0}, {"a": 2, "seed": 0}], "a"),
        ([{"a": 1, "seed": 0}, {"a": 2, "seed": 1}], "a"),  # repetitions of a sweep
        ([{"a": 1, "epochs": 9}, {"a": 2, "epochs": 8}], "a"),  # epochs that a time budget planned
        ([{"a": 1, "seed": 0}, {"a": 1, "seed": 1}], "seed"),
        ([{"a": 1, "b": 1}, {"a": 2, "b": 2}], None),
        ([{"a": 1}], None),
    ],
)
def test_find_swept_setting(settings: list[dict[str, object]], expected: str | None):
    assert find_swept_setting(settings) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.5, None, 0.0], [None, 0.0, 0.5]), ([True, False], [False, True]), (["b", 1, None, "a"], [None, 1, "a", "b"])],
)
def test_values_of_different_types_have_an_order(values: list[object], expected: list[object]):
    assert sorted(values, key=_rank_value) == expected


def test_groups_with_and_without_a_value_are_listed(crlc, small_set: Path, workspace: Workspace):
    fast = ("--epochs", 1, "--set", "subheads=1", "--group", "fine-tuning")
    crlc("train", small_set, *fast, "--set", "finetune_feature_weight=0")
    crlc("train", "set", *fast)
    (group,) = list_run_groups(workspace)
    assert (group.setting, [run.value for run in group.runs]) == ("finetune_feature_weight", [None, 0.0])
    outcome = crlc("runs", "--group", "fine-tuning")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()][-2:] == ["default", "0"]


def test_title_of_a_new_run_is_stored_and_checked(crlc, small_set: Path, workspace: Workspace):
    fast = ("--epochs", 1, "--set", "subheads=1")
    crlc("train", small_set, *fast, "--title", " feature  weight 0 ")
    assert format_run_title(RunStore(workspace).open("last").read_metadata()) == "feature weight 0"
    outcome = crlc("train", "set", *fast, "--title", "x" * 81)
    assert outcome.code == 2
    assert "81 characters" in outcome.err


def test_runs_of_a_group_are_listed_by_value(crlc, small_set: Path, workspace: Workspace):
    fast = ("--epochs", 1, "--set", "subheads=1")
    crlc("train", small_set, *fast)
    for weight in (2.0, 0.5):
        crlc("train", "set", *fast, "--set", f"feature_weight={weight}", "--group", "weights of  L_FC")
    (group,) = list_run_groups(workspace)
    assert (group.name, group.setting) == ("weights of L_FC", "feature_weight")
    assert [run.value for run in group.runs] == [0.5, 2.0]
    outcome = crlc("runs", "--group", "weights of L_FC")
    assert [line.split()[0] for line in outcome.out.splitlines()][-2:] == ["0.5", "2"]
    content = crlc("runs", "--group", "weights of L_FC", "--json").json
    assert content["setting"] == "feature_weight"
    assert set(content["runs"][0]["metrics"]) == set(METRICS)
    assert all(len(run.metrics.keys() & {"probability", "feature", "feature_bound"}) == 3 for run in group.runs)
    log = RunStore(workspace).open(group.runs[0].summary.run).metrics_log.path
    log.write_text("{\n")
    damaged = find_run_group(workspace, "weights of L_FC").runs[0]
    assert (damaged.summary.state, damaged.metrics) == ("damaged", {})
    with pytest.raises(NotFoundError, match="Did you mean 'weights of L_FC'"):
        find_run_group(workspace, "weight of L_FC")
    assert crlc("train", "set", *fast, "--group", "x" * 81).code != 0
