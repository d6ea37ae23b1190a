"""Intermediate results of a run in training: marked, and replaced by newer ones only on request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.view_models.view_cache import open_annotations, open_run_view
from crlc.clusters.clustering import ClusterEditor
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.app_pages import page
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset, write_tiny_run

BADGE_ICON = ":material/hourglass_top:"


@pytest.fixture
def training_run(empty: Workspace, tmp_path: Path) -> RunFolder:
    """Return a run that this process trains, with its first result."""
    run = write_tiny_run(empty, import_tiny_dataset(empty, tmp_path / "set"))
    run.write_status(RunState.RUNNING, epoch=4, epochs=10, step=40, steps=100, stage="training")
    write_result(run, step=30, clusters=CLUSTERS)
    return run


def write_result(run: RunFolder, step: int, clusters: list[int], *, final: bool = False) -> None:
    """Publish a result with other clusters."""
    arrays, _ = run.open_result()
    folder = run.create_result_folder(step)
    for name, array in {**arrays, "cluster": np.array(clusters, np.int32)}.items():
        np.save(folder / f"{name}.npy", array)
    run.publish_result(folder, {"subhead": 0, "final": final, "step": step, "images": 12, "of": 12})


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_partial_result_is_marked_and_replaced_on_request(training_run: RunFolder, name: str):
    test = page(name)
    assert not test.exception
    badges = [one.value for one in test.markdown if BADGE_ICON in one.value]
    assert len(badges) == 1
    assert "epoch 3 of 10" in badges[0]
    assert not [button for button in test.button if button.key == "show-newest"]

    write_result(training_run, step=60, clusters=CLUSTERS[::-1])
    test.run()
    assert any("epoch 3 of 10" in one.value for one in test.markdown)  # the displayed result stays
    button = test.button(key="show-newest")
    assert "epoch 6" in button.label
    button.click().run()
    assert not test.exception
    assert any("epoch 6 of 10" in one.value for one in test.markdown)


def test_edits_during_training_keep_the_displayed_result(training_run: RunFolder, empty: Workspace):
    run = RunStore(empty).open(training_run.id)
    shown = open_run_view(empty, run)
    write_result(run, step=60, clusters=CLUSTERS[::-1])
    open_annotations(shown.dataset).exclude([1])
    after = open_run_view(empty, run)
    assert after.ids.tolist() == shown.ids.tolist()[1:]
    assert after.clusters.tolist() == CLUSTERS[1:]
    assert after.colours == shown.colours
    # The edit of a cluster is one of the displayed result, too.
    ClusterEditor(open_annotations(after.dataset), after.analysis.clustering, after.cluster_names).set_name(0, "cat")
    named = open_run_view(empty, run)
    assert (named.clusters.tolist(), named.cluster_names[0]) == (CLUSTERS[1:], "cat")


def test_open_run_view_shows_the_final_result_at_once(training_run: RunFolder, empty: Workspace):
    run = RunStore(empty).open(training_run.id)
    assert open_run_view(empty, run).clusters.tolist() == CLUSTERS
    write_result(run, step=60, clusters=CLUSTERS[::-1])
    assert open_run_view(empty, run).clusters.tolist() == CLUSTERS
    write_result(run, step=100, clusters=[1] * 12, final=True)
    assert open_run_view(empty, run).clusters.tolist() == [1] * 12
    assert not any(BADGE_ICON in one.value for one in page("clusters").markdown)
