"""Clusters page in a real browser: names with the keyboard, merges, images, and the preview of a split."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.runs.folder import RunFolder
from crlc.services.analyse_run import RunAnalysis
from tests.app.conftest import ARTIFACTS, RunningApp
from tests.fixtures.browser import button, by_key, cluster_card, merge_two_clusters, name_cluster
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOCUSED = "document.activeElement.shadowRoot.activeElement.getAttribute('aria-label')"


def read_names(app: RunningApp, run: RunFolder) -> dict[int, str]:
    return RunAnalysis.open(app.workspace, run.id).names


def read_clusters(app: RunningApp, run: RunFolder) -> list[int]:
    return RunAnalysis.open(app.workspace, run.id).clusters.tolist()


def name_with_keyboard(page: Page, app: RunningApp, run: RunFolder) -> None:
    # Tab goes from name to name. Names that are typed quickly are all saved, and the focus stays.
    cluster_card(page, 0).get_by_role("textbox").focus()
    for name in ("cats", "**dogs** <b>", "birds"):
        page.keyboard.type(name)
        if name != "birds":
            page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED).endswith("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("note").filter(has_text="birds")).to_be_visible()
    assert read_names(app, run) == {0: "cats", 1: "**dogs** <b>", 2: "birds"}
    expect(cluster_card(page, 1).get_by_role("button", name="1 **dogs** <b>", exact=True)).to_be_visible()
    cluster_card(page, 1).get_by_role("textbox").focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUSED).startswith("Open")  # the other controls of the card are reached backwards

    # A name that is not allowed is refused, and the field shows the saved name again.
    box = cluster_card(page, 0).get_by_role("textbox")
    box.fill("a\u202eb")
    box.press("Tab")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(box).to_have_value("cats")
    name_cluster(page, 0, "lions")


def merge_and_undo(page: Page, app: RunningApp, run: RunFolder) -> None:
    # A merge is on disk when the page reports it as saved; undo reverts it.
    merge_two_clusters(page, (1, 2))
    assert read_clusters(app, run) == [0] * 4 + [1] * 8
    expect(page.locator("section.cluster")).to_have_count(2)
    button(page, "undo-edit").click()
    expect(page.locator("section.cluster")).to_have_count(3)
    assert len(set(read_clusters(app, run))) == 3
    page.screenshot(path=ARTIFACTS / "clusters.png")


def open_image(page: Page) -> None:
    # An image opens with a click.
    cluster_card(page, 1).locator(".tile").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    # The arrows go through the images of the cluster.
    expect(dialog.locator(".position")).to_have_text("1 of 4")
    shown = dialog.locator(".lightbox").get_attribute("data-shown")
    page.keyboard.press("ArrowRight")
    expect(dialog.locator(".position")).to_have_text("2 of 4")
    expect(dialog.locator(".lightbox")).not_to_have_attribute("data-shown", shown or "")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def preview_and_split(page: Page, app: RunningApp, run: RunFolder) -> None:
    # A split shows its parts before it is done, and both parts afterwards.
    cluster_card(page, 0).get_by_role("button", name="0 lions", exact=True).click()
    button(page, "preview-split").click()
    expect(by_key(page, "split-preview").locator(".tile")).to_have_count(4)
    assert len(set(read_clusters(app, run))) == 3
    page.screenshot(path=ARTIFACTS / "split_preview.png")
    button(page, "split-cluster").click()
    expect(page.locator("section.cluster")).to_have_count(2)
    assert read_clusters(app, run)[:4] == [0, 0, 0, 3]
    expect(cluster_card(page, 3)).to_contain_text("1 image")
    button(page, "undo-edit").click()
    expect(button(page, "preview-split")).to_be_visible()


def test_clusters_page_edits_clusters_on_their_cards(page: Page, app: RunningApp, tmp_path: Path):
    page.goto("about:blank")  # the Start page would load images of the new dataset, too
    run = write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    image_requests: list[str] = []
    page.on(
        "request",
        lambda request: (
            any(part in request.url for part in ("/images/", "/galleries/")) and image_requests.append(request.url)
        ),
    )
    page.goto(f"{app.url}/clusters")
    expect(page.locator("section.cluster")).to_have_count(3)
    expect(cluster_card(page, 0)).to_contain_text("75% confidence")  # (0.9 + 0.8 + 0.7 + 0.6) / 4
    expect(page.locator("section.cluster img[src]")).to_have_count(12)
    assert len(image_requests) == 1  # one response has the images of all cards
    name_with_keyboard(page, app, run)
    merge_and_undo(page, app, run)
    open_image(page)
    preview_and_split(page, app, run)
    assert errors == []
