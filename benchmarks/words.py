"""Cost of words, and speed of search: `python benchmarks/words.py FOLDER --images 1500`.

First, the features of the images in a folder are computed and stored with and without their most probable classes,
alternately, by both engines; the ratio of the computing times is the cost of the words (target: at most 1.03). Then a
dataset of 100,000 images with random classes is searched (target: 0.3 s): the first search reads paths and classes from
disk, the others do not. Computing times count all threads, and other programs change them little.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, read_commit
from crlc.analysis.class_scores import rank_classes
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import DatasetInfo, ImageDataset
from crlc.data.feature_shards import CLASS_SCORES, RANKED_CLASSES, FeatureCache, build_feature_keys
from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.paths import encode_path
from crlc.services.search import ImageSearch, SearchScope
from crlc.services.search_matchers import create_matchers
from crlc.services.words import ImageWords
from crlc.training.feature_cache import load_or_compute_features
from crlc.training.images import TrainingImages, load_images
from crlc.training.network_builder import build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

_TEXTS = ("dog", "vehicle", "image-00012", "holiday", "animal", "d", "e", "unknown text")
_CLUSTERS = 40


def measure_features(images: TrainingImages, engine: str, *, has_words: bool) -> float:
    """Return the computing time of the features of some images, with or without their classes."""
    built = build_network(FROZEN_HEADS.replace(clusters=2))
    built.network.eval()
    if not has_words:
        built.network.classifier = None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        return _measure(lambda: load_or_compute_features(built.network, images, built.identity, folder, engine=engine))


def measure_cost(folder: str, count: int, turns: int) -> None:
    """Print the cost of the words for both engines."""
    print("\n| engine | computing time without words | with words | ratio, median of the turns | classes alone |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        size = FROZEN_HEADS.data.image_size
        options = ImportOptions(size=size, limit=count)
        dataset, _ = Workspace(Path(temporary)).import_dataset(folder, options=options)
        loaded = load_images(dataset, size)
        pixels = loaded.read(loaded.ids)  # in memory: reading files is not measured
        images = TrainingImages.from_array(pixels)
        for engine in ("openvino", "torch"):
            measure_features(TrainingImages.from_array(pixels[:256]), engine, has_words=True)  # converts the backbone
            found = []
            for turn in range(turns):
                order = (False, True) if turn % 2 else (True, False)
                times = {has_words: measure_features(images, engine, has_words=has_words) for has_words in order}
                found.append((times[False], times[True]))
            without = statistics.median(before for before, _ in found)
            with_words = statistics.median(after for _, after in found)
            cpu = statistics.median(after / before for before, after in found)
            alone = measure_classes(len(images)) / without
            print(f"| {engine} | {without:.2f} s | {with_words:.2f} s | {cpu:.3f} | {alone:.1%} |")


def measure_classes(count: int) -> float:
    """Return the computing time of the most probable classes of stored features."""
    classifier = build_network(FROZEN_HEADS.replace(clusters=2)).network.classifier
    assert classifier is not None
    features = np.random.default_rng(0).random((count, classifier.weight.shape[1])).astype(np.float16)
    return min(_measure(lambda: rank_classes(features, *classifier)) for _ in range(5))


def create_dataset(root: Path, count: int) -> ImageDataset:
    """Create a dataset of images with random paths, labels and classes, without pixels."""
    folder = root / "datasets" / "many"
    folder.mkdir(parents=True)
    DatasetInfo("many", "uid-many", "folder", "/originals", str(root), ImportOptions(), "2024-01-01", 8).save(folder)
    with Manifest(folder, create=True) as manifest, manifest.transaction():
        rows = ((encode_path(f"holiday-{n % 300:03}/image-{n:06}.jpg"),) for n in range(count))
        manifest.connection.executemany(
            "INSERT INTO images (path, bytes, stamp, status, content_version, first_version) "
            "VALUES (?, 1, '', 'ok', 1, 1)",
            rows,
        )
        manifest.set_complete(complete=True)
    dataset = ImageDataset(folder)
    generator = np.random.default_rng(0)
    scores = np.zeros((count, RANKED_CLASSES), CLASS_SCORES)
    scores["number"] = generator.integers(0, 1000, scores.shape)
    scores["probability"] = 0.5 * 0.7 ** np.arange(RANKED_CLASSES) * generator.uniform(0.2, 1.2, scores.shape)
    keys = build_feature_keys(np.arange(1, count + 1), np.ones(count, np.int64))
    cache = FeatureCache(folder / "features" / "words@1-160")
    for start in range(0, count, 4096):
        part = slice(start, start + 4096)
        cache.add(keys[part], np.zeros((len(keys[part]), 2), np.float16), scores[part])
    return dataset


def measure_search(count: int) -> None:
    """Print how long searches take."""
    with tempfile.TemporaryDirectory() as temporary:
        dataset = create_dataset(Path(temporary), count)
        with AnnotationStore(dataset) as annotations:
            annotations.label(range(1, count + 1, 7), "holiday")
            state = annotations.refresh()
        clusters = np.arange(count) % _CLUSTERS
        names = {number: f"group {number}" for number in range(_CLUSTERS)}

        def open_search() -> ImageSearch:
            scope = SearchScope(dataset, np.arange(1, count + 1), clusters, names, state)
            return ImageSearch(scope, create_matchers(scope))

        print(f"\n| {count:,} images, computing time | slowest | median |\n|---|---|---|")
        _print_times("first search", [_measure(lambda: open_search().search("dog")) for _ in range(3)])
        search = open_search()
        search.search("dog")
        _print_times("search", [_measure(lambda text=text: search.search(text)) for text in _TEXTS])  # type: ignore[misc]
        _print_times("suggestions", [_measure(lambda text=text: search.suggest(text)) for text in _TEXTS])  # type: ignore[misc]
        scores = search.scope.class_scores
        assert scores is not None
        words = [_measure(lambda: ImageWords(scores, clusters).by_cluster) for _ in range(3)]
        _print_times(f"words of {_CLUSTERS} clusters", words)


def _measure(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _print_times(name: str, seconds: list[float]) -> None:
    print(f"| {name} | {max(seconds):.3f} s | {statistics.median(seconds):.3f} s |")


def main() -> None:
    """Measure the cost of words and the speed of search."""
    parser = create_parser(__doc__)
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--searched", type=int, default=100_000)
    options = parser.parse_args()
    print(f"{describe_machine()}, {torch.get_num_threads()} threads, commit {read_commit()}\n")
    measure_search(options.searched)
    if options.images:
        measure_cost(options.folder, options.images, options.turns)


if __name__ == "__main__":
    main()
