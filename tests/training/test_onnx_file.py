"""ONNX files: outputs equal to the network's on real images, with the script that comes with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crlc.data.decode import decode_square
from crlc.export.onnx_script import ONNX_SCRIPT
from crlc.services.assign import assign_source
from crlc.training.model_file import ModelClusters, TrainedModel
from crlc.training.network_builder import build_network
from crlc.training.onnx_file import write_onnx_file
from tests.fixtures.training_runs import FROZEN, TINY

TOLERANCE = 1e-4


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder with a large JPEG, a rotated JPEG, a grey PNG and a small palette PNG of smooth noise."""
    folder = tmp_path / "photos"
    folder.mkdir()
    generator = np.random.default_rng(0)

    def make(width: int, height: int) -> Image.Image:
        noise = Image.fromarray(generator.integers(0, 256, (9, 12, 3), dtype=np.uint8))
        return noise.resize((width, height), Image.Resampling.BICUBIC)

    exif = Image.Exif()
    exif[0x0112] = 6
    make(900, 620).save(folder / "large.jpg")
    make(500, 300).save(folder / "rotated.jpg", exif=exif)
    make(130, 200).convert("L").save(folder / "grey.png")
    make(40, 24).convert("P").save(folder / "small.png")
    return folder


def make_model(settings) -> TrainedModel:
    network = build_network(settings, 100).network.eval()
    if settings.model.frozen:
        with torch.no_grad():
            features = network.compute_backbone_vectors(torch.rand(24, 3, 32, 32))
        network.projection.fit(lambda: [features])
    return TrainedModel("run-1", network, settings, 1, ModelClusters({0: "cats & dogs"}, {2: 0}))


@pytest.mark.parametrize("settings", [TINY, FROZEN], ids=["end-to-end", "frozen"])
def test_onnx_file_gives_the_probabilities_of_the_network(settings, photos: Path, tmp_path: Path):
    import onnxruntime

    model, file = make_model(settings), tmp_path / "model.onnx"
    write_onnx_file(model, file)
    session = onnxruntime.InferenceSession(file)
    size = settings.data.image_size
    pixels = np.stack([decode_square(path.read_bytes(), size)[1] for path in sorted(photos.iterdir())])
    probabilities, z = session.run(["probabilities", "z"], {"images": pixels})
    with torch.no_grad():
        expected = model.network(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255)
    q = expected.q[1].clone()
    q[:, 0] += q[:, 2]
    q[:, 2] = 0
    assert np.abs(probabilities - q.numpy()).max() < TOLERANCE
    assert np.abs(z - expected.z.numpy()).max() < TOLERANCE
    metadata = session.get_modelmeta().custom_metadata_map
    clusters = settings.model.clusters
    assert json.loads(metadata["names"]) == [
        "cats & dogs", "cluster 1", "cats & dogs", *(f"cluster {number}" for number in range(3, clusters))
    ]  # fmt: skip
    assert (metadata["image_size"], metadata["run"]) == (str(size), "run-1")

    (tmp_path / "model.py").write_text(ONNX_SCRIPT)
    images = [str(path) for path in sorted(photos.iterdir())]
    command = [sys.executable, str(tmp_path / "model.py"), *images]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assigned = assign_source(model, str(photos), tmp_path, torch.device("cpu"))
    for line, path, cluster, confidence in zip(lines, images, assigned.clusters, assigned.confidence, strict=True):
        assert line.split("\t")[:2] == [path, json.loads(metadata["names"])[cluster]]
        assert float(line.split("\t")[2]) == pytest.approx(float(confidence), abs=TOLERANCE)


def test_onnx_file_is_not_overwritten(tmp_path: Path):
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(FileExistsError):
        write_onnx_file(make_model(TINY), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "mine"
