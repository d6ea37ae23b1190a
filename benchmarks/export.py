"""Export of a run's table against pandas and pyarrow: `python benchmarks/export.py [--rows 100000] [--growth]`.

Runs all writers alternately. pandas and pyarrow write a table that is already in memory; ours also reads the manifest,
the result, labels and a map, and escapes every text. Target: less than twice the time of pandas or pyarrow. `--growth`
measures time and memory from 10,000 to 1,000,000 rows, each in a separate process (targets: exponent at most 1.1,
memory at most 8 GiB).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, fit_exponent
from crlc.analysis.maps.settings import MapSettings, get_map_path, write_map
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import DatasetInfo, ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.export.rows import RunExport
from crlc.export.tables import build_record_batch, write_table
from crlc.runs.folder import RunFolder
from crlc.runs.results import get_maps_folder

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CLUSTERS = 10


def make_run(root: Path, count: int) -> tuple[RunFolder, ImageDataset]:
    """Create a dataset and a run of synthetic images, with classes, labels and a map."""
    folder = root / "datasets" / "set"
    folder.mkdir(parents=True)
    DatasetInfo("set", "uid", "folder", "/originals", str(root), ImportOptions(), "2024-01-01", 8).save(folder)
    random = np.random.default_rng(0)
    names = random.permutation(count)
    with Manifest(folder, create=True) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "INSERT INTO images (path, bytes, stamp, status, class, content_version, first_version) "
            "VALUES (?, 1, '', 'ok', ?, 1, 1)",
            ((f"class-{name % CLUSTERS}/image_{name:08d}.jpg".encode(), f"class-{name % CLUSTERS}") for name in names),
        )
        manifest.set_complete(complete=True)
    run = RunFolder(root / "runs" / "run")
    run.write_metadata({"dataset": "set", "dataset_uid": "uid", "manifest_version": 1})
    q = random.dirichlet(np.full(CLUSTERS, 0.2), count).astype(np.float32)
    z = random.normal(size=(count, 4)).astype(np.float32)
    arrays: dict[str, NDArray[Any]] = {"ids": np.arange(1, count + 1), "q": q, "z": z, "confidence": q.max(axis=1)}
    result = run.create_result_folder(1)
    for name, array in {**arrays, "cluster": q.argmax(axis=1).astype(np.int32)}.items():
        np.save(result / f"{name}.npy", array)
    run.publish_result(result, {})
    get_maps_folder(run).mkdir()
    write_map(get_map_path(get_maps_folder(run), z, MapSettings("umap")), z[:, :2].copy())
    dataset = ImageDataset(folder)
    with AnnotationStore(dataset) as annotations:
        for number in range(CLUSTERS):
            annotations.label(range(1 + number, count // 2, CLUSTERS), f"label {number}")
    return run, dataset


def collect_export(run: RunFolder, dataset: ImageDataset) -> RunExport:
    """Return the export as the command collects it."""
    with AnnotationStore(dataset) as annotations:
        return RunExport.from_run(run, dataset, annotations.refresh())


def compare(rows: int, repeats: int) -> None:
    """Print the time of ours, pandas and pyarrow, measured alternately."""
    import pyarrow as pa
    from pyarrow import csv

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run, dataset = make_run(folder, rows)
        export = collect_export(run, dataset)
        table = pa.Table.from_batches([build_record_batch(export, chunk) for chunk in export.iterate_chunks()])
        frame = table.to_pandas()
        writers: dict[str, Callable[[Path], object]] = {
            "ours": lambda file: write_table(collect_export(run, dataset), file),
            "pandas": lambda file: frame.to_csv(file, index=False),
            "pyarrow": lambda file: csv.write_csv(table, file),
            "ours, Parquet": lambda file: write_table(collect_export(run, dataset), file),
            "pyarrow, Parquet": lambda file: frame.to_parquet(file, index=False),
        }
        seconds: dict[str, list[float]] = {name: [] for name in writers}
        for turn in range(repeats + 1):
            for name, write in writers.items():
                file = folder / f"out{turn}{'.parquet' if 'Parquet' in name else '.csv'}"
                file.unlink(missing_ok=True)
                started = time.perf_counter()
                write(file)
                if turn:  # the first turn loads libraries
                    seconds[name].append(time.perf_counter() - started)
                file.unlink()
    for name, times in seconds.items():
        print(f"{name:<18}{statistics.median(times):8.3f} s  ({min(times):.3f} - {max(times):.3f})")
    for name in ("pandas", "pyarrow"):
        ratios = [ours / theirs for ours, theirs in zip(seconds["ours"], seconds[name], strict=True)]
        print(f"ours / {name}: {statistics.median(ratios):.2f}, median of the turns (target: 2)")


def measure_size(rows: int) -> None:
    """Print time and memory of one size as JSON; runs in a separate process."""
    import resource

    import pyarrow.csv  # noqa: F401  (loaded before the time is measured)

    with tempfile.TemporaryDirectory() as temporary:
        run, dataset = make_run(Path(temporary), rows)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times: list[float] = []
        while len(times) < 3 or (sum(times) < 3 and len(times) < 9):
            file = Path(temporary, f"out{len(times)}.csv")
            started = time.perf_counter()
            write_table(collect_export(run, dataset), file)
            times.append(time.perf_counter() - started)
            file.unlink()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": rows, "seconds": min(times), "gib": after / 2**20, "before": before / 2**20}))


def measure_growth() -> None:
    """Print time and memory of all sizes, and the exponent."""
    found = []
    for rows in SIZES:
        command = [sys.executable, __file__, "--one", str(rows)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.append(json.loads(out.splitlines()[-1]))
        print(
            f"{rows:>9,}: {found[-1]['seconds']:.2f} s, peak {found[-1]['gib']:.2f} GiB "
            f"({found[-1]['before']:.2f} before the export)",
            flush=True,
        )
    exponent = fit_exponent([one["rows"] for one in found], [one["seconds"] for one in found])
    print(f"exponent {exponent:.2f} (target: 1.1)")


def main() -> None:
    """Run the comparison or the growth."""
    parser = create_parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--one", type=int)
    options = parser.parse_args()
    if options.one:
        measure_size(options.one)
        return
    print(describe_machine(), flush=True)
    if options.growth:
        measure_growth()
    else:
        compare(options.rows, options.repeats)


if __name__ == "__main__":
    main()
