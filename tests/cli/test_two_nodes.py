"""Two machines, as two rendezvous agents of torchrun on this computer with one workspace; one of them is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.images import save_images
from tests.fixtures.polling import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="kills groups of processes")]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
TIMEOUT_SECONDS = 120.0


class Cluster:
    """Starts a command on two nodes, each with one process; nodes that are left are killed at the end."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.nodes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--rdzv-id=test", "-m", "crlc"]
        command += [*map(str, arguments), "--device", "cpu", "--workspace", str(self._workspace.root)]
        self.nodes = [
            subprocess.Popen(
                command, env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )
            for _ in range(2)
        ]  # fmt: skip

    def wait(self) -> tuple[list[int], str]:
        """Return the exit codes of both nodes, and their output."""
        outputs = [node.communicate(timeout=TIMEOUT_SECONDS)[0] for node in self.nodes]
        return [node.returncode for node in self.nodes], "".join(outputs)

    def lose(self, node: subprocess.Popen[str]) -> None:
        """Kill an agent and its processes at once, as the loss of a machine does."""
        for process in (psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)):
            process.send_signal(signal.SIGKILL)


@pytest.fixture
def cluster(workspace: Workspace) -> Iterator[Cluster]:
    cluster = Cluster(workspace)
    yield cluster
    for node in cluster.nodes:
        if node.poll() is None:
            cluster.lose(node)
        node.communicate()


def find_rank(node: subprocess.Popen[str]) -> int:
    ranks = [child.environ().get("RANK") for child in psutil.Process(node.pid).children(recursive=True)]
    return int(next(rank for rank in ranks if rank is not None))


def test_two_nodes_train_and_resume_after_the_loss_of_one(cluster: Cluster, workspace: Workspace):
    settings = ["--set", "checkpoint_seconds=0", "--set", "batch_size=128", "--set", "subheads=2"]
    cluster.start("train", "digits", "--epochs", 4, *settings)
    runs = workspace.root / "runs"
    wait_until(lambda: any(runs.glob("*/checkpoints/last.pt")), cluster.nodes[0])
    cluster.lose(next(node for node in cluster.nodes if find_rank(node) == 1))
    codes, output = cluster.wait()
    assert all(code != 0 for code in codes), output
    (folder,) = runs.iterdir()
    run = RunFolder(folder)
    assert run.read_status().state.is_error

    cluster.start("resume", run.id)
    codes, output = cluster.wait()
    assert codes == [0, 0], output
    assert run.read_status().state is RunState.FINISHED
    epochs = [record["epoch"] for record in run.metrics_log.read() if record["kind"] == "epoch"]
    assert epochs == list(range(1, 5))  # each once, before and after the loss


def test_two_nodes_share_the_features_of_a_folder(cluster: Cluster, workspace: Workspace, tmp_path: Path):
    images = save_images(tmp_path / "photos", 7, width=90, height=80)
    dataset, _ = workspace.import_dataset(str(tmp_path / "photos"))
    cluster.start("features", dataset.name)
    codes, output = cluster.wait()
    assert codes == [0, 0], output
    assert "7 images computed by 2 processes" in output
    (folder,) = (path for path in (dataset.folder / "features").iterdir() if path.is_dir())
    assert sum(len(np.load(file)) for file in folder.glob("*.keys.npy")) == 7
    assert not list(folder.glob("part-*/*.npy"))

    images[0].write_bytes(images[1].read_bytes()[:-1] + b"?")  # another content: one image for two processes
    workspace.import_dataset(str(tmp_path / "photos"))
    cluster.start("features", dataset.name)
    codes, output = cluster.wait()
    assert codes == [0, 0], output
    assert "1 images computed" in output
