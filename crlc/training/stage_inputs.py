"""What each stage of a run is fed with: images or stored vectors, neighbours, and the images to measure on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crlc.data.augment import RECIPES, suitable_recipe
from crlc.progress import ProgressCallback
from crlc.training.assign import Assignments
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages
from crlc.training.inputs import FeatureInputs, ImageInputs, Inputs
from crlc.training.materials import BuiltNetwork, find_neighbours, frozen_inputs, neighbour_purity
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage

_SAMPLED_FOR_RECIPE = 64


class StageInputs:
    """Makes the inputs of the stages of one run, and keeps what several of them need."""

    def __init__(
        self,
        built: BuiltNetwork,
        images: TrainingImages,
        evaluated: TrainingImages | None,
        settings: TrainSettings,
        folder: RunFolder,
        compute: Compute,
    ) -> None:
        """Nothing is computed yet."""
        self._built, self._images, self._evaluated_images = built, images, evaluated
        self._settings, self._folder, self._compute = settings, folder.path, compute
        self.purity: float | None = None
        """Share of neighbours of the image's own class, where classes are known and neighbours were sought."""

        self.current: Inputs
        self.evaluated: tuple[TrainingImages, Inputs] | None = None

    @property
    def recipe_name(self) -> str:
        """How views are made."""
        if self._settings.augment != "auto":
            return self._settings.augment
        return suitable_recipe(self._images.sample(_SAMPLED_FOR_RECIPE))

    def enter(self, stage: Stage, report: ProgressCallback, *, fresh: bool) -> Inputs:
        """The inputs of a stage.

        Args:
            stage: the one that begins, or goes on.
            report: told how far the backbone is, where its vectors are computed.
            fresh: whether the run begins here: then a projection is learned if none came with the weights.
        """
        self.current = self._make(self._images, stage, report, "trained", fit=fresh)
        if self._evaluated_images is not None:
            inputs = self._make(self._evaluated_images, stage, report, "evaluated", fit=False)
            self.evaluated = (self._evaluated_images, inputs)
        return self.current

    def _make(self, images: TrainingImages, stage: Stage, report: ProgressCallback, role: str, *, fit: bool) -> Inputs:
        if not stage.on_features:
            return ImageInputs(images, RECIPES[self.recipe_name], self._compute.device, self._compute.dtype)
        return frozen_inputs(
            self._built,
            images,
            self._settings,
            self._folder / f"vectors-{role}.npy",
            fit=fit,
            report=report,
            world=self._compute.world,
        )

    def neighbours(
        self, look: Callable[[Inputs], Assignments], stage: Stage, report: ProgressCallback
    ) -> NDArray[np.int64]:
        """The neighbours of every image: sought once in a run, by the features as they are then."""
        file = self._folder / "neighbours.npy"
        if self._compute.world.agreed(not file.exists()):
            if self._compute.world.is_writer:
                self._find(look, stage, file, report)
            elif not stage.on_features:
                look(self.current)
            self._compute.world.wait()
        found = np.load(file, mmap_mode="r", allow_pickle=False)
        self.purity = neighbour_purity(found, self._images.classes)
        return found  # type: ignore[no-any-return]

    def _find(self, look: Callable[[Inputs], Assignments], stage: Stage, file: Path, report: ProgressCallback) -> None:
        if isinstance(self.current, FeatureInputs):
            find_neighbours(self.current.vectors, stage.settings.neighbours, file, report)
            return
        seen = look(self.current)
        find_neighbours(seen.z, stage.settings.neighbours, file, report)
        place = Path(str(seen.z.filename)).parent  # type: ignore[attr-defined]
        shutil.rmtree(place, ignore_errors=True)

    def clean_up(self) -> None:
        """Delete what only training needed: the vectors can be made again from the data set's features."""
        for file in self._folder.glob("vectors-*.npy"):
            with suppress(OSError):  # where a file that is mapped cannot be deleted, it stays
                file.unlink()
