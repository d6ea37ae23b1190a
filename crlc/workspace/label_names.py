"""A label as a whole: given another name, or taken from all images that have it. One operation each."""

from __future__ import annotations

import numpy as np

from crlc.workspace.annotations import Annotations, Entry
from crlc.workspace.curation import Curation
from crlc.workspace.operations import Group, Label, Unlabel, check_name, images


def rename_label(annotations: Annotations, old: str, new: str) -> Entry | None:
    """Call a label otherwise, on every image that has it; one that has the new name already takes the images in.

    What an image showed when it was labelled stays noted: a label about an earlier content remains one.

    Raises:
        UsageError: the new name cannot be one.
    """
    name = check_name(new, "label")

    def operation(state: Curation) -> Group | None:
        ids, contents = _having(state, old)
        if name == old or not len(ids):
            return None
        title = f"rename the label {old!r} of {images(len(ids))} to {name!r}"
        return Group((Label(tuple(ids.tolist()), name, tuple(contents.tolist())),), title)

    return annotations.record(operation)


def remove_label(annotations: Annotations, name: str) -> Entry | None:
    """Take a label from every image that has it."""

    def operation(state: Curation) -> Group | None:
        ids, _ = _having(state, name)
        if not len(ids):
            return None
        return Group((Unlabel(tuple(ids.tolist())),), f"remove the label {name!r} of {images(len(ids))}")

    return annotations.record(operation)


def _having(state: Curation, name: str) -> tuple[np.ndarray, np.ndarray]:
    labelled = state.labelled()
    if name not in labelled.names:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = labelled.numbers == labelled.names.index(name)
    return labelled.ids[chosen], labelled.contents[chosen]
