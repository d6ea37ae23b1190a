"""Engines that compute the features of a frozen backbone: torch on every device, OpenVINO on CPUs.

OpenVINO computes the same numbers as torch (float32) three to four times as fast on a CPU. Its half precision is twice
as fast again, but changes 4 to 6 % of the ten nearest neighbours of photographs, so it is not used.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.errors import UsageError
from crlc.files import get_cache_folder, replace_file
from crlc.model import CrlcNetwork

AUTO, TORCH, OPENVINO = "auto", "torch", "openvino"
_MAX_RELATIVE_DIFFERENCE = 1e-3
"""Largest accepted difference between the features of OpenVINO and torch, relative to the largest value."""

_CPU = "CPU"
_logger = logging.getLogger(__name__)


class FeatureEngine(Protocol):
    """Computes backbone features from stored pixels."""

    name: str
    """`torch` or `openvino`."""

    def compute(self, batches: Iterable[Tensor]) -> Iterator[NDArray[np.float32]]:
        """Yield the features of each batch, (B, d), in order.

        Args:
            batches: stored images, uint8, (B, H, W, 3).
        """
        ...


def create_engine(requested: str, network: CrlcNetwork, example: Tensor, identity: str) -> FeatureEngine:
    """Return the requested engine; `auto` is OpenVINO on a CPU if it is installed and can run the backbone, else torch.

    Args:
        requested: `auto`, `torch` or `openvino`.
        network: network in evaluation mode, on its device. Later changes of its weights have no effect.
        example: a few stored images of the final size, on the same device.
        identity: identity of the backbone's weights, which names the converted backbone in the cache.

    Raises:
        UsageError: OpenVINO is requested, but not installed, or it cannot run this backbone, or the device is no CPU.
    """
    if requested == TORCH or (requested == AUTO and example.device.type != "cpu"):
        return TorchEngine(network, example)
    try:
        return _create_openvino_engine(network, example, identity)
    except Exception as error:  # conversion fails in many ways, depending on the layers of the backbone
        if requested == OPENVINO:
            raise UsageError(
                f"engine='openvino' cannot compute the features of this backbone: {_describe(error)}.",
                advice="Choose engine='torch', or 'auto', which uses OpenVINO where it can.",
            ) from error
        _logger.info("OpenVINO is not used: %s", _describe(error))
        return TorchEngine(network, example)


def describe_engine() -> str:
    """Return which engine `auto` uses for the features of photographs on this computer, for people."""
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return "torch (on the GPU)"
    try:
        return f"OpenVINO {_import_openvino().__version__.split('-')[0]} (float32, on the CPU)"
    except ImportError:
        return "torch (OpenVINO, which is faster on a CPU, is not installed)"


class TorchEngine:
    """Engine that runs the backbone with torch, on the device of the network."""

    name = TORCH

    def __init__(self, network: CrlcNetwork, example: Tensor) -> None:
        """Fold the batch norms of the backbone.

        Args:
            network: network in evaluation mode.
            example: a few stored images of the final size, on the same device.
        """
        self._device = example.device
        with torch.inference_mode():
            self._backbone = network.build_fast_backbone(example)

    def compute(self, batches: Iterable[Tensor]) -> Iterator[NDArray[np.float32]]:
        """Yield the features of each batch, (B, d), in order."""
        for pixels in batches:
            with torch.inference_mode():
                yield self._backbone(pixels.to(self._device)).float().cpu().numpy()


class OpenVinoEngine:
    """Engine that runs the backbone with OpenVINO on the CPU, several batches at a time."""

    name = OPENVINO

    def __init__(self, network: CrlcNetwork, example: Tensor, identity: str) -> None:
        """Convert the backbone, or load it from the cache, and compile it for this CPU.

        Args:
            network: network in evaluation mode, on the CPU.
            example: a few stored images of the final size.
            identity: identity of the backbone's weights.

        Raises:
            ImportError: OpenVINO is not installed.
        """
        openvino, file = _import_openvino(), find_converted_backbone(identity, example.shape[1])
        if not file.exists():
            _convert(network, example, file)
        options = {
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": "f32",  # the default is half precision on some CPUs
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        compiled = openvino.Core().compile_model(file, _CPU, options)
        count = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = [compiled.create_infer_request() for _ in range(count)]

    def compute(self, batches: Iterable[Tensor]) -> Iterator[NDArray[np.float32]]:
        """Yield the features of each batch, (B, d), in order; as many batches are computed at a time as fit the CPU."""
        pending: list[tuple[Any, NDArray[np.uint8]]] = []  # a request reads its pixels until it is finished
        free = list(self._requests)
        for pixels in batches:
            if not free:
                free.append(pending[0][0])
                yield _wait_for_features(pending.pop(0)[0])
            request, array = free.pop(), np.ascontiguousarray(pixels.cpu().numpy())
            request.start_async({0: array})
            pending.append((request, array))
        for request, _ in pending:
            yield _wait_for_features(request)


def find_converted_backbone(identity: str, image_size: int) -> Path:
    """Return the file of a backbone in OpenVINO's format, which may not exist yet.

    Args:
        identity: identity of the backbone's weights.
        image_size: side of the images in pixels.
    """
    version = _import_openvino().__version__.split("-")[0]
    return get_cache_folder() / "openvino" / f"{identity.replace('/', '-')}-{image_size}-{version}.xml"


def measure_seconds_per_image(engine: FeatureEngine, pixels: Tensor) -> float:
    """Return the time that an engine needs for one image.

    Args:
        engine: the engine.
        pixels: a batch of stored images, (B, H, W, 3).
    """
    half = max(1, len(pixels) // 2)
    batches = [pixels[:half], pixels[half:]] if len(pixels) > 1 else [pixels]
    list(engine.compute(batches))  # warm-up: the first call takes longer
    started = time.perf_counter()
    list(engine.compute(batches))  # the features are on the CPU when it returns, so a GPU has finished
    return (time.perf_counter() - started) / len(pixels)


def _create_openvino_engine(network: CrlcNetwork, example: Tensor, identity: str) -> OpenVinoEngine:
    """Return an engine that computes the features of torch; a damaged file in the cache is replaced once."""
    file = find_converted_backbone(identity, example.shape[1])
    is_cached = file.exists()
    try:
        engine = OpenVinoEngine(network, example, identity)
        _require_equal_features(engine, TorchEngine(network, example), example)
    except Exception:
        if not is_cached:
            raise
        file.unlink(missing_ok=True)
        return _create_openvino_engine(network, example, identity)
    return engine


def _import_openvino() -> Any:
    # OpenVINO reports its use to its makers if this package can be imported. Nothing leaves the computer of our users.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


class _PixelBackbone(nn.Module):
    """Backbone that normalises stored pixels, (B, H, W, 3), itself."""

    scale: Tensor
    shift: Tensor

    def __init__(self, network: CrlcNetwork) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.register_buffer("scale", 1 / (255 * network.std))
        self.register_buffer("shift", -network.mean / network.std)

    def forward(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.backbone(pixels.permute(0, 3, 1, 2).float() * self.scale + self.shift)
        return vectors


def _convert(network: CrlcNetwork, example: Tensor, file: Path) -> None:
    """Write the backbone in OpenVINO's format, for batches of any length."""
    openvino = _import_openvino()
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch marks the tracing that OpenVINO uses as deprecated
        # Traced with other pixels than those of the check: it must notice values that became constants.
        noise = torch.randint(0, 256, example.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        decoder = TorchScriptPythonDecoder(_PixelBackbone(network).eval(), example_input=noise)
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
    model.reshape({model.inputs[0]: [-1, *example.shape[1:]]})
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as temporary:
        written = Path(temporary, file.name)
        openvino.save_model(model, written, compress_to_fp16=False)
        # The file that is looked for comes last: an interrupted conversion is not found.
        replace_file(written.with_suffix(".bin"), file.with_suffix(".bin"))
        replace_file(written, file)


def _wait_for_features(request: Any) -> NDArray[np.float32]:
    request.wait()
    features: NDArray[np.float32] = request.get_output_tensor(0).data.copy()
    return features


def _require_equal_features(engine: FeatureEngine, reference: FeatureEngine, example: Tensor) -> None:
    """Raise if an engine does not compute the features of the reference, e.g. because its cached file is damaged."""
    (found,), (expected,) = engine.compute([example]), reference.compute([example])
    difference = float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-12))
    if not difference <= _MAX_RELATIVE_DIFFERENCE:  # also if it is not a number
        raise ArithmeticError(f"its features differ from those of torch by {difference:.1e} of the largest value")


def _describe(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "the package openvino is not installed"
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
