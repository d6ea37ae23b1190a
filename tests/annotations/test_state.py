"""Operations against a naive model, and undo and redo as inverses of each other."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crlc.annotations.operations import (
    Exclude,
    Include,
    Label,
    MergeClusters,
    MoveImages,
    NameCluster,
    Operation,
    OperationGroup,
    SplitCluster,
    Unlabel,
    from_record,
    get_run,
    to_record,
)
from crlc.annotations.state import AnnotationState, ClusterEdits, apply_cluster_edits
from crlc.annotations.store import AnnotationStore
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset

IMAGES, CLUSTERS = 12, 4
IDS = np.arange(1, IMAGES + 1)
FOUND = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])  # cluster 3 is empty


@dataclass
class NaiveState:
    """Naive model of the annotation state, with dictionaries and sets."""

    labels: dict[int, str] = field(default_factory=dict)
    excluded: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    clusters: dict[int, set[int]] = field(
        default_factory=lambda: {c: {int(i) for i in IDS[c == FOUND]} for c in range(CLUSTERS)}
    )
    highest: int = CLUSTERS - 1

    def apply(self, operation: Operation) -> None:  # noqa: PLR0912
        match operation:
            case OperationGroup(operations):
                for member in operations:
                    self.apply(member)
            case Label(ids, name):
                self.labels |= dict.fromkeys(ids, name)
            case Unlabel(ids):
                for number in ids:
                    self.labels.pop(number, None)
            case Exclude(ids):
                self.excluded |= set(ids)
            case Include(ids):
                self.excluded -= set(ids)
            case NameCluster(cluster=cluster, name=name):
                self.names.pop(cluster, None)
                if name is not None:
                    self.names[cluster] = name
            case MergeClusters(clusters=clusters):
                kept, *others = sorted(clusters)
                for other in others:
                    self.clusters[kept] |= self.clusters.pop(other)
                    name = self.names.pop(other, None)
                    if name is not None:
                        self.names.setdefault(kept, name)
            case SplitCluster(cluster=cluster, parts=parts):
                self.clusters[cluster] = set(parts[0])
                for part in parts[1:]:
                    self.highest += 1
                    self.clusters[self.highest] = set(part)
            case MoveImages(ids=ids, cluster=cluster):
                for members in self.clusters.values():
                    members -= set(ids)
                self.clusters[cluster] |= set(ids)

    def describe(self) -> tuple:
        where = {number: cluster for cluster, members in self.clusters.items() for number in members}
        clusters = [where[number] for number in IDS.tolist()]
        return self.labels, sorted(self.excluded), clusters, sorted(self.clusters), self.names


def describe(state: AnnotationState) -> tuple:
    """Return labels, excluded ids, cluster of each image, clusters and names, as `NaiveState.describe` does."""
    labelled = state.to_label_set()
    edits = state.get_edits("run", "result")
    return (
        {i: labelled.names[n] for i, n in zip(labelled.ids.tolist(), labelled.codes.tolist(), strict=True)},
        state.get_excluded_ids().tolist(),
        apply_cluster_edits(IDS, FOUND, edits).tolist(),
        edits.list_clusters(CLUSTERS),
        edits.names,
    )


some_ids = st.lists(st.sampled_from(IDS.tolist()), min_size=1, max_size=5, unique=True).map(tuple)
some_name = st.sampled_from(["cat", "dog", "owl"])


def draw_operation(draw: st.DrawFn, current: NaiveState) -> Operation:  # noqa: PLR0911
    """Draw an operation that is valid in the current state."""
    clusters = sorted(current.clusters)
    large = [cluster for cluster in clusters if len(current.clusters[cluster]) > 1]
    kinds = ["label", "unlabel", "exclude", "include", "name", "move"]
    kind = draw(st.sampled_from(kinds + ["merge"] * (len(clusters) > 1) + ["split"] * bool(large)))
    one = st.sampled_from(clusters)
    match kind:
        case "label":
            ids = draw(some_ids)
            return Label(ids, draw(some_name), (1,) * len(ids))
        case "unlabel":
            return Unlabel(draw(some_ids))
        case "exclude":
            return Exclude(draw(some_ids))
        case "include":
            return Include(draw(some_ids))
        case "name":
            return NameCluster("run", "result", draw(one), draw(st.none() | some_name))
        case "merge":
            chosen = draw(st.lists(one, min_size=2, max_size=3, unique=True))
            return MergeClusters("run", "result", tuple(sorted(chosen)))
        case "split":
            cluster = draw(st.sampled_from(large))
            members = draw(st.permutations(sorted(current.clusters[cluster])))
            cut = draw(st.integers(1, len(members) - 1))
            parts = (tuple(members[:cut]), tuple(members[cut:]))
            return SplitCluster("run", "result", cluster, parts, current.highest + 1)
        case _:
            return MoveImages("run", "result", draw(some_ids), draw(one))


@st.composite
def operation_sequences(draw: st.DrawFn, longest: int = 12) -> list[tuple[Operation, NaiveState]]:
    """Draw a sequence of operations, each with the naive model after it."""
    current, found = NaiveState(), []
    for _ in range(draw(st.integers(0, longest))):
        operation = draw_operation(draw, current)
        if draw(st.integers(0, 4)) == 0:
            operation = OperationGroup((operation, Exclude(draw(some_ids))), "two operations")
        current = copy.deepcopy(current)
        current.apply(operation)
        found.append((operation, current))
    return found


@pytest.mark.slow
@given(operation_sequences())
def test_state_equals_that_of_a_naive_model(steps):
    state = AnnotationState()
    changes = []
    for operation, model in steps:
        changes.append(state.apply(operation))
        assert describe(state) == model.describe()
    frozen = state.copy()
    models = [NaiveState(), *(model for _, model in steps)]
    for change, model in zip(reversed(changes), reversed(models[:-1]), strict=True):
        state.revert(change)
        assert describe(state) == model.describe()
    assert describe(frozen) == models[-1].describe()


@settings(max_examples=20)
@given(operation_sequences(longest=8))
def test_undo_and_redo_of_all_operations_restore_every_state(steps):
    models = [NaiveState(), *(model for _, model in steps)]
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_handmade_dataset(Path(folder), build_numbered_paths(IMAGES))
        with AnnotationStore(dataset) as annotations, AnnotationStore(dataset) as other:
            for operation, model in steps:
                annotations.record(lambda _, operation=operation: operation)
                assert describe(annotations.refresh()) == model.describe()
            for model in reversed(models[:-1]):
                annotations.undo()
                assert describe(annotations.refresh()) == model.describe()
            assert describe(other.refresh()) == NaiveState().describe()
            for model in models[1:]:
                other.redo()
                assert describe(other.refresh()) == model.describe()
            assert describe(annotations.refresh()) == models[-1].describe()


@given(operation_sequences())
def test_from_record_inverts_to_record(steps):
    import json

    for operation, _ in steps:
        kind, content = to_record(operation)
        assert from_record(kind, json.loads(json.dumps(content))) == operation


def test_to_record_keeps_content_versions_that_differ():
    import json

    for contents in ((1, 1, 1), (1, 2, 1)):
        label = Label((4, 5, 6), "cat", contents)
        kind, content = to_record(label)
        assert from_record(kind, json.loads(json.dumps(content))) == label
    assert to_record(Label((4, 5), "cat", (7, 7)))[1]["contents"] == 7


@pytest.mark.parametrize(
    ("kind", "content"),
    [("paint", {}), ("label", {"ids": [1]}), ("exclude", {"ids": [1], "more": 2}), ("group", {}), ("unlabel", [])],
)
def test_from_record_refuses_foreign_records(kind: str, content):
    with pytest.raises(ValueError, match=kind):
        from_record(kind, content)


def test_operation_title_describes_the_operation():
    edit = ("run", "result")
    titles = {
        Label((1, 2), "cat", (1, 1)): "label 2 images 'cat'",
        Unlabel((1,)): "remove the label of 1 image",
        NameCluster(*edit, 3, "cats"): "name cluster 3 'cats'",
        NameCluster(*edit, 3, None): "remove the name of cluster 3",
        MergeClusters(*edit, (1, 4, 7)): "merge clusters 1, 4 and 7",
        SplitCluster(*edit, 2, ((1,), (2,), (3,)), 10): "split cluster 2 into 2, 10 and 11",
        MoveImages(*edit, tuple(range(2000)), 5): "move 2,000 images to cluster 5",
    }
    assert {operation: operation.title for operation in titles} == titles
    assert get_run(MergeClusters(*edit, (1, 2))) == "run"
    assert get_run(OperationGroup((Unlabel((1,)), Exclude((1,))), "")) is None


def test_apply_cluster_edits_accepts_an_empty_result():
    nothing = np.array([], np.int64)
    assert apply_cluster_edits(nothing, nothing, ClusterEdits()).tolist() == []
