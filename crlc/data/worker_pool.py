"""Processes that do chunks of work and may die without taking the caller along.

Each worker is a Python that runs `crlc.data.decode_worker.main`, spoken to through its pipes. Unlike
`multiprocessing` this needs no `if __name__ == "__main__"` from the program that imports us (a notebook,
a Streamlit page), says which chunk a dead worker was at, and leaves no orphan: when the caller is
killed, a worker's standard input ends, and so does the worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_GOODBYE_SECONDS = 5
_IN_HAND_PER_WORKER = 16  # so that they have work while the caller waits for the disk


class WorkerDiedError(Exception):
    """A worker ended in the middle of a chunk; killed, or crashed by what it read."""


class WorkerStartError(Exception):
    """A worker could not even start: not the fault of any chunk."""


class WorkerPool:
    """A few worker processes, given chunks of one job after another as they become free."""

    def __init__(self, workers: int) -> None:
        """Plan for that many processes; they start when there is work, or with `warm_up`."""
        self._workers = workers
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the pool)
        self._work: queue.Queue[tuple[bytes, Any] | None] = queue.Queue()
        self._answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def warm_up(self) -> None:
        """Start the processes now, so that they are ready when the work is."""
        while len(self._threads) < self._workers:
            thread = threading.Thread(target=self._attend, daemon=True)
            self._threads.append(thread)
            thread.start()

    def run(self, job: Any, chunks: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        """Do all chunks, in any order; never more in hand than keeps the workers busy.

        Args:
            job: an object with `do(chunk)`, pickled to every worker.
            chunks: what to do, asked for as needed.

        Yields:
            The chunk and its result, which is a `WorkerDiedError` when the worker died of it, a
            `WorkerStartError`, or whatever exception the job raised.
        """
        self.warm_up()
        pickled = pickle.dumps(job)
        in_hand = 0
        exhausted = False
        while True:
            while not exhausted and in_hand < _IN_HAND_PER_WORKER * self._workers:
                chunk = next(chunks, None)
                if chunk is None:
                    exhausted = True
                    break
                self._work.put((pickled, chunk))
                in_hand += 1
            if not in_hand:
                return
            yield self._answers.get()
            in_hand -= 1

    def close(self) -> None:
        """End the workers, also those that are at work."""
        self._closing = True
        for _ in self._threads:
            self._work.put(None)
        for process in list(self._processes):
            with suppress(OSError):
                process.terminate()
        for thread in self._threads:
            thread.join()
        self._log.close()

    def __enter__(self) -> WorkerPool:
        """Use as a context that ends the workers."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    def _attend(self) -> None:
        """One thread per worker: hand it a chunk, wait for the answer, replace it when it dies."""
        process: subprocess.Popen[bytes] | None = None
        known_job = b""
        with suppress(WorkerStartError, OSError):  # told when there is a chunk to tell it with
            process = self._start()
        while (work := self._work.get()) is not None and not self._closing:
            job, chunk = work
            answer: Any
            try:
                if process is None:
                    process, known_job = self._start(), b""
                if job is not known_job:
                    _send(process, job)
                    known_job = job
                _send(process, chunk)
                answer = _receive(process)
            except WorkerStartError as error:
                answer = error
            except (OSError, EOFError, pickle.UnpicklingError):
                answer = WorkerDiedError(self._last_words())
                self._end(process)
                process = None
            self._answers.put((chunk, answer))
        self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
        process = subprocess.Popen(
            # -P: a PIL.py in the folder where somebody stands must not be what is imported.
            # Not -m, which runs the module once as the program and imports it once more for the pickled job.
            [sys.executable, "-P", "-c", "from crlc.data.decode_worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,  # decoders in C write warnings there, straight past Python
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,  # Ctrl-C is for the caller, who tells the workers
        )
        self._processes.add(process)
        try:
            _receive(process)  # its word that it is there
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end(process)
            raise WorkerStartError(self._last_words()) from None
        return process

    def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        self._processes.discard(process)
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin)
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return pickle.load(process.stdout)  # our own process at the other end
