"""Colours that people can tell apart, also those who see fewer; and that stay."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from app.exploring.colouring import NO_VALUE, colouring, colours_of
from app.exploring.opened import annotations_of, open_run
from app.figures.colours import DISTINCT, RAMP, UNKNOWN, colour_of
from crlc.errors import NotFoundError
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from tests.app.tiny_run import CLUSTERS, SURE, tiny_dataset, tiny_run

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "usual": np.eye(3),
    "without red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "without green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.04294, 0.968881]],
    "without blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colours: tuple[str, ...], vision: str = "usual") -> np.ndarray:
    """CIELAB, (N, 3)."""
    encoded = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ np.array(VISION[vision]).T, 0, 1) @ TO_XYZ.T / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize("vision", VISION)
def test_twenty_colours_are_distinct(vision: str):
    assert len(DISTINCT) == 20
    seen = lab(DISTINCT, vision)
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 13  # 2.3 is just noticeable


def test_none_vanishes_on_a_light_or_dark_page():
    lightness = lab((*DISTINCT, UNKNOWN))[:, 0]
    assert lightness.min() > 35
    assert lightness.max() < 86


def test_a_scale_only_gets_lighter():
    assert all(b > a + 5 for a, b in pairwise(lab(RAMP)[:, 0]))


def test_colours_belong_to_numbers():
    assert [colour_of(number) for number in (0, 19, 20, -1)] == [DISTINCT[0], DISTINCT[19], DISTINCT[0], UNKNOWN]


def test_colours_of_a_run(workspace: Workspace, tmp_path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    run = tiny_run(workspace, dataset)
    subject = open_run(workspace, run)
    assert colours_of(subject) == ("cluster", "class", "confidence", "agreement")
    by_cluster = colouring(subject, "cluster")
    assert by_cluster.values.tolist() == CLUSTERS
    assert by_cluster.values.dtype == np.uint16
    assert by_cluster.scale["entries"][1] == {"value": 1, "text": "cluster 1", "count": 4, "colour": DISTINCT[1]}
    assert colouring(subject, "confidence").values.tolist() == [round(sure * 65534) for sure in np.float32(SURE)]
    assert [entry["text"] for entry in colouring(subject, "class").scale["entries"]] == ["a", "b", "c"]
    with pytest.raises(NotFoundError, match="cannot be coloured by 'label'"):
        colouring(subject, "label")

    # Labels keep their colours when others come, whatever their names.
    with Annotations(dataset) as annotations:
        annotations.label([3], "zebra")
        first = colouring(open_run(workspace, run), "label")
        annotations.label([1], "ant")
    second = colouring(open_run(workspace, run), "label")
    assert first.values.tolist() == [NO_VALUE] * 2 + [0] + [NO_VALUE] * 9
    assert second.values.tolist() == [1, NO_VALUE, 0] + [NO_VALUE] * 9
    assert [entry["text"] for entry in second.scale["entries"]] == ["zebra", "ant", "not labelled"]
    assert annotations_of(dataset).refresh().label_names == ("zebra", "ant")
