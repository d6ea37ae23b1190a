"""The steps of `first_map.py` with FiftyOne: `PYTHON benchmarks/fiftyone_map.py FOLDER`, printed as JSON.

PYTHON is the interpreter of an environment that has FiftyOne, umap-learn, timm and torch; `first_map.py --fiftyone
PYTHON` calls this script. FiftyOne is not a requirement of this project: it brings a database server.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

IMAGE_SIZE, BATCH_IMAGES, CLUSTERS = 160, 64, 10


def run_fiftyone(folder: Path) -> dict[str, float]:
    """Return the seconds until the UMAP map and k-means clusters exist, with the same weights and image size."""
    import fiftyone as fo
    import fiftyone.brain as fob
    import fiftyone.utils.torch as fout
    import numpy as np
    import timm
    import torch
    import umap  # noqa: F401  (loaded before the time is measured, as in a running server)
    from sklearn.cluster import KMeans
    from torchvision.transforms import v2

    from crlc.model.pretrained import load_pretrained

    fo.config.show_progress_bars = False
    fo.Dataset().delete()  # starts the database server, as in a running app
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval().to(memory_format=torch.channels_last)
    network.load_state_dict(load_pretrained("default").module.state_dict(), strict=False)
    transforms = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(IMAGE_SIZE),
            v2.CenterCrop(IMAGE_SIZE),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([127 / 255] * 3, [128 / 255] * 3),
        ]
    )
    config: dict[str, Any] = {"model": network, "transforms": transforms, "ragged_batches": False}
    model = fout.TorchImageModel(fout.TorchImageModelConfig({**config, "as_feature_extractor": True}))
    started = time.perf_counter()
    dataset = fo.Dataset.from_images_dir(str(folder), recursive=True)
    first_images = time.perf_counter() - started
    embeddings = dataset.compute_embeddings(model, batch_size=BATCH_IMAGES)
    unit = embeddings - embeddings.mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    KMeans(CLUSTERS, n_init=5, random_state=0).fit_predict(unit)
    fob.compute_visualization(dataset, embeddings=unit, method="umap", metric="cosine", seed=0, verbose=False)
    seconds = time.perf_counter() - started
    dataset.delete()
    return {"a": first_images, "c": seconds}


if __name__ == "__main__":
    print(json.dumps(run_fiftyone(Path(sys.argv[1]))))
