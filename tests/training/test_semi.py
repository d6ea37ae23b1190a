"""CRLC-semi: names to outputs by hand-made tables, weights that say the same in another order, and what it gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from crlc.model import CrlcNetwork, make_backbone
from crlc.training.batches import LabelledImages
from crlc.training.distributed import ALONE
from crlc.training.run_folder import RunFolder
from crlc.training.semi import NamedOutputs, first_weights, labelled_images, match_names, semi_settings
from crlc.training.trainer import Extras, Trainer
from tests.training.test_trainer import CPU, TINY, lines, shapes, trained

# Six images, three clusters, two subheads; the second has the same groups under other numbers.
CLUSTERS = np.array([[0, 2], [0, 2], [1, 0], [1, 0], [2, 1], [2, 1]], dtype=np.int32)
Q = np.eye(3, dtype=np.float32)[CLUSTERS[:, 0]]


def test_names_go_to_the_clusters_of_their_images_and_numbers_stay():
    named = match_names(Q, CLUSTERS, 0, np.array([1, 2]), ["cat", "dog"])
    assert named.by_output() == {0: "cat", 1: "dog"}
    assert named.orders.tolist() == [[0, 1, 2], [2, 0, 1]]  # output 2 of the second subhead is what 0 is in the first
    assert named.far == ()
    labels = labelled_images(np.array([1, 2]), ["cat", "dog"], named)
    assert labels.targets.tolist() == [0, 1]


def test_the_other_subhead_may_speak():
    named = match_names(np.eye(3, dtype=np.float32)[CLUSTERS[:, 1]], CLUSTERS, 1, np.array([1, 2]), ["cat", "dog"])
    assert named.by_output() == {2: "cat", 0: "dog"}
    assert named.orders.tolist() == [[1, 2, 0], [0, 1, 2]]


def test_two_names_in_one_cluster_and_a_name_far_from_its_images():
    named = match_names(Q, CLUSTERS, 0, np.array([0, 1, 2]), ["cat", "tiger", "dog"])
    assert sorted(named.by_output().values()) == ["cat", "dog", "tiger"]
    assert named.by_output()[1] == "dog"
    assert len(named.far) == 1
    assert named.far[0] in ("cat", "tiger")


def test_the_head_grows_when_there_are_more_names_than_clusters():
    named = match_names(Q, CLUSTERS, 0, np.arange(4), ["a", "b", "c", "d"])
    assert named.clusters == 4
    assert sorted(named.outputs.tolist()) == [0, 1, 2, 3]
    assert named.orders[0].tolist() == [0, 1, 2, 3]


def network(clusters: int, seed: int) -> CrlcNetwork:
    torch.manual_seed(seed)
    return CrlcNetwork(make_backbone("small", 16), clusters, subheads=2).eval()


def test_a_child_begins_with_what_its_parent_says():
    parent, child = network(3, 0), network(4, 1)
    orders = np.array([[0, 1, 2, 3], [2, 0, 1, 3]])
    named = NamedOutputs(("a",), np.array([3]), orders, ())
    child.load_learned_state(first_weights(parent.state_dict(), named, seed=0))
    images = torch.rand(5, 3, 16, 16)
    with torch.no_grad():
        before, after = parent(images).logits, child(images).logits
    torch.testing.assert_close(after[0, :, :3], before[0])
    torch.testing.assert_close(after[1, :, :3], before[1][:, [2, 0, 1]])
    assert after.shape == (2, 5, 4)
    assert not torch.allclose(after[:, :, 3], torch.zeros(2, 5))
    again = first_weights(parent.state_dict(), named, seed=0)
    assert (again["c_head.second_weight"] == child.c_head.second_weight).all()  # the seed decides new outputs too
    other = first_weights(parent.state_dict(), named, seed=1)
    assert not (other["c_head.second_weight"] == child.c_head.second_weight).all()


def test_labels_mend_a_parent_and_a_stopped_child_goes_on_exactly(tmp_path: Path):
    images = shapes()
    assert images.classes is not None
    parent = trained(tmp_path / "parent", replace(TINY, epochs=4))
    arrays, facts = parent.folder.result()
    chosen = np.arange(12)
    names = [f"kind {number}" for number in images.classes[chosen]]
    named = match_names(arrays["q"], arrays["by_subhead"], facts["subhead"], chosen, names)
    settings = replace(semi_settings(TINY, named.clusters, len(images)), epochs=20)
    state = parent.network.learned_state()

    def child(place: str) -> Trainer:
        extras = Extras(labels=labelled_images(chosen, names, named), first_weights=first_weights(state, named, 0))
        folder = RunFolder(tmp_path / place)
        folder.path.mkdir(exist_ok=True)
        return Trainer(images, settings, folder, CPU, extras=extras)

    whole = child("whole")
    whole.run()
    result = whole.folder.result()[0]
    said = np.array([named.by_output().get(cluster) for cluster in result["cluster"].tolist()])
    right = said == np.array([f"kind {number}" for number in images.classes])
    assert right[12:].mean() > 0.9  # by name, on images without a label
    assert all(record["labels"] is not None for record in lines(tmp_path / "whole") if record["kind"] == "epoch")
    cut = child("cut")
    for _ in range(17):
        cut.train_step()
    cut._save()
    child("cut").run()
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")


def test_a_child_of_a_child_is_not_trained_less_and_less():
    child = semi_settings(TINY, 4, 96)
    assert child.learning_rate < TINY.learning_rate
    grandchild = semi_settings(child, 5, 96)
    assert (grandchild.learning_rate, grandchild.epochs, grandchild.clusters) == (child.learning_rate, child.epochs, 5)


def test_every_label_is_drawn_as_often_as_any_other():
    from crlc.data.augment import RECIPES
    from crlc.training.batches import BatchMaker
    from crlc.training.inputs import ImageInputs

    images = shapes()
    inputs = ImageInputs(images, RECIPES["none"], CPU.device)
    maker = BatchMaker(inputs, images, replace(TINY, labelled_batch=9), 32, ALONE)
    maker.labels = LabelledImages(np.array([3, 5, 7]), np.array([0, 1, 2]))
    batch = maker.make(step=0, epoch=0, place=0)
    assert batch.labelled is not None
    assert batch.targets is not None
    assert torch.bincount(batch.targets).tolist() == [3, 3, 3]
    for row, target in zip(batch.labelled, batch.targets.tolist(), strict=True):
        torch.testing.assert_close(row, inputs.read(np.array([[3, 5, 7][target]]))[0])
