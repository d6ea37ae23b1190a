"""ONNX files: backbone and heads of a trained network as one graph from pixels to cluster probabilities.

Cluster names and the preparation of images are in the metadata of the file, so that it is self-contained.
"""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn

from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import CrlcError, UsageError
from crlc.files import write_new_file
from crlc.training.model_file import ModelClusters, TrainedModel

INPUT, PROBABILITIES, FEATURES = "images", "probabilities", "z"
PREPARATION = (
    "RGB pixels, uint8, (batch, size, size, 3), upright. Crop the centre square and resize it to image_size with "
    "bicubic resampling in one step (Pillow: resize with box, reducing_gap=2; for JPEG, draft to twice the size "
    "first), and apply the EXIF orientation. Put transparent pixels on white. The graph normalises the pixels itself."
)
_EXAMPLE_IMAGES = 2
_COPY_BYTES = 1 << 20


class _PixelNetwork(nn.Module):
    """Network from stored pixels to the outputs of the selected subhead; merged clusters are added up."""

    scale: Tensor
    shift: Tensor
    merge: Tensor

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.network, self.subhead = model.network, model.subhead
        self.register_buffer("scale", 1 / (255 * model.network.std))
        self.register_buffer("shift", -model.network.mean / model.network.std)
        self.register_buffer("merge", _build_merge_matrix(model.settings.model.clusters, model.clusters))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        pixels = images.permute(0, 3, 1, 2).float() * self.scale + self.shift
        h = self.network.projection(self.network.backbone(pixels))
        logits: Tensor = self.network.c_head(h)[self.subhead]
        return logits.softmax(dim=1) @ self.merge, self.network.rl_head(h)


def write_onnx_file(model: TrainedModel, file: Path) -> None:
    """Write a trained network as an ONNX file with the input `images` and the outputs `probabilities` and `z`.

    The columns of `probabilities` are the clusters; that of a merged cluster is 0.

    Args:
        model: the trained network, on the CPU.
        file: the new file.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be written.
        UsageError: the packages onnx and onnxscript are not installed.
        CrlcError: torch cannot convert the backbone.
    """
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder, "model.onnx")
        _convert(model, converted)

        def copy(stream: IO[bytes]) -> None:
            with converted.open("rb") as content:
                while part := content.read(_COPY_BYTES):
                    stream.write(part)

        write_new_file(file, copy)


def build_metadata(model: TrainedModel) -> dict[str, str]:
    """Return the metadata of the ONNX file: cluster names, image size and the preparation of images."""
    merged = model.clusters.merged
    names = [
        model.clusters.names.get(merged.get(number, number), f"cluster {merged.get(number, number)}")
        for number in range(model.settings.model.clusters)
    ]
    return {
        "names": json.dumps(names),
        "image_size": str(model.settings.data.image_size),
        "preparation": PREPARATION,
        "run": model.run,
    }


def _build_merge_matrix(clusters: int, edits: ModelClusters) -> Tensor:
    """Return the matrix that adds the probability of merged clusters to the remaining ones, (C, C)."""
    matrix = torch.eye(clusters)
    for gone, kept in edits.merged.items():
        matrix[gone, gone], matrix[gone, kept] = 0, 1
    return matrix


def _convert(model: TrainedModel, file: Path) -> None:
    size = model.settings.data.image_size
    if model.settings.model.backbone.startswith(VECTORS_PREFIX):
        raise UsageError(
            "This run was trained on imported vectors: it has no backbone that could be exported.",
            advice="Export tables or vectors instead.",
        )
    # At least two images: torch would make a batch of one a constant.
    pixels = torch.zeros((_EXAMPLE_IMAGES, size, size, 3), dtype=torch.uint8)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _PixelNetwork(model).eval(),
                (pixels,),
                dynamo=True,
                verbose=False,
                input_names=[INPUT],
                output_names=[PROBABILITIES, FEATURES],
                dynamic_shapes={INPUT: {0: torch.export.Dim("batch")}},
            )
    except ImportError as error:
        raise UsageError(
            f"ONNX files need the package {error.name}, which is not installed.",
            advice="Install it with: python -m pip install onnx onnxscript",
        ) from None
    except Exception as error:  # conversion fails in many ways, depending on the layers of the backbone
        logging.getLogger(__name__).info("conversion to ONNX failed", exc_info=True)
        raise CrlcError(
            f"The backbone {model.settings.model.backbone} cannot be converted to ONNX: {type(error).__name__}.",
            advice="Export the trained model instead.",
        ) from error
    assert program is not None
    program.model.metadata_props.update(build_metadata(model))
    program.save(file, external_data=False)
