"""train, resume, stop, runs and show, as their users meet them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from crlc.cli.runs import curve
from crlc.files import writer_lock
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.pictures import save_pictures

FAST = ("--set", "subheads=2", "--set", "batch_size=64")


def test_train_imports_on_the_fly_and_prints_the_agreed_object(crlc, small_set: Path, workspace: Workspace):
    outcome = crlc("train", small_set, "--epochs", 2, *FAST, "--json")
    assert outcome.code == 0, outcome.err
    content = outcome.json
    assert (content["state"], content["dataset"], content["epochs"]) == ("finished", "set", 2)
    assert set(content["metrics"]) == {"acc", "nmi", "ari", "cluster_information", "clusters_found", "largest_share"}
    assert 0 <= content["metrics"]["acc"] <= 1
    assert content["images_per_second"] > 0
    assert content["peak_memory_mb"] > 0
    description = Runs(workspace).open(content["run"]).description()
    assert description["settings"]["clusters"] == 2  # as many as there are known classes
    assert description["manifest_version"] == 1


def test_runs_and_show(crlc, small_set: Path):
    assert "No runs yet" in crlc("runs").out
    run = crlc("train", small_set, "--epochs", 3, *FAST, "--json").json["run"]
    assert f"{run}  finished    3/3" in crlc("runs").out
    shown = crlc("show", "last").out
    assert "finished, epoch 3 of 3, preset quick" in shown
    assert "Against the classes: ACC" in shown
    assert crlc("show", run[:5], "--json").json["run"] == run


def test_dry_run_says_how_long_and_leaves_nothing(crlc, small_set: Path, workspace: Workspace):
    outcome = crlc("train", small_set, "--dry-run", "--epochs", 10, *FAST)
    assert "10 epochs of 200 images on cpu: about" in outcome.out
    assert Runs(workspace).ids() == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "nothing"], 1, "No data set is named 'nothing'"),
        (["train", "set", "--clusters", "1"], 2, "clusters=1 is not allowed"),
        (["train", "set", "--clusters", "500"], 2, "there are only 200 images"),
        (["train", "set", "--preset", "quik"], 2, "Did you mean quick?"),
        (["train", "set", "--set", "epoch=3"], 2, "Did you mean epochs?"),
        (["train", "set", "--critic", "cosine"], 2, "invalid choice: 'cosine'"),
        (["train", "set", "--device", "cuda"], 2, "device='cuda' is not there. This computer has: cpu"),
        (["resume", "nothing"], 1, "No run is named 'nothing'"),
        (["stop", "nothing"], 1, "There are: none yet"),
        (["show", "last"], 1, "No run is named 'last'"),
    ],
)
def test_wrong_calls(crlc, small_set: Path, workspace: Workspace, arguments, code: int, words: str):
    crlc("import", small_set)
    outcome = crlc(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert Runs(workspace).ids() == []


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "stop"])
def test_a_run_is_stopped_and_resumed(crlc, start_crlc, small_set: Path, workspace: Workspace, how: str):
    crlc("import", small_set)
    process = start_crlc("train", "set", "--epochs", 3000, *FAST, "--set", "log_steps=1")
    runs = Runs(workspace)
    while not (runs.ids() and any(runs.open("last").metrics())):
        assert process.poll() is None, process.stderr.read()
    assert runs.open("last").status()["state"] == "running"
    if how == "stop":
        assert crlc("stop", "last").code == 0
    else:
        process.send_signal(getattr(signal, how))
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "stopped" in out
    assert "crlc resume" in out
    status = runs.open("last").status()
    assert status["state"] == "stopped"
    assert "is not running: it is stopped" in crlc("stop", "last").err
    again = start_crlc("resume", "last")
    while runs.open("last").status()["step"] <= status["step"]:
        assert again.poll() is None, again.stderr.read()
    again.terminate()
    again.communicate(timeout=60)
    assert runs.open("last").status()["step"] > status["step"]


def test_finished_runs_and_vanished_data_sets(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 1, *FAST)
    assert "is finished; there is nothing to resume" in crlc("resume", "last").err
    workspace.remove("set")
    crlc("import", small_set)
    run = Runs(workspace).open("last")
    run.write_status("stopped", epoch=0, epochs=1, step=0)
    assert "was removed and made anew" in crlc("resume", "last").err


def test_a_size_that_is_missing_is_decoded(crlc, tmp_path: Path, workspace: Workspace):
    save_pictures(tmp_path / "pictures", 40)
    crlc("import", tmp_path / "pictures")
    outcome = crlc("train", "pictures", "--epochs", 1, "--clusters", 2, *FAST, "--set", "image_size=16")
    assert outcome.code == 0, outcome.err
    assert workspace.dataset("pictures").summary().sizes == (16, 32)


def test_curves_in_the_terminal():
    assert curve([0.0, 0.5, 1.0]) == " ▄█"
    assert len(curve([0.5] * 1000)) <= 60


def test_a_run_that_never_began_is_listed_and_can_be_resumed(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 2, *FAST)
    run = Runs(workspace).open("last")
    for file in (run.path / "status.json", run.checkpoint_file):
        file.unlink()  # as a kill right after the start leaves it
    assert "failed" in crlc("runs").out
    assert crlc("resume", "last").code == 0
    assert run.status()["state"] == "finished"


def test_a_run_keeps_its_images_when_the_data_set_grows(crlc, tmp_path: Path, workspace: Workspace):
    save_pictures(tmp_path / "pictures", 40)
    crlc("train", tmp_path / "pictures", "--epochs", 2, "--clusters", 2, *FAST)
    run = Runs(workspace).open("last")
    save_pictures(tmp_path / "pictures" / "more", 10, first_seed=500)
    crlc("import", tmp_path / "pictures")
    run.write_status("stopped", epoch=0, epochs=2, step=0)
    run.checkpoint_file.unlink()
    assert crlc("resume", "last").code == 0
    assert len(run.result()[0]["ids"]) == 40
    run.write_status("stopped", epoch=0, epochs=2, step=0)
    save_pictures(tmp_path / "pictures", 1, first_seed=900)  # 00000.png has other content now
    crlc("import", tmp_path / "pictures")
    assert "1 images of 'pictures' have other content since this run" in crlc("resume", "last").err


def test_a_run_is_trained_by_one_process_only(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 1, *FAST)
    run = Runs(workspace).open("last")
    run.write_status("stopped", epoch=0, epochs=1, step=0)
    with writer_lock(run.path / "lock", "it"):
        assert "is being written by another process" in crlc("resume", "last").err


def test_another_size_tried_once_does_not_stay(crlc, tmp_path: Path, workspace: Workspace):
    save_pictures(tmp_path / "pictures", 40)
    for extra in (("--set", "image_size=16"), ()):
        end_to_end = ("--method", "end-to-end", "--epochs", 1, "--clusters", 2)
        crlc("train", tmp_path / "pictures", *end_to_end, *FAST, *extra)
    sizes = [Runs(workspace).open(run).description()["settings"]["image_size"] for run in Runs(workspace).ids()]
    assert sizes == [16, 32]
