"""Trained models with the names and merges of their clusters, loaded from a run or a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from crlc.annotations.store import read_annotations
from crlc.clusters.clustering import Clustering
from crlc.clusters.names import get_display_names, get_trained_names
from crlc.errors import CrlcError, DamagedError, NotFoundError
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.training.model_file import ModelClusters, TrainedModel, load_model, load_run_model
from crlc.workspace.runs import RunStore


def load_named_model(runs: RunStore, run: RunFolder, device: torch.device) -> TrainedModel:
    """Load the newest network of a run with the names and merges of its clusters.

    Splits and moves only concern images of the run and are not part of the model.

    Args:
        runs: runs of the workspace.
        run: run whose checkpoint is loaded.
        device: device that the network is loaded to.

    Raises:
        NotFoundError: the run has no checkpoint.
        DamagedError: the result of the run cannot be read.
    """
    model = load_run_model(run, device)
    return replace(model, clusters=_read_clusters(runs, run, model.subhead))


def load_model_or_run(runs: RunStore, given: str, device: torch.device) -> TrainedModel:
    """Load the model of a run or of an exported file.

    Args:
        runs: runs of the workspace.
        given: run id, unique prefix, `last`, or path of a model file.
        device: device that the network is loaded to.

    Raises:
        NotFoundError: there is neither such a run nor such a file.
        DamagedError: the file is not a model.
    """
    if given != "last" and given not in runs.list_ids() and Path(given).is_file():
        return load_model(Path(given), device)
    try:
        run = runs.open(given)
    except NotFoundError as error:
        raise NotFoundError(f"{error} No model file has this name either.") from None
    return load_named_model(runs, run, device)


def _read_clusters(runs: RunStore, run: RunFolder, subhead: int) -> ModelClusters:
    metadata = run.read_metadata()
    trained = ModelClusters(get_trained_names(metadata))
    try:
        result = read_result(run)
        dataset = runs.open_dataset_of(metadata, require_unchanged=False)
        clustering = Clustering.from_run(run, dataset, result.arrays)
    except DamagedError:  # otherwise manual names and merges would silently be missing
        raise
    except CrlcError:  # the network still works without a result or dataset
        return trained
    if result.metadata.get("subhead", subhead) != subhead:  # the edits are about the clusters of another subhead
        return trained
    edited = clustering.apply_edits(read_annotations(dataset))
    outputs = range(clustering.count)
    return ModelClusters(
        {number: name for number, name in get_display_names(metadata, edited).items() if number in outputs},
        {gone: kept for gone, kept in edited.merged.items() if gone in outputs},
    )
