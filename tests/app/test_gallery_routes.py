"""All pictures of a page in one answer: in their order, with holes where there is none, and nothing else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.gallery_routes import GALLERY_ROUTES, MOST_PICTURES, gallery_url
from crlc.workspace import Workspace
from tests.pictures import save_pictures


def cut(content: bytes) -> list[bytes]:
    """As the browser does it."""
    pictures = []
    while content:
        end = 4 + int.from_bytes(content[:4], "little")
        pictures.append(content[4:end])
        content = content[end:]
    return pictures


@pytest.fixture
def client(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """On three pictures, the second of which is tiny."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    folder = tmp_path / "set"
    save_pictures(folder, 3, width=300, height=200)
    Image.new("RGB", (16, 16), (255, 0, 0)).save(folder / "00001.png")
    workspace.import_dataset(str(folder))
    return TestClient(Starlette(routes=GALLERY_ROUTES))


def test_pictures_come_in_the_order_asked_for(client: TestClient):
    answer = client.get(
        gallery_url("set", [3, 2, 99, 1], ["c", "b", "", "a"], 100), headers={"Accept-Encoding": "gzip"}
    )
    assert answer.status_code == 200
    assert answer.headers["content-encoding"] == "identity"  # pictures are not compressed again
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "immutable" in answer.headers["cache-control"]
    third, second, missing, first = cut(answer.content)
    assert missing == b""
    images = [Image.open(io.BytesIO(content)) for content in (third, second, first)]
    assert [(image.format, image.size) for image in images] == [
        ("JPEG", (100, 67)), ("PNG", (16, 16)), ("JPEG", (100, 67)),
    ]  # fmt: skip
    assert images[1].getpixel((3, 3)) == (255, 0, 0)
    assert third != first


def test_a_picture_that_went_away_is_taken_from_the_store_and_a_damaged_one_too(client: TestClient, tmp_path: Path):
    (tmp_path / "set" / "00000.png").unlink()
    (tmp_path / "set" / "00002.png").write_bytes(b"no picture")
    pictures = cut(client.get("/galleries/set?side=100&ids=1,2,3").content)
    sizes = [Image.open(io.BytesIO(content)).size for content in pictures]
    assert sizes[0] == sizes[2]
    assert sizes[0][0] == sizes[0][1]  # squares of the pixel store
    assert sizes[1] == (16, 16)


def test_nothing_else_is_served(client: TestClient):
    for path, status in [
        ("/galleries/other?side=100&ids=1", 404),
        ("/galleries/..%2fset?side=100&ids=1", 404),
        ("/galleries/set?side=100", 400),
        ("/galleries/set?side=100&ids=1,x", 400),
        ("/galleries/set?side=100&ids=1,-2", 400),
        ("/galleries/set?side=100&ids=99999999999999999999", 400),
        ("/galleries/set?side=9999&ids=1", 400),
        ("/galleries/set?ids=1", 400),
        (f"/galleries/set?side=100&ids={','.join(['1'] * (MOST_PICTURES + 1))}", 400),
    ]:
        answer = client.get(path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"].startswith("text/plain")


def test_other_content_has_another_address():
    one, same, other = (gallery_url("set", [1, 2], hashes, 160) for hashes in (["a", "b"], ["a", "b"], ["a", "c"]))
    assert one == same
    assert one != other
