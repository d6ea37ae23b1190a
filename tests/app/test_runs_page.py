"""The Runs page, without a browser."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.run_lines import labelled, run_lines
from app.run_table import COLUMNS, rows_of, together
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.pages import page, run_ids, texts


@pytest.mark.usefixtures("empty")
def test_an_empty_workspace_says_what_to_do():
    test = page("runs")
    assert not test.exception
    assert "There are no runs yet" in test.info[0].value


def test_the_table_has_state_and_metrics(trained: Workspace):
    lines = run_lines(trained)[::-1]
    rows = rows_of(Runs(trained), lines)
    last = list(Runs(trained).open(lines[0].id).metrics())[-1]
    assert (rows[0]["State"], rows[0]["Epochs"], rows[0]["ACC"]) == ("finished", "2 of 2", last["acc"])
    assert rows[0]["Time"].endswith(" s")
    assert list(rows[0]) == [name for name in COLUMNS if name != "Data set"]  # each is explained
    two_sets = [lines[0], replace(lines[1], dataset="other")]
    assert [row["Data set"] for row in rows_of(Runs(trained), two_sets)] == ["digits", "other"]
    assert together(lines, lines[1]) == [lines[1].id, lines[0].id]
    assert together(lines, None) == [lines[0].id, lines[1].id]
    assert together([], None) == []
    (trained.root / "runs" / lines[0].id / "status.json").write_text("{")
    assert [row["State"] for row in rows_of(Runs(trained), lines)] == ["damaged", "finished"]
    test = page("runs")
    assert not test.exception
    assert len(test.dataframe[0].value) == 2


def test_runs_with_the_same_title_are_told_apart(trained: Workspace):
    line = run_lines(trained)[0]
    titles = ("a", "a", "a (2)", "b")
    assert [one.label for one in labelled([replace(line, title=title) for title in titles])] == [
        "a", "a (2)", "a (2) (2)", "b",
    ]  # fmt: skip


def test_a_run_gets_a_title_and_keeps_its_place(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=first)
    test.text_input[0].set_value("  <b>my</b>   run ")
    test.button(key="rename-run").click().run()
    assert not test.exception
    assert Runs(trained).open(first).description()["title"] == "<b>my</b> run"
    assert run_ids(trained) == [first, second]
    assert test.sidebar.selectbox[1].options[1] == "<b>my</b> run"
    test.text_input[0].set_value("")
    test.button(key="rename-run").click().run()
    assert "quick · 10 clusters" in test.sidebar.selectbox[1].options[1]


def test_deleting_asks_first_and_leaves_a_training_alone(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=second)
    assert "are removed" in texts(test)
    test.button(key=f"delete-{second}").click().run()
    assert not test.exception
    assert run_ids(trained) == [first]
    run = Runs(trained).open(first)
    run.write_status("running", epoch=1, epochs=2, step=1)  # by this very process
    test = page("runs")
    test.button(key=f"delete-{first}").click().run()
    assert "is being trained. Stop it" in texts(test)
    assert run_ids(trained) == [first]


def test_two_runs_are_compared_with_the_images_that_moved(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=second)
    test.selectbox(key="compare-with").select_index(0).run()
    assert not test.exception
    numbers = {one.label: one.value for one in test.metric}
    assert numbers["Images in both"] == "200"
    assert numbers["Moved"] != "0 images"
    assert "/images/digits/" in texts(test)
    largest = test.selectbox(key=f"moved-{first}-{second}").options[1]
    from_to, count = largest.rsplit(": ", 1)
    assert f"{count} moved" in texts(test)
    before, after = from_to.split(" → ")
    test.selectbox(key=f"moved-{first}-{second}").select_index(1).run()
    assert f"was in {before}" in texts(test)
    assert f"now in {after}" in texts(test)
    (trained.root / "runs" / first / "result.json").unlink()
    test.run()
    assert "has no result yet" in texts(test)


def test_damaged_results_are_said_in_place(trained: Workspace):
    first, second = run_ids(trained)
    facts = json.loads((trained.root / "runs" / first / "result.json").read_text())
    (trained.root / "runs" / first / facts["folder"] / "cluster.npy").write_bytes(b"")
    test = page("runs", run=second)
    test.selectbox(key="compare-with").select_index(0).run()
    assert not test.exception
    assert "cannot be used" in texts(test)
