"""Backbones by name: where their weights are, and explicit downloads."""

from __future__ import annotations

from pathlib import Path

from crlc.backbone_catalogue import CATALOGUE, Availability, OfferedBackbone, find_offered_backbone
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, no_progress


def download_backbone(name: str, report: ProgressCallback = no_progress) -> Path:
    """Download the weights of an offered backbone to the cache of the Hugging Face hub; return their file.

    Args:
        name: name in the catalogue.
        report: receives the progress; an error that it raises ends the download.

    Raises:
        UsageError: the backbone is not offered, or its weights are a pip package.
        SourceError: the weights cannot be downloaded.
    """
    offered = find_offered_backbone(name)
    if offered is None:
        names = ", ".join(one.name for one in CATALOGUE if one.repository)
        raise UsageError(f"The backbone {name!r} is not in the catalogue.", advice=f"Choose one of {names}.")
    if not offered.repository:
        raise UsageError(
            f"The weights of {name} are a pip package.",
            advice=f"Install it with: {offered.install_command}" if offered.install_command else "It is installed.",
        )
    from crlc.model.downloads import load_hub_file

    return load_hub_file(name, offered.repository, offered.files, report)


def describe_availability(offered: OfferedBackbone) -> str:
    """Return where the weights of a backbone are, and what its use needs, for people."""
    found = offered.check_availability()
    if offered.takes_text and offered.install_command:
        return f"needs a package: {offered.install_command}"
    if found is Availability.PIP:
        return f"not installed: {offered.install_command}"
    if found is Availability.DOWNLOAD:
        return f"download of {offered.megabytes} MB"
    return str(found.value)
