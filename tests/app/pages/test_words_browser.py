"""Words in a real browser: the search box of the Explore page, and suggested names on the cards of clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.services.analyse_run import RunAnalysis
from tests.app.conftest import RunningApp
from tests.fixtures.accessibility import find_violations
from tests.fixtures.browser import by_key, cluster_card, open_page
from tests.fixtures.class_scores import write_class_scores
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DOGS, ALPS, TRAMS = {"golden retriever": 0.5, "beagle": 0.25}, {"alp": 0.75}, {"streetcar": 0.5}


def test_search_selects_images_and_words_name_clusters(page: Page, app: RunningApp, tmp_path: Path):
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    write_class_scores(dataset, [DOGS] * 4 + [ALPS] * 4 + [TRAMS] * 4)
    run = write_tiny_run(app.workspace, dataset)
    page.goto(f"{app.url}/explore?run={run.id}")
    expect(page.locator(".tile")).to_have_count(12)

    # Suggestions while typing; the first one is chosen with the keys.
    box = page.get_by_role("combobox", name="Search images")
    box.fill("do")
    option = page.get_by_role("option").filter(has_text="dog").first
    expect(option).to_contain_text("word")
    expect(option).to_contain_text("4")
    assert find_violations(page) == []
    box.fill("dogs")
    expect(page.get_by_role("option").first).to_contain_text("dog")
    box.press("ArrowDown")
    expect(page.get_by_role("option").first).to_have_attribute("aria-selected", "true")
    box.press("Enter")
    chip = page.locator(".chip")
    expect(chip).to_contain_text("4 images found for word dog")
    expect(by_key(page, "selection-bar")).to_contain_text("4 selected")
    expect(page.locator(".tile")).to_have_count(4)
    expect(page.locator("figcaption", has_text="75%")).to_have_count(4)
    expect(page.get_by_role("listbox")).to_have_count(0)

    # The result is labelled with a suggested word, like any selection.
    by_key(page, "explore-label-popover").get_by_role("button").first.click()
    by_key(page, "explore-label-word-0").get_by_role("button").click()
    expect(by_key(page, "selection-bar")).not_to_contain_text("selected")
    labels = RunAnalysis.open(app.workspace, run.id).annotations.get_labels(range(1, 13))
    assert labels == ["dog"] * 4 + [None] * 8

    # A text that finds nothing keeps the page as it is; the chip empties the box.
    box.fill("unicorn")
    expect(page.get_by_text("No images found.")).to_be_visible()
    box.press("Enter")
    expect(chip).to_contain_text("4 images")
    box.press("Escape")
    chip.click()
    expect(page.locator(".tile")).to_have_count(12)

    # One click names a cluster; nothing was named before.
    open_page(page, "Clusters")
    number = int(RunAnalysis.open(app.workspace, run.id).clusters[0])
    card = cluster_card(page, number)
    expect(card.get_by_label(f"Name of cluster {number}")).to_have_value("")
    word = card.locator("button.word").first
    expect(word.locator(".score")).to_be_visible()
    visible = word.inner_text()
    assert visible in word.get_attribute("aria-label")  # voice control finds a button by the words on it
    name = visible.rpartition(" ×")[0]  # noqa: RUF001
    word.click()
    expect(card).to_have_attribute("aria-label", f"{number} {name}")
    expect(page.get_by_text("ImageNet's 1,000 classes").first).to_be_visible()
    expect(page.get_by_role("note").filter(has_text=f"name cluster {number} {name!r}")).to_be_visible()
    assert RunAnalysis.open(app.workspace, run.id).names == {number: name}


def test_search_without_result_keeps_the_page_and_an_empty_box_ends_a_search(
    page: Page, app: RunningApp, tmp_path: Path
):
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    write_class_scores(dataset, [DOGS] * 4 + [ALPS] * 4 + [TRAMS] * 4)
    page.goto(f"{app.url}/explore?run={write_tiny_run(app.workspace, dataset).id}")
    expect(page.locator(".tile")).to_have_count(12)
    box, chip = page.get_by_role("combobox", name="Search images"), page.locator(".chip")
    box.fill("dogs")
    box.press("Enter")
    expect(page.locator(".tile")).to_have_count(4)

    # Enter comes before the suggestions, which say so otherwise.
    page.route("**/search/**", lambda route: route.abort())
    box.fill("a red bicycle")
    box.press("Enter")
    expect(page.get_by_text("No images found for a red bicycle.")).to_contain_text("open Own words")
    expect(chip).to_contain_text("4 images")
    page.unroute("**/search/**")

    # Another text may follow an empty box: Enter, Escape or the cross of the browser end the search.
    box.fill("")
    expect(chip).to_contain_text("4 images")
    box.press("Enter")
    expect(page.locator(".tile")).to_have_count(12)


def test_card_of_a_cluster_without_a_fitting_word_says_so(page: Page, app: RunningApp, tmp_path: Path):
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    run = write_tiny_run(app.workspace, dataset)
    page.goto(f"{app.url}/clusters?run={run.id}")
    expect(cluster_card(page, 1).locator(".tile").first).to_be_visible()
    expect(cluster_card(page, 1).locator(".words")).to_be_hidden()  # no class is computed
    write_class_scores(dataset, [DOGS] * 4 + [{"alp": 0.05}] * 4 + [TRAMS] * 4)
    page.reload()
    expect(cluster_card(page, 0).locator(".words")).to_contain_text("dog")
    expect(cluster_card(page, 1).locator(".words")).to_have_text("no fitting word")
    assert find_violations(page) == []
