"""A run looked at while it trains: marked, not changed under one's eyes, renewed when asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.exploring.opened import open_run
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.pages import page
from tests.app.tiny_run import CLUSTERS, tiny_dataset, tiny_run


@pytest.fixture
def training_run(empty: Workspace, tmp_path: Path) -> RunFolder:
    """A run that this very process trains; its first result is there."""
    run = tiny_run(empty, tiny_dataset(empty, tmp_path / "set"))
    run.write_status("running", epoch=4, epochs=10, step=40, steps=100, stage="training")
    write_result(run, step=30, clusters=CLUSTERS)
    return run


def write_result(run: RunFolder, step: int, clusters: list[int], *, final: bool = False) -> None:
    arrays, _ = run.result()
    folder = run.new_result_folder(step)
    for name, array in {**arrays, "cluster": np.array(clusters, np.int32)}.items():
        np.save(folder / f"{name}.npy", array)
    run.publish_result(folder, {"subhead": 0, "final": final, "step": step, "images": 12, "of": 12})


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_what_is_on_its_way_is_marked_and_renewed_when_asked(training_run: RunFolder, name: str):
    test = page(name)
    assert not test.exception
    marks = [one.value for one in test.markdown if "Not finished" in one.value]
    assert len(marks) == 1
    assert "clusters after epoch 3 of 10; training goes on" in marks[0]
    assert not [button for button in test.button if button.key == "show-newest"]

    write_result(training_run, step=60, clusters=CLUSTERS[::-1])
    test.run()
    assert any("after epoch 3 of 10" in one.value for one in test.markdown)  # nothing changed under one's eyes
    button = test.button(key="show-newest")
    assert button.label == "Show those after epoch 6"
    button.click().run()
    assert not test.exception
    assert any("after epoch 6 of 10" in one.value for one in test.markdown)


def test_a_finished_run_is_always_shown_as_it_ended(training_run: RunFolder, empty: Workspace):
    run = Runs(empty).open(training_run.id)
    assert open_run(empty, run).clusters.tolist() == CLUSTERS
    write_result(run, step=60, clusters=CLUSTERS[::-1])
    assert open_run(empty, run).clusters.tolist() == CLUSTERS
    write_result(run, step=100, clusters=[1] * 12, final=True)
    assert open_run(empty, run).clusters.tolist() == [1] * 12
    assert not any("Not finished" in one.value for one in page("clusters").markdown)
