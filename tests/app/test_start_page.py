"""The start page, in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from crlc.workspace.runs import Runs
from tests.app.conftest import RunningApp
from tests.app.test_training_story import POINTS
from tests.hostile import make_hostile_folder
from tests.pictures import save_pictures


def import_folder(page: Page, path: Path | str) -> None:
    page.get_by_role("textbox", name="Folder of images").fill(str(path))
    page.get_by_role("button", name="Import", exact=True).click()


def shown_images(page: Page) -> int:
    """How many images the page shows that have really arrived."""
    return page.evaluate("[...document.images].filter(i => i.src.includes('/images/') && i.naturalWidth > 0).length")


def test_the_digits_are_trained_with_one_click(page: Page, app: RunningApp):
    expect(page.get_by_text("No images here yet")).to_be_visible()
    page.get_by_role("button", name="Try the digits").click()
    expect(page.get_by_role("heading", name="Training", exact=True)).to_be_visible(timeout=60_000)
    page.wait_for_function(f"{POINTS} > 1", timeout=90_000)  # its curve moves
    page.get_by_role("link", name="Start").click()
    expect(page.get_by_text("1,797 images · 16 px · 10 classes known")).to_be_visible()
    page.wait_for_function("[...document.images].filter(i => i.naturalWidth > 0).length >= 12")
    assert shown_images(page) == 12
    # Once more: it waits for the first one, and says so.
    page.get_by_role("button", name="Try the digits").click()
    expect(page.get_by_role("heading", name="Waiting for the one before it")).to_be_visible()
    page.get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_role("heading", name="Waiting for the one before it")).to_be_hidden()
    Runs(app.workspace).open("last").ask_to_stop()
    expect(page.get_by_role("button", name="Start training")).to_be_visible(timeout=60_000)  # nothing goes on any more


def test_closing_the_page_does_not_end_an_import(page: Page, app: RunningApp, browser: Browser, tmp_path: Path):
    save_pictures(tmp_path / "many", 1200)
    import_folder(page, tmp_path / "many")
    expect(page.get_by_text("Importing")).to_be_visible()
    page.goto("about:blank")
    other = browser.new_page()
    other.goto(app.url)
    expect(other.get_by_text("1,200 images · 32 px")).to_be_visible(timeout=60_000)
    assert app.workspace.dataset("many").summary().complete
    other.close()


def test_a_folder_with_broken_files_shows_images_and_problems(page: Page, app: RunningApp, tmp_path: Path):
    make_hostile_folder(tmp_path / "pictures")
    (tmp_path / "link").symlink_to("pictures")
    import_folder(page, tmp_path / "link")
    expect(page.get_by_text("files could not be read")).to_be_visible()
    readable = app.workspace.dataset("pictures").summary().readable
    expect(page.get_by_text(f"{readable} images · 32 px")).to_be_visible()
    page.get_by_text("files could not be read").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the list").click()
    assert download.value.suggested_filename == "pictures-problems.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "path,bytes,reason"
    assert "empty.jpg,0,the file is empty" in lines


def test_mistakes_are_explained_in_place(page: Page, app: RunningApp, tmp_path: Path):
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Enter the path of a folder first")).to_be_visible()
    import_folder(page, tmp_path / "nowhere")
    expect(page.get_by_text("nowhere does not exist")).to_be_visible()
    save_pictures(tmp_path / "good", 2)
    app.workspace.import_dataset(str(tmp_path / "good"))
    (app.workspace.dataset("good").folder / "dataset.json").write_text("{")
    page.reload()
    expect(page.get_by_text("cannot be read")).to_be_visible()
    assert page.get_by_text("Traceback").count() == 0


def test_many_images_are_decoded_by_workers_started_from_a_page(page: Page, app: RunningApp, tmp_path: Path):
    save_pictures(tmp_path / "many", 300)
    import_folder(page, tmp_path / "many")
    expect(page.get_by_text("many: 300 images in")).to_be_visible()
    assert app.workspace.dataset("many").summary().complete
