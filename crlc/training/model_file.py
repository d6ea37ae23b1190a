"""Model files: a trained network that needs no run, dataset or other weights; loading one runs no code from it.

The file holds the whole state of the network (a run's checkpoint leaves out a frozen backbone), the normalisation that
its backbone expects, the settings, the selected subhead, and the names of the clusters. Files of `crlc export --model`
and of `CRLC.save` have the same format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import torch

from crlc import __version__
from crlc.errors import (
    CrlcError,
    DamagedError,
    NotFoundError,
    UsageError,
    explain_system_error,
    is_out_of_memory,
)
from crlc.files import write_file, write_new_file
from crlc.json_schema import check_entries
from crlc.model import CrlcNetwork
from crlc.model.architectures import build_untrained_backbone
from crlc.model.backbones import Backbone
from crlc.model.weights_file import require_checksums
from crlc.paths import to_printable
from crlc.runs.folder import RunFolder
from crlc.training.checkpoint import (
    ModelEntries,
    explain_damaged_checkpoint,
    get_checkpoint_advice,
    load_run_checkpoint,
    write_tensors,
)
from crlc.training.network_builder import build_from_checkpoint
from crlc.training.settings import TrainSettings

_KIND, _VERSION = "crlc-model", 1
_PROBABILITY_TOLERANCE = 1e-4
_ADVICE = "Export the model of a run, and use that file."


class _RequiredModelFileEntries(TypedDict):
    run: str
    settings: dict[str, Any]
    subhead: int
    names: dict[int, str]
    merged: dict[int, int]
    mean: list[float]
    std: list[float]
    network: dict[str, torch.Tensor]


class _ModelFileEntries(_RequiredModelFileEntries, total=False):
    estimator: dict[str, Any]


@dataclass(frozen=True)
class ModelClusters:
    """The user's names and merges of a network's clusters."""

    names: Mapping[int, str] = field(default_factory=dict)
    """Names by cluster number, after merging."""

    merged: Mapping[int, int] = field(default_factory=dict)
    """The remaining cluster by the number of a cluster that was merged into it."""


@dataclass(frozen=True)
class TrainedModel:
    """A trained network with everything that assigning images to clusters needs."""

    run: str
    """Id of the run that trained the network; empty if the estimator trained it."""

    network: CrlcNetwork
    settings: TrainSettings
    subhead: int
    """Index of the selected subhead."""

    clusters: ModelClusters = ModelClusters()
    estimator: Mapping[str, Any] = field(default_factory=dict)
    """Parameters and metrics of the scikit-learn estimator that trained the network; empty for a run."""


def load_run_model(run: RunFolder, device: torch.device, clusters: ModelClusters | None = None) -> TrainedModel:
    """Load the network of a run from its newest checkpoint.

    Raises:
        NotFoundError: the run has no checkpoint.
        DamagedError: the checkpoint cannot be read.
    """
    state = load_run_checkpoint(run, ModelEntries)
    settings = TrainSettings.from_json(state["settings"])
    with explain_damaged_checkpoint(run.checkpoint_file, get_checkpoint_advice(run)):
        network = build_from_checkpoint(state, settings).to(device).eval()
    return TrainedModel(run.id, network, settings, int(state["subhead"]), clusters or ModelClusters())


def save_model(model: TrainedModel, file: Path, *, overwrite: bool = False) -> None:
    """Write a model to a file, atomically.

    Args:
        model: the trained network.
        file: the new file.
        overwrite: whether an existing file is replaced.

    Raises:
        FileExistsError: the file exists, and `overwrite` is not set.
        OSError: the file cannot be written.
        CrlcError: the backbone cannot be rebuilt from a file alone.
    """
    network, settings = model.network, model.settings
    content: dict[str, Any] = {
        "kind": _KIND,
        "version": _VERSION,
        "made_by": f"crlc {__version__}",
        "run": model.run,
        # Only the file name: the folder is private, but the presence of initial weights decides the normalisation.
        "settings": settings.replace(weights=Path(settings.model.weights).name).to_json(),
        "subhead": model.subhead,
        "names": {int(number): str(name) for number, name in model.clusters.names.items()},
        "merged": {int(gone): int(kept) for gone, kept in model.clusters.merged.items()},
        "estimator": dict(model.estimator),
        "mean": network.mean.flatten().tolist(),
        "std": network.std.flatten().tolist(),
        "network": {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()},
    }
    _require_equal_outputs(network, _build_network(content, settings), settings.data.image_size)
    (write_file if overwrite else write_new_file)(file, partial(write_tensors, content))


def load_model(file: Path, device: torch.device) -> TrainedModel:
    """Load a model that `save_model` wrote; only tensors and plain values are read from the file.

    Raises:
        NotFoundError: the file cannot be opened.
        DamagedError: the file is not a model, or a newer version wrote it.
        UsageError: the installed libraries do not know its backbone.
    """
    shown = to_printable(str(file))
    content = _read_content(file, shown)
    try:
        if "format" in content:
            return _load_early_estimator(content, device)
        check_entries(content, _ModelFileEntries)
        settings = TrainSettings.from_json(content["settings"])
        clusters = _read_clusters(content, settings)
        network = _build_network(content, settings).to(device).eval()
        return TrainedModel(
            str(content["run"]), network, settings, int(content["subhead"]), clusters, content.get("estimator", {})
        )
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        explained = None if isinstance(error, UsageError) else explain_system_error(error, file)
        if explained is not None:
            raise explained from None
        reason = str(error).splitlines()[0][:160]
        raise DamagedError(f"{shown} is damaged: its parts do not fit ({reason}).", advice=_ADVICE) from None


def _read_content(file: Path, shown: str) -> dict[str, Any]:
    try:
        require_checksums(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NotFoundError(
            f"{shown} cannot be opened: {error.strerror}.", advice="Check the path and your permissions."
        ) from None
    except Exception as error:  # torch.load raises errors of many types for files of another kind
        if is_out_of_memory(error):
            raise
        raise DamagedError(f"{shown} is not a model of CRLC Studio, or is damaged.", advice=_ADVICE) from None
    if isinstance(content, dict) and "format" in content and "parameters" in content:
        return content
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise DamagedError(f"{shown} is not a model of CRLC Studio.", advice=_ADVICE)
    if content.get("version") != _VERSION:
        raise DamagedError(
            f"{shown} has format version {content.get('version')!r}; this program reads version {_VERSION}.",
            advice="Update CRLC Studio, or use the version that wrote the file.",
        )
    return content


def _read_clusters(content: dict[str, Any], settings: TrainSettings) -> ModelClusters:
    """Return the names and merges of a model file.

    Raises:
        ValueError: a cluster or the selected subhead does not exist.
    """
    names, merged = content["names"], content["merged"]
    if not 0 <= content["subhead"] < settings.model.subheads:
        raise ValueError(f"there is no subhead {content['subhead']}")
    for number in (*names, *merged, *merged.values()):
        if not isinstance(number, int) or not 0 <= number < settings.model.clusters:
            raise ValueError(f"there is no cluster {number!r}")
    return ModelClusters(dict(names), dict(merged))


def _load_early_estimator(content: dict[str, Any], device: torch.device) -> TrainedModel:
    """Load a file that `CRLC.save` of version 0.1.0 wrote: a checkpoint without the weights of a frozen backbone."""
    settings = TrainSettings.from_json(content["settings"])
    network = build_from_checkpoint(content, settings).to(device).eval()
    estimator = {name: content[name] for name in ("parameters", "metrics")}
    return TrainedModel("", network, settings, int(content["subhead"]), estimator=estimator)


def _build_network(content: dict[str, Any], settings: TrainSettings) -> CrlcNetwork:
    """Build the network from the content of a model file alone."""
    state: dict[str, torch.Tensor] = content["network"]
    projection = state.get("projection.components")  # (d, projected)
    dimensions = state["rl_head.first.weight"].shape[1] if projection is None else projection.shape[0]
    projected = None if projection is None else projection.shape[1]
    model = settings.model
    with torch.random.fork_rng(devices=[]):  # the global generator must not advance: all initial weights are replaced
        backbone = Backbone(
            build_untrained_backbone(model.backbone, settings.data.image_size, model.stem),
            dimensions,
            tuple(content["mean"]),
            tuple(content["std"]),
        )
        network = CrlcNetwork(
            backbone, model.clusters, model.subheads, projected=projected, hidden=model.hidden_width or None
        )
    network.load_state_dict(state)
    return network


@torch.no_grad()
def _require_equal_outputs(network: CrlcNetwork, rebuilt: CrlcNetwork, image_size: int) -> None:
    """Raise unless both networks give the same probabilities.

    A library may build a different backbone when it does not load the weights itself (another activation or
    normalisation). The shapes of the weights do not reveal this.
    """
    images = torch.rand(2, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    was_training = network.training
    network.eval()
    expected = network(images.to(network.mean)).q.cpu()
    network.train(was_training)
    if not torch.allclose(expected, rebuilt.eval()(images).q, atol=_PROBABILITY_TOLERANCE):
        raise CrlcError(
            "The backbone of this model gives different probabilities when it is rebuilt from a file alone, so the "
            "model cannot be exported.",
            advice="Assign new images with the run itself.",
        )
