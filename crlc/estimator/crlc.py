"""CRLC as a scikit-learn estimator, for images in memory or at a path."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crlc.data.augment import RECIPES
from crlc.errors import UsageError
from crlc.training.assign import Assignments, assign
from crlc.training.checkpoint import load_checkpoint, save_checkpoint
from crlc.training.device import choose_device
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, images_from_array, images_of
from crlc.training.inputs import ImageInputs
from crlc.training.materials import network_of
from crlc.training.planning import TrainRequest, plan_run
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace

Images = NDArray[np.uint8] | str | PathLike[str]
_GREY_DIMENSIONS, _COLOUR_DIMENSIONS = 3, 4


class CRLC(ClusterMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters images by maximising mutual information across views.

    Learned attributes: `labels_` (N,), `probabilities_` (N, C), `features_` (N, 128), `n_features_in_`,
    `settings_`, `metrics_`.
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
        """Only store.

        Args:
            n_clusters: C.
            preset: quick, balanced, best or one of the paper's.
            method: auto, end-to-end or two-stage.
            device: auto, cpu, cuda or mps.
            random_state: the seed; none for another one each time.
            settings: other fields of `TrainSettings` by name.
        """
        self.n_clusters = n_clusters
        self.preset = preset
        self.method = method
        self.device = device
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Images, y: object = None) -> Self:  # noqa: ARG002, N803  (scikit-learn's names)
        """Train on images: an array (N, H, W) or (N, H, W, 3) of uint8, or a path to import.

        Raises:
            UsageError: the images or settings cannot be used.
        """
        with tempfile.TemporaryDirectory(prefix="crlc-", ignore_cleanup_errors=True) as place:
            images = self._read(X, Path(place), (self.settings or {}).get("image_size"))
            device = choose_device(self.device)
            self.settings_ = self._settings(images, device, own_size=not isinstance(X, (str, PathLike)))
            if self.settings_.image_size != images.size:
                images = self._read(X, Path(place), self.settings_.image_size)
            folder = RunFolder(Path(place, "run"))
            folder.path.mkdir()
            trainer = Trainer(images, self.settings_, folder, Compute(device))
            trainer.run()
            seen, _ = folder.result()
            self.labels_ = np.array(seen["cluster"], np.int64)
            self.probabilities_, self.features_ = np.array(seen["q"]), np.array(seen["z"])
        self.network_ = trainer.network.eval()
        self.subhead_ = trainer.subhead
        self.metrics_ = {
            name: trainer.journal.latest[name] for name in ("cluster_information", "clusters_found", "largest_share")
        }
        self.n_features_in_ = images.size * images.size * 3
        return self

    def predict(self, X: Images) -> NDArray[np.int64]:  # noqa: N803
        """The cluster of each image."""
        return self._look(X).cluster.astype(np.int64)

    def predict_proba(self, X: Images) -> NDArray[np.float32]:  # noqa: N803
        """Cluster probabilities, (N, C)."""
        return self._look(X).q

    def transform(self, X: Images) -> NDArray[np.float32]:  # noqa: N803
        """Unit features of the RL-head, (N, 128)."""
        return self._look(X).z

    def save(self, file: str | PathLike[str]) -> None:
        """Keep the trained network and everything `load` needs."""
        check_is_fitted(self)
        content = {
            "network": self.network_.learned_state(),
            "subhead": self.subhead_,
            "settings": self.settings_.to_json(),
            "parameters": {name: _plain(value) for name, value in self.get_params().items()},
            "metrics": self.metrics_,
        }
        save_checkpoint(Path(file), content)

    @classmethod
    def load(cls, file: str | PathLike[str]) -> CRLC:
        """A trained estimator from a file of `save`; nothing in the file is executed.

        It can predict and transform; `labels_` belong to the images of `fit` and are not kept.
        """
        content = load_checkpoint(Path(file), torch.device("cpu"))
        model = cls(**content["parameters"])
        model.settings_ = settings = TrainSettings.from_json(content["settings"])
        network = network_of(content, settings)
        model.network_, model.subhead_, model.metrics_ = network.eval(), content["subhead"], content["metrics"]
        model.n_features_in_ = settings.image_size * settings.image_size * 3
        return model

    # ---- inside

    def _look(self, X: Images) -> Assignments:  # noqa: N803
        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="crlc-", ignore_cleanup_errors=True) as place:
            size = self.settings_.image_size
            images = self._read(X, Path(place), size)
            if images.size != size:
                raise UsageError(f"Images of {images.size} px were given, but the model was fitted on {size} px.")
            return self._assign(images)

    def _assign(self, images: TrainingImages) -> Assignments:
        device = choose_device(self.device)
        inputs = ImageInputs(images, RECIPES["none"], device)
        return assign(self.network_.to(device), inputs, images.ids, self.subhead_)

    def _settings(self, images: TrainingImages, device: torch.device, *, own_size: bool) -> TrainSettings:
        seed = int(np.random.default_rng().integers(2**31)) if self.random_state is None else int(self.random_state)
        chosen: dict[str, Any] = {**_plain(self.settings or {}), "clusters": int(self.n_clusters), "seed": seed}
        if own_size and chosen.setdefault("image_size", images.size) != images.size:
            raise UsageError(
                f"settings image_size={chosen['image_size']} does not fit images of {images.size} px. Leave it out."
            )
        known = {field.name for field in fields(TrainSettings)}
        if not set(chosen) <= known:
            raise UsageError(
                f"settings={sorted(set(chosen) - known)} are not known. There are: {', '.join(sorted(known))}."
            )
        request = TrainRequest(
            self.preset,
            chosen.pop("method", self.method),
            chosen.pop("frozen", None),
            chosen.pop("backbone", None),
            chosen.pop("weights", ""),
            chosen,
        )
        return plan_run(request, images, has_gpu=device.type != "cpu").settings

    @staticmethod
    def _read(X: Images, place: Path, size: int | None = None) -> TrainingImages:  # noqa: N803
        if isinstance(X, (str, PathLike)):
            from crlc.config import ImportOptions

            dataset, report = Workspace(place / "workspace").import_dataset(str(X), options=ImportOptions(size=size))
            return images_of(dataset, size or report.sizes[0])
        pixels = np.asarray(X)
        if pixels.ndim == _GREY_DIMENSIONS:
            pixels = pixels[..., None].repeat(3, axis=3)
        square = pixels.ndim == _COLOUR_DIMENSIONS and pixels.shape[1] == pixels.shape[2] and pixels.shape[3] == 3  # noqa: PLR2004
        if not square or pixels.dtype != np.uint8:
            raise UsageError(
                f"Images of shape {np.shape(X)} and type {pixels.dtype} were given; "
                "they must be uint8, (N, S, S) or (N, S, S, 3), or a path to a folder."
            )
        return images_from_array(pixels)


def _plain(value: Any) -> Any:
    """A value without NumPy's types, which a file that runs no code cannot hold."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value
