"""Export of a run's table against pandas and pyarrow: `python benchmarks/export.py [--rows 100000] [--growth]`.

All in one run, in turns. Theirs write a table that is in memory already; ours also reads the manifest, the result,
labels and a map, and makes every text safe. Bar: under twice the time of pandas or pyarrow. With `--growth`, time
and memory from 10,000 to 1,000,000 rows, each in a process of its own (bars: exponent at most 1.1, 8 GiB).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.map_settings import MapSettings, map_file, write_map
from crlc.config import ImportOptions
from crlc.data.dataset import DatasetInfo, ImageDataset
from crlc.data.manifest import Manifest
from crlc.training.run_folder import RunFolder
from crlc.workspace.annotations import Annotations
from crlc.workspace.export.rows import RunExport
from crlc.workspace.export.tables import record_batch, write_table
from crlc.workspace.run_maps import maps_folder

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CLUSTERS = 10


def make_run(root: Path, count: int) -> tuple[RunFolder, ImageDataset]:
    """A data set and a run of synthetic images, with classes, labels and a map."""
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
    run.write_description({"dataset": "set", "dataset_uid": "uid", "manifest_version": 1})
    q = random.dirichlet(np.full(CLUSTERS, 0.2), count).astype(np.float32)
    z = random.normal(size=(count, 4)).astype(np.float32)
    arrays = {"ids": np.arange(1, count + 1), "q": q, "z": z, "confidence": q.max(axis=1)}
    result = run.new_result_folder(1)
    for name, array in {**arrays, "cluster": q.argmax(axis=1).astype(np.int32)}.items():
        np.save(result / f"{name}.npy", array)
    run.publish_result(result, {})
    maps_folder(run).mkdir()
    write_map(map_file(maps_folder(run), z, MapSettings("umap")), z[:, :2].copy())
    dataset = ImageDataset(folder)
    with Annotations(dataset) as annotations:
        for number in range(CLUSTERS):
            annotations.label(range(1 + number, count // 2, CLUSTERS), f"label {number}")
    return run, dataset


def gathered(run: RunFolder, dataset: ImageDataset) -> RunExport:
    """As the command does it."""
    with Annotations(dataset) as annotations:
        return RunExport.of(run, dataset, annotations.refresh())


def compare(rows: int, repeats: int) -> None:
    """Ours, pandas and pyarrow in turns."""
    import pyarrow as pa
    from pyarrow import csv

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run, dataset = make_run(folder, rows)
        export = gathered(run, dataset)
        table = pa.Table.from_batches([record_batch(export, chunk) for chunk in export.chunks()])
        frame = table.to_pandas()
        ways: dict[str, Callable[[Path], object]] = {
            "ours": lambda file: write_table(gathered(run, dataset), file),
            "pandas": lambda file: frame.to_csv(file, index=False),
            "pyarrow": lambda file: csv.write_csv(table, file),
            "ours, Parquet": lambda file: write_table(gathered(run, dataset), file),
            "pyarrow, Parquet": lambda file: frame.to_parquet(file, index=False),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(repeats + 1):
            for name, write in ways.items():
                file = folder / f"out{turn}{'.parquet' if 'Parquet' in name else '.csv'}"
                file.unlink(missing_ok=True)
                started = time.perf_counter()
                write(file)
                if turn:  # the first one loads libraries
                    seconds[name].append(time.perf_counter() - started)
                file.unlink()
    for name, times in seconds.items():
        print(f"{name:<18}{statistics.median(times):8.3f} s  ({min(times):.3f} - {max(times):.3f})")
    for name in ("pandas", "pyarrow"):
        ratios = [ours / theirs for ours, theirs in zip(seconds["ours"], seconds[name], strict=True)]
        print(f"ours / {name}: {statistics.median(ratios):.2f}, median of the turns (bar: 2)")


def one_size(rows: int) -> None:
    """In a process of its own: print time and memory as JSON."""
    import resource

    import pyarrow.csv  # noqa: F401  (loaded before the clock runs)

    with tempfile.TemporaryDirectory() as place:
        run, dataset = make_run(Path(place), rows)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = []
        while len(times) < 3 or (sum(times) < 3 and len(times) < 9):
            file = Path(place, f"out{len(times)}.csv")
            started = time.perf_counter()
            write_table(gathered(run, dataset), file)
            times.append(time.perf_counter() - started)
            file.unlink()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": rows, "seconds": min(times), "gib": after / 2**20, "before": before / 2**20}))


def growth() -> None:
    """All sizes, and the slope."""
    found = []
    for rows in SIZES:
        command = [sys.executable, __file__, "--one", str(rows)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.append(json.loads(out.splitlines()[-1]))
        print(
            f"{rows:>9,}: {found[-1]['seconds']:.2f} s, peak {found[-1]['gib']:.2f} GiB "
            f"({found[-1]['before']:.2f} by making the data)",
            flush=True,
        )
    slope = np.polyfit(np.log([one["rows"] for one in found]), np.log([one["seconds"] for one in found]), 1)[0]
    print(f"exponent {slope:.2f} (bar: 1.1)")


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--one", type=int)
    options = parser.parse_args()
    if options.one:
        one_size(options.one)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}", flush=True)
    if options.growth:
        growth()
    else:
        compare(options.rows, options.repeats)


if __name__ == "__main__":
    main()
