"""Search by image: in an exploration with a real backbone, and in a trained run."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.errors import SourceError, UsageError
from crlc.services.analyse_run import RunAnalysis
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.services.explored_network import ExplorationEncoder
from crlc.services.neighbours import ImageEncoder, RunNeighbours
from crlc.services.search_by_image import ImageFile, search_exploration_by_image, search_run_by_image
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
BROKEN = ImageFile(b"GIF89a, or not", "photo.gif")


def make_file(small_set: Path, index: int) -> ImageFile:
    """Return an image of the set as a PNG file."""
    stream = BytesIO()
    Image.fromarray(np.load(small_set)["images"][index]).save(stream, "PNG")
    return ImageFile(stream.getvalue(), "new.png")


def test_exploration_search_finds_the_copy_of_an_image_first(workspace: Workspace, small_set: Path):
    dataset, _ = workspace.import_dataset(str(small_set))
    settings = ExplorationSettings(3, MapSettings("pca"), network=FROZEN_HEADS.replace(image_size=32))
    exploration = explore_dataset(workspace, dataset, settings)
    dataset = workspace.open_dataset(dataset.name)
    rows = np.arange(len(exploration.ids))
    file, encoder = make_file(small_set, 5), ExplorationEncoder(dataset, exploration, CPU)
    found = search_exploration_by_image(exploration, rows, encoder, file, 4)
    assert found.ids[0] == exploration.ids[5]
    assert found.similarity[0] > 0.999
    assert (np.diff(found.similarity) <= 0).all()
    assert (found.cluster, found.confidence) == (exploration.clusters[5], None)
    others = np.delete(rows, 5)
    without = search_exploration_by_image(exploration, others, encoder, file, 10_000)
    assert sorted(without.ids.tolist()) == exploration.ids[others].tolist()
    with pytest.raises(SourceError, match=r"photo\.gif is not a readable image"):
        search_exploration_by_image(exploration, rows, encoder, BROKEN, 4)
    with pytest.raises(UsageError, match="all images are excluded"):
        search_exploration_by_image(exploration, rows[:0], encoder, file, 4)

    # Explorations of earlier versions have no stored projection.
    expected = encoder.encode(*file)
    (dataset.folder / "exploration" / exploration.metadata["folder"] / "projection.npz").unlink()
    np.testing.assert_allclose(ExplorationEncoder(dataset, exploration, CPU).encode(*file), expected, atol=1e-3)


def test_run_search_returns_the_cluster_after_merges(crlc, workspace: Workspace, small_set: Path):
    crlc("train", small_set, "--epochs", 3, "--set", "subheads=2", "--set", "batch_size=64")
    analysis = RunAnalysis.open(workspace, "last")
    file, encoder = make_file(small_set, 7), ImageEncoder(analysis.run, CPU)
    found = search_run_by_image(analysis, RunNeighbours(analysis), encoder, file, 5)
    assert found.ids[0] == analysis.ids[7]
    assert found.similarity[0] == pytest.approx(1, abs=1e-5)
    assert found.cluster == analysis.clusters[7]
    assert found.confidence == pytest.approx(float(analysis.confidence[7]), abs=1e-5)
    with pytest.raises(SourceError, match=r"photo\.gif"):
        search_run_by_image(analysis, RunNeighbours(analysis), encoder, BROKEN, 5)

    with AnnotationStore(analysis.dataset) as annotations:
        editor = ClusterEditor(annotations, analysis.clustering)
        members = analysis.ids[analysis.clusters == found.cluster].tolist()
        assert editor.split(found.cluster, [members[:1], members[1:]]) is not None
        editor.merge([0, editor.read_current().numbers[-1]])
        split = RunAnalysis.open(workspace, "last")  # the network has no output for the merged part
        assert search_run_by_image(split, RunNeighbours(split), encoder, file, 5).cluster == found.cluster
        editor.merge(editor.read_current().numbers)
    merged = RunAnalysis.open(workspace, "last")
    assert search_run_by_image(merged, RunNeighbours(merged), encoder, file, 5).cluster == 0
