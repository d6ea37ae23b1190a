"""Labelling by keyboard in a real browser: quick keys, two windows, a full disk; then a better run of the labels."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.data.dataset import ImageDataset
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor
from crlc.workspace.run_analysis import RunAnalysis
from tests.app.conftest import ARTIFACTS, RunningApp, end_app, start_app
from tests.app.tiny_run import tiny_dataset, tiny_run
from tests.workspace.test_annotation_log import fill

AT = "Number(window.crlcLabelDesk.at)"
IDLE = "window.crlcLabelDesk.pending.length === 0"


@pytest.fixture
def labelled(app: RunningApp, tmp_path: Path) -> ImageDataset:
    """A data set with a run, two of whose three clusters have names."""
    expect.set_options(timeout=20_000)  # a busy computer is no failure
    dataset = tiny_dataset(app.workspace, tmp_path / "set")
    run = tiny_run(app.workspace, dataset)
    with Annotations(dataset) as annotations:
        editor = ClusterEditor(annotations, RunAnalysis.open(app.workspace, run.id).clustering)
        editor.name(0, "cat")
        editor.name(1, "<b>dog</b>")
    return dataset


def labels_of(dataset: ImageDataset) -> dict[int, str]:
    with Annotations(dataset) as annotations:
        found = annotations.refresh().labelled()
        return {int(image): found.names[number] for image, number in zip(found.ids, found.numbers, strict=True)}


def excluded_of(dataset: ImageDataset) -> list[int]:
    with Annotations(dataset) as annotations:
        return annotations.refresh().excluded().tolist()


def open_desk(page: Page, url: str) -> None:
    page.goto(f"{url}/label")
    expect(page.locator(".frame img.large")).to_be_visible()


def saved(page: Page) -> None:
    page.wait_for_function(IDLE)
    expect(page.locator(".saved")).to_contain_text("saved")


def test_quick_keys_are_all_written_to_their_own_images(page: Page, app: RunningApp, labelled: ImageDataset):
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    open_desk(page, app.url)
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>"])

    # Ten keys as fast as they can be pressed; what each was about is asked of the page itself.
    wanted: dict[int, str] = {}
    names = {"1": "cat", "2": "<b>dog</b>"}
    for key in "1221121212":
        wanted[page.evaluate(AT)] = names[key]
        page.keyboard.press(key)
    saved(page)
    assert len(wanted) == 10
    assert labels_of(labelled) == wanted
    expect(page.locator(".name .count")).to_have_text(["5", "5"])

    # Z three times: the last three are taken back, the last first, and their images come again.
    for _ in range(3):
        page.keyboard.press("z")
        wanted.pop(list(wanted)[-1])
    saved(page)
    assert labels_of(labelled) == wanted

    # Space gives the cluster's name, where it has one; X excludes; S leaves alone; arrows only move.
    here = page.evaluate(AT)
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{AT} === {here}")
    expect(page.locator(".mark")).to_have_text("excluded")
    page.keyboard.press("ArrowRight")
    skipped = page.evaluate(AT)
    page.keyboard.press("s")
    saved(page)
    assert excluded_of(labelled) == [here]
    assert skipped not in labels_of(labelled)

    # In a text field no key does anything but write; Enter gives the new name, which has the next key from then on.
    at = page.evaluate(AT)
    page.keyboard.press("n")
    page.keyboard.type("12 xsz ")
    assert page.evaluate(AT) == at
    page.keyboard.press("Enter")
    second = page.evaluate(AT)
    page.keyboard.press("3")  # before anything is answered
    saved(page)
    assert labels_of(labelled)[at] == labels_of(labelled)[second] == "12 xsz"
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>", "12 xsz"])
    page.get_by_text("Names", exact=True).first.click()
    box = page.get_by_role("textbox", name="New name")
    box.fill("")
    box.press_sequentially("1x")
    page.keyboard.press("Escape")

    # After a reload everything is there, and what is decided does not come again.
    before = labels_of(labelled)
    page.reload()
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>", "12 xsz"])
    assert labels_of(labelled) == before
    assert page.evaluate(AT) not in before
    assert troubles == []
    page.screenshot(path=ARTIFACTS / "label.png")


def test_two_windows_lose_no_label(browser: Browser, page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    other = browser.new_page(viewport={"width": 1280, "height": 800})
    open_desk(other, app.url)
    wanted: dict[int, str] = {}
    for number in range(6):
        for window, key, name in ((page, "1", "cat"), (other, "2", "<b>dog</b>")):
            # Each has half of the images.
            mine = [image for image in window.evaluate("window.crlcLabelDesk.order") if (image % 2) == (window is page)]
            window.evaluate(f"window.crlcLabelDesk.goTo({mine[number]})")
            wanted[mine[number]] = name
            window.keyboard.press(key)
    saved(page)
    saved(other)
    assert labels_of(labelled) == wanted
    # Each window shows what the other did once it has done something itself.
    expect(other.locator(".name .count")).to_have_text(["6", "6"])
    # Undo in one window takes back what was done there, and leaves what the other did later.
    page.keyboard.press("z")
    saved(page)
    wanted.pop(page.evaluate(AT))
    assert labels_of(labelled) == wanted
    expect(page.locator(".name .count")).to_have_text(["5", "6"])
    theirs = next(image for image, name in wanted.items() if name != "cat")
    page.evaluate(f"window.crlcLabelDesk.goTo({theirs})")
    expect(page.locator(".mark")).to_have_text("<b>dog</b>")
    other.close()


def test_what_cannot_be_saved_is_said_in_place(page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    with sqlite3.connect(labelled.folder / "annotations.sqlite") as log:
        log.execute("CREATE TRIGGER full BEFORE INSERT ON operations BEGIN SELECT RAISE(ABORT, 'no room left'); END")
    at = page.evaluate(AT)
    page.keyboard.press("1")
    expect(page.locator(".alert")).to_contain_text("1 decision was not saved")
    expect(page.locator(".alert")).to_contain_text("no room left")
    expect(page.locator(".saved")).to_have_text("not saved")
    assert labels_of(labelled) == {}
    with sqlite3.connect(labelled.folder / "annotations.sqlite") as log:
        log.execute("DROP TRIGGER full")
    page.get_by_role("button", name="Try again").click()
    saved(page)
    expect(page.locator(".alert")).to_be_hidden()
    assert labels_of(labelled) == {at: "cat"}


@pytest.mark.parametrize("small_disk", ["8m"], indirect=True)
def test_a_full_disk_is_said_and_what_was_saved_is_there(browser: Browser, small_disk: Path, tmp_path: Path):
    expect.set_options(timeout=20_000)  # a busy computer is no failure
    workspace = Workspace(small_disk / "workspace")
    dataset = tiny_dataset(workspace, tmp_path / "set")
    tiny_run(workspace, dataset)
    with Annotations(dataset) as annotations:
        annotations.label([12], "cat")
    process, url = start_app(workspace)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    open_desk(page, url)
    wanted = {12: "cat", page.evaluate(AT): "cat"}
    page.keyboard.press("1")
    saved(page)
    filler = fill(small_disk)
    lost = None
    for _ in range(9):  # the log has a little room left at first
        at = page.evaluate(AT)
        page.keyboard.press("1")
        page.wait_for_function(IDLE)
        if page.locator(".alert").is_visible():
            lost = at
            break
        wanted[at] = "cat"
    assert lost is not None
    expect(page.locator(".alert")).to_contain_text("1 decision was not saved")
    expect(page.locator(".alert")).to_contain_text("full")
    expect(page.locator(".saved")).to_have_text("not saved")
    assert labels_of(dataset) == wanted
    page.screenshot(path=ARTIFACTS / "label_full_disk.png")
    filler.unlink()
    page.get_by_role("button", name="Try again").click()
    saved(page)
    assert labels_of(dataset) == wanted | {lost: "cat"}
    assert page.get_by_text("Traceback").count() == 0
    page.close()
    end_app(process)


def test_many_at_once_and_new_names(page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    page.get_by_text("All at once").click()
    page.get_by_role("combobox", name="Which images").click()
    page.get_by_role("option", name="Cluster 2: least sure first").click()
    expect(page.locator(".tile")).to_have_count(4)
    box = page.get_by_role("combobox", name="Label 4 images as")
    box.fill("bird")
    box.press("Enter")
    page.get_by_role("button", name="Label all 4").click()
    expect(page.get_by_text("label 4 images 'bird'")).to_be_visible()
    assert labels_of(labelled) == dict.fromkeys([9, 10, 11, 12], "bird")
    expect(page.locator("figcaption .text")).to_have_text(["bird"] * 4)
    page.screenshot(path=ARTIFACTS / "label_grid.png")
