"""Weights files from the caches of torch and of the Hugging Face hub; missing files are downloaded."""

from __future__ import annotations

import inspect
import io
import re
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch

from crlc.backbone_catalogue import DEFAULT_BACKBONE, OPEN_CLIP_PREFIX, find_hub_file
from crlc.errors import SourceError
from crlc.progress import Progress, ProgressCallback

_COPY_CACHE_ADVICE = "copy that folder from a computer that has them"
_DOWNLOAD_STAGE = "Downloading"
_MEGABYTE = 10**6


def load_torch_hub_file(name: str, url: str) -> Path:
    """Return a file of torch's cache; download it if it is missing.

    Args:
        name: name of the backbone, for error messages.
        url: address of the file.

    Raises:
        SourceError: the file is missing and cannot be downloaded.
    """
    file = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(url).path).name
    if file.is_file():
        return file
    digits = re.search(r"-([0-9a-f]{8,})\.", file.name)  # torch's convention: the first digits of the hash
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(file), digits and digits[1], progress=sys.stderr.isatty())
    except (OSError, HTTPException, RuntimeError) as error:
        raise _build_error(name, url, f"put a copy of that file at {file}", file.parent, error) from error
    return file


def load_hub_file(name: str, hub_id: str, files: tuple[str, ...], report: ProgressCallback | None = None) -> Path:
    """Return a file of the Hugging Face cache; download it if it is missing.

    Args:
        name: name of the backbone, for error messages.
        hub_id: repository, with `@` and a revision if it is not the newest one.
        files: names that the file may have, the preferred one first.
        report: receives the progress of a download; an error that it raises ends the download.

    Raises:
        SourceError: the file is missing and cannot be downloaded.
    """
    import huggingface_hub

    repository, _, revision = hub_id.partition("@")
    cached = find_hub_file(repository, files, revision or None)
    if cached is not None:
        return cached
    source: dict[str, Any] = {"repo_id": repository, "revision": revision or None}
    raised: list[Exception] = []
    try:
        found = next(file for file in files if _is_on_hub(file, source))
        options = {} if report is None else _build_progress_options(report, raised)
        return Path(huggingface_hub.hf_hub_download(filename=found, **source, **options))
    except Exception as error:  # raised by requests or httpx, depending on the version of the library
        if raised:
            raise raised[0] from None
        url = huggingface_hub.hf_hub_url(filename=files[0], **source)
        cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
        raise _build_error(name, url, _COPY_CACHE_ADVICE, cache, error) from error


def _is_on_hub(file_name: str, source: dict[str, Any]) -> bool:
    """Return whether the hub has a file, with a single request: offline, a download would retry for 23 seconds."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    try:
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(filename=file_name, **source))
    except EntryNotFoundError:
        return False
    return True


def _build_progress_options(report: ProgressCallback, raised: list[Exception]) -> dict[str, Any]:
    """Return the argument that makes the library report a download; errors of `report` are added to `raised`."""
    import huggingface_hub
    from tqdm.auto import tqdm

    if "tqdm_class" not in inspect.signature(huggingface_hub.hf_hub_download).parameters:
        return {}  # an earlier version

    class ReportingBar(tqdm):  # type: ignore[misc]
        """Progress bar that calls the callback instead of printing."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            """Print nowhere; a disabled bar would not count."""
            super().__init__(*arguments, **{**options, "file": io.StringIO(), "disable": False})

        def update(self, n: float | None = 1) -> bool | None:
            """Count more bytes."""
            shown: bool | None = super().update(n)
            total = None if self.total is None else round(self.total / _MEGABYTE)
            speed = (self.format_dict.get("rate") or 0.0) / _MEGABYTE
            try:
                report(Progress(_DOWNLOAD_STAGE, round(self.n / _MEGABYTE), total, speed, unit="MB"))
            except Exception as error:
                raised.append(error)
                raise
            return shown

    return {"tqdm_class": ReportingBar}


def _build_error(name: str, url: str, by_hand: str, cache: Path, error: Exception) -> SourceError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    takes_text = name.startswith(OPEN_CLIP_PREFIX)  # the default backbone does not
    other = "give a local file of its weights" if takes_text else f"use the backbone {DEFAULT_BACKBONE}"
    return SourceError(
        f"The weights of {name} are not in the cache {cache}, and {url} cannot be downloaded ({reason}).",
        advice=f"Connect to the internet and try again, or {by_hand}, or {other}, which needs no download.",
        parameters=("weights",) if takes_text else (),
    )
