"""CRLC-semi: matching of names against handmade tables, initial weights, and training with labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.annotations.label_set import LabelSet
from crlc.model import CrlcNetwork, build_backbone
from crlc.training.semi import (
    NamedOutputs,
    build_initial_weights,
    build_semi_settings,
    make_label_targets,
    match_names_to_outputs,
)
from tests.fixtures.training_runs import TINY, SemiChild, make_shape_images, read_records, train

# Six images, three clusters, two subheads; the second has the same groups under other numbers.
CLUSTERS = np.array([[0, 2], [0, 2], [1, 0], [1, 0], [2, 1], [2, 1]], dtype=np.int32)
Q = np.eye(3, dtype=np.float32)[CLUSTERS[:, 0]]


def test_match_names_keeps_cluster_numbers_of_the_selected_subhead():
    named = match_names_to_outputs(Q, CLUSTERS, 0, np.array([1, 2]), ["cat", "dog"])
    assert named.get_names_by_output() == {0: "cat", 1: "dog"}
    assert named.permutations.tolist() == [
        [0, 1, 2],
        [2, 0, 1],
    ]  # output 2 of the second subhead matches output 0 of the first
    assert named.unsupported == ()
    labels = make_label_targets(LabelSet.from_mapping({11: "cat", 12: "dog"}), np.arange(10, 16), named)
    assert (labels.positions.tolist(), labels.targets.tolist()) == ([1, 2], [0, 1])


def test_match_names_uses_the_outputs_of_the_selected_subhead():
    named = match_names_to_outputs(
        np.eye(3, dtype=np.float32)[CLUSTERS[:, 1]], CLUSTERS, 1, np.array([1, 2]), ["cat", "dog"]
    )
    assert named.get_names_by_output() == {2: "cat", 0: "dog"}
    assert named.permutations.tolist() == [[1, 2, 0], [0, 1, 2]]


def test_match_names_reports_a_name_without_images_in_its_cluster():
    named = match_names_to_outputs(Q, CLUSTERS, 0, np.array([0, 1, 2]), ["cat", "tiger", "dog"])
    assert sorted(named.get_names_by_output().values()) == ["cat", "dog", "tiger"]
    assert named.get_names_by_output()[1] == "dog"
    assert len(named.unsupported) == 1
    assert named.unsupported[0] in ("cat", "tiger")


def test_match_names_adds_outputs_for_more_names_than_clusters():
    named = match_names_to_outputs(Q, CLUSTERS, 0, np.arange(4), ["a", "b", "c", "d"])
    assert named.clusters == 4
    assert sorted(named.outputs.tolist()) == [0, 1, 2, 3]
    assert named.permutations[0].tolist() == [0, 1, 2, 3]


def build_small_network(clusters: int, seed: int) -> CrlcNetwork:
    torch.manual_seed(seed)
    return CrlcNetwork(build_backbone("small", 16), clusters, subheads=2).eval()


def test_initial_weights_give_the_permuted_outputs_of_the_parent():
    parent, child = build_small_network(3, 0), build_small_network(4, 1)
    orders = np.array([[0, 1, 2, 3], [2, 0, 1, 3]])
    named = NamedOutputs(("a",), np.array([3]), orders, ())
    child.load_learned_state(build_initial_weights(parent.state_dict(), named, seed=0))
    images = torch.rand(5, 3, 16, 16)
    with torch.no_grad():
        before, after = parent(images).logits, child(images).logits
    torch.testing.assert_close(after[0, :, :3], before[0])
    torch.testing.assert_close(after[1, :, :3], before[1][:, [2, 0, 1]])
    assert after.shape == (2, 5, 4)
    assert not torch.allclose(after[:, :, 3], torch.zeros(2, 5))
    again = build_initial_weights(parent.state_dict(), named, seed=0)
    assert (again["c_head.second_weight"] == child.c_head.second_weight).all()  # new outputs depend on the seed
    other = build_initial_weights(parent.state_dict(), named, seed=1)
    assert not (other["c_head.second_weight"] == child.c_head.second_weight).all()


@pytest.mark.slow
def test_semi_run_learns_names_and_resumes_exactly(tmp_path: Path):
    images = make_shape_images()
    assert images.classes is not None
    parent = train(tmp_path / "parent", TINY.replace(epochs=4))
    child = SemiChild(parent, images, [f"kind {number}" for number in images.classes[:12]])
    whole = child.create(tmp_path / "whole")
    whole.run()
    result = whole.folder.open_result()[0]
    predicted = np.array([child.named.get_names_by_output().get(cluster) for cluster in result["cluster"].tolist()])
    is_right = predicted == np.array([f"kind {number}" for number in images.classes])
    assert is_right[12:].mean() > 0.9  # by name, on images without a label
    assert all(record["labels"] is not None for record in read_records(tmp_path / "whole") if record["kind"] == "epoch")
    child.cut_and_resume(tmp_path / "cut", steps=17)
    assert read_records(tmp_path / "cut") == read_records(tmp_path / "whole")


def test_semi_settings_do_not_shrink_in_the_second_generation():
    child = build_semi_settings(TINY, 4, 96)
    assert child.optimization.learning_rate < TINY.optimization.learning_rate
    grandchild = build_semi_settings(child, 5, 96)
    assert (grandchild.optimization.learning_rate, grandchild.stages.epochs, grandchild.model.clusters) == (
        child.optimization.learning_rate,
        child.stages.epochs,
        5,
    )
