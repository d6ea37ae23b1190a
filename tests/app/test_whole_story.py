"""The whole story in a real browser: a folder of pictures comes in, a table with names and labels goes out."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, expect

from app.exploring.choosing import spread
from crlc.analysis.map_settings import MapSettings
from crlc.workspace import Workspace
from crlc.workspace.analysis_maps import ready_map
from crlc.workspace.image_lookup import paths_of
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.runs import Runs
from tests.app.conftest import RunningApp
from tests.app.test_explore_page import draw, on_screen
from tests.app.test_label_page import AT, labels_of, saved
from tests.app.test_start_page import import_folder
from tests.app.test_training_story import POINTS

SIDE, OF_EACH = 24, 32
LABELS, EPOCHS = 8, 16
PATIENCE = 300_000
"""For a training on a busy computer, in ms."""


# ---- the pictures


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
    """Small grey pictures of four kinds, each a little different; returns their names, which begin with the kind."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    names = []
    for kind, inside in KINDS.items():
        for number in range(OF_EACH):
            dx, dy, size = generator.uniform(-2, 2, 3)
            pixels = 200.0 * inside(x - dx, y - dy, size) + generator.uniform(0, 40, (SIDE, SIDE))
            names.append(f"{kind}-{number:02d}.png")
            Image.fromarray(pixels.astype(np.uint8)).save(folder / names[-1])
    return names


def kind_of(name: str) -> str:
    return name.partition("-")[0]


# ---- what is true on every page


def calm(page: Page) -> None:
    """Nothing on the page has fallen over."""
    assert page.get_by_test_id("stException").count() == 0
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_text("Error:").count() == 0


def go_to(page: Page, title: str) -> None:
    page.get_by_test_id("stSidebarNav").get_by_role("link", name=title).click()
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()


def newest(workspace: Workspace) -> RunAnalysis:
    return RunAnalysis.open(workspace, Runs(workspace).ids()[-1])


def names_in(page: Page, place: str) -> list[str]:
    """The file names of the images of a gallery, in its order."""
    found = page.locator(f"{place} .tile").evaluate_all("tiles => tiles.map(tile => tile.title)")
    return [title.split(" ")[0] for title in found]


# ---- the story, chapter by chapter


def bring_in(page: Page, folder: Path, names: list[str]) -> None:
    expect(page.get_by_text("No images here yet")).to_be_visible()
    calm(page)
    import_folder(page, folder)
    expect(page.get_by_text(f"shapes: {len(names)} images in")).to_be_visible()
    expect(page.get_by_text(f"{len(names)} images · 32 px")).to_be_visible()
    page.wait_for_function("[...document.images].filter(i => i.naturalWidth > 0).length >= 12")
    calm(page)


def train(page: Page, workspace: Workspace) -> str:
    """Ask for few epochs, watch the curve move; returns the run."""
    page.get_by_role("link", name="Find its groups").click()
    page.get_by_text("Advanced settings").click()
    for label, value in {"Clusters": len(KINDS), "Epochs": EPOCHS, "Batch size": 16, "Subheads": 2}.items():
        box = page.get_by_label(label, exact=True)
        box.fill(str(value))
        box.press("Tab")
    expect(page.get_by_text(f"crlc train shapes --clusters 4 --preset quick --epochs {EPOCHS} --set")).to_be_visible()
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("heading", name="Training", exact=True)).to_be_visible(timeout=PATIENCE)
    page.wait_for_function(f"{POINTS} > 0")
    seen = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {seen}")
    calm(page)
    expect(page.get_by_role("heading", name="Finished", exact=True)).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text(f"Epoch {EPOCHS} of {EPOCHS}")).to_be_visible()
    calm(page)
    (run,) = Runs(workspace).ids()
    assert Runs(workspace).open(run).description()["settings"]["clusters"] == len(KINDS)
    return run


def explore(page: Page, workspace: Workspace, paths: dict[int, str]) -> None:
    page.get_by_role("button", name="Explore the clusters", exact=True).click()
    expect(page.get_by_text(f"{len(paths)} images").first).to_be_visible()
    page.get_by_test_id("stMain").get_by_text("PCA", exact=True).click()
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", str(len(paths)))
    analysis = newest(workspace)
    places = spread(ready_map(analysis, MapSettings("pca")))

    # The image under the mouse is the one whose place it is.
    lowest = int(places[:, 1].argmin())
    page.mouse.move(*on_screen(page, tuple(places[lowest].tolist())))
    picture = page.locator(".card img").first
    expect(picture).to_be_visible()
    assert f"/images/shapes/{analysis.ids[lowest]}?" in picture.get_attribute("src")

    # A lasso around the left part of the map, up to the widest gap: those images and no others are in the gallery.
    x = np.sort(places[:, 0])
    gap = 10 + int(np.diff(x[10:60]).argmax())
    right = float(x[gap] + x[gap + 1]) / 2
    low, high = float(places[:, 1].min()) - 0.03, float(places[:, 1].max()) + 0.03
    draw(page, [(-1.03, low), (right, low), (right, high), (-1.03, high), (-1.03, low + 0.02)], "Shift")
    inside = np.flatnonzero(places[:, 0] < right)
    wanted = {paths[image] for image in analysis.ids[inside].tolist()}
    expect(frame).to_have_attribute("data-chosen", str(len(wanted)))
    expect(page.get_by_text(f"{len(wanted)} of {len(paths)} images chosen on the map")).to_be_visible()
    gallery = "[data-testid=stMain]"
    expect(page.locator(f"{gallery} .tile")).to_have_count(len(wanted))
    assert set(names_in(page, gallery)) == wanted
    calm(page)

    # The first of them with those nearest to it, as NumPy finds them.
    opened = names_in(page, gallery)[0]
    page.locator(f"{gallery} .tile").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(opened)).to_be_visible()
    expect(dialog.locator(".tile")).to_have_count(12)
    row = next(row for row, image in enumerate(analysis.ids.tolist()) if paths[image] == opened)
    similarity = analysis.z @ analysis.z[row]
    similarity[row] = -2
    said = [float(text.split()[1]) for text in dialog.locator("figcaption").all_inner_texts()]
    np.testing.assert_allclose(said, np.sort(similarity)[::-1][:12], atol=0.006)
    near = [similarity[list(paths.values()).index(name)] for name in names_in(page, "[role=dialog]")]
    np.testing.assert_allclose(near, said, atol=0.006)
    calm(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def edit_clusters(page: Page, workspace: Workspace, paths: dict[int, str]) -> tuple[int, str]:
    """Name the largest cluster, merge two others, undo that; returns the name."""
    go_to(page, "Clusters")
    before = newest(workspace)
    largest = int(np.bincount(before.clusters).argmax())
    members = before.ids[before.clusters == largest].tolist()
    name = Counter(kind_of(paths[image]) for image in members).most_common(1)[0][0]
    box = page.get_by_role("textbox", name=f"Name of cluster {largest}")
    box.fill(name)
    box.press("Enter")
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(page.get_by_text(f"{largest} {name}").first).to_be_visible()
    assert newest(workspace).names == {largest: name}

    one, two = [number for number in range(len(KINDS)) if number != largest][:2]
    for number in (one, two):
        page.get_by_role("button", name="Merge", exact=True).nth(number).click()
    page.get_by_role("button", name="Merge 2 clusters").click()
    expect(page.get_by_text(f"merge clusters {one} and {two}")).to_be_visible()
    merged = np.where(before.clusters == two, one, before.clusters)
    np.testing.assert_array_equal(newest(workspace).clusters, merged)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(f"Undone: merge clusters {one} and {two}")).to_be_visible()
    np.testing.assert_array_equal(newest(workspace).clusters, before.clusters)
    calm(page)
    return largest, name


def label(page: Page, workspace: Workspace) -> dict[int, str]:
    """By keys alone: Space where the suggestion is right, a number where the name is known, N where it is new."""
    go_to(page, "Label")
    expect(page.locator(".frame img.large")).to_be_visible()
    given: dict[int, str] = {}
    for _ in range(LABELS):
        image = page.evaluate(AT)
        given[image] = kind = kind_of(page.locator(".path").inner_text())
        names = page.locator(".name .text").all_inner_texts()
        if page.evaluate("window.crlcLabelDesk.proposal(window.crlcLabelDesk.current())") == kind:
            page.keyboard.press(" ")
        elif kind in names:
            page.keyboard.press(str(names.index(kind) + 1))
        else:
            page.keyboard.press("n")
            page.keyboard.type(kind)
            page.keyboard.press("Enter")
        page.wait_for_function(f"{AT} !== {image}")
    saved(page)
    assert len(given) == LABELS
    assert labels_of(workspace.dataset("shapes")) == given
    calm(page)
    return given


def improve(page: Page, workspace: Workspace, parent: str) -> str:
    """CRLC-semi by its button; returns the new run, which all pages then show."""
    page.get_by_role("button", name=f"Improve with your {LABELS} labels").click()
    expect(page.get_by_text("Improving: ")).to_be_visible()
    page.get_by_test_id("stMain").get_by_text("What changed", exact=True).click(timeout=PATIENCE)
    child = Runs(workspace).ids()[-1]
    assert Runs(workspace).open(child).description()["parent"] == parent
    before, after = RunAnalysis.open(workspace, parent), RunAnalysis.open(workspace, child)
    moved = int((before.clusters != after.clusters).sum())
    numbers = page.get_by_test_id("stMetric")
    expect(numbers.filter(has_text="Moved")).to_contain_text(f"{moved} images")
    expect(numbers.filter(has_text="Stayed")).to_contain_text(f"{1 - moved / len(after.ids):.1%}")
    expect(numbers.filter(has_text="Labels followed")).to_contain_text(f" of {LABELS}")
    calm(page)
    page.get_by_role("button", name="Go on with the new run").click()
    page.wait_for_url(f"**/label?dataset=shapes&run={child}")
    return child


def take_away(page: Page, run: str) -> list[dict[str, str]]:
    expect(page.get_by_text(f"{len(KINDS) * OF_EACH} rows")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download {run}.csv").click()
    assert download.value.suggested_filename == f"{run}.csv"
    calm(page)
    with Path(download.value.path()).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def check_table(rows: list[dict[str, str]], run: RunAnalysis, paths: dict[int, str], given: dict[int, str]) -> None:
    """All images, each with its cluster and the cluster's name; what a person said, and that a person said it."""
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


def test_from_a_folder_to_a_table(page: Page, app: RunningApp, tmp_path: Path):
    expect.set_options(timeout=60_000)  # a busy computer is no failure
    page.set_default_timeout(60_000)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console", lambda message: message.type == "error" and troubles.append(f"{message.text} {message.location}")
    )
    names = save_shapes(tmp_path / "shapes")
    bring_in(page, tmp_path / "shapes", names)
    parent = train(page, app.workspace)
    paths = dict(paths_of(app.workspace.dataset("shapes"), newest(app.workspace).ids))
    assert sorted(paths.values()) == names
    explore(page, app.workspace, paths)
    cluster, name = edit_clusters(page, app.workspace, paths)
    given = label(page, app.workspace)
    child = improve(page, app.workspace, parent)

    # The new run calls its clusters what the labels say; the one before has the name that was written on Clusters.
    go_to(page, "Export")
    after = RunAnalysis.open(app.workspace, child)
    assert set(after.names.values()) == set(given.values())
    check_table(take_away(page, child), after, paths, given)
    page.goto(f"{app.url}/export?dataset=shapes&run={parent}")
    before = RunAnalysis.open(app.workspace, parent)
    assert before.names == {cluster: name}
    check_table(take_away(page, parent), before, paths, given)
    # Opened by its address, a page is first taken for the app's root: Streamlit looks there, finds nothing, goes on.
    assert [trouble for trouble in troubles if "/export/_stcore/" not in trouble] == []
