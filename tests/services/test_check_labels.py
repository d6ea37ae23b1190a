"""Check of labels: counts, names that are learnt badly with images to label next, and labels to review."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crlc.annotations.label_set import LabelSet
from crlc.annotations.store import AnnotationStore
from crlc.cli.main import main
from crlc.errors import UsageError
from crlc.services.analyse_run import RunAnalysis
from crlc.services.check_labels import check_labels
from crlc.workspace import Workspace
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.images import save_images

IMAGES = 60
CLUSTERS = (np.arange(IMAGES) // 20).tolist()


@pytest.fixture
def analysis(tmp_path: Path) -> RunAnalysis:
    """Return a run of three clusters of 20 images at three places of a circle; image ids are 1 to 60."""
    workspace = Workspace(tmp_path / "workspace")
    save_images(tmp_path / "set", IMAGES)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    angles = [120 * cluster + image % 20 for image, cluster in enumerate(CLUSTERS)]
    write_handmade_result(
        workspace,
        dataset,
        z=place_on_circle(angles),
        clusters=CLUSTERS,
        confidences=[0.9] * IMAGES,
        count=3,
        name="run",
    )
    return RunAnalysis.open(workspace, "run")


def label(names: dict[str, list[int]]) -> LabelSet:
    return LabelSet.from_mapping({image: name for name, images in names.items() for image in images})


def test_check_of_labels_that_agree_with_the_clusters_predicts_all(analysis: RunAnalysis):
    report = check_labels(analysis, label({"a": [1, 5, 9, 13], "b": [21, 25, 29, 33], "c": [41, 45, 49, 53]}))
    assert (report.labels, report.correct, report.correct_before) == (12, 12, 12)
    assert [(one.name, one.labels, one.correct, one.confused_with) for one in report.names] == [
        ("a", 4, 4, None),
        ("b", 4, 4, None),
        ("c", 4, 4, None),
    ]
    assert not len(report.doubtful_ids)


def test_check_reports_the_label_that_contradicts_its_neighbours(analysis: RunAnalysis):
    names = {"a": [1, 3, 5, 7, 9, 11, 13, 15, 27], "b": [21, 23, 25, 29, 31, 33, 35, 37]}
    report = check_labels(analysis, label(names))
    assert report.doubtful_ids.tolist() == [27]
    assert [(one.name, one.correct, one.confused_with) for one in report.names] == [("a", 8, "b"), ("b", 8, None)]


def test_check_suggests_unlabelled_images_for_a_name_that_is_learnt_badly(analysis: RunAnalysis):
    names = {"a": [1, 5, 9, 13, 17, 3, 7], "mixed": [2, 22, 42], "b": [21, 25, 29, 33, 37], "c": [41, 45, 49, 53, 57]}
    labels = label(names)
    report = check_labels(analysis, labels)
    mixed = next(one for one in report.names if one.name == "mixed")
    assert mixed.is_learnt_badly
    assert 1 <= len(mixed.next_images) <= 12
    assert not set(mixed.next_images.tolist()) & set(labels.ids.tolist())
    assert all(not len(one.next_images) for one in report.names if one.name != "mixed")


def test_check_of_a_single_label_is_a_usage_error(analysis: RunAnalysis):
    entries = {"created": "2024-01-01T00:00:00+00:00", "preset": "quick", "settings": {"clusters": 3}, "title": "Cats"}
    analysis.run.write_metadata({**analysis.run.read_metadata(), **entries})
    with pytest.raises(UsageError, match="1 labelled images of the run Cats cannot be checked"):
        check_labels(analysis, label({"a": [1]}))


def test_check_command_prints_the_predicted_labels(analysis: RunAnalysis, capsys: pytest.CaptureFixture[str]):
    root = analysis.run.path.parents[1]
    with AnnotationStore(analysis.dataset) as annotations:
        annotations.label([1, 5, 9], "a")
        annotations.label([21, 25, 29], "b")
    assert main(["label", analysis.dataset.name, "check", "--workspace", str(root), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["labels"], printed["correct"], printed["doubtful"]) == (6, 6, [])
    assert main(["label", analysis.dataset.name, "check", "--workspace", str(root)]) == 0
    assert "Labels predicted correctly: 6 of 6, by the clusters alone: 6." in capsys.readouterr().out
