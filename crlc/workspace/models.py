"""The model of a run with what people made of its clusters: names and merges go along to new images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from crlc.errors import CrlcError, DamagedError, NotFoundError
from crlc.training.model_file import ClusterNames, TrainedModel, load_model, model_of_run
from crlc.training.run_folder import RunFolder
from crlc.workspace.annotations import Annotations
from crlc.workspace.cluster_names import names_of_run, shown_names
from crlc.workspace.clusterings import Clustering
from crlc.workspace.run_files import read_result
from crlc.workspace.runs import Runs


def named_model(runs: Runs, run: RunFolder, device: torch.device) -> TrainedModel:
    """The newest network of a run, with the names and merges of its clusters.

    Splits and moves are about the images of the run alone.

    Raises:
        NotFoundError: the run has no checkpoint yet.
        DamagedError: its result cannot be used.
    """
    model = model_of_run(run, device)
    return replace(model, clusters=_clusters(runs, run, model.subhead))


def run_or_model(runs: Runs, given: str, device: torch.device) -> TrainedModel:
    """The model of a run, by the run's id, or of an exported file.

    Raises:
        NotFoundError: there is neither.
        DamagedError: the file is no model.
    """
    if given != "last" and given not in runs.ids() and Path(given).is_file():
        return load_model(Path(given), device)
    try:
        run = runs.open(given)
    except NotFoundError as error:
        raise NotFoundError(f"{error} Nor is there a model file of that name.") from None
    return named_model(runs, run, device)


def _clusters(runs: Runs, run: RunFolder, subhead: int) -> ClusterNames:
    description = run.description()
    trained = ClusterNames(names_of_run(description))
    try:
        result = read_result(run)
        dataset = runs.dataset_of(description, unchanged=False)
        clustering = Clustering.of(run, dataset, result.arrays)
    except DamagedError:  # people's names and merges would silently be missing
        raise
    except CrlcError:  # no result yet, or the data set is gone: the network can do without
        return trained
    if result.facts.get("subhead", subhead) != subhead:  # people saw the clusters of another one
        return trained
    with Annotations(dataset) as annotations:
        edited = clustering.edited(annotations.refresh())
    outputs = range(clustering.count)
    return ClusterNames(
        {number: name for number, name in shown_names(description, edited).items() if number in outputs},
        {gone: kept for gone, kept in edited.merged.items() if gone in outputs},
    )
