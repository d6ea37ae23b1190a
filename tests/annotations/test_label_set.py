"""LabelSet: conversion, selection and merging."""

from __future__ import annotations

import numpy as np

from crlc.annotations.label_set import LabelSet

LABELS = {7: "dog", 2: "cat", 5: "dog"}


def test_label_set_keeps_a_mapping_by_ascending_id():
    labels = LabelSet.from_mapping(LABELS, ("left out",))
    assert (labels.ids.tolist(), labels.codes.tolist(), labels.names) == ([2, 5, 7], [0, 1, 1], ("cat", "dog"))
    assert (labels.labels, labels.to_mapping(), len(labels)) == (["cat", "dog", "dog"], LABELS, 3)
    assert (labels.count_by_name(), labels.warnings) == ({"cat": 1, "dog": 2}, ("left out",))


def test_label_set_selection_drops_unused_names():
    labels = LabelSet.from_mapping(LABELS)
    assert labels.select_ids([5, 7, 9]).names == ("dog",)
    assert labels.select_name("cat").to_mapping() == {2: "cat"}
    assert len(labels.select_name("bird")) == len(LabelSet.from_mapping({})) == 0
    assert labels.find_positions(np.array([1, 2, 5, 7])).tolist() == [1, 2, 3]


def test_label_set_merge_prefers_its_own_labels():
    merged = LabelSet.from_mapping(LABELS, ("a",)).merge(LabelSet.from_mapping({2: "fox", 9: "owl"}, ("b",)))
    assert merged.to_mapping() == {**LABELS, 9: "owl"}
    assert merged.warnings == ("a", "b")
