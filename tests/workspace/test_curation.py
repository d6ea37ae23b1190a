"""Operations against a naive model, and the promise that undo and redo lead back and forth."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crlc.workspace.annotations import Annotations
from crlc.workspace.curation import ClusterEdits, Curation, edited_clusters
from crlc.workspace.operations import (
    Exclude,
    Group,
    Include,
    Label,
    MergeClusters,
    MoveImages,
    NameCluster,
    Operation,
    SplitCluster,
    Unlabel,
    from_record,
    run_of,
    to_record,
)
from tests.workspace.handmade import handmade_dataset, numbered

IMAGES, CLUSTERS = 12, 4
IDS = np.arange(1, IMAGES + 1)
FOUND = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])  # cluster 3 is empty


@dataclass
class Naive:
    """The same with dictionaries and sets, as one would explain it."""

    labels: dict[int, str] = field(default_factory=dict)
    excluded: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    clusters: dict[int, set[int]] = field(
        default_factory=lambda: {c: {int(i) for i in IDS[c == FOUND]} for c in range(CLUSTERS)}
    )
    highest: int = CLUSTERS - 1

    def do(self, operation: Operation) -> None:  # noqa: PLR0912
        match operation:
            case Group(operations):
                for member in operations:
                    self.do(member)
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

    def told(self) -> tuple:
        where = {number: cluster for cluster, members in self.clusters.items() for number in members}
        clusters = [where[number] for number in IDS.tolist()]
        return self.labels, sorted(self.excluded), clusters, sorted(self.clusters), self.names


def told(curation: Curation) -> tuple:
    labelled = curation.labelled()
    edits = curation.edits("run", "result")
    return (
        {i: labelled.names[n] for i, n in zip(labelled.ids.tolist(), labelled.numbers.tolist(), strict=True)},
        curation.excluded().tolist(),
        edited_clusters(IDS, FOUND, edits).tolist(),
        edits.numbers(CLUSTERS),
        edits.names,
    )


some_ids = st.lists(st.sampled_from(IDS.tolist()), min_size=1, max_size=5, unique=True).map(tuple)
some_name = st.sampled_from(["cat", "dog", "owl"])


def possible(draw: st.DrawFn, now: Naive) -> Operation:  # noqa: PLR0911
    """Some operation that fits the present state."""
    clusters = sorted(now.clusters)
    large = [cluster for cluster in clusters if len(now.clusters[cluster]) > 1]
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
            members = draw(st.permutations(sorted(now.clusters[cluster])))
            cut = draw(st.integers(1, len(members) - 1))
            parts = (tuple(members[:cut]), tuple(members[cut:]))
            return SplitCluster("run", "result", cluster, parts, now.highest + 1)
        case _:
            return MoveImages("run", "result", draw(some_ids), draw(one))


@st.composite
def sequences(draw: st.DrawFn, longest: int = 12) -> list[tuple[Operation, Naive]]:
    """Operations, each with the model after it."""
    now, found = Naive(), []
    for _ in range(draw(st.integers(0, longest))):
        operation = possible(draw, now)
        if draw(st.integers(0, 4)) == 0:
            operation = Group((operation, Exclude(draw(some_ids))), "two at once")
        now = copy.deepcopy(now)
        now.do(operation)
        found.append((operation, now))
    return found


@given(sequences())
def test_states_are_those_of_the_naive_model_back_and_forth(steps):
    curation = Curation()
    changes = []
    for operation, model in steps:
        changes.append(curation.apply(operation))
        assert told(curation) == model.told()
    frozen = curation.copy()
    models = [Naive(), *(model for _, model in steps)]
    for change, model in zip(reversed(changes), reversed(models[:-1]), strict=True):
        curation.revert(change)
        assert told(curation) == model.told()
    assert told(frozen) == models[-1].told()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sequences(longest=8))
def test_as_many_undos_give_the_start_and_as_many_redos_the_end(steps):
    models = [Naive(), *(model for _, model in steps)]
    with tempfile.TemporaryDirectory() as folder:
        dataset = handmade_dataset(Path(folder), numbered(IMAGES))
        with Annotations(dataset) as annotations, Annotations(dataset) as other:
            for operation, model in steps:
                annotations.record(lambda _, operation=operation: operation)
                assert told(annotations.refresh()) == model.told()
            for model in reversed(models[:-1]):
                annotations.undo()
                assert told(annotations.refresh()) == model.told()
            assert told(other.refresh()) == Naive().told()
            for model in models[1:]:
                other.redo()
                assert told(other.refresh()) == model.told()
            assert told(annotations.refresh()) == models[-1].told()


@given(sequences())
def test_the_record_of_an_operation_gives_it_back(steps):
    import json

    for operation, _ in steps:
        kind, content = to_record(operation)
        assert from_record(kind, json.loads(json.dumps(content))) == operation


def test_contents_are_kept_one_by_one_where_they_differ():
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
def test_foreign_records_are_refused(kind: str, content):
    with pytest.raises(ValueError, match="no readable operation"):
        from_record(kind, content)


def test_titles_say_what_was_done():
    edit = ("run", "result")
    titles = {
        Label((1, 2), "cat", (1, 1)): "label 2 images 'cat'",
        Unlabel((1,)): "take away the label of 1 image",
        NameCluster(*edit, 3, "cats"): "name cluster 3 'cats'",
        NameCluster(*edit, 3, None): "take away the name of cluster 3",
        MergeClusters(*edit, (1, 4, 7)): "merge clusters 1, 4 and 7",
        SplitCluster(*edit, 2, ((1,), (2,), (3,)), 10): "split cluster 2 into 2, 10 and 11",
        MoveImages(*edit, tuple(range(2000)), 5): "move 2,000 images to cluster 5",
    }
    assert {operation: operation.title for operation in titles} == titles
    assert run_of(MergeClusters(*edit, (1, 2))) == "run"
    assert run_of(Group((Unlabel((1,)), Exclude((1,))), "")) is None


def test_an_empty_result_has_no_clusters_to_edit():
    nothing = np.array([], np.int64)
    assert edited_clusters(nothing, nothing, ClusterEdits()).tolist() == []
