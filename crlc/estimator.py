"""CRLC as a scikit-learn estimator, for images in memory or in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crlc.data.augmentation import RECIPES
from crlc.data.options import ImportOptions
from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.services.train import train_folder
from crlc.training.device import choose_device
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages, load_images
from crlc.training.inference import Assignments, assign_images
from crlc.training.inputs import ImageInputs
from crlc.training.model_file import TrainedModel, load_model, save_model
from crlc.training.planning import plan_run
from crlc.training.request import TrainRequest
from crlc.training.settings import TrainSettings, find_setting
from crlc.workspace import Workspace

Images = NDArray[np.uint8] | str | PathLike[str]
_GREY_DIMENSIONS, _COLOUR_DIMENSIONS = 3, 4
_REPORTED_METRICS = ("cluster_information", "clusters_found", "largest_share")


class CRLC(ClusterMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Image clustering that maximises mutual information across views.

    Attributes:
        labels_: cluster of each training image, (N,).
        probabilities_: cluster probabilities of each training image, (N, C).
        features_: unit-norm features of each training image, (N, 128).
        n_features_in_: number of values per image: width x height x 3.
        settings_: the effective settings: those of the preset, overridden by `settings`.
        metrics_: cluster information, number of clusters found, and fraction of images in the largest cluster.
        network_: the trained network.
        subhead_: index of the selected subhead.
    """

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        preset: str = "quick",
        method: str = "auto",
        device: str = "auto",
        random_state: int | None = 0,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Store the parameters; `fit` validates them.

        Args:
            n_clusters: number of clusters C.
            preset: quick, balanced, best, or one of the paper's presets.
            method: auto, end-to-end or two-stage.
            device: one of `crlc.training.device.DEVICES`.
            random_state: the seed; None for a new one in every `fit`.
            settings: other fields of `TrainSettings` by name, such as `{"epochs": 20}`.
        """
        self.n_clusters = n_clusters
        self.preset = preset
        self.method = method
        self.device = device
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Images, y: object = None) -> Self:  # noqa: ARG002, N803  (scikit-learn's names)
        """Train on images.

        Args:
            X: uint8 array (N, S, S) or (N, S, S, 3), or the path of a folder or archive with images.
            y: ignored.

        Raises:
            UsageError: the images or the settings cannot be used.
        """
        device = choose_device(self.device)
        with _temporary_folder() as folder:
            images = _load_images(X, folder, _to_builtin((self.settings or {}).get("image_size")))
            self.settings_ = self._plan_settings(images, device, is_array=not isinstance(X, (str, PathLike)))
            if self.settings_.data.image_size != images.size:
                images = _load_images(X, folder, self.settings_.data.image_size)
            run = RunFolder(folder / "run")
            run.path.mkdir()
            trained = train_folder(run, images, self.settings_, ComputeContext(device))
            arrays = read_result(run).arrays
            self.labels_ = np.array(arrays["cluster"], np.int64)
            self.probabilities_, self.features_ = np.array(arrays["q"]), np.array(arrays["z"])
        self.network_, self.subhead_ = trained.network.eval(), trained.subhead
        self.metrics_ = {name: trained.metrics[name] for name in _REPORTED_METRICS}
        self.n_features_in_ = images.size * images.size * 3
        return self

    def predict(self, X: Images) -> NDArray[np.int64]:  # noqa: N803
        """Return the cluster of each image, (N,)."""
        return self._assign(X).cluster.astype(np.int64)

    def predict_proba(self, X: Images) -> NDArray[np.float32]:  # noqa: N803
        """Return cluster probabilities, (N, C)."""
        return self._assign(X).q

    def transform(self, X: Images) -> NDArray[np.float32]:  # noqa: N803
        """Return unit-norm features of the RL-head, (N, 128)."""
        return self._assign(X).z

    def save(self, file: str | PathLike[str]) -> None:
        """Write the trained network to a model file for `load` and `crlc assign`; an existing file is replaced."""
        check_is_fitted(self)
        parameters = {name: _to_builtin(value) for name, value in self.get_params().items()}
        estimator = {"parameters": parameters, "metrics": self.metrics_}
        model = TrainedModel("", self.network_, self.settings_, self.subhead_, estimator=estimator)
        save_model(model, Path(file), overwrite=True)

    @classmethod
    def load(cls, file: str | PathLike[str]) -> CRLC:
        """Load a trained estimator from a model file; no code of the file is run.

        The estimator can predict and transform; it has no `labels_`, which belong to the images of `fit`. A model that
        was exported from a run loads too, without the names and merges of its clusters.

        Raises:
            CrlcError: the file is missing, or is not a model.
        """
        loaded = load_model(Path(file), torch.device("cpu"))
        settings = loaded.settings
        usual = {"n_clusters": settings.model.clusters, "random_state": settings.run.seed}
        model = cls(**loaded.estimator.get("parameters", usual))
        model.settings_, model.network_, model.subhead_ = settings, loaded.network, loaded.subhead
        model.metrics_ = loaded.estimator.get("metrics", {})
        model.n_features_in_ = settings.data.image_size * settings.data.image_size * 3
        return model

    def _assign(self, X: Images) -> Assignments:  # noqa: N803
        check_is_fitted(self)
        size = self.settings_.data.image_size
        device = choose_device(self.device)
        with _temporary_folder() as folder:
            images = _load_images(X, folder, size)
            if images.size != size:
                raise UsageError(f"Images of {images.size} px are not allowed: the model was fitted on {size} px.")
            inputs = ImageInputs(images, RECIPES["none"], device)
            return assign_images(self.network_.to(device), inputs, images.ids, self.subhead_)

    def _plan_settings(self, images: TrainingImages, device: torch.device, *, is_array: bool) -> TrainSettings:
        seed = int(np.random.default_rng().integers(2**31)) if self.random_state is None else int(self.random_state)
        named = {find_setting(name)[1]: _to_builtin(value) for name, value in (self.settings or {}).items()}
        named |= {"clusters": int(self.n_clusters), "seed": seed}
        if is_array and named.setdefault("image_size", images.size) != images.size:
            raise UsageError(
                f"image_size={named['image_size']} is not allowed with an array of images of {images.size} px.",
                advice="Leave image_size out.",
            )
        request = TrainRequest(
            self.preset,
            named.pop("method", self.method),
            named.pop("frozen", None),
            named.pop("backbone", None),
            named.pop("weights", ""),
            named,
        )
        return plan_run(request, images, has_gpu=device.type != "cpu").settings


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="crlc-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _load_images(X: Images, folder: Path, size: int | None) -> TrainingImages:  # noqa: N803
    """Load images from an array, or import them from a path into a workspace in `folder`.

    Args:
        X: the argument of `fit` or `predict`.
        folder: temporary folder.
        size: side of imported images in pixels; None to choose it from the images. An array keeps its size.
    """
    if isinstance(X, (str, PathLike)):
        dataset, report = Workspace(folder / "workspace").import_dataset(str(X), options=ImportOptions(size=size))
        return load_images(dataset, size or report.sizes[0])
    pixels = np.asarray(X)
    if pixels.ndim == _GREY_DIMENSIONS:
        pixels = pixels[..., None].repeat(3, axis=3)
    is_square = pixels.ndim == _COLOUR_DIMENSIONS and pixels.shape[1] == pixels.shape[2]
    if not is_square or pixels.shape[3] != 3 or pixels.dtype != np.uint8:  # noqa: PLR2004
        raise UsageError(
            f"Images of shape {np.shape(X)} and type {pixels.dtype} are not allowed: they must be uint8, (N, S, S) or "
            "(N, S, S, 3), or the path of a folder."
        )
    return TrainingImages.from_array(pixels)


def _to_builtin(value: Any) -> Any:
    """Convert NumPy scalars to Python numbers: a file that loads without running code cannot contain them."""
    if isinstance(value, dict):
        return {name: _to_builtin(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value
