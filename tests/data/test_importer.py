"""Tests of the import: stored data, options, and importing a changed source again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crlc.data.decode import decode_square
from crlc.data.importer import ImportReport
from crlc.data.manifest import ImageRecord, Manifest
from crlc.data.options import ImportOptions
from crlc.errors import NotFoundError, SourceError, UsageError
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.fixtures.images import make_image, save_images

SMALL = ImportOptions(size=16, workers=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pictures"


def import_folder(workspace: Workspace, given: Path | str, **options) -> ImportReport:
    return workspace.import_dataset(str(given), name="set", options=ImportOptions(**{"workers": 1, **options}))[1]


def read_records(workspace: Workspace, where: str = "1") -> dict[str, ImageRecord]:
    with Manifest(workspace.open_dataset("set").folder) as manifest:
        return {record.path: record for record in manifest.read_records(where)}


# ---- stored data


@pytest.mark.parametrize("workers", [1, 2])
def test_import_stores_pixels_and_metadata_of_every_image(workspace: Workspace, folder: Path, workers: int):
    files = save_images(folder, 150, width=30, height=20)
    report = import_folder(workspace, folder, size=16, workers=workers)
    assert (report.readable, report.unreadable, report.sizes) == (150, {}, (16,))
    store = workspace.open_dataset("set").open_pixels(16)
    rows = read_records(workspace)
    for file in files:
        row = rows[file.name]
        expected = decode_square(file.read_bytes(), 16)[1]
        np.testing.assert_array_equal(store.read([row.id])[0], expected)
        assert (row.width, row.height, row.bytes) == (30, 20, file.stat().st_size)
    assert [row.id for row in rows.values()] == list(range(1, 151))  # in the order of their paths


@pytest.mark.parametrize(("side", "chosen"), [(8, 16), (16, 16), (28, 32), (50, 64), (64, 64), (65, 160), (2000, 160)])
def test_import_chooses_the_size_from_the_images(workspace: Workspace, folder: Path, side: int, chosen: int):
    save_images(folder, 2, width=side, height=side + 7)
    assert import_folder(workspace, folder).sizes == (chosen,)


def test_import_reports_progress_to_the_end(workspace: Workspace, folder: Path):
    save_images(folder, 100)
    seen: list[Progress] = []
    workspace.import_dataset(str(folder), options=SMALL, report=seen.append)
    last = {progress.stage: progress for progress in seen}
    assert last["Decoding"].done == last["Decoding"].total == 100
    assert last["Decoding"].finished
    assert last["Decoding"].per_second > 0


def test_import_limit_samples_all_folders_reproducibly(workspace: Workspace, folder: Path, tmp_path: Path):
    for name in "abcdefgh":
        save_images(folder / name, 25, first_seed=ord(name) * 100)
    import_folder(workspace, folder, limit=60)
    sample = set(read_records(workspace))
    assert len(sample) == 60
    assert {path[0] for path in sample} == set("abcdefgh")
    other = Workspace(tmp_path / "other")
    import_folder(other, folder, limit=60)
    assert set(read_records(other)) == sample


def test_import_adds_and_updates_a_second_size(workspace: Workspace, folder: Path):
    save_images(folder, 3, width=64, height=64)
    import_folder(workspace, folder, size=16)
    assert import_folder(workspace, folder, size=32).sizes == (16, 32)
    make_image(99, 64, 64).save(folder / "00001.png")
    make_image(98, 64, 64).save(folder / "new.png")
    assert import_folder(workspace, folder).sizes == (16, 32)
    rows = read_records(workspace)
    for size in (16, 32):
        store = workspace.open_dataset("set").open_pixels(size)
        for name in ("00001.png", "new.png"):
            expected = decode_square((folder / name).read_bytes(), size)[1]
            np.testing.assert_array_equal(store.read([rows[name].id])[0], expected)
    with pytest.raises(NotFoundError, match="48.* 16, 32"):
        workspace.open_dataset("set").open_pixels(48)


# ---- classes, splits, subsets


def test_import_reads_classes_from_one_folder_per_class(workspace: Workspace, folder: Path):
    save_images(folder / "cats", 3)
    save_images(folder / "dogs", 2, first_seed=10)
    (folder / "README.txt").write_text("about")
    import_folder(workspace, folder)
    assert workspace.open_dataset("set").summarize().classes == {"cats": 3, "dogs": 2}
    import_folder(workspace, folder, classes="none")
    assert workspace.open_dataset("set").summarize().classes == {}
    import_folder(workspace, folder)  # the option is stored with the dataset
    assert workspace.open_dataset("set").summarize().classes == {}


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        ({"a": 2, "b": 2}, {"a": 2, "b": 2}),
        ({"animals/cat": 2, "animals/dog": 2, "cars": 2}, {"animals/cat": 2, "animals/dog": 2, "cars": 2}),
        ({"train/cat": 2, "train/dog": 2, "test/cat": 2}, {"cat": 4, "dog": 2}),
        ({"a": 4}, {}),  # a single folder is no class
        ({"": 1, "a": 2, "b": 2}, {}),  # images at the top
        ({"a": 2, "a/more": 2, "b": 2}, {}),  # albums inside albums
        ({"a": 1, "b": 1, "c": 1}, {}),  # a folder for each image
        ({"train": 3, "test": 3}, {}),  # splits are not classes
    ],
)
def test_import_recognises_folder_layouts_with_classes(
    workspace: Workspace, folder: Path, folders: dict[str, int], classes: dict[str, int]
):
    for number, (name, count) in enumerate(folders.items()):
        save_images(folder / name, count, first_seed=100 * number)
    import_folder(workspace, folder)
    assert workspace.open_dataset("set").summarize().classes == classes


def test_import_uses_folders_as_classes_on_request(workspace: Workspace, folder: Path):
    save_images(folder, 1)
    save_images(folder / "a" / "b", 1, first_seed=5)
    import_folder(workspace, folder, classes="folders")
    assert workspace.open_dataset("set").summarize().classes == {"a/b": 1}


def test_import_reads_classes_from_a_csv(workspace: Workspace, folder: Path):
    save_images(folder, 4)
    table = folder.parent / "classes.csv"
    table.write_text(f"path,class\n00000.png,cat\n{folder / '00001.png'},dog\npictures/00002.png,cat\ngone.png,dog\n")
    report = import_folder(workspace, folder, classes=str(table))
    assert workspace.open_dataset("set").summarize().classes == {"cat": 2, "dog": 1}
    assert report.unmatched_classes == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path\n00000.png\n", "column named one of class"),
        ("path,class\nother.png,cat\n", "None of the paths with a class"),
        (None, "nor a CSV file that exists"),
    ],
)
def test_import_refuses_an_unusable_csv_of_classes(workspace: Workspace, folder: Path, text: str | None, words: str):
    save_images(folder, 2)
    table = folder.parent / "classes.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises((SourceError, UsageError), match=words):
        import_folder(workspace, folder, classes=str(table))


def test_import_refuses_a_csv_with_contradicting_classes(workspace: Workspace, folder: Path):
    save_images(folder, 1)
    (folder / "t.csv").write_text("path,class\n00000.png,cat\n00000.png,cat\n00000.png,dog\n")
    with pytest.raises(SourceError, match="listed twice with different classes, 'cat' and 'dog'"):
        import_folder(workspace, folder / "t.csv")
    assert workspace.list_dataset_names() == []


def test_import_selects_the_requested_splits(workspace: Workspace, folder: Path):
    for number, split in enumerate(("train", "test", "unlabelled")):
        save_images(folder / split / "x", 2, first_seed=10 * number)
    import_folder(workspace, folder, split="train+test")
    assert workspace.open_dataset("set").summarize().splits == {"test": 2, "train": 2}
    with pytest.raises(SourceError, match="no split val. Splits found there: test, train, unlabelled"):
        import_folder(workspace, folder, split="val")


def test_import_selects_imagenet_subsets_by_name(workspace: Workspace, folder: Path):
    from crlc.data.classes import read_subset

    subset = sorted(read_subset("imagenet10"))
    assert len(subset) == 10
    for number, name in enumerate([*subset, "n99999999"]):
        save_images(folder / "train" / name, 2, first_seed=10 * number)
    import_folder(workspace, folder, subset="imagenet10")
    assert sorted(workspace.open_dataset("set").summarize().classes) == subset


@pytest.mark.parametrize(
    ("name", "count"),
    [("imagenet10", 10), ("imagenet-dogs", 15), ("imagenet50", 50), ("imagenet100", 100), ("imagenet200", 200)],
)
def test_read_subset_returns_the_number_of_classes(name: str, count: int):
    from crlc.data.classes import read_subset

    assert len(read_subset(name)) == count


def test_import_refuses_an_incomplete_subset(workspace: Workspace, folder: Path, tmp_path: Path):
    save_images(folder / "cats", 2)
    (tmp_path / "list.txt").write_text("cats\ndogs\n")
    with pytest.raises(SourceError, match="lacks 1 of the 2 class folders .*: dogs"):
        import_folder(workspace, folder, subset=str(tmp_path / "list.txt"))
    with pytest.raises(UsageError, match="neither one of imagenet-dogs"):
        import_folder(workspace, folder, subset="imagenet11")


# ---- nothing to import


def test_import_of_a_folder_without_images_leaves_no_dataset(workspace: Workspace, folder: Path):
    folder.mkdir()
    with pytest.raises(SourceError, match="no files"):
        import_folder(workspace, folder)
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(SourceError, match="no readable image among 1 files: 1 x a text file, not an image"):
        import_folder(workspace, folder)
    assert workspace.list_dataset_names() == []


# ---- a second import


def test_import_of_an_unchanged_folder_does_nothing(workspace: Workspace, folder: Path):
    save_images(folder, 5)
    import_folder(workspace, folder)
    before = read_records(workspace)
    stages: list[str] = []
    workspace.import_dataset(str(folder), name="set", report=lambda progress: stages.append(progress.stage))
    assert read_records(workspace) == before
    assert "Decoding" not in stages


def test_import_finds_new_changed_renamed_and_removed_images(workspace: Workspace, folder: Path):
    save_images(folder, 6)
    import_folder(workspace, folder)
    before = read_records(workspace)
    (folder / "sub").mkdir()
    (folder / "00000.png").rename(folder / "sub" / "moved.png")
    make_image(77).save(folder / "00001.png")
    (folder / "00002.png").unlink()
    make_image(78).save(folder / "new.png")
    os.utime(folder / "00003.png", ns=(1, 1))  # touched, the content is the same
    changes = import_folder(workspace, folder).changes
    assert (changes.new, changes.changed, changes.renamed, changes.removed, changes.same) == (1, 1, 1, 1, 3)
    after = read_records(workspace)
    assert after["sub/moved.png"].id == before["00000.png"].id
    assert after["sub/moved.png"].content_version == before["00000.png"].content_version
    assert after["00001.png"].id == before["00001.png"].id
    assert after["00001.png"].content_version > before["00001.png"].content_version
    assert after["00002.png"].status == "removed"
    assert after["00003.png"].content_version == before["00003.png"].content_version
    assert after["new.png"].id == 7
    store = workspace.open_dataset("set").open_pixels()
    assert sorted(store.ids) == [1, 2, 4, 5, 6, 7]
    np.testing.assert_array_equal(store.read([2])[0], decode_square((folder / "00001.png").read_bytes(), store.size)[1])


def test_import_gives_a_returning_image_its_id_back(workspace: Workspace, folder: Path):
    save_images(folder, 3)
    import_folder(workspace, folder)
    content = (folder / "00001.png").read_bytes()
    (folder / "00001.png").unlink()
    import_folder(workspace, folder)
    (folder / "elsewhere.png").write_bytes(content)
    import_folder(workspace, folder)
    assert read_records(workspace)["elsewhere.png"].id == 2
    assert read_records(workspace)["elsewhere.png"].status == "ok"


def test_import_keeps_the_ids_of_files_that_swap_names(workspace: Workspace, folder: Path):
    first, second = save_images(folder, 2)
    import_folder(workspace, folder)
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)
    changes = import_folder(workspace, folder).changes
    assert (changes.renamed, changes.changed, changes.new, changes.removed) == (2, 0, 0, 0)
    assert read_records(workspace)[first.name].id == 2
    assert read_records(workspace)[second.name].id == 1


def test_import_distinguishes_a_renamed_file_from_a_new_one_at_its_old_path(workspace: Workspace, folder: Path):
    first, _ = save_images(folder, 2)
    import_folder(workspace, folder)
    first.rename(folder / "moved.png")
    make_image(50).save(first)
    import_folder(workspace, folder)
    rows = read_records(workspace)
    assert rows["moved.png"].id == 1
    assert rows[first.name].id == 3


def test_import_notices_an_image_renamed_to_the_name_of_another(workspace: Workspace, folder: Path):
    first, second, _ = save_images(folder, 3)
    import_folder(workspace, folder)
    first.replace(second)
    changes = import_folder(workspace, folder).changes
    assert (changes.renamed, changes.removed) == (1, 1)
    assert read_records(workspace)[second.name].id == 1


def test_import_treats_a_copy_as_a_new_image(workspace: Workspace, folder: Path):
    first, _ = save_images(folder, 2)
    import_folder(workspace, folder)
    (folder / "copy.png").write_bytes(first.read_bytes())
    report = import_folder(workspace, folder)
    assert (report.changes.new, report.changes.renamed, report.duplicates) == (1, 0, 1)
    assert read_records(workspace)[first.name].id == 1


def test_import_reads_an_unreadable_file_that_was_repaired(workspace: Workspace, folder: Path):
    first, second = save_images(folder, 2)
    whole = first.read_bytes()
    first.write_bytes(whole[:40])
    assert import_folder(workspace, folder).readable == 1
    first.write_bytes(whole)
    assert import_folder(workspace, folder).readable == 2
    second.write_bytes(b"")
    report = import_folder(workspace, folder)
    assert (report.readable, report.unreadable) == (1, {"the file is empty": 1})


def test_import_refuses_another_folder_under_the_same_name(workspace: Workspace, folder: Path, tmp_path: Path):
    save_images(folder, 2)
    save_images(tmp_path / "other", 2)
    import_folder(workspace, folder)
    with pytest.raises(UsageError, match="exists already.* set-2"):
        import_folder(workspace, tmp_path / "other")


def test_import_refuses_a_folder_that_lost_all_images(workspace: Workspace, folder: Path):
    files = save_images(folder, 3)
    import_folder(workspace, folder)
    before = read_records(workspace)
    for file in files:
        file.unlink()
    with pytest.raises(SourceError, match="no files"):
        import_folder(workspace, folder)
    save_images(folder, 3, first_seed=900)
    for number, file in enumerate(files):
        file.rename(folder / f"foreign{number}.png")
    with pytest.raises(SourceError, match="None of the 3 images imported before .* Nothing was changed"):
        import_folder(workspace, folder)
    assert read_records(workspace) == before
    assert workspace.open_dataset("set").summarize().complete
