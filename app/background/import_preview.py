"""Preview of a dataset while its first import decodes images: features, map and clusters of a growing part."""

from __future__ import annotations

import logging
import threading
from typing import Self

from crlc.data.dataset import ImageDataset
from crlc.data.importer import DECODING_STAGE
from crlc.data.options import PHOTOGRAPH_SIZE
from crlc.errors import CrlcError
from crlc.progress import Progress

_log = logging.getLogger(__name__)


class _ImportEndedError(Exception):
    """Raised inside the preview after the import has ended; the preview of the whole dataset then takes over."""


class ImportPreview:
    """A thread that explores the images decoded so far; used as a context around the import.

    After a successful import, the thread may still be importing torch or loading the network, which takes a minute on a
    busy computer: the preview of the whole dataset waits for it, and not the import.
    """

    def __init__(self) -> None:
        """Prepare the preview; `start` starts the thread."""
        self._changed = threading.Condition()
        self._decoded = 0
        self._is_ended = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Use as a context that ends the thread with the import."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the thread at its next report; after an error wait for it, because the dataset may be removed next."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        if kind is not None:
            self.wait()

    def wait(self) -> None:
        """Wait until the thread has ended; it holds the lock of the exploration."""
        if self._thread is not None:
            self._thread.join()

    def start(self, dataset: ImageDataset, sizes: tuple[int, ...]) -> None:
        """Start the thread if this is a first import that stores the images for the default backbone."""
        if sizes == (PHOTOGRAPH_SIZE,) and dataset.version == 0:
            self._thread = threading.Thread(target=self._explore, args=(dataset,), daemon=True)
            self._thread.start()

    def report(self, progress: Progress) -> None:
        """Receive the progress of the import."""
        if progress.stage == DECODING_STAGE:
            with self._changed:
                self._decoded = progress.done
                self._changed.notify_all()

    def _explore(self, dataset: ImageDataset) -> None:
        from crlc.services.explore import explore_import

        try:
            explore_import(dataset, self._wait_for_images, report=self._require_import)
        except _ImportEndedError:
            pass
        except CrlcError as error:  # the import reports a full disk, too; the preview is computed again after it
            _log.warning("The preview of %s could not be computed yet: %s", dataset.name, error)

    def _wait_for_images(self, count: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended or self._decoded >= count)
            return not self._is_ended

    def _require_import(self, _: Progress) -> None:
        if self._is_ended:
            raise _ImportEndedError
