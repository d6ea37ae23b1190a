"""The import: what is stored, which options it takes, and what a second import of a changed source does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crlc.config import ImportOptions
from crlc.data.decode import decode
from crlc.data.importer import ImportReport
from crlc.data.manifest import ImageRecord, Manifest
from crlc.errors import NotFoundError, SourceError, UsageError
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.pictures import picture, save_pictures

SMALL = ImportOptions(size=16, workers=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pictures"


def bring_in(workspace: Workspace, given: Path | str, **options) -> ImportReport:
    return workspace.import_dataset(str(given), name="set", options=ImportOptions(**{"workers": 1, **options}))[1]


def records(workspace: Workspace, where: str = "1") -> dict[str, ImageRecord]:
    with Manifest(workspace.dataset("set").folder) as manifest:
        return {record.path: record for record in manifest.records(where)}


# ---- what is stored


@pytest.mark.parametrize("workers", [1, 2])
def test_pixels_and_facts_of_every_image_are_stored(workspace: Workspace, folder: Path, workers: int):
    files = save_pictures(folder, 150, width=30, height=20)
    report = bring_in(workspace, folder, size=16, workers=workers)
    assert (report.readable, report.unreadable, report.sizes) == (150, {}, (16,))
    store = workspace.dataset("set").pixels(16)
    rows = records(workspace)
    for file in files:
        row = rows[file.name]
        expected = decode(file.read_bytes(), 16)[1]
        np.testing.assert_array_equal(store.read([row.id])[0], expected)
        assert (row.width, row.height, row.bytes) == (30, 20, file.stat().st_size)
    assert [row.id for row in rows.values()] == list(range(1, 151))  # in the order of their paths


@pytest.mark.parametrize(("side", "chosen"), [(8, 16), (16, 16), (28, 32), (50, 64), (150, 96), (2000, 96)])
def test_the_size_fits_the_images_by_default(workspace: Workspace, folder: Path, side: int, chosen: int):
    save_pictures(folder, 2, width=side, height=side + 7)
    assert bring_in(workspace, folder).sizes == (chosen,)


def test_progress_reaches_the_end(workspace: Workspace, folder: Path):
    save_pictures(folder, 100)
    seen: list[Progress] = []
    workspace.import_dataset(str(folder), options=SMALL, report=seen.append)
    last = {progress.stage: progress for progress in seen}
    assert last["Decoding"].done == last["Decoding"].total == 100
    assert last["Decoding"].finished
    assert last["Decoding"].per_second > 0


def test_a_limit_is_a_spread_out_and_repeatable_sample(workspace: Workspace, folder: Path, tmp_path: Path):
    for name in "abcdefgh":
        save_pictures(folder / name, 25, first_seed=ord(name) * 100)
    bring_in(workspace, folder, limit=60)
    sample = set(records(workspace))
    assert len(sample) == 60
    assert {path[0] for path in sample} == set("abcdefgh")
    other = Workspace(tmp_path / "other")
    bring_in(other, folder, limit=60)
    assert set(records(other)) == sample


def test_a_second_size_can_be_added_and_is_kept_up_to_date(workspace: Workspace, folder: Path):
    save_pictures(folder, 3, width=64, height=64)
    bring_in(workspace, folder, size=16)
    assert bring_in(workspace, folder, size=32).sizes == (16, 32)
    picture(99, 64, 64).save(folder / "00001.png")
    picture(98, 64, 64).save(folder / "new.png")
    assert bring_in(workspace, folder).sizes == (16, 32)
    rows = records(workspace)
    for size in (16, 32):
        store = workspace.dataset("set").pixels(size)
        for name in ("00001.png", "new.png"):
            expected = decode((folder / name).read_bytes(), size)[1]
            np.testing.assert_array_equal(store.read([rows[name].id])[0], expected)
    with pytest.raises(NotFoundError, match="no pixels of size 48; sizes there: 16, 32"):
        workspace.dataset("set").pixels(48)


# ---- classes, splits, subsets


def test_classes_come_from_folders_when_they_are_one_per_class(workspace: Workspace, folder: Path):
    save_pictures(folder / "cats", 3)
    save_pictures(folder / "dogs", 2, first_seed=10)
    (folder / "README.txt").write_text("about")
    bring_in(workspace, folder)
    assert workspace.dataset("set").summary().classes == {"cats": 3, "dogs": 2}
    bring_in(workspace, folder, classes="none")
    assert workspace.dataset("set").summary().classes == {}
    bring_in(workspace, folder)  # what was said last is remembered
    assert workspace.dataset("set").summary().classes == {}


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        ({"a": 2, "b": 2}, {"a": 2, "b": 2}),
        ({"animals/cat": 2, "animals/dog": 2, "cars": 2}, {"animals/cat": 2, "animals/dog": 2, "cars": 2}),
        ({"train/cat": 2, "train/dog": 2, "test/cat": 2}, {"cat": 4, "dog": 2}),
        ({"a": 4}, {}),  # one folder tells nothing apart
        ({"": 1, "a": 2, "b": 2}, {}),  # images at the top
        ({"a": 2, "a/more": 2, "b": 2}, {}),  # albums inside albums
        ({"a": 1, "b": 1, "c": 1}, {}),  # a folder for each image
        ({"train": 3, "test": 3}, {}),  # splits are no classes
    ],
)
def test_which_layouts_are_taken_for_classes(
    workspace: Workspace, folder: Path, folders: dict[str, int], classes: dict[str, int]
):
    for number, (name, count) in enumerate(folders.items()):
        save_pictures(folder / name, count, first_seed=100 * number)
    bring_in(workspace, folder)
    assert workspace.dataset("set").summary().classes == classes


def test_folders_can_be_declared_classes(workspace: Workspace, folder: Path):
    save_pictures(folder, 1)
    save_pictures(folder / "a" / "b", 1, first_seed=5)
    bring_in(workspace, folder, classes="folders")
    assert workspace.dataset("set").summary().classes == {"a/b": 1}


def test_classes_come_from_a_csv(workspace: Workspace, folder: Path):
    save_pictures(folder, 4)
    table = folder.parent / "classes.csv"
    table.write_text(f"path,class\n00000.png,cat\n{folder / '00001.png'},dog\npictures/00002.png,cat\ngone.png,dog\n")
    report = bring_in(workspace, folder, classes=str(table))
    assert workspace.dataset("set").summary().classes == {"cat": 2, "dog": 1}
    assert report.unmatched_classes == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path\n00000.png\n", "needs a column named one of class"),
        ("path,class\nother.png,cat\n", "None of the paths with a class"),
        (None, "nor a CSV file that exists"),
    ],
)
def test_a_csv_of_classes_that_does_not_fit_is_refused(
    workspace: Workspace, folder: Path, text: str | None, words: str
):
    save_pictures(folder, 2)
    table = folder.parent / "classes.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises((SourceError, UsageError), match=words):
        bring_in(workspace, folder, classes=str(table))


def test_a_csv_with_contradicting_classes_is_refused(workspace: Workspace, folder: Path):
    save_pictures(folder, 1)
    (folder / "t.csv").write_text("path,class\n00000.png,cat\n00000.png,cat\n00000.png,dog\n")
    with pytest.raises(SourceError, match="listed twice with different classes, 'cat' and 'dog'"):
        bring_in(workspace, folder / "t.csv")
    assert workspace.dataset_names() == []


def test_splits_are_taken_as_asked(workspace: Workspace, folder: Path):
    for number, split in enumerate(("train", "test", "unlabelled")):
        save_pictures(folder / split / "x", 2, first_seed=10 * number)
    bring_in(workspace, folder, split="train+test")
    assert workspace.dataset("set").summary().splits == {"test": 2, "train": 2}
    with pytest.raises(SourceError, match="no split val. Splits found there: test, train, unlabelled"):
        bring_in(workspace, folder, split="val")


def test_imagenet_subsets_are_taken_by_name(workspace: Workspace, folder: Path):
    from crlc.data.classes import read_subset

    wanted = sorted(read_subset("imagenet10"))
    assert len(wanted) == 10
    for number, name in enumerate([*wanted, "n99999999"]):
        save_pictures(folder / "train" / name, 2, first_seed=10 * number)
    bring_in(workspace, folder, subset="imagenet10")
    assert sorted(workspace.dataset("set").summary().classes) == wanted


@pytest.mark.parametrize(
    ("name", "count"),
    [("imagenet10", 10), ("imagenet-dogs", 15), ("imagenet50", 50), ("imagenet100", 100), ("imagenet200", 200)],
)
def test_subsets_have_their_number_of_classes(name: str, count: int):
    from crlc.data.classes import read_subset

    assert len(read_subset(name)) == count


def test_a_subset_that_is_not_whole_is_refused(workspace: Workspace, folder: Path, tmp_path: Path):
    save_pictures(folder / "cats", 2)
    (tmp_path / "list.txt").write_text("cats\ndogs\n")
    with pytest.raises(SourceError, match="lacks 1 of the 2 class folders .*: dogs"):
        bring_in(workspace, folder, subset=str(tmp_path / "list.txt"))
    with pytest.raises(UsageError, match="neither one of imagenet-dogs"):
        bring_in(workspace, folder, subset="imagenet11")


# ---- nothing to import


def test_a_folder_without_images_is_an_error_and_leaves_nothing(workspace: Workspace, folder: Path):
    folder.mkdir()
    with pytest.raises(SourceError, match="holds no files"):
        bring_in(workspace, folder)
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(SourceError, match="no readable image among 1 files: 1 x a text file, not an image"):
        bring_in(workspace, folder)
    assert workspace.dataset_names() == []


# ---- a second import


def test_nothing_changed_means_nothing_done(workspace: Workspace, folder: Path):
    save_pictures(folder, 5)
    bring_in(workspace, folder)
    before = records(workspace)
    stages: list[str] = []
    workspace.import_dataset(str(folder), name="set", report=lambda progress: stages.append(progress.stage))
    assert records(workspace) == before
    assert "Decoding" not in stages


def test_new_changed_renamed_and_removed_images(workspace: Workspace, folder: Path):
    save_pictures(folder, 6)
    bring_in(workspace, folder)
    before = records(workspace)
    (folder / "sub").mkdir()
    (folder / "00000.png").rename(folder / "sub" / "moved.png")
    picture(77).save(folder / "00001.png")
    (folder / "00002.png").unlink()
    picture(78).save(folder / "new.png")
    os.utime(folder / "00003.png", ns=(1, 1))  # touched, the content is the same
    fates = bring_in(workspace, folder).fates
    assert (fates.new, fates.changed, fates.renamed, fates.removed, fates.same) == (1, 1, 1, 1, 3)
    after = records(workspace)
    assert after["sub/moved.png"].id == before["00000.png"].id
    assert after["sub/moved.png"].content_version == before["00000.png"].content_version
    assert after["00001.png"].id == before["00001.png"].id
    assert after["00001.png"].content_version > before["00001.png"].content_version
    assert after["00002.png"].status == "removed"
    assert after["00003.png"].content_version == before["00003.png"].content_version
    assert after["new.png"].id == 7
    store = workspace.dataset("set").pixels()
    assert sorted(store.ids) == [1, 2, 4, 5, 6, 7]
    np.testing.assert_array_equal(store.read([2])[0], decode((folder / "00001.png").read_bytes(), store.size)[1])


def test_a_removed_image_that_returns_gets_its_id_back(workspace: Workspace, folder: Path):
    save_pictures(folder, 3)
    bring_in(workspace, folder)
    kept = (folder / "00001.png").read_bytes()
    (folder / "00001.png").unlink()
    bring_in(workspace, folder)
    (folder / "elsewhere.png").write_bytes(kept)
    bring_in(workspace, folder)
    assert records(workspace)["elsewhere.png"].id == 2
    assert records(workspace)["elsewhere.png"].status == "ok"


def test_two_files_that_swap_names_keep_their_ids(workspace: Workspace, folder: Path):
    first, second = save_pictures(folder, 2)
    bring_in(workspace, folder)
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)
    fates = bring_in(workspace, folder).fates
    assert (fates.renamed, fates.changed, fates.new, fates.removed) == (2, 0, 0, 0)
    assert records(workspace)[first.name].id == 2
    assert records(workspace)[second.name].id == 1


def test_a_renamed_file_whose_old_name_is_taken_by_a_new_one(workspace: Workspace, folder: Path):
    first, _ = save_pictures(folder, 2)
    bring_in(workspace, folder)
    first.rename(folder / "moved.png")
    picture(50).save(first)
    bring_in(workspace, folder)
    rows = records(workspace)
    assert rows["moved.png"].id == 1
    assert rows[first.name].id == 3


def test_a_name_taken_over_by_another_known_image(workspace: Workspace, folder: Path):
    first, second, _ = save_pictures(folder, 3)
    bring_in(workspace, folder)
    first.replace(second)
    fates = bring_in(workspace, folder).fates
    assert (fates.renamed, fates.removed) == (1, 1)
    assert records(workspace)[second.name].id == 1


def test_a_copy_is_a_new_image(workspace: Workspace, folder: Path):
    first, _ = save_pictures(folder, 2)
    bring_in(workspace, folder)
    (folder / "copy.png").write_bytes(first.read_bytes())
    report = bring_in(workspace, folder)
    assert (report.fates.new, report.fates.renamed, report.duplicates) == (1, 0, 1)
    assert records(workspace)[first.name].id == 1


def test_an_unreadable_file_that_was_mended_is_read(workspace: Workspace, folder: Path):
    first, second = save_pictures(folder, 2)
    whole = first.read_bytes()
    first.write_bytes(whole[:40])
    assert bring_in(workspace, folder).readable == 1
    first.write_bytes(whole)
    assert bring_in(workspace, folder).readable == 2
    second.write_bytes(b"")
    report = bring_in(workspace, folder)
    assert (report.readable, report.unreadable) == (1, {"the file is empty": 1})


def test_another_folder_under_the_same_name_is_refused(workspace: Workspace, folder: Path, tmp_path: Path):
    save_pictures(folder, 2)
    save_pictures(tmp_path / "other", 2)
    bring_in(workspace, folder)
    with pytest.raises(UsageError, match="exists already, made from .* --name set-2"):
        bring_in(workspace, tmp_path / "other")


def test_a_folder_that_lost_everything_is_refused_and_nothing_changes(workspace: Workspace, folder: Path):
    files = save_pictures(folder, 3)
    bring_in(workspace, folder)
    before = records(workspace)
    for file in files:
        file.unlink()
    with pytest.raises(SourceError, match="holds no files"):
        bring_in(workspace, folder)
    save_pictures(folder, 3, first_seed=900)
    for number, file in enumerate(files):
        file.rename(folder / f"foreign{number}.png")
    with pytest.raises(SourceError, match="None of the 3 images imported before .* Nothing was changed"):
        bring_in(workspace, folder)
    assert records(workspace) == before
    assert workspace.dataset("set").summary().complete
