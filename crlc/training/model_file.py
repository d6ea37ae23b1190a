"""A trained network in one file that needs no run, no data set and no other weights; read without running code.

The file holds the whole state of the network (a run's checkpoint leaves a frozen backbone out), the colours that
its backbone expects, the settings, the subhead that speaks, and the names of the clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crlc import __version__
from crlc.errors import CrlcError, DamagedError, NotFoundError
from crlc.files import write_new_file
from crlc.model import CrlcNetwork
from crlc.model.architectures import untrained_backbone
from crlc.model.backbones import Backbone
from crlc.names import printable
from crlc.training.checkpoint import load_checkpoint
from crlc.training.materials import network_of
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings

_KIND, _VERSION = "crlc-model", 1
_TOLERANCE = 1e-4
_ADVICE = "Make one with: crlc export RUN --model FILE"


@dataclass(frozen=True)
class ClusterNames:
    """What people made of a network's outputs."""

    names: Mapping[int, str] = field(default_factory=dict)
    """Of clusters, by the numbers that are left."""

    merged: Mapping[int, int] = field(default_factory=dict)
    """The number that stands for an output that was merged into it."""


@dataclass(frozen=True)
class TrainedModel:
    """A network that assigns images."""

    run: str
    """The id of the run that trained it."""

    network: CrlcNetwork
    settings: TrainSettings
    subhead: int
    """The one that speaks."""

    clusters: ClusterNames = ClusterNames()


def model_of_run(run: RunFolder, device: torch.device, clusters: ClusterNames | None = None) -> TrainedModel:
    """The network of a run as its newest checkpoint has it.

    Raises:
        NotFoundError: it has no checkpoint yet.
    """
    if not run.checkpoint_file.exists():
        raise NotFoundError(f"The run {run.id} has no checkpoint yet. Wait for its first one, or resume it.")
    state = load_checkpoint(run.checkpoint_file, device)
    settings = TrainSettings.from_json(state["settings"])
    network = network_of(state, settings).to(device).eval()
    return TrainedModel(run.id, network, settings, int(state["subhead"]), clusters or ClusterNames())


def save_model(model: TrainedModel, file: Path) -> None:
    """Write a model; it is there whole or not at all.

    Raises:
        FileExistsError: there is a file of that name.
        OSError: it cannot be written.
        CrlcError: the backbone cannot be made again from a file.
    """
    network, settings = model.network, model.settings
    content: dict[str, Any] = {
        "kind": _KIND,
        "version": _VERSION,
        "made_by": f"crlc {__version__}",
        "run": model.run,
        # Where the first weights lay on this computer is nobody's business; that there were some decides the colours.
        "settings": replace(settings, weights=Path(settings.weights).name).to_json(),
        "subhead": model.subhead,
        "names": {int(number): str(name) for number, name in model.clusters.names.items()},
        "merged": {int(gone): int(kept) for gone, kept in model.clusters.merged.items()},
        "mean": network.mean.flatten().tolist(),
        "std": network.std.flatten().tolist(),
        "network": {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()},
    }
    _require_same(network, _network(content, settings), settings.image_size)
    write_new_file(file, partial(torch.save, content))


def load_model(file: Path, device: torch.device) -> TrainedModel:
    """Read a model that `save_model` wrote; only tensors and plain values are taken from the file.

    Raises:
        NotFoundError: it cannot be opened.
        DamagedError: it is no such file, or from a newer program.
        UsageError: its backbone is not known to the libraries installed here.
    """
    shown = printable(str(file))
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NotFoundError(f"{shown} cannot be opened: {error.strerror}. Check the path and your rights.") from None
    except Exception:  # a file of another kind makes the reader fail in any way there is
        raise DamagedError(f"{shown} is not a model of CRLC Studio, or damaged. {_ADVICE}") from None
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise DamagedError(f"{shown} is not a model of CRLC Studio. {_ADVICE}")
    if content.get("version") != _VERSION:
        raise DamagedError(
            f"{shown} has format version {content.get('version')!r}; this program knows {_VERSION}. "
            "Update CRLC Studio, or use the version that made it."
        )
    try:
        settings = TrainSettings.from_json(content["settings"])
        clusters = ClusterNames(dict(content["names"]), dict(content["merged"]))
        network = _network(content, settings).to(device).eval()
        return TrainedModel(str(content["run"]), network, settings, int(content["subhead"]), clusters)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:160]
        raise DamagedError(f"{shown} is damaged: its parts do not fit ({reason}). {_ADVICE}") from None


def _network(content: dict[str, Any], settings: TrainSettings) -> CrlcNetwork:
    """The network of a file's content, made without any other file."""
    state: dict[str, torch.Tensor] = content["network"]
    projection = state.get("projection.components")  # (d, projected)
    dimensions = state["rl_head.first.weight"].shape[1] if projection is None else projection.shape[0]
    projected = None if projection is None else projection.shape[1]
    with torch.random.fork_rng(devices=[]):  # weights that are overwritten at once must not cost anybody a draw
        backbone = Backbone(
            untrained_backbone(settings.backbone, settings.image_size),
            dimensions,
            tuple(content["mean"]),
            tuple(content["std"]),
        )
        network = CrlcNetwork(
            backbone, settings.clusters, settings.subheads, projected=projected, hidden=settings.hidden or None
        )
    network.load_state_dict(state)
    return network


@torch.no_grad()
def _require_same(network: CrlcNetwork, again: CrlcNetwork, image_size: int) -> None:
    """A library may make a backbone otherwise when it has its weights from elsewhere: that must not go unseen."""
    images = torch.rand(2, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    was_training = network.training
    network.eval()
    wanted = network(images.to(network.mean)).q.cpu()
    network.train(was_training)
    if not torch.allclose(wanted, again.eval()(images).q, atol=_TOLERANCE):
        raise CrlcError(
            "The backbone of this run gives something else when it is made from a file alone, so the model cannot be "
            "exported. Assign new images with the run itself."
        )
