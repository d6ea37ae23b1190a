"""The process that the server prepares for the next map, so that a map does not wait for imports and compilation."""

from __future__ import annotations

import threading
from collections.abc import Callable

_DELAY_SECONDS = 5.0
"""The first page is shown earlier: it must not share the cores with the process."""

_MIN_AVAILABLE_BYTES = 4_000_000_000
"""The waiting process has 150 MB of memory: with less memory available, each map starts its own process."""


def schedule_map_worker(delay_seconds: float = _DELAY_SECONDS) -> Callable[[], None]:
    """Prepare the process for the next map in the background after a delay, if there is enough memory.

    Args:
        delay_seconds: time until the process is started.

    Returns:
        A function that ends the process, or prevents its start.
    """
    timer = threading.Timer(delay_seconds, _prepare_with_enough_memory)
    timer.daemon = True
    timer.start()

    def close() -> None:
        from crlc.analysis.maps.worker_process import close_map_worker

        timer.cancel()
        timer.join()  # it may be starting the process right now
        close_map_worker()

    return close


def _prepare_with_enough_memory() -> None:
    import psutil

    from crlc.analysis.maps.worker_process import prepare_map_worker

    if psutil.virtual_memory().available >= _MIN_AVAILABLE_BYTES:
        prepare_map_worker()
