"""Use of imported vectors in place of the features of a backbone, by explorations and runs."""

from __future__ import annotations

from dataclasses import replace

from crlc.data.dataset import ImageDataset
from crlc.data.imported_vectors import (
    VECTORS,
    ImportedVectors,
    count_images_without_vectors,
    read_imported_vectors,
)
from crlc.errors import UsageError
from crlc.formatting import format_count
from crlc.training.presets import AUTO
from crlc.training.request import TrainRequest
from crlc.training.settings import DEFAULT_BACKBONE, TrainSettings


def find_usable_vectors(dataset: ImageDataset) -> ImportedVectors | None:
    """Return the imported vectors of a dataset; `None` if there are none, or images were added or changed since.

    Raises:
        DamagedError: they cannot be read.
    """
    found = read_imported_vectors(dataset)
    return None if found is None or count_images_without_vectors(dataset, found) else found


def require_vectors(dataset: ImageDataset) -> ImportedVectors:
    """Return the imported vectors of a dataset.

    Raises:
        UsageError: there are none, or some images have none.
    """
    found = read_imported_vectors(dataset)
    if found is None:
        raise UsageError(
            f"backbone='{VECTORS}' is not allowed: {dataset.name} has no imported vectors.",
            advice="Import the dataset again with a file of vectors.",
            parameters=("vectors",),
        )
    missing = count_images_without_vectors(dataset, found)
    if missing:
        raise UsageError(
            f"backbone='{VECTORS}' is not allowed: {format_count(missing, 'image')} of {dataset.name} changed or were "
            "added after the vectors were imported.",
            advice="Import the dataset again with a file of vectors.",
            parameters=("vectors",),
        )
    return found


def apply_vectors_to_request(dataset: ImageDataset, request: TrainRequest) -> TrainRequest:
    """Return a training request with the imported vectors as its backbone.

    They are used on request (`backbone="vectors"`), and by default if the request leaves the network open.

    Raises:
        UsageError: vectors are requested, but the dataset has none.
    """
    if request.backbone == VECTORS:
        return replace(request, backbone=require_vectors(dataset).backbone, frozen=True)
    is_open = (
        request.method in (AUTO, "two-stage")
        and request.backbone is None
        and request.frozen is None
        and not request.weights
        and not request.has_paper_preset
        and request.named_settings.isdisjoint(("backbone", "image_size", "frozen"))
    )
    found = find_usable_vectors(dataset) if is_open else None
    return request if found is None else replace(request, backbone=found.backbone, frozen=True)


def apply_vectors_to_network(dataset: ImageDataset, network: TrainSettings) -> TrainSettings:
    """Return settings of the default backbone with the imported vectors instead, if the dataset has them."""
    if network.model.backbone != DEFAULT_BACKBONE:
        return network
    found = find_usable_vectors(dataset)
    if found is None:
        return network
    return network.replace(backbone=found.backbone, image_size=dataset.get_default_size())
