"""Network of an exploration: the pretrained backbone, and the projection that was fitted to its images."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from crlc.array_files import open_array_archive
from crlc.arrays import FloatArray
from crlc.data.augmentation import to_images
from crlc.data.dataset import ImageDataset
from crlc.files import write_file
from crlc.model import CrlcNetwork
from crlc.model.projection import Projection
from crlc.services.exploration import Exploration
from crlc.services.neighbours import decode_images
from crlc.training.feature_cache import load_or_compute_features
from crlc.training.images import load_images, select_positions
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.presets import FROZEN_HEADS

_PROJECTION_FILE = "projection.npz"


class ExplorationEncoder:
    """Encoder of new images with the network of an exploration, which is loaded on first use."""

    def __init__(self, dataset: ImageDataset, exploration: Exploration, device: torch.device) -> None:
        """Store the dataset, its exploration and the device."""
        self._dataset, self._exploration, self._device = dataset, exploration, device

    @cached_property
    def _network(self) -> CrlcNetwork:
        return load_explored_network(self._dataset, self._exploration, self._device)

    @torch.inference_mode()
    def encode(self, content: bytes, name: str) -> FloatArray:
        """Return the vector of an image file in the space of `Exploration.vectors`, (1, d).

        Args:
            content: bytes of the file.
            name: file name for error messages.

        Raises:
            SourceError: the file is not a readable image.
            CrlcError: the backbone cannot be loaded.
        """
        pixels = decode_images([content], [name], int(self._exploration.metadata["image_size"]))
        images = to_images(torch.from_numpy(pixels).to(self._device))
        vectors: FloatArray = self._network.projection(self._network.compute_backbone_vectors(images)).cpu().numpy()
        return vectors


def store_projection(folder: Path, network: CrlcNetwork) -> None:
    """Store the fitted projection of a network in the folder of an exploration."""
    if isinstance(network.projection, Projection):
        state = {name: tensor.cpu().numpy() for name, tensor in network.projection.state_dict().items()}
        write_file(folder / _PROJECTION_FILE, lambda stream: np.savez(stream, **state))


def load_explored_network(dataset: ImageDataset, exploration: Exploration, device: torch.device) -> CrlcNetwork:
    """Load the network that computed the vectors of an exploration.

    Explorations of earlier versions have no stored projection: it is fitted again to the cached features.

    Raises:
        CrlcError: the backbone cannot be loaded.
    """
    metadata = exploration.metadata
    settings = FROZEN_HEADS.replace(backbone=metadata["backbone"], image_size=metadata["image_size"])
    built = build_network(settings, components=exploration.vectors.shape[1])
    network = built.network.to(device).eval()
    folder = dataset.exploration_folder / metadata["folder"]
    try:
        with open_array_archive(folder / _PROJECTION_FILE) as stored:
            state = {name: torch.from_numpy(stored.read(name)) for name in stored.names}
        network.projection.load_state_dict(state)
    except (OSError, ValueError, TypeError, RuntimeError):  # the last two: arrays that torch does not know or need
        _fit_projection(dataset, exploration, built)
    return network


def _fit_projection(dataset: ImageDataset, exploration: Exploration, built: BuiltNetwork) -> None:
    images = load_images(dataset, exploration.metadata["image_size"])
    images = select_positions(images, np.flatnonzero(np.isin(images.ids, exploration.ids)))
    features = load_or_compute_features(built.network, images, built.identity, dataset.features_folder)
    assert isinstance(built.network.projection, Projection)
    built.network.projection.fit(features.iterate_chunks)
