"""Processes that do chunks of work and may die without taking the caller along.

Each worker is `python -m crlc.data.decode_worker`, spoken to through its pipes. Unlike
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


class WorkerDiedError(Exception):
    """A worker ended in the middle of a chunk; killed, or crashed by what it read."""


class WorkerStartError(Exception):
    """A worker could not even start: not the fault of any chunk."""


class WorkerPool:
    """A few worker processes, given chunks one at a time as they become free."""

    def __init__(self, job: Any, workers: int) -> None:
        """Start the workers.

        Args:
            job: an object with `do(chunk)`, pickled to every worker once.
            workers: how many processes.
        """
        self._job = pickle.dumps(job)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the pool)
        self._chunks: queue.Queue[Any] = queue.Queue()
        self._answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closing = False
        self._threads = [threading.Thread(target=self._attend, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def run(self, chunks: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        """Do all chunks, in any order; never more in hand than keeps the workers busy.

        Yields:
            The chunk and its result, which is a `WorkerDiedError` when the worker died of it, a
            `WorkerStartError`, or whatever exception the job raised.
        """
        in_hand = 0
        exhausted = False
        while True:
            while not exhausted and in_hand < 2 * len(self._threads):
                chunk = next(chunks, None)
                if chunk is None:
                    exhausted = True
                    break
                self._chunks.put(chunk)
                in_hand += 1
            if not in_hand:
                return
            yield self._answers.get()
            in_hand -= 1

    def close(self) -> None:
        """End the workers, also those that are at work."""
        self._closing = True
        for _ in self._threads:
            self._chunks.put(None)
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
        while (chunk := self._chunks.get()) is not None and not self._closing:
            answer: Any
            try:
                if process is None:
                    process = self._start()
                answer = self._exchange(process, chunk)
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
            [sys.executable, "-m", "crlc.data.decode_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,  # decoders in C write warnings there, straight past Python
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,  # Ctrl-C is for the caller, who tells the workers
        )
        self._processes.add(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._job)
            process.stdin.flush()
            pickle.load(process.stdout)  # its word that it took the job
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end(process)
            raise WorkerStartError(self._last_words()) from None
        return process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], chunk: Any) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(chunk, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)  # our own process at the other end

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
