"""Inputs of the stages of a run: images or stored features, neighbours, and images to evaluate on."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.data.augmentation import RECIPES, choose_recipe
from crlc.errors import DamagedError, UsageError
from crlc.files import load_required_array
from crlc.progress import ProgressCallback
from crlc.runs.folder import RunFolder
from crlc.training.batches import LabelTargets
from crlc.training.distributed import ComputeContext
from crlc.training.frozen_features import load_frozen_features
from crlc.training.images import TrainingImages
from crlc.training.inference import assign_images
from crlc.training.inputs import FeatureInputs, ImageInputs, Inputs
from crlc.training.neighbour_pairs import compute_neighbour_purity, find_neighbours
from crlc.training.network_builder import BuiltNetwork
from crlc.training.pseudo_labels import write_pseudo_labels
from crlc.training.setting_groups import ORIGINALS
from crlc.training.settings import NEIGHBOURS, TrainSettings
from crlc.training.stages import Stage

_RECIPE_SAMPLE_IMAGES = 64
_PSEUDO_LABELS_FILE = "pseudo-labels.npy"
_ADVICE = "Train again."
_MATRIX_AXES = 2


class StageData:
    """Loads the inputs of the stages of one run, and holds those of the current stage."""

    def __init__(
        self,
        built: BuiltNetwork,
        images: TrainingImages,
        evaluation_images: TrainingImages | None,
        settings: TrainSettings,
        folder: RunFolder,
        compute: ComputeContext,
    ) -> None:
        """Store the sources; nothing is computed yet.

        Args:
            built: the network of the run and the name of its weights.
            images: the images to train on.
            evaluation_images: images to evaluate on; `None` for the images trained on.
            settings: settings of the run.
            folder: the run's folder, for features and neighbours.
            compute: device, processes and precision.
        """
        self.images = images
        self._built, self._evaluation_images = built, evaluation_images
        self._settings, self._folder, self._compute = settings, folder, compute
        self.inputs: Inputs
        """Inputs of the current stage, one row per image."""

        self.neighbours: NDArray[np.integer[Any]] | None = None
        """Neighbours of each image, (N, K), in a stage with pairs of neighbours."""

        self.neighbour_purity: float | None = None
        """Fraction of neighbours with the class of their image, where classes are known and neighbours were found."""

        self.evaluation: tuple[TrainingImages, Inputs] | None = None
        """Images to evaluate on, with their inputs; `None` to evaluate on the images trained on."""

    @property
    def recipe_name(self) -> str:
        """Name of the augmentation recipe."""
        if self._settings.data.augment != "auto":
            return self._settings.data.augment
        return choose_recipe(self.images.sample_pixels(_RECIPE_SAMPLE_IMAGES))

    def load_stage(self, stage: Stage, step: int, report: ProgressCallback, *, fit_projection: bool) -> None:
        """Load the inputs and neighbours of a stage, and make it the current one.

        Args:
            stage: the stage that starts or is resumed.
            step: the current step of the run.
            report: called with the progress of computing features and finding neighbours.
            fit_projection: whether to fit the projection if it is not fitted yet. False for a resumed run.
        """
        self.inputs = self._load_inputs(self.images, stage, report, "trained", fit_projection=fit_projection)
        if self._evaluation_images is not None:
            inputs = self._load_inputs(self._evaluation_images, stage, report, "evaluated", fit_projection=False)
            self.evaluation = (self._evaluation_images, inputs)
        self.neighbours = None
        if stage.settings.pairing.pairs == NEIGHBOURS:
            self.neighbours = self._load_or_find_neighbours(stage, step, report)
            self.neighbour_purity = compute_neighbour_purity(self.neighbours, self.images.classes)

    def add_pseudo_labels(self, labels: LabelTargets) -> LabelTargets:
        """Return labels with the pseudo-labels of the run, which are computed once, with the network's initial weights.

        Args:
            labels: labelled images and their target clusters.
        """
        assert isinstance(self.inputs, FeatureInputs)
        assert self.neighbours is not None
        file, world = self._folder.path / _PSEUDO_LABELS_FILE, self._compute.world
        if world.any_rank(not file.exists()):
            if world.is_rank_zero:
                write_pseudo_labels(self._built.network, self.inputs, self.neighbours, labels, file)
            world.wait_for_all()
        probabilities = load_required_array(file, _ADVICE, is_mapped=True)
        if (
            probabilities.ndim != _MATRIX_AXES
            or len(probabilities) != len(self.images)
            or probabilities.dtype.kind != "f"
        ):
            raise DamagedError(f"{file} does not contain a probability for each image and cluster.", advice=_ADVICE)
        return replace(labels, probabilities=probabilities)

    def _load_inputs(
        self, images: TrainingImages, stage: Stage, report: ProgressCallback, role: str, *, fit_projection: bool
    ) -> Inputs:
        if not stage.uses_frozen_features:
            uses_originals = self._settings.data.view_source == ORIGINALS
            if uses_originals and images.read_whole is None:
                raise UsageError(f"view_source={ORIGINALS!r} is not allowed with images in memory.")
            recipe = RECIPES[self.recipe_name]
            return ImageInputs(images, recipe, self._compute.device, self._compute.dtype, uses_originals)
        return load_frozen_features(
            self._built,
            images,
            self._settings,
            self._folder.path / f"vectors-{role}.npy",
            fit=fit_projection,
            report=report,
            world=self._compute.world,
        )

    def _load_or_find_neighbours(self, stage: Stage, step: int, report: ProgressCallback) -> NDArray[np.integer[Any]]:
        """Return the neighbours of every image, (N, K); they are found once per run, from the features at that time."""
        file = self._folder.path / "neighbours.npy"
        world = self._compute.world
        if world.any_rank(not file.exists()):
            self._find_neighbours(stage.settings.pairing.neighbours, step, file, report)
            world.wait_for_all()
        neighbours = load_required_array(file, _ADVICE, is_mapped=True)
        is_matrix = neighbours.ndim == _MATRIX_AXES and neighbours.dtype.kind == "i" and neighbours.size > 0
        if not is_matrix or not 0 <= neighbours.min() <= neighbours.max() < len(self.images):
            raise DamagedError(f"{file} does not contain the neighbours of each image.", advice=_ADVICE)
        return neighbours

    def _find_neighbours(self, count: int, step: int, file: Path, report: ProgressCallback) -> None:
        """Find the neighbours in z, or in h where the RL-head of a pretrained backbone is untrained."""
        world = self._compute.world
        # The RL-head of a pretrained backbone is untrained, unless its weights came with those of the backbone.
        is_untrained = self._built.network.is_backbone_frozen and not self._built.has_pretrained_rl_head
        if isinstance(self.inputs, FeatureInputs) and is_untrained:
            if world.is_rank_zero:
                find_neighbours(self.inputs.vectors, count, file, report, self.images.list_clusterable())
            return
        temporary = self._folder.create_result_folder(step, make=world.is_rank_zero)
        world.wait_for_all()
        assignments = assign_images(
            self._built.network, self.inputs, self.images.ids, subhead=0, folder=temporary, world=world
        )
        if world.is_rank_zero:
            features = assignments.h if is_untrained else assignments.z
            # Without stored features, training takes far longer than an exact search among any number of images.
            exact = None if isinstance(self.inputs, FeatureInputs) else True
            find_neighbours(features, count, file, report, self.images.list_clusterable(), exact=exact)
            shutil.rmtree(temporary, ignore_errors=True)

    def delete_training_files(self) -> None:
        """Delete files that only training needs: the projected features and the pseudo-labels."""
        for file in (*self._folder.path.glob("vectors-*.npy"), self._folder.path / _PSEUDO_LABELS_FILE):
            with suppress(OSError):  # it may not exist; some systems cannot delete a file that is memory-mapped
                file.unlink()
