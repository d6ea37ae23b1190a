"""Commands train, resume, stop, runs and show."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from crlc.cli.runs import draw_curve
from crlc.files import writer_lock
from crlc.runs.state import RunState
from crlc.services.run_summary import METRICS
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.images import save_images
from tests.fixtures.polling import wait_until

pytestmark = pytest.mark.slow

FAST = ("--set", "subheads=2", "--set", "batch_size=64")


def test_train_imports_a_source_and_prints_the_documented_json(crlc, small_set: Path, workspace: Workspace):
    outcome = crlc("train", small_set, "--epochs", 2, *FAST, "--json")
    assert outcome.code == 0, outcome.err
    content = outcome.json
    assert (content["state"], content["dataset"], content["epochs"]) == ("finished", "set", 2)
    assert set(content["metrics"]) == set(METRICS)
    assert 0 <= content["metrics"]["acc"] <= 1
    assert content["images_per_second"] > 0
    assert content["peak_memory_mb"] > 0
    description = RunStore(workspace).open(content["run"]).read_metadata()
    assert description["settings"]["clusters"] == 2  # the number of classes
    assert description["manifest_version"] == 1


def test_runs_and_show_print_state_epochs_and_metrics(crlc, small_set: Path):
    assert crlc("runs", "--json").json == {"runs": []}
    run = crlc("train", small_set, "--epochs", 3, *FAST, "--json").json["run"]
    assert f"{run}  finished    3/3" in crlc("runs").out
    shown = crlc("show", "last").out
    assert "finished, epoch 3 of 3, preset quick" in shown
    assert re.search(r"ACC \d+\.\d%, NMI \d\.\d{3}, ARI \d\.\d{3}", shown)
    assert crlc("show", run[:5], "--json").json["run"] == run


def test_train_dry_run_prints_a_duration_and_creates_no_run(crlc, small_set: Path, workspace: Workspace):
    outcome = crlc("train", small_set, "--dry-run", "--epochs", 10, *FAST)
    assert re.search(r"10 epochs .*200 images .*cpu.* \d+(\.\d)? s", outcome.out)
    assert RunStore(workspace).list_ids() == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "nothing"], 1, "'nothing'"),
        (["train", "set", "--clusters", "1"], 2, "clusters=1 is not allowed"),
        (["train", "set", "--clusters", "500"], 2, "200 images"),
        (["train", "set", "--preset", "quik"], 2, "quick?"),
        (["train", "set", "--set", "epoch=3"], 2, "epochs?"),
        (["train", "set", "--critic", "cosine"], 2, "invalid choice: 'cosine'"),
        (["train", "set", "--device", "cuda"], 2, "device='cuda'"),
        (["resume", "nothing"], 1, "'nothing'"),
        (["stop", "nothing"], 1, "'nothing'"),
        (["show", "last"], 1, "'last'"),
    ],
)
def test_train_and_runs_reject_wrong_arguments(
    crlc, small_set: Path, workspace: Workspace, arguments, code: int, words: str
):
    crlc("import", small_set)
    outcome = crlc(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert RunStore(workspace).list_ids() == []


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("method", ["SIGTERM", "SIGINT", "stop"])
def test_train_stops_with_a_checkpoint_and_resumes(
    crlc, start_crlc, small_set: Path, workspace: Workspace, method: str
):
    crlc("import", small_set)
    process = start_crlc("train", "set", "--epochs", 3000, *FAST, "--set", "log_steps=1")
    runs = RunStore(workspace)
    wait_until(lambda: bool(runs.list_ids()) and any(runs.open("last").metrics_log.read()), process)
    assert runs.open("last").read_status().state == "running"
    if method == "stop":
        assert crlc("stop", "last").code == 0
    else:
        process.send_signal(getattr(signal, method))
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "stopped" in out
    assert "crlc resume" in out
    status = runs.open("last").read_status()
    assert status.state == "stopped"
    assert "stopped" in crlc("stop", "last").err
    again = start_crlc("resume", "last")
    wait_until(lambda: runs.open("last").read_status().step > status.step, again)
    again.terminate()
    again.communicate(timeout=60)
    assert runs.open("last").read_status().step > status.step


def test_resume_accepts_finished_runs_and_rejects_replaced_datasets(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 1, *FAST)
    finished = crlc("resume", "last")
    assert (finished.code, finished.err) == (0, "")
    assert "is finished" in finished.out
    workspace.remove_dataset("set")
    crlc("import", small_set)
    run = RunStore(workspace).open("last")
    run.write_status(RunState.STOPPED, epoch=0, epochs=1, step=0)
    refused = crlc("resume", "last")
    assert refused.code == 1
    assert "'set'" in refused.err


def test_train_decodes_a_missing_image_size(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "pictures", 40)
    crlc("import", tmp_path / "pictures")
    outcome = crlc("train", "pictures", "--epochs", 1, "--clusters", 2, *FAST, "--set", "image_size=16")
    assert outcome.code == 0, outcome.err
    assert workspace.open_dataset("pictures").summarize().sizes == (16, 32)


def test_draw_curve_scales_values_to_blocks():
    assert draw_curve([0.0, 0.5, 1.0]) == " ▄█"
    assert len(draw_curve([0.5] * 1000)) <= 60


def test_resume_starts_a_run_that_never_trained(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 2, *FAST)
    run = RunStore(workspace).open("last")
    for file in (run.path / "status.json", run.checkpoint_file):
        file.unlink()  # as after a kill right after the start
    assert crlc("runs", "--json").json["runs"][0]["state"] == "interrupted"
    assert crlc("resume", "last").code == 0
    assert run.read_status().state == "finished"


def test_resume_keeps_the_images_of_the_run_when_the_dataset_grows(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "pictures", 40)
    crlc("train", tmp_path / "pictures", "--epochs", 2, "--clusters", 2, *FAST)
    run = RunStore(workspace).open("last")
    save_images(tmp_path / "pictures" / "more", 10, first_seed=500)
    crlc("import", tmp_path / "pictures")
    run.write_status(RunState.STOPPED, epoch=0, epochs=2, step=0)
    run.checkpoint_file.unlink()
    assert crlc("resume", "last").code == 0
    assert len(run.open_result()[0]["ids"]) == 40
    run.write_status(RunState.STOPPED, epoch=0, epochs=2, step=0)
    save_images(tmp_path / "pictures", 1, first_seed=900)  # 00000.png has other content now
    crlc("import", tmp_path / "pictures")
    refused = crlc("resume", "last")
    assert refused.code == 1
    assert "1 image" in refused.err


def test_resume_refuses_a_run_that_another_process_trains(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 1, *FAST)
    run = RunStore(workspace).open("last")
    run.write_status(RunState.STOPPED, epoch=0, epochs=1, step=0)
    with writer_lock(run.path / "lock", "it"):
        refused = crlc("resume", "last")
    assert refused.code == 1
    assert run.id in refused.err


def test_train_chooses_the_image_size_anew_for_each_run(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "pictures", 40)
    for extra in (("--set", "image_size=16"), ()):
        end_to_end = ("--method", "end-to-end", "--epochs", 1, "--clusters", 2)
        crlc("train", tmp_path / "pictures", *end_to_end, *FAST, *extra)
    sizes = [
        RunStore(workspace).open(run).read_metadata()["settings"]["image_size"]
        for run in RunStore(workspace).list_ids()
    ]
    assert sizes == [16, 32]
