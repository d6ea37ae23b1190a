"""Script that assigns images to clusters with an exported ONNX file. It needs only numpy, onnxruntime and Pillow."""

from __future__ import annotations

from pathlib import Path

ONNX_SCRIPT = """\
import json, pathlib, sys
import numpy, onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(pathlib.Path(__file__).with_suffix(".onnx"))
metadata = session.get_modelmeta().custom_metadata_map
names, size = json.loads(metadata["names"]), int(metadata["image_size"])
for path in sys.argv[1:]:
    image = Image.open(path)
    image.draft(None, (2 * size, 2 * size))  # decodes large JPEG files faster
    (width, height), short = image.size, min(image.size)
    box = ((width - short) / 2, (height - short) / 2, (width + short) / 2, (height + short) / 2)
    square = image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC, box, reducing_gap=2.0)
    pixels = numpy.asarray(ImageOps.exif_transpose(square))[None]
    probabilities, z = session.run(["probabilities", "z"], {"images": pixels})
    print(path, names[probabilities.argmax()], f"{probabilities.max():.6f}", sep="\\t")
"""
"""Script for `python MODEL.py IMAGES`, beside MODEL.onnx. Transparent images have to be put on white first."""


def get_script_path(file: Path) -> Path:
    """Return the path of the script that uses an ONNX file: beside it, with the same name."""
    return file.with_suffix(".py")
