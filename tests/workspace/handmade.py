"""Data sets and runs made by hand, row by row, so that tests need no decoding and no training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crlc.config import ImportOptions
from crlc.data.dataset import DatasetInfo, ImageDataset
from crlc.data.manifest import Manifest
from crlc.names import path_to_bytes
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace


def handmade_dataset(root: Path, paths: list[str], *, name: str = "set", location: str = "/originals") -> ImageDataset:
    """A data set with images 1, 2, ... at these paths, in the workspace `root`."""
    folder = root / "datasets" / name
    folder.mkdir(parents=True)
    DatasetInfo(name, f"uid-{name}", "folder", location, str(root), ImportOptions(), "2024-01-01", 8).save(folder)
    with Manifest(folder, create=True) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "INSERT INTO images (path, bytes, stamp, status, content_version, first_version) "
            "VALUES (?, 1, '', 'ok', 1, 1)",
            [(path_to_bytes(path),) for path in paths],
        )
        manifest.set_complete(complete=True)
    return ImageDataset(folder)


def numbered(count: int) -> list[str]:
    return [f"{number:05d}.png" for number in range(1, count + 1)]


def change_content(dataset: ImageDataset, image_id: int) -> None:
    """As an import does that finds another picture in an image's file."""
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute(
            "UPDATE images SET content_version = ? WHERE id = ?", (manifest.version + 1, image_id)
        )
        manifest.set_complete(complete=True)


def remove_image(dataset: ImageDataset, image_id: int) -> None:
    """As an import does that does not find an image's file."""
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET status = 'removed' WHERE id = ?", (image_id,))


def handmade_run(
    workspace: Workspace, dataset: ImageDataset, clusters: list[int], count: int, z: np.ndarray | None = None
) -> RunFolder:
    """A run `run-1` with a result: image 1 is in the first of `clusters`, and so on; image i has confidence i / 100."""
    run = RunFolder(workspace.root / "runs" / "run-1")
    if not run.path.exists():
        run.write_description({"dataset": dataset.name, "dataset_uid": dataset.info.uid, "manifest_version": 1})
    ids = np.arange(1, len(clusters) + 1)
    q = np.zeros((len(ids), count), np.float32)
    q[np.arange(len(ids)), clusters] = ids / 100
    arrays = {"ids": ids, "q": q, "cluster": np.array(clusters, np.int32), "confidence": q.max(axis=1)}
    folder = run.new_result_folder(1)
    for key, array in {**arrays, "z": np.zeros((len(ids), 2), np.float32) if z is None else z}.items():
        np.save(folder / f"{key}.npy", array)
    run.publish_result(folder, {})
    return run
