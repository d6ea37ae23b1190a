"""Results written by hand: where images lie on a circle, so that every similarity is a cosine known by heart."""

from __future__ import annotations

import numpy as np

from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace

ANGLES = [0, 10, 25, 90, 100, 120]
CLUSTERS = [0, 0, 0, 1, 1, 1]
SURE = [0.9, 0.8, 0.6, 0.9, 0.7, 0.8]


def on_circle(angles: list[float]) -> np.ndarray:
    radians = np.radians(np.array(angles, np.float64))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def cosine(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def handmade_result(
    workspace: Workspace,
    dataset: ImageDataset,
    *,
    name: str = "run-1",
    z: np.ndarray | None = None,
    clusters: list[int] | None = None,
    sure: list[float] | None = None,
    by_subhead: list[list[int]] | None = None,
    count: int = 2,
    step: int = 1,
) -> RunFolder:
    """A run whose result says: image 1 is in the first of `clusters`, so sure; the rest goes to the next cluster."""
    run = RunFolder(workspace.root / "runs" / name)
    if not run.path.exists():
        run.write_description({"dataset": dataset.name, "dataset_uid": dataset.info.uid, "manifest_version": 1})
    found = np.array(CLUSTERS if clusters is None else clusters, np.int32)
    belief = np.array(SURE if sure is None else sure, np.float32)
    rows = np.arange(len(found))
    q = np.zeros((len(found), count), np.float32)
    q[rows, found] = belief
    q[rows, (found + 1) % count] += 1 - belief
    arrays = {
        "ids": rows + 1,
        "q": q,
        "z": on_circle(ANGLES) if z is None else z.astype(np.float32),
        "cluster": found,
        "confidence": q[rows, found],
    }
    if by_subhead is not None:
        arrays["by_subhead"] = np.array(by_subhead, np.int32)
    folder = run.new_result_folder(step)
    for key, array in arrays.items():
        np.save(folder / f"{key}.npy", array)
    run.publish_result(folder, {"subhead": 0, "final": True})
    return run
