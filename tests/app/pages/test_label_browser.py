"""Label page in a real browser: fast keys, two windows, decisions that cannot be saved, and many images at once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.data.dataset import ImageDataset
from crlc.services.analyse_run import RunAnalysis
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.annotations.test_log import fill
from tests.app.conftest import ARTIFACTS, RunningApp, end_app, start_app
from tests.fixtures.accessibility import find_violations
from tests.fixtures.annotations import read_labels
from tests.fixtures.browser import CURRENT_IMAGE, IS_SAVED, button, by_key, text_box, wait_until_saved
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.tiny_run import CONFIDENCES, import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def labelled(app: RunningApp, tmp_path: Path) -> ImageDataset:
    """Return a dataset with a run; two of its three clusters have names."""
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    run = write_tiny_run(app.workspace, dataset)
    with AnnotationStore(dataset) as annotations:
        editor = ClusterEditor(annotations, RunAnalysis.open(app.workspace, run.id).clustering)
        editor.set_name(0, "cat")
        editor.set_name(1, "<b>dog</b>")
    return dataset


def read_excluded(dataset: ImageDataset) -> list[int]:
    with AnnotationStore(dataset) as annotations:
        return annotations.refresh().get_excluded_ids().tolist()


def open_desk(page: Page, url: str) -> None:
    page.goto(f"{url}/label")
    expect(page.locator(".frame img.large")).to_be_visible()


def names_button(page: Page) -> Locator:
    """Return the button that opens the popover of all labels."""
    return page.locator("button:visible", has=page.get_by_text("edit", exact=True)).first


def open_names_form(page: Page, name: str) -> None:
    """Open the form that renames or removes a label."""
    names_button(page).click()
    by_key(page, "label-to-edit").get_by_role("combobox").click()
    page.get_by_role("option", name=name, exact=True).click()
    expect(text_box(page, f"label-new-name-{name}")).to_be_visible()


def test_label_desk_takes_the_beginning_of_a_name_as_a_new_name(page: Page, app: RunningApp, labelled: ImageDataset):
    page.goto(f"{app.url}/label")
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>"])
    page.locator(".desk").focus()
    first = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("n")
    page.keyboard.type("CA")
    expect(page.locator(".hint")).to_have_text("Press Enter to create “CA”, Tab for “cat”")
    page.keyboard.press("Enter")
    second = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("n")
    page.keyboard.type("<B")
    page.keyboard.press("Tab")
    expect(page.locator(".hint")).to_have_count(0)
    page.keyboard.press("Enter")
    wait_until_saved(page)
    labels = read_labels(labelled)
    assert (labels[first], labels[second]) == ("CA", "<b>dog</b>")


def test_label_desk_saves_fast_keys_for_the_right_images(page: Page, app: RunningApp, labelled: ImageDataset):
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_desk(page, app.url)
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>"])

    # Ten keys in quick succession; the page itself reports the image that each key labels.
    expected: dict[int, str] = {}
    names = {"1": "cat", "2": "<b>dog</b>"}
    for key in "1221121212":
        expected[page.evaluate(CURRENT_IMAGE)] = names[key]
        page.keyboard.press(key)
    wait_until_saved(page)
    assert len(expected) == 10
    assert read_labels(labelled) == expected
    expect(page.locator(".name .count")).to_have_text(["5", "5"])

    # Z three times undoes the last three decisions, the last one first.
    for _ in range(3):
        page.keyboard.press("z")
        expected.pop(list(expected)[-1])
    wait_until_saved(page)
    assert read_labels(labelled) == expected

    # X excludes the image, S skips it, and the arrow keys only move.
    here = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{CURRENT_IMAGE} === {here}")
    expect(page.locator(".mark")).to_have_class("mark out")
    page.keyboard.press("ArrowRight")
    skipped = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("s")
    wait_until_saved(page)
    assert read_excluded(labelled) == [here]
    assert skipped not in read_labels(labelled)

    # In a text field, keys only write. Enter labels the image with the new name, which gets the next number key.
    at = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("n")
    page.keyboard.type("12 xsz ")
    assert page.evaluate(CURRENT_IMAGE) == at
    page.keyboard.press("Enter")
    second = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("3")  # before Python has confirmed the new name
    wait_until_saved(page)
    assert read_labels(labelled)[at] == read_labels(labelled)[second] == "12 xsz"
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>", "12 xsz"])
    before = read_labels(labelled)
    open_names_form(page, "cat")
    box = text_box(page, "label-new-name-cat")
    box.fill("")
    box.press_sequentially("1x")
    page.keyboard.press("Escape")

    # Typing there labelled no image. After a reload, all labels are there, and labelled images are not shown again.
    page.reload()
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>", "12 xsz"])
    assert read_labels(labelled) == before
    assert page.evaluate(CURRENT_IMAGE) not in before
    assert errors == []
    page.screenshot(path=ARTIFACTS / "label.png")


def test_names_form_keeps_its_label_while_images_are_labelled(page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    page.keyboard.press("1")
    page.keyboard.press("2")
    wait_until_saved(page)
    open_names_form(page, "cat")
    expect(button(page, "remove-label-cat")).to_contain_text("(1)")
    text_box(page, "label-new-name-cat").focus()
    page.evaluate("crlcLabelDesk.update({ ...crlcLabelDesk.data, queue: 'another' })")  # as after more labels
    expect(text_box(page, "label-new-name-cat")).to_be_focused()
    page.keyboard.press("Escape")

    # Another name now comes first in the alphabet, and the counts of both names change.
    page.keyboard.press("n")
    page.keyboard.type("ape")
    page.keyboard.press("Enter")
    for key in "1231":
        page.keyboard.press(key)
    wait_until_saved(page)
    names_button(page).click()
    expect(by_key(page, "label-to-edit").get_by_role("combobox")).to_have_attribute("value", "cat")
    expect(button(page, "remove-label-cat")).to_contain_text("(3)")
    expected = {image: name for image, name in read_labels(labelled).items() if name != "cat"}
    button(page, "remove-label-cat").click()
    expect(button(page, "remove-label-cat")).to_be_hidden()
    assert read_labels(labelled) == expected

    # No other name takes the place of the removed one: a second click removes nothing.
    expect(by_key(page, "label-to-edit").get_by_role("combobox")).to_have_attribute("value", "")
    assert page.locator("[class*='st-key-remove-label']").count() == 0


def test_label_desk_in_two_windows_loses_no_label(
    browser: Browser, page: Page, app: RunningApp, labelled: ImageDataset
):
    open_desk(page, app.url)
    other = browser.new_page(viewport={"width": 1280, "height": 800})
    open_desk(other, app.url)
    expected: dict[int, str] = {}
    for number in range(6):
        for window, key, name in ((page, "1", "cat"), (other, "2", "<b>dog</b>")):
            # Each window labels half of the images.
            mine = [image for image in window.evaluate("window.crlcLabelDesk.order") if (image % 2) == (window is page)]
            window.evaluate(f"window.crlcLabelDesk.goTo({mine[number]})")
            expected[mine[number]] = name
            window.keyboard.press(key)
    wait_until_saved(page)
    wait_until_saved(other)
    assert read_labels(labelled) == expected
    # A window shows the labels of the other window after its own next decision.
    expect(other.locator(".name .count")).to_have_text(["6", "6"])
    # Undo in one window reverts its own last decision, and keeps later decisions of the other window.
    page.keyboard.press("z")
    wait_until_saved(page)
    expected.pop(page.evaluate(CURRENT_IMAGE))
    assert read_labels(labelled) == expected
    expect(page.locator(".name .count")).to_have_text(["5", "6"])
    theirs = next(image for image, name in expected.items() if name != "cat")
    page.evaluate(f"window.crlcLabelDesk.goTo({theirs})")
    expect(page.locator(".mark")).to_have_text("<b>dog</b>")
    other.close()


def test_label_desk_shows_decisions_that_cannot_be_saved(page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    with sqlite3.connect(labelled.folder / "annotations.sqlite") as log:
        log.execute("CREATE TRIGGER full BEFORE INSERT ON operations BEGIN SELECT RAISE(ABORT, 'no room left'); END")
    at = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("1")
    expect(page.locator(".alert")).to_be_visible()
    expect(page.locator(".alert")).to_contain_text("no room left")
    expect(page.locator(".saved.bad")).to_be_visible()
    assert read_labels(labelled) == {}
    with sqlite3.connect(labelled.folder / "annotations.sqlite") as log:
        log.execute("DROP TRIGGER full")
    page.locator(".alert button").first.click()
    wait_until_saved(page)
    expect(page.locator(".alert")).to_be_hidden()
    assert read_labels(labelled) == {at: "cat"}


@pytest.mark.parametrize("small_disk", ["8m"], indirect=True)
def test_label_desk_reports_a_full_disk_and_keeps_saved_labels(browser: Browser, small_disk: Path, tmp_path: Path):
    workspace = Workspace(small_disk / "workspace")
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    with AnnotationStore(dataset) as annotations:
        annotations.label([12], "cat")
    process, url = start_app(workspace)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    open_desk(page, url)
    expected = {12: "cat", page.evaluate(CURRENT_IMAGE): "cat"}
    page.keyboard.press("1")
    wait_until_saved(page)
    filler = fill(small_disk)
    lost = None
    for _ in range(9):  # the log has a little room left at first
        at = page.evaluate(CURRENT_IMAGE)
        page.keyboard.press("1")
        page.wait_for_function(IS_SAVED)
        if page.locator(".alert").is_visible():
            lost = at
            break
        expected[at] = "cat"
    assert lost is not None
    expect(page.locator(".alert")).to_be_visible()
    expect(page.locator(".alert")).to_contain_text("full")
    expect(page.locator(".saved.bad")).to_be_visible()
    assert read_labels(dataset) == expected
    page.screenshot(path=ARTIFACTS / "label_full_disk.png")
    filler.unlink()
    page.locator(".alert button").first.click()
    wait_until_saved(page)
    assert read_labels(dataset) == expected | {lost: "cat"}
    assert page.get_by_text("Traceback").count() == 0
    page.close()
    end_app(process)


def test_label_desk_stays_when_streamlit_removes_the_element_that_ran_last(
    page: Page, app: RunningApp, labelled: ImageDataset
):
    open_desk(page, app.url)
    page.evaluate(
        """() => {
            const removed = document.createElement("div");
            window.crlcLabelDesk.mount(removed, () => {});
            window.crlcLabelDesk.unmount(removed);
        }"""
    )
    expect(page.locator(".frame img.large")).to_be_visible()
    at = page.evaluate(CURRENT_IMAGE)
    page.keyboard.press("1")
    wait_until_saved(page)
    assert read_labels(labelled) == {at: "cat"}


def test_label_desk_keeps_the_keys_of_two_new_names_that_arrive_together(
    page: Page, app: RunningApp, labelled: ImageDataset
):
    open_desk(page, app.url)
    page.evaluate("window.crlcLabelDesk.send = () => {}")  # a busy computer: both names are sent in one message
    expected = {}
    for name in ("zebra", "ape"):
        expected[page.evaluate(CURRENT_IMAGE)] = name
        page.keyboard.press("n")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
    page.evaluate("delete window.crlcLabelDesk.send; window.crlcLabelDesk.send()")
    wait_until_saved(page)
    expect(page.locator(".name .text")).to_have_text(["cat", "<b>dog</b>", "zebra", "ape"])
    expected[page.evaluate(CURRENT_IMAGE)] = "zebra"
    page.keyboard.press("3")
    wait_until_saved(page)
    assert read_labels(labelled) == expected


def test_label_page_labels_many_images_with_a_new_name(page: Page, app: RunningApp, labelled: ImageDataset):
    open_desk(page, app.url)
    by_key(page, "label-mode").get_by_role("radio").nth(1).click()
    by_key(page, "label-source").get_by_role("combobox").click()
    page.get_by_role("option", name="Cluster 2").click()
    expect(page.locator(".tile")).to_have_count(4)
    box = by_key(page, "bulk-name").get_by_role("combobox")
    box.fill("bird")
    box.press("Enter")
    button(page, "bulk-give").click()
    expect(page.get_by_role("note").filter(has_text="4 images 'bird'")).to_be_visible()
    assert read_labels(labelled) == dict.fromkeys([9, 10, 11, 12], "bird")
    expect(page.locator("figcaption .text")).to_have_text(["bird"] * 4)
    page.screenshot(path=ARTIFACTS / "label_grid.png")


def write_child_run(app: RunningApp, dataset: ImageDataset) -> None:
    """Write a run that assigns images 10 and 11 to cluster 1 instead of 2, and image 4 instead of 0."""
    child = write_handmade_result(
        app.workspace,
        dataset,
        z=place_on_circle(list(range(12))),
        clusters=[0, 0, 0, 1, 1, 1, 1, 1, 2, 1, 1, 2],
        confidences=CONFIDENCES,
        count=3,
        name="child-run",
    )
    parent = RunStore(app.workspace).open("tiny-run").read_metadata()
    child.write_metadata({**parent, "names": {"0": "cat", "1": "dog"}, "parent": "tiny-run"})


def test_what_changed_labels_accepted_and_rejected_images(page: Page, app: RunningApp, labelled: ImageDataset):
    write_child_run(app, labelled)
    page.goto(f"{app.url}/label?dataset=set&run=tiny-run")
    by_key(page, "label-mode").get_by_role("radio").nth(2).click()
    first, second = page.locator("[data-group='2-1']"), page.locator("[data-group='0-1']")
    expect(first.locator(".images img[src]")).to_have_count(2)
    expect(second.locator(".images img[src]")).to_have_count(1)
    expect(second.locator(".more")).to_be_hidden()  # all images are shown

    # The least confident image comes first: 11 with 0.72, then 10 with 0.82.
    first.locator(".accept").nth(1).click()
    expect(first.locator(".image").first).to_have_class("image accepted")
    second.get_by_role("button", name="Reject").first.click()
    expect(second.locator(".image")).to_have_class("image rejected")

    # Cluster 2 of the older run has no name: images cannot be rejected until it has one.
    expect(first.locator(".image .reject").first).to_be_disabled()
    field = first.get_by_role("textbox")
    field.fill("bird")
    field.press("Enter")
    expect(first.locator(".image .reject").nth(1)).to_be_enabled()
    first.locator(".image .reject").nth(1).click()
    expect(first.locator(".image").nth(1)).to_have_class("image rejected")
    expect(page.locator(".review")).to_have_attribute("data-pending", "0")
    assert read_labels(labelled) == {11: "dog", 4: "cat", 10: "bird"}

    # The pressed button again removes the label, and undo restores it.
    first.locator(".image .accept").first.click()
    expect(first.locator(".image").first).to_have_class("image")
    expect(page.locator(".review")).to_have_attribute("data-pending", "0")
    assert read_labels(labelled) == {4: "cat", 10: "bird"}
    button(page, "undo-edit").click()
    expect(first.locator(".image").first).to_have_class("image accepted")
    assert read_labels(labelled) == {11: "dog", 4: "cat", 10: "bird"}
    page.screenshot(path=ARTIFACTS / "what_changed.png", full_page=True)
    assert find_violations(page) == []
    first.locator(".tile").nth(2).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_what_changed_keeps_a_decision_while_its_element_is_recreated(
    page: Page, app: RunningApp, labelled: ImageDataset
):
    write_child_run(app, labelled)
    page.goto(f"{app.url}/label?dataset=set&run=tiny-run")
    by_key(page, "label-mode").get_by_role("radio").nth(2).click()
    review, group = page.locator(".review"), page.locator("[data-group='2-1']")
    group.locator(".accept").nth(1).click()
    page.locator("[data-group='0-1']").get_by_role("button", name="Reject").first.click()
    expect(review).to_have_attribute("data-pending", "0")

    # The message of a decision is lost. With two labels, the next run of the page shows a report above the images.
    page.evaluate(
        """() => {
            for (const { elements } of window.crlcEditSenders.values())
                for (const element of elements.keys()) elements.set(element, () => {});
        }"""
    )
    group.locator(".accept").nth(2).click()
    expect(review).to_have_attribute("data-pending", "1")
    review.evaluate("node => (node.isFirst = true)")
    group.locator(".tile").nth(2).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.wait_for_function("!window.crlcEditSenders.values().next().value.pending.length")
    assert not review.evaluate("node => Boolean(node.isFirst)")
    assert read_labels(labelled) == {11: "dog", 4: "cat", 10: "dog"}
