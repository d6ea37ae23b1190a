"""Gallery route: images in the requested order, empty where one is missing, and nothing else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server.routes.galleries import GALLERY_ROUTES, MAX_GALLERY_IMAGES
from app.urls import build_gallery_url
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


def split_images(content: bytes) -> list[bytes]:
    """Split a response into its images, as the browser does."""
    contents = []
    while content:
        end = 4 + int.from_bytes(content[:4], "little")
        contents.append(content[4:end])
        content = content[end:]
    return contents


@pytest.fixture
def client(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a client of the gallery route with three images, the second of which is tiny."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    folder = tmp_path / "set"
    save_images(folder, 3, width=300, height=200)
    Image.new("RGB", (16, 16), (255, 0, 0)).save(folder / "00001.png")
    workspace.import_dataset(str(folder))
    return TestClient(Starlette(routes=GALLERY_ROUTES))


def test_gallery_sends_images_in_the_requested_order(client: TestClient):
    response = client.get(
        build_gallery_url("set", [3, 2, 99, 1], ["c", "b", "", "a"], 100), headers={"Accept-Encoding": "gzip"}
    )
    assert response.status_code == 200
    assert response.headers["content-encoding"] == "identity"  # images are not compressed again
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert "immutable" in response.headers["cache-control"]
    third, second, missing, first = split_images(response.content)
    assert missing == b""
    images = [Image.open(io.BytesIO(content)) for content in (third, second, first)]
    assert [(image.format, image.size) for image in images] == [
        ("JPEG", (100, 67)), ("PNG", (16, 16)), ("JPEG", (100, 67)),
    ]  # fmt: skip
    assert images[1].getpixel((3, 3)) == (255, 0, 0)
    assert third != first


def test_gallery_falls_back_to_the_pixel_store(client: TestClient, tmp_path: Path):
    (tmp_path / "set" / "00000.png").unlink()
    (tmp_path / "set" / "00002.png").write_bytes(b"not an image")
    contents = split_images(client.get("/galleries/set?side=100&ids=1,2,3").content)
    sizes = [Image.open(io.BytesIO(content)).size for content in contents]
    assert sizes[0] == sizes[2]
    assert sizes[0][0] == sizes[0][1]  # squares of the pixel store
    assert sizes[1] == (16, 16)


def test_gallery_rejects_invalid_requests(client: TestClient):
    for path, status in [
        ("/galleries/other?side=100&ids=1", 404),
        ("/galleries/..%2fset?side=100&ids=1", 404),
        ("/galleries/set?side=100", 400),
        ("/galleries/set?side=100&ids=1,x", 400),
        ("/galleries/set?side=100&ids=1,-2", 400),
        ("/galleries/set?side=100&ids=99999999999999999999", 400),
        ("/galleries/set?side=9999&ids=1", 400),
        ("/galleries/set?ids=1", 400),
        (f"/galleries/set?side=100&ids={','.join(['1'] * (MAX_GALLERY_IMAGES + 1))}", 400),
    ]:
        response = client.get(path)
        assert response.status_code == status, path
        assert response.headers["content-type"].startswith("text/plain")


def test_gallery_url_changes_with_the_content():
    one, same, other = (
        build_gallery_url("set", [1, 2], hashes, 160) for hashes in (["a", "b"], ["a", "b"], ["a", "c"])
    )
    assert one == same
    assert one != other
