"""The complete workflow in a real browser: from a folder of images to a table with cluster names and labels."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from app.navigation import PAGE_LINKS
from app.view_models.image_selection import normalize_coordinates
from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.data.image_lookup import read_paths
from crlc.runs.run_title import build_file_stem, format_run_title
from crlc.services.analyse_run import RunAnalysis
from crlc.services.check_labels import check_labels
from crlc.services.maps import load_map
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.app.conftest import RunningApp
from tests.fixtures.annotations import read_labels
from tests.fixtures.browser import (
    CURRENT_IMAGE,
    POINTS,
    button,
    by_key,
    draw,
    fill,
    import_and_explore,
    merge_two_clusters,
    name_cluster,
    open_page,
    text_box,
    to_window_coordinates,
    wait_until_saved,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIDE, IMAGES_PER_KIND = 24, 32
LABELS, EPOCHS = 8, 16
SHOWN_IMAGES = 60
"""Images on a page of the gallery."""

TRAINING_TIMEOUT_MS = 300_000
"""Enough for a training run on a busy computer."""


# ---- images


def _disc(x: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    return np.hypot(x, y) < 5 + size


def _ring(x: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    return np.abs(np.hypot(x, y) - 6 - size) < 1.5


def _cross(x: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    return np.minimum(np.abs(x), np.abs(y)) < 1 + size / 3


def _stripes(_: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    return (y + 2 * size) % 6 < 3


KINDS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "cross": _cross,
    "disc": _disc,
    "ring": _ring,
    "stripes": _stripes,
}


def save_shapes(folder: Path) -> list[str]:
    """Save small grey images of four kinds of shapes; return their file names, which start with the kind."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    names = []
    for kind, inside in KINDS.items():
        for number in range(IMAGES_PER_KIND):
            dx, dy, size = generator.uniform(-2, 2, 3)
            pixels = 200.0 * inside(x - dx, y - dy, size) + generator.uniform(0, 40, (SIDE, SIDE))
            names.append(f"{kind}-{number:02d}.png")
            Image.fromarray(pixels.astype(np.uint8)).save(folder / names[-1])
    return names


def get_kind(name: str) -> str:
    return name.partition("-")[0]


# ---- helpers for every page


def expect_no_exception(page: Page) -> None:
    """Check that the page shows no exception."""
    assert page.get_by_test_id("stException").count() == 0
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_text("Error:").count() == 0


def open_newest_run(workspace: Workspace) -> RunAnalysis:
    return RunAnalysis.open(workspace, RunStore(workspace).list_ids()[-1])


def list_file_names(page: Page, container: str) -> list[str]:
    """Return the file names of the images of a gallery, in its order."""
    found = page.locator(f"{container} .tile").evaluate_all("tiles => tiles.map(tile => tile.title)")
    return [title.split(" ")[0] for title in found]


# ---- steps of the workflow, one per page


def import_images(page: Page, folder: Path, names: list[str]) -> None:
    expect(text_box(page, "import-path")).to_be_visible()
    expect_no_exception(page)
    import_and_explore(page, folder)
    open_page(page, "Start")
    expect(by_key(page, "dataset-shapes").get_by_text(f"{len(names)} images · 32 px")).to_be_visible()
    page.wait_for_function("[...document.images].filter(i => i.naturalWidth > 0).length >= 12")
    expect_no_exception(page)


def train(page: Page, workspace: Workspace) -> str:
    """Train a few epochs, and check that the curve grows; return the run id."""
    open_page(page, "Train")
    by_key(page, "advanced-settings").locator("summary").click()
    fill(page, "train-clusters-shapes", len(KINDS))
    for setting, value in {"epochs": EPOCHS, "batch_size": 16, "subheads": 2}.items():
        fill(page, f"train-set-{setting}", value)
    expect(page.get_by_text(f"crlc train shapes --clusters 4 --preset quick --epochs {EPOCHS} --set")).to_be_visible()
    button(page, "start-training").click()
    expect(page.get_by_role("heading", name="Training", exact=True)).to_be_visible(timeout=TRAINING_TIMEOUT_MS)
    page.wait_for_function(f"{POINTS} > 0")
    count = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {count}")
    expect_no_exception(page)
    expect(page.get_by_role("heading", name="Finished", exact=True)).to_be_visible(timeout=TRAINING_TIMEOUT_MS)
    expect(page.get_by_text(f"Epoch {EPOCHS} of {EPOCHS}")).to_be_visible()
    expect_no_exception(page)
    (run,) = RunStore(workspace).list_ids()
    assert RunStore(workspace).open(run).read_metadata()["settings"]["clusters"] == len(KINDS)
    return run


def explore(page: Page, workspace: Workspace, paths: dict[int, str]) -> None:
    button(page, "ways-explore").click()
    expect(page.get_by_text(f"{len(paths)} images").first).to_be_visible()
    page.get_by_test_id("stMain").get_by_text("PCA", exact=True).click()
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", str(len(paths)))
    analysis = open_newest_run(workspace)
    coordinates = normalize_coordinates(load_map(analysis, MapSettings("pca")))

    # Hovering over a point shows its image.
    lowest = int(coordinates[:, 1].argmin())
    page.mouse.move(*to_window_coordinates(page, tuple(coordinates[lowest].tolist())))
    image_on_card = page.locator(".card img").first
    expect(image_on_card).to_have_attribute("src", re.compile(rf"/images/shapes/{analysis.ids[lowest]}\?"))
    expect(image_on_card).to_be_visible()

    # A lasso along the widest gap between 10 to 60 images, which the gallery shows at once, and the others.
    x = np.sort(coordinates[:, 0])
    gaps = np.diff(x)
    gaps[[count - 1 for count in range(1, len(x)) if not 10 <= min(count, len(x) - count) <= SHOWN_IMAGES]] = 0
    last = int(gaps.argmax())
    middle = float(x[last] + x[last + 1]) / 2
    is_left = last + 1 <= SHOWN_IMAGES
    side = -1.03 if is_left else 1.03
    low, high = float(coordinates[:, 1].min()) - 0.03, float(coordinates[:, 1].max()) + 0.03
    draw(page, [(side, low), (middle, low), (middle, high), (side, high), (side, low + 0.02)], "Shift")
    inside = np.flatnonzero((coordinates[:, 0] < middle) == is_left)
    expected = {paths[image] for image in analysis.ids[inside].tolist()}
    expect(frame).to_have_attribute("data-chosen", str(len(expected)))
    expect(page.get_by_text(f"{len(expected)} of {len(paths)} images").first).to_be_visible()
    gallery = "[data-testid=stMain]"
    expect(page.locator(f"{gallery} .tile")).to_have_count(len(expected))
    assert set(list_file_names(page, gallery)) == expected
    expect_no_exception(page)

    # The dialog shows the same nearest images and similarities as NumPy computes.
    opened = list_file_names(page, gallery)[0]
    page.locator(f"{gallery} .tile").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(opened)).to_be_visible()
    expect(dialog.locator(".tile")).to_have_count(12)
    row = next(row for row, image in enumerate(analysis.ids.tolist()) if paths[image] == opened)
    similarity = analysis.z @ analysis.z[row]
    similarity[row] = -2
    shown = [float(text.split()[0]) for text in dialog.locator("figcaption").all_inner_texts()]
    np.testing.assert_allclose(shown, np.sort(similarity)[::-1][:12], atol=0.006)
    near = [similarity[list(paths.values()).index(name)] for name in list_file_names(page, "[role=dialog]")]
    np.testing.assert_allclose(near, shown, atol=0.006)
    expect_no_exception(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def edit_clusters(page: Page, workspace: Workspace, paths: dict[int, str]) -> tuple[int, str]:
    """Name the largest cluster, merge two others, and undo the merge; return the named cluster and its name."""
    open_page(page, "Clusters")
    before = open_newest_run(workspace)
    largest = int(np.bincount(before.clusters).argmax())
    members = before.ids[before.clusters == largest].tolist()
    name = Counter(get_kind(paths[image]) for image in members).most_common(1)[0][0]
    name_cluster(page, largest, name)
    expect(page.get_by_text(f"{largest} {name}").first).to_be_visible()
    assert open_newest_run(workspace).names == {largest: name}

    one, two = [number for number in range(len(KINDS)) if number != largest][:2]
    merge_two_clusters(page, (one, two))
    merged = np.where(before.clusters == two, one, before.clusters)
    np.testing.assert_array_equal(open_newest_run(workspace).clusters, merged)
    button(page, "undo-edit").click()
    expect(button(page, "redo-edit")).to_be_enabled()
    np.testing.assert_array_equal(open_newest_run(workspace).clusters, before.clusters)
    expect_no_exception(page)
    return largest, name


def label(page: Page, workspace: Workspace) -> dict[int, str]:
    """Label with keys only: Space accepts a correct suggestion, a number selects a known name, N adds a new one."""
    open_page(page, "Label")
    expect(page.locator(".frame img.large")).to_be_visible()
    given: dict[int, str] = {}
    for _ in range(LABELS):
        image = page.evaluate(CURRENT_IMAGE)
        given[image] = kind = get_kind(page.locator(".path").inner_text())
        names = page.locator(".name .text").all_inner_texts()
        if page.evaluate("window.crlcLabelDesk.proposal(window.crlcLabelDesk.current())") == kind:
            page.keyboard.press(" ")
        elif kind in names:
            page.keyboard.press(str(names.index(kind) + 1))
        else:
            page.keyboard.press("n")
            page.keyboard.type(kind)
            page.keyboard.press("Enter")
        page.wait_for_function(f"{CURRENT_IMAGE} !== {image}")
    wait_until_saved(page)
    assert len(given) == LABELS
    assert read_labels(workspace.open_dataset("shapes")) == given
    expect_no_exception(page)
    return given


def improve(page: Page, workspace: Workspace, parent: str, given: dict[int, str]) -> str:
    """Train with the labels, and switch to the new run; return its id."""
    button(page, "improve").click()
    expect(button(page, "stop-improving")).to_be_visible()
    expect(button(page, "stop-improving")).to_be_hidden(timeout=TRAINING_TIMEOUT_MS)  # until then, results are partial
    by_key(page, "label-mode").get_by_role("radio").nth(2).click()
    child = RunStore(workspace).list_ids()[-1]
    assert RunStore(workspace).open(child).read_metadata()["parent"] == parent
    before, after = RunAnalysis.open(workspace, parent), RunAnalysis.open(workspace, child)
    moved = int((before.clusters != after.clusters).sum())
    report = check_labels(before, AnnotationStore(workspace.open_dataset("shapes")).load_usable_labels())
    assert report.labels == len(given)
    numbers = page.get_by_test_id("stMetric")
    expect(numbers.nth(0)).to_contain_text(f"{moved} image")
    expect(numbers.nth(1)).to_contain_text(f"{1 - moved / len(after.ids):.1%}")
    expect(numbers.nth(2)).to_contain_text(f"{report.correct} of {LABELS}")
    expect(numbers.nth(3)).to_contain_text(f"{report.correct_before} of {LABELS}")
    clusters = dict(zip(after.ids.tolist(), after.clusters.tolist(), strict=True))
    assert [image for image, name in given.items() if after.names.get(clusters[image]) != name] == []
    expect_no_exception(page)
    button(page, "use-child").click()
    page.wait_for_url(f"**/label?dataset=shapes&run={child}")
    link = by_key(page, PAGE_LINKS).get_by_role("link", name="Export")
    expect(link).to_have_attribute("href", re.compile(child))  # drawn after the change of the URL
    return child


def download_table(page: Page, workspace: Workspace, run: str) -> list[dict[str, str]]:
    expect(page.get_by_text(f"{len(KINDS) * IMAGES_PER_KIND} rows")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name=".csv").click()
    title = format_run_title(RunStore(workspace).open(run).read_metadata())
    assert download.value.suggested_filename == f"{build_file_stem('shapes', title)}.csv"
    expect_no_exception(page)
    with Path(download.value.path()).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def check_table(rows: list[dict[str, str]], run: RunAnalysis, paths: dict[int, str], given: dict[int, str]) -> None:
    """Check the cluster, cluster name, label and source of the label of every image."""
    assert [row["path"] for row in rows] == sorted(paths.values())
    clusters = {paths[image]: number for image, number in zip(run.ids.tolist(), run.clusters.tolist(), strict=True)}
    labels = {paths[image]: name for image, name in given.items()}
    for row in rows:
        path = row["path"]
        assert row["cluster"] == str(clusters[path])
        assert row["cluster_name"] == run.names.get(clusters[path], "")
        assert (row["label"], row["source"]) == ((labels[path], "person") if path in labels else ("", "model"))
        assert 0 < float(row["confidence"]) <= 1
        assert (row["excluded"], row["run"]) == ("false", run.run.id)


def test_app_workflow_from_a_folder_to_a_table(page: Page, app: RunningApp, tmp_path: Path):
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(f"{message.text} {message.location}"))
    names = save_shapes(tmp_path / "shapes")
    import_images(page, tmp_path / "shapes", names)
    parent = train(page, app.workspace)
    paths = dict(read_paths(app.workspace.open_dataset("shapes"), open_newest_run(app.workspace).ids))
    assert sorted(paths.values()) == names
    explore(page, app.workspace, paths)
    cluster, name = edit_clusters(page, app.workspace, paths)
    given = label(page, app.workspace)
    child = improve(page, app.workspace, parent, given)

    # The clusters of the new run are named after the labels; its parent has the name from the Clusters page.
    open_page(page, "Export")
    after = RunAnalysis.open(app.workspace, child)
    assert set(after.names.values()) == set(given.values())
    check_table(download_table(page, app.workspace, child), after, paths, given)
    page.goto(f"{app.url}/export?dataset=shapes&run={parent}")
    before = RunAnalysis.open(app.workspace, parent)
    assert before.names == {cluster: name}
    check_table(download_table(page, app.workspace, parent), before, paths, given)
    # After opening a page by its URL, Streamlit first tries its own routes below that URL, which do not exist.
    assert [error for error in errors if "/export/_stcore/" not in error] == []
