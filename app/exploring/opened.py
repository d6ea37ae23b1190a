"""Subjects by name, as they are now: opened once for all windows and routes, and again when something changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from app.exploring.subject import DatasetSubject, RunSubject, Subject
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.run_colours import colour_slots
from crlc.workspace.run_files import read_result
from crlc.workspace.runs import Runs

_REMEMBERED = 4
"""A subject of 100,000 images with all that is computed of it takes some 100 MB at most."""

_guard = threading.RLock()
_subjects: OrderedDict[tuple[str, str, str], tuple[str, Subject]] = OrderedDict()
_annotations: OrderedDict[ImageDataset, Annotations] = OrderedDict()


def annotations_of(dataset: ImageDataset) -> Annotations:
    """What people said about a data set; kept open, so that only what is new is read."""
    with _guard:
        if dataset not in _annotations:
            _annotations[dataset] = Annotations(dataset)
            while len(_annotations) > _REMEMBERED:
                _annotations.popitem(last=False)[1].close()
        _annotations.move_to_end(dataset)
        found = _annotations[dataset]
    try:
        found.refresh()
    except NotFoundError:  # the file was removed since: begin again with what is there
        with _guard:
            if _annotations.get(dataset) is found:
                del _annotations[dataset]
                found.close()
                _annotations[dataset] = found = Annotations(dataset)
    return found


def forget_dataset(dataset: ImageDataset) -> None:
    """Let go of the files of a data set that is to be removed."""
    with _guard:
        found = _annotations.pop(dataset, None)
        if found is not None:
            found.close()
        for place in [place for place, (_, subject) in _subjects.items() if subject.dataset == dataset]:
            del _subjects[place]


def open_run(workspace: Workspace, run: RunFolder) -> RunSubject:
    """A run's newest result; while it trains, the one that was opened first, until `let_go`.

    Raises:
        CrlcError: it has none yet, or its data set is gone.
    """
    dataset = Runs(workspace).dataset_of(run.description(), unchanged=False)
    with _guard:
        curation = annotations_of(dataset).refresh()
        facts = read_result(run).facts
        state = f"{dataset.info.uid} {dataset.version} {curation.operation}"
        place = (str(workspace.root), RunSubject.kind, run.id)
        before = _subjects.get(place)
        key = f"{run.path} {_looked_at(before, facts)['folder']} {state}"
        if before is None or before[0] != key:
            key = f"{run.path} {facts['folder']} {state}"
            analysis = RunAnalysis(run, dataset, curation)
            previous = before[1] if before is not None and isinstance(before[1], RunSubject) else None
            _remember(place, key, RunSubject(analysis, key, colour_slots(workspace, run), previous))
        _subjects.move_to_end(place)
        subject = _subjects[place][1]
        assert isinstance(subject, RunSubject)
        return subject


def _looked_at(before: tuple[str, Subject] | None, newest: dict[str, Any]) -> dict[str, Any]:
    """Which result is shown: of a run that trains, the one somebody looks at is not changed under their eyes."""
    if before is None or not isinstance(before[1], RunSubject):
        return newest
    own = before[1].analysis.result.facts
    return newest if own.get("final", True) or newest.get("final", True) else own


def newest_facts(subject: RunSubject) -> dict[str, Any]:
    """About the newest result of a run, which may be newer than the one that is looked at.

    Raises:
        CrlcError: it cannot be read.
    """
    return read_result(subject.analysis.run).facts


def let_go(subject: RunSubject) -> None:
    """Have the newest result shown from now on."""
    with _guard:
        for place in [place for place, (_, kept) in _subjects.items() if kept is subject]:
            del _subjects[place]


def open_dataset(workspace: Workspace, dataset: ImageDataset) -> DatasetSubject | None:
    """A data set's exploration; none when there is none of its present version."""
    from crlc.workspace.exploration import read_exploration  # brings torch along

    with _guard:
        curation = annotations_of(dataset).refresh()
        exploration = read_exploration(dataset)
        if exploration is None:
            return None
        key = f"{dataset.folder} {exploration.facts} {curation.operation}"
        place = (str(workspace.root), DatasetSubject.kind, dataset.name)
        if place not in _subjects or _subjects[place][0] != key:
            _remember(place, key, DatasetSubject(dataset, exploration, curation, key))
        _subjects.move_to_end(place)
        subject = _subjects[place][1]
        assert isinstance(subject, DatasetSubject)
        return subject


def open_named(workspace: Workspace, kind: str, name: str) -> Subject:
    """A subject by what stands in an address.

    Raises:
        CrlcError: there is none.
    """
    if kind == RunSubject.kind:
        runs = Runs(workspace)
        if name not in runs.ids():  # `open` would also take the beginning of a name
            raise NotFoundError(f"No run is named {name!r}.")
        return open_run(workspace, runs.open(name))
    if kind == DatasetSubject.kind:
        found = open_dataset(workspace, workspace.dataset(name))
        if found is not None:
            return found
    raise NotFoundError(f"There is nothing to explore at {kind}/{name}.")


def _remember(place: tuple[str, str, str], key: str, subject: Subject) -> None:
    _subjects[place] = (key, subject)
    while len(_subjects) > _REMEMBERED:
        _subjects.popitem(last=False)
