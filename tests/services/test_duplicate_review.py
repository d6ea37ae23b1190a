"""Review of duplicates: the proposed image, decisions, and the list for moving files."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
from PIL import Image

from crlc.annotations.kept_duplicates import set_kept_duplicates
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.errors import FormatVersionError, UsageError
from crlc.services.duplicate_review import (
    exclude_redundant_images,
    find_duplicate_sets,
    find_undecided,
    keep_images,
    write_duplicate_list,
)
from crlc.workspace import Workspace
from tests.fixtures.duplicates import save_duplicates


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    save_duplicates(tmp_path / "set")
    return workspace.import_dataset(str(tmp_path / "set"))[0]


def list_paths(dataset: ImageDataset, **options: object) -> list[list[str]]:
    return [[image.path for image in one.images] for one in find_duplicate_sets(dataset, **options)]


def test_find_duplicate_sets_proposes_the_largest_then_the_sharpest_image(dataset: ImageDataset):
    assert list_paths(dataset) == [["a.png", "a-soft.png", "a-small.png"], ["b.png", "c/b.png", "b copy.png"]]
    assert list_paths(dataset, exact=True) == [["b.png", "c/b.png", "b copy.png"]]
    near, equal = find_duplicate_sets(dataset)
    assert (near.is_exact, equal.is_exact, equal.score) == (False, True, 1.0)
    assert near.images[0].sharpness > near.images[1].sharpness
    assert len({near.key, equal.key}) == 2


def test_uniform_images_are_duplicates_only_if_their_files_are_equal(crlc, workspace: Workspace, tmp_path: Path):
    save_duplicates(tmp_path / "pages")
    for name, colour in (("white", 250), ("grey", 244), ("cream", 247)):
        Image.new("RGB", (96, 96), (colour, colour, colour - 5)).save(tmp_path / "pages" / f"{name}.png")
    shutil.copy(tmp_path / "pages" / "grey.png", tmp_path / "pages" / "grey copy.png")
    pages, _ = workspace.import_dataset(str(tmp_path / "pages"))
    expected = [
        ["a.png", "a-soft.png", "a-small.png"],
        ["b.png", "c/b.png", "b copy.png"],
        ["grey.png", "grey copy.png"],
    ]
    assert list_paths(pages) == expected
    assert [len(group["images"]) for group in crlc("duplicates", "pages", "--json").json["groups"]] == [3, 3, 2]


def test_keep_images_excludes_the_others_in_one_step(dataset: ImageDataset):
    near, equal = find_duplicate_sets(dataset)
    with AnnotationStore(dataset) as annotations:
        keep_images(dataset, annotations, near.ids, near.ids[:1])
        assert annotations.refresh().get_excluded_ids().tolist() == sorted(near.ids[1:])
        assert find_undecided(dataset, annotations.refresh(), [near, equal]) == [equal]
        keep_images(dataset, annotations, near.ids, near.ids[1:2])  # another image: includes and excludes
        assert annotations.refresh().get_excluded_ids().tolist() == sorted({near.ids[0], near.ids[2]})
        annotations.undo()
        assert annotations.refresh().get_excluded_ids().tolist() == sorted(near.ids[1:])
        annotations.undo()
        assert not len(annotations.refresh().get_excluded_ids())
        for wrong in ((), (equal.ids[0],)):
            with pytest.raises(UsageError, match="must be kept"):
                keep_images(dataset, annotations, near.ids, wrong)


def test_kept_duplicates_are_not_proposed_again(dataset: ImageDataset):
    near, equal = sets = find_duplicate_sets(dataset)
    with AnnotationStore(dataset) as annotations:
        assert keep_images(dataset, annotations, near.ids, near.ids) is None
        keep_images(dataset, annotations, equal.ids, equal.ids[:2])
        assert find_undecided(dataset, annotations.refresh(), sets) == []
        annotations.undo()  # the third copy is back: the group is open again
        assert find_undecided(dataset, annotations.refresh(), sets) == [equal]
    (dataset.folder / "kept-duplicates.json").write_text("{")  # damaged: proposed again, nothing fails
    with AnnotationStore(dataset) as annotations:
        assert find_undecided(dataset, annotations.refresh(), sets) == [near, equal]


def test_kept_duplicates_of_a_newer_version_are_not_overwritten(dataset: ImageDataset):
    file = dataset.folder / "kept-duplicates.json"
    set_kept_duplicates(dataset, [1, 2], is_kept=True)
    newer = file.read_text().replace('"version": 1', '"version": 2')
    assert '"version": 2' in newer
    file.write_text(newer)
    with pytest.raises(FormatVersionError, match=r"kept-duplicates\.json has format version 2"):
        set_kept_duplicates(dataset, [3, 4], is_kept=True)
    assert file.read_text() == newer


def test_exclude_redundant_images_leaves_decisions_alone(dataset: ImageDataset):
    near, equal = sets = find_duplicate_sets(dataset)
    with AnnotationStore(dataset) as annotations:
        keep_images(dataset, annotations, near.ids, near.ids)
        annotations.exclude([equal.ids[0]])  # by hand: the next best one is kept
        exclude_redundant_images(dataset, annotations, sets)
        assert annotations.refresh().get_excluded_ids().tolist() == sorted({equal.ids[0], equal.ids[2]})
        assert exclude_redundant_images(dataset, annotations, sets) is None


def test_duplicate_list_names_the_action_of_every_image(dataset: ImageDataset, tmp_path: Path):
    near, _ = sets = find_duplicate_sets(dataset)
    text = io.StringIO()
    with AnnotationStore(dataset) as annotations:
        keep_images(dataset, annotations, near.ids, near.ids[:2])
        assert write_duplicate_list(dataset, annotations.refresh(), sets, text) == 3
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert [(row["group"], row["action"], row["decided"], row["path"]) for row in rows] == [
        ("1", "keep", "yes", "a.png"),
        ("1", "keep", "yes", "a-soft.png"),
        ("1", "move", "yes", "a-small.png"),
        ("2", "keep", "no", "b.png"),
        ("2", "move", "no", "c/b.png"),
        ("2", "move", "no", "b copy.png"),
    ]
    assert rows[0]["absolute_path"] == str(tmp_path / "set" / "a.png")
    assert (rows[2]["width"], rows[2]["height"]) == ("64", "64")
    assert sorted(path.name for path in (tmp_path / "set").rglob("*.png")) == [
        "a-small.png", "a-soft.png", "a.png", "b copy.png", "b.png", "b.png", "single.png",
    ]  # fmt: skip


def test_duplicates_command_excludes_and_lists(crlc, dataset: ImageDataset, tmp_path: Path):
    content = crlc("duplicates", "set", "--exact", "--exclude", "--json").json
    assert (len(content["groups"]), content["excluded"], content["file"]) == (1, 2, None)
    outcome = crlc("duplicates", "set", "--exclude", "--list", tmp_path / "list.csv")
    assert "Excluded 2 images" in outcome.out
    assert "Listed 4 images to move" in outcome.out
    assert "exists already" in crlc("duplicates", "set", "--list", tmp_path / "list.csv").err
    assert len((tmp_path / "list.csv").read_text().splitlines()) == 7
    for _ in range(2):
        assert crlc("label", "set", "undo").code == 0
    with AnnotationStore(dataset) as annotations:
        assert not len(annotations.refresh().get_excluded_ids())
    assert "--exact" in crlc("duplicates", "set", "--exact", "--bits", 2).err
