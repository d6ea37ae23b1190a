"""Image dialog in a real browser: steps, zoom to the original's pixels, and edits that are saved to disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.services.analyse_run import RunAnalysis
from tests.app.conftest import RunningApp
from tests.fixtures.annotations import read_labels
from tests.fixtures.browser import button, by_key
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.images import make_image, save_images
from tests.fixtures.tiny_run import describe_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDTH, HEIGHT = 2400, 1200


@pytest.fixture
def dataset(app: RunningApp, tmp_path: Path) -> ImageDataset:
    """Import four images, the first of which is large, with a run of two clusters."""
    save_images(tmp_path / "set", 4)
    make_image(0, WIDTH, HEIGHT).save(tmp_path / "set" / "00000.png")
    dataset, _ = app.workspace.import_dataset(str(tmp_path / "set"))
    describe_run(app.workspace, dataset, "many", clusters=2)
    write_handmade_result(
        app.workspace, dataset, name="many", z=place_on_circle([0, 10, 90, 100]), clusters=[0, 0, 1, 1],
        confidences=[0.9, 0.8, 0.7, 0.6],
    )  # fmt: skip
    return dataset


BLUR = """() => {
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  focused?.blur();
  if (document.activeElement !== document.body) document.activeElement.blur();
  return document.activeElement === document.body;
}"""


def expect_image(dialog: Locator, image_id: int, position: str) -> None:
    """Wait until the dialog shows an image; the most confident image is the first."""
    expect(dialog.locator(".lightbox")).to_have_attribute("data-shown", str(image_id))
    expect(dialog.locator(".title")).to_have_text(f"{image_id - 1:05d}.png")
    expect(dialog.locator(".position")).to_have_text(position)


def read_scale(dialog: Locator) -> float:
    return float(dialog.locator(".lightbox").get_attribute("data-view").split()[2])


def zoom_to_the_original(page: Page, dialog: Locator) -> None:
    image = dialog.locator(".lightbox img")
    fitted = read_scale(dialog)
    assert fitted < 1
    assert image.evaluate("image => image.naturalWidth") < WIDTH
    page.keyboard.press("1")
    expect(dialog.locator(".scale")).to_have_text("100%")
    expect(image).to_have_attribute("src", re.compile("side=original"))
    page.wait_for_function(f"image => image.naturalWidth === {WIDTH}", arg=image.element_handle())
    assert image.bounding_box()["width"] == pytest.approx(WIDTH, abs=1)
    before = image.bounding_box()
    stage = dialog.locator(".lightbox .stage").bounding_box()
    page.mouse.move(stage["x"] + 300, stage["y"] + 200)
    page.mouse.down()
    page.mouse.move(stage["x"] + 340, stage["y"] + 220)
    page.mouse.up()
    after = image.bounding_box()
    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((40, 20), abs=1)
    page.keyboard.press("0")
    assert read_scale(dialog) == fitted


def test_dialog_steps_zooms_and_edits_images(page: Page, app: RunningApp, dataset: ImageDataset):
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{app.url}/explore")
    page.get_by_test_id("stMain").locator(".tile").first.click()
    dialog = page.get_by_role("dialog")
    expect_image(dialog, 1, "1 of 4")
    box = dialog.bounding_box()
    assert box["y"] + box["height"] <= 720  # nothing is below the fold
    zoom_to_the_original(page, dialog)
    page.keyboard.press("ArrowRight")
    expect_image(dialog, 2, "2 of 4")
    page.keyboard.press("ArrowLeft")
    expect_image(dialog, 1, "1 of 4")
    page.keyboard.press("ArrowLeft")  # there is none before the first
    page.keyboard.press("ArrowRight")
    expect_image(dialog, 2, "2 of 4")
    # A refresh, a bookmark and Back know the image that is shown, not only the one that was opened first.
    expect(page).to_have_url(re.compile("image=2$"))
    page.reload()
    expect_image(dialog, 2, "2 of 4")
    page.go_back()
    expect_image(dialog, 1, "1 of 4")
    page.keyboard.press("ArrowRight")
    expect_image(dialog, 2, "2 of 4")

    by_key(dialog, "dialog-label-2").locator("input").fill("cat")
    page.keyboard.press("Enter")
    expect(page.get_by_role("note").filter(has_text="'cat'")).to_be_visible()
    assert read_labels(dataset) == {2: "cat"}
    by_key(dialog, "dialog-cluster-2").locator("input").click()
    page.get_by_role("option").nth(1).click()
    expect(page.get_by_role("note").filter(has_text="cluster 1")).to_be_visible()
    assert RunAnalysis.open(app.workspace, "many").clusters.tolist() == [0, 1, 1, 1]

    # An excluded image makes room for the next one, and undo brings it back.
    button(dialog, "dialog-exclude").click()
    expect_image(dialog, 3, "3 of 4")
    with AnnotationStore(dataset) as annotations:
        assert annotations.refresh().get_excluded_ids().tolist() == [2]
    button(page, "undo-last-edit-dialog").click()
    expect(page.get_by_role("note").filter(has_text="Undone")).to_be_visible()
    with AnnotationStore(dataset) as annotations:
        assert annotations.refresh().get_excluded_ids().tolist() == []
    # Keys work also when the focus is lost, as it is when the focused button disappears.
    page.evaluate(BLUR)
    page.keyboard.press("ArrowRight")
    expect_image(dialog, 4, "4 of 4")
    page.evaluate(BLUR)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator(".legend .count")).to_have_text(["1", "3"])  # the page behind has the new clusters
