"""Start page in a real browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from crlc.data.dataset import DatasetInfo
from crlc.data.options import ImportOptions
from crlc.files import writer_lock
from crlc.jobs.job_file import JobFile
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.app.conftest import RunningApp
from tests.fixtures.broken_files import make_broken_folder
from tests.fixtures.browser import POINTS, button, by_key, import_folder, open_page, text_box
from tests.fixtures.images import save_images

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOADED_IMAGES = "[...document.images].filter(i => i.src.includes('/images/') && i.naturalWidth > 0).length"
"""Number of loaded images of datasets on the page."""


def test_sample_data_button_trains_the_digits(page: Page, app: RunningApp):
    button(page, "try-digits").click()
    expect(button(page, "live-stop")).to_be_visible()
    page.wait_for_function(f"{POINTS} > 1", timeout=60_000)  # the curve grows
    open_page(page, "Start")
    expect(by_key(page, "dataset-digits").get_by_text("1,797 images · 16 px").first).to_be_visible()
    page.wait_for_function(f"{LOADED_IMAGES} === 12")
    # A second training is queued after the first one, whose curves stay.
    button(page, "try-digits").click()
    expect(button(page, "live-stop")).to_be_visible()
    page.wait_for_function(f"{POINTS} > 1", timeout=60_000)
    second = JobFile(app.workspace.root).read_jobs()[-1]
    button(page, f"stop-{second.id}").click()
    expect(button(page, f"stop-{second.id}")).to_be_hidden()
    RunStore(app.workspace).open("last").request_stop()
    expect(page.get_by_role("button", name="Start training")).to_be_visible()  # not "Add to queue"


def test_import_continues_after_the_page_is_closed(page: Page, app: RunningApp, browser: Browser, tmp_path: Path):
    save_images(tmp_path / "many", 1200)
    import_folder(page, tmp_path / "many")
    expect(page).to_have_title(re.compile(r"^\d+% · "))
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.goto("about:blank")
    other = browser.new_page()
    other.goto(app.url)
    expect(other.get_by_text("1,200 images · 32 px")).to_be_visible(timeout=60_000)
    assert app.workspace.open_dataset("many").summarize().complete
    other.close()


def test_import_of_broken_files_shows_images_and_problems(page: Page, app: RunningApp, tmp_path: Path):
    make_broken_folder(tmp_path / "pictures")
    (tmp_path / "link").symlink_to("pictures")
    app.workspace.import_dataset(str(tmp_path / "link"))
    page.reload()
    expect(by_key(page, "problems-pictures")).to_be_visible()
    readable = app.workspace.open_dataset("pictures").summarize().readable
    expect(page.get_by_text(f"{readable} images · 32 px")).to_be_visible()
    by_key(page, "problems-pictures").locator("summary").click()
    with page.expect_download() as download:
        by_key(page, "problems-pictures").get_by_role("link").click()
    assert download.value.suggested_filename == "pictures-problems.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "path,bytes,reason"
    assert "empty.jpg,0,the file is empty" in lines


def test_start_page_shows_errors_next_to_their_cause(page: Page, app: RunningApp, tmp_path: Path):
    button(page, "import-folder").click()
    expect(page.get_by_role("alert").filter(has_text="path")).to_be_visible()
    import_folder(page, tmp_path / "nowhere")
    expect(page.get_by_role("alert").filter(has_text="nowhere")).to_be_visible()
    save_images(tmp_path / "good", 2)
    app.workspace.import_dataset(str(tmp_path / "good"))
    (app.workspace.open_dataset("good").folder / "dataset.json").write_text("{")
    page.reload()
    expect(by_key(page, "dataset-good").get_by_role("alert")).to_contain_text("dataset.json")
    assert page.get_by_text("Traceback").count() == 0


def test_folder_is_browsed_by_keyboard_counted_and_imported(page: Page, app: RunningApp, tmp_path: Path):
    for folder in ("a", "photos", "photos/.hidden"):
        save_images(tmp_path / "disk" / folder, 300 if folder == "photos" else 2)
    (tmp_path / "disk" / "photos" / "notes.txt").write_text("no image")
    # The browser starts at the folder of the user, as the server sees it: go up to the root, then down.
    button(page, "browse").click()
    dialog = page.get_by_role("dialog")
    folders = dialog.get_by_role("listbox")
    expect(folders).to_be_focused()
    while dialog.get_by_role("navigation").get_by_role("button").count() > 1:
        depth = dialog.get_by_role("navigation").get_by_role("button").count()
        folders.press("Backspace")
        expect(dialog.get_by_role("navigation").get_by_role("button")).to_have_count(depth - 1)
    for name in (tmp_path / "disk" / "photos").parts[1:]:
        folders.press_sequentially(name)
        expect(folders.locator("[aria-selected=true]")).to_have_text(name)
        folders.press("Enter")
        expect(dialog.get_by_role("navigation").get_by_role("button").last).to_have_text(name)
    expect(folders.get_by_role("option")).to_have_count(0)  # hidden folders are not listed
    button(dialog, "browse-use").click()
    expect(dialog).to_be_hidden()
    expect(text_box(page, "import-path")).to_have_value(str(tmp_path / "disk" / "photos"))
    expect(page.get_by_role("note").filter(has_text="300 images and 1 other file in 1 folder")).to_be_visible()
    button(page, "import-folder").click()
    expect(page.get_by_role("heading", name="Explore", exact=True, level=1)).to_be_visible()
    expect(page.locator("img[src*='/images/photos/']").or_(page.locator(".map")).first).to_be_visible()
    assert app.workspace.open_dataset("photos").summarize().readable == 300
    # Uploaded files are stored in the workspace. The folder is offered again.
    open_page(page, "Start")
    expect(by_key(page, "recent-0")).to_contain_text("photos")
    zone = page.get_by_role("group", name="Upload")
    uploads = [str(file) for file in (tmp_path / "disk" / "a").iterdir()]
    zone.get_by_label("Files to upload").set_input_files(uploads)
    zone.get_by_role("button", name="Cancel").click()
    zone.get_by_label("Files to upload").set_input_files(uploads)
    expect(zone).to_contain_text(str(app.workspace.root / "uploads"))
    zone.get_by_role("button", name="Import 2 files").click()
    expect(page.get_by_role("heading", name="Explore", exact=True, level=1)).to_be_visible()
    (folder,) = (app.workspace.root / "uploads").iterdir()
    assert {file.name for file in folder.iterdir()} == {Path(file).name for file in uploads}
    assert app.workspace.open_dataset(folder.name).summarize().readable == 2
    drop_folder(page, app, tmp_path / "dropped")


def drop_folder(page: Page, app: RunningApp, folder: Path) -> None:
    """Drop a folder with subfolders on the page, and see that its files keep their relative paths."""
    save_images(folder / "cats", 120)  # the browser lists 100 at a time
    save_images(folder / "dogs" / "small 'dogs' é", 2)
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden").mkdir()
    save_images(folder / ".hidden", 1)
    open_page(page, "Start")
    zone = page.get_by_role("group", name="Upload")
    expect(zone.get_by_role("button", name="Choose folder")).to_be_visible()
    drop_files(page, zone, [folder])
    expect(zone).to_contain_text("122 files from dropped")
    expect(zone).to_contain_text("1 other file left out")
    zone.get_by_role("button", name="Import 122 files").click()
    expect(page.get_by_role("heading", name="Explore", exact=True, level=1)).to_be_visible()
    stored = app.workspace.root / "uploads" / "dropped"
    assert len(list((stored / "cats").iterdir())) == 120
    assert len(list((stored / "dogs" / "small 'dogs' é").iterdir())) == 2
    assert not (stored / ".hidden").exists()


def drop_files(page: Page, target: Locator, paths: list[Path]) -> None:
    """Drop files or folders of this computer on an element, as the user does from a file manager."""
    box = target.bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {
            "type": kind, "x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2,
            "data": {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1},
        })  # fmt: skip


def write_unfinished_dataset(workspace: Workspace, source: Path, name: str) -> Path:
    """Write a dataset folder as another process leaves it while it creates the manifest, which has no tables yet."""
    folder = workspace.root / "datasets" / name
    folder.mkdir(parents=True)
    created = "2024-01-01T00:00:00+00:00"
    DatasetInfo(name, "uid", "folder", str(source), "downloads", ImportOptions(), created).save(folder)
    (folder / "manifest.sqlite").touch()
    return folder


def test_dataset_imported_by_another_process_cannot_be_opened_or_removed(page: Page, app: RunningApp, tmp_path: Path):
    save_images(tmp_path / "photos", 12)
    with writer_lock(app.workspace.root / "locks" / "dataset-photos.lock", "The dataset"):
        folder = write_unfinished_dataset(app.workspace, tmp_path / "photos", "photos")
        page.goto(app.url)
        card = by_key(page, "dataset-photos")
        expect(card.get_by_role("progressbar")).to_be_visible()
        assert card.get_by_role("alert").count() == 0
        assert card.get_by_role("button").count() == 0
        shutil.rmtree(folder)
    app.workspace.import_dataset(str(tmp_path / "photos"))
    expect(button(page, "explore-photos")).to_be_enabled()  # the card is polled until the import ends
    expect(by_key(page, "dataset-photos").get_by_text("12 images")).to_be_visible()
