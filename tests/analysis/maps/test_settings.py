"""Settings of maps: allowed values, and which of them identify a map file."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.analysis.maps.settings import MapSettings, get_map_path
from crlc.errors import UsageError
from tests.fixtures.features import make_two_groups


@pytest.mark.parametrize("wrong", [{"method": "som"}, {"seed": -1}, {"min_dist": 2}, {"perplexity": 0}])
def test_map_settings_refuse_a_wrong_value(wrong: dict):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        MapSettings(**wrong)


def test_map_path_depends_on_features_and_relevant_settings(tmp_path: Path):
    features, _ = make_two_groups()
    pca = get_map_path(tmp_path, features, MapSettings("pca"))
    files = {
        pca,
        get_map_path(tmp_path, features[::-1], MapSettings("pca")),
        *(get_map_path(tmp_path, features, MapSettings("umap", seed=seed)) for seed in (0, 1)),
        *(get_map_path(tmp_path, features, MapSettings("tsne", perplexity=value)) for value in (10, 20)),
    }
    assert len(files) == 6
    assert get_map_path(tmp_path, features, MapSettings("pca", seed=9)) == pca
