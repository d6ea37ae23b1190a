"""Files of approximate indexes: round trip, damage and a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.analysis.neighbours.graph import build_approximate_graph
from crlc.analysis.neighbours.index import NeighbourIndex
from crlc.analysis.neighbours.index_file import load_index, save_index
from crlc.errors import DamagedError, DiskFullError, UsageError
from tests.fixtures.features import make_clustered_features


def test_index_file_round_trips(tmp_path: Path):
    features = make_clustered_features(400)
    index = NeighbourIndex.build(features, exact=False)
    save_index(index, tmp_path / "z.index")
    again = load_index(tmp_path / "z.index", features)
    assert again.recall == index.recall
    assert build_approximate_graph(again.faiss_index, features, 5).positions.tolist() == (
        build_approximate_graph(index.faiss_index, features, 5).positions.tolist()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.index", "z.index.json"]
    with pytest.raises(UsageError, match="nothing to save"):
        save_index(NeighbourIndex.build(features), tmp_path / "other")


def test_index_file_that_is_damaged_is_refused(tmp_path: Path):
    features, path = make_clustered_features(400), tmp_path / "z.index"
    with pytest.raises(DamagedError, match="missing"):
        load_index(path, features)
    save_index(NeighbourIndex.build(features, exact=False), path)
    with pytest.raises(DamagedError, match="other features"):
        load_index(path, features[::-1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(DamagedError, match="length"):
        load_index(path, features)
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(DamagedError, match="cannot be read"):
        load_index(path, features)


@pytest.mark.parametrize("small_disk", ["100k"], indirect=True)
def test_index_file_survives_a_full_disk(small_disk: Path):
    save_index(NeighbourIndex.build(make_clustered_features(100), exact=False), small_disk / "z.index")
    before = (small_disk / "z.index").read_bytes()
    with pytest.raises(DiskFullError):
        save_index(NeighbourIndex.build(make_clustered_features(3000), exact=False), small_disk / "z.index")
    assert (small_disk / "z.index").read_bytes() == before
    load_index(small_disk / "z.index", make_clustered_features(100))
    assert len(list(small_disk.iterdir())) == 2
