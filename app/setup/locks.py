"""Lock between two starts of the app."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_POLL_SECONDS = 1.0
_NO_LOCKS_CODES = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def hold_setup_lock(file: Path) -> Iterator[None]:
    """Make a second start wait for the first; the system releases the lock when a process ends.

    On a file system without locks, such as some network drives, nothing is locked.
    """
    with file.open("a+") as lock:
        try:
            lock_file(lock, wait=False)
        except OSError as error:
            if error.errno in _NO_LOCKS_CODES:
                yield
                return
            print("Another start is installing the packages; waiting for it ...", flush=True)
            lock_file(lock, wait=True)
        yield


def lock_file(lock: IO[str], *, wait: bool) -> None:
    """Lock an open file.

    Raises:
        OSError: another process holds the lock, and the caller does not wait.
    """
    if sys.platform == "win32":
        import msvcrt

        lock.seek(0)
        while True:
            try:
                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                if not wait:
                    raise
                time.sleep(_POLL_SECONDS)
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
