"""What the browser gets for the map, and what it does not get."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.exploring.choosing import spread
from app.exploring.opened import open_run
from app.map_routes import ids_url, places_url, values_url
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor
from tests.app.conftest import RunningApp
from tests.app.test_server import ask
from tests.app.tiny_run import CLUSTERS, PLACES, tiny_dataset, tiny_run


def test_places_ids_and_values_as_bytes(app: RunningApp, tmp_path: Path):
    dataset = tiny_dataset(app.workspace, tmp_path / "set")
    run = tiny_run(app.workspace, dataset)
    subject = open_run(app.workspace, run)

    def get(url: str) -> np.ndarray | int:
        answer = ask(app, url)
        if answer.status != 200:
            assert not (answer.headers["content-type"] or "").startswith("application/octet")
            return answer.status
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        kind = "<f4" if "/places/" in url else "<u4" if "/ids" in url else "<u2"
        return np.frombuffer(answer.read(), kind)

    np.testing.assert_array_equal(get(places_url(subject, "umap")), spread(PLACES).ravel())
    np.testing.assert_array_equal(get(ids_url(subject)), np.arange(1, 13))
    np.testing.assert_array_equal(get(values_url(subject, "cluster")), CLUSTERS)
    for unknown in (
        "/maps/runs/other/ids.bin",
        "/maps/runs/tiny/ids.bin",  # the beginning of a name is not enough
        "/maps/runs/..%2Ftiny-run/ids.bin",
        "/maps/datasets/set/ids.bin",  # was not explored
        "/maps/models/tiny-run/ids.bin",
        "/maps/runs/tiny-run/places/other.bin",
        "/maps/runs/tiny-run/values/label.bin",
        "/maps/runs/tiny-run/values/..%2F..%2Frun.json.bin",
    ):
        assert get(unknown) in (400, 404), unknown

    # Naming a cluster changes what is said, not where it is; excluding an image changes both.
    with Annotations(dataset) as annotations:
        ClusterEditor(annotations, subject.analysis.clustering).merge([1, 2])
        assert get(values_url(subject, "cluster")) == 409
        newer = open_run(app.workspace, run)
        assert ids_url(newer) == ids_url(subject)
        np.testing.assert_array_equal(get(values_url(newer, "cluster")), [0] * 4 + [1] * 8)
        annotations.exclude([1])
    assert get(places_url(subject, "umap")) == 409
    np.testing.assert_array_equal(get(ids_url(open_run(app.workspace, run))), np.arange(2, 13))
