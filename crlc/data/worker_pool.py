"""A pool of worker processes that can crash without affecting the caller.

Each worker is a Python process that runs `crlc.data.decode_worker.main` and communicates through its pipes. Unlike
`multiprocessing`, this needs no `if __name__ == "__main__"` in the program that imports this package (a notebook, a
Streamlit page), identifies the chunk that a crashed worker was processing, and leaves no orphans: when the caller is
killed, the standard input of a worker closes, and the worker exits.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from crlc.subprocesses import read_last_line, start_python

_EXIT_TIMEOUT_SECONDS = 5
_PENDING_CHUNKS_PER_WORKER = 16  # workers stay busy while the caller waits for the disk


class WorkerDiedError(Exception):
    """A worker was killed, or crashed on an image, while it processed a chunk."""


class WorkerStartError(Exception):
    """A worker process could not be started; the chunk is not the cause."""


class WorkerPool:
    """A pool of worker processes that receive chunks as they become free."""

    def __init__(self, workers: int) -> None:
        """Prepare the pool; the processes start with `start`, or with the first call of `run`."""
        self._workers = workers
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the pool)
        self._work: queue.Queue[tuple[bytes, Any] | None] = queue.Queue()
        self._results: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def start(self) -> None:
        """Start the processes early, so that they are ready for the first chunk."""
        while len(self._threads) < self._workers:
            thread = threading.Thread(target=self._serve_worker, daemon=True)
            self._threads.append(thread)
            thread.start()

    def run(self, processor: Any, chunks: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        """Process all chunks, in any order.

        Args:
            processor: an object with a method `process_chunk(chunk)`; every worker receives a pickled copy.
            chunks: consumed as needed, only as many as keep the workers busy.

        Yields:
            Each chunk and its result, which is a `WorkerDiedError` when the worker died, a `WorkerStartError`, or the
            exception that the processor raised.
        """
        self.start()
        pickled = pickle.dumps(processor)
        pending = 0
        is_exhausted = False
        while True:
            while not is_exhausted and pending < _PENDING_CHUNKS_PER_WORKER * self._workers:
                chunk = next(chunks, None)
                if chunk is None:
                    is_exhausted = True
                    break
                self._work.put((pickled, chunk))
                pending += 1
            if not pending:
                return
            yield self._results.get()
            pending -= 1

    def close(self) -> None:
        """End the workers, including those that are processing a chunk."""
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

    def _serve_worker(self) -> None:
        """Send chunks to one worker, wait for its results, and replace it when it dies. Runs in a thread per worker."""
        process: subprocess.Popen[bytes] | None = None
        known_processor = b""
        with suppress(WorkerStartError, OSError):  # raised again and reported with the first chunk
            process = self._start_worker()
        while (work := self._work.get()) is not None and not self._closing:
            processor, chunk = work
            result: Any
            try:
                if process is None:
                    process, known_processor = self._start_worker(), b""
                if processor is not known_processor:
                    _send(process, processor)
                    known_processor = processor
                _send(process, chunk)
                result = _receive(process)
            except WorkerStartError as error:
                result = error
            except (OSError, EOFError, pickle.UnpicklingError):
                result = WorkerDiedError(read_last_line(self._log))
                self._end_worker(process)
                process = None
            self._results.put((chunk, result))
        self._end_worker(process)

    def _start_worker(self) -> subprocess.Popen[bytes]:
        process = start_python(
            # Not -m, which runs the module as the main program and imports it again for the pickled processor.
            ["-c", "from crlc.data.decode_worker import main; main()"],
            stdout=subprocess.PIPE,
            stderr=self._log,  # decoders in C write warnings there directly
        )
        self._processes.add(process)
        try:
            _receive(process)  # the message that it is ready
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end_worker(process)
            raise WorkerStartError(read_last_line(self._log)) from None
        return process

    def _end_worker(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        self._processes.discard(process)
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            process.wait(_EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin)
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return pickle.load(process.stdout)  # from a process that this one started
