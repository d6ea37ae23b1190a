"""Commands that say how good a run is and how two compare: map, quality, compare."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.image_words import called, left_out_line, printable_paths, rounded, short
from crlc.cli.output import Output, TerminalProgress, duration, table
from crlc.names import printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crlc.analysis.unit_rows import Vectors
    from crlc.analysis.with_classes import ClassReport
    from crlc.workspace.run_analysis import QualityReport, RunAnalysis

_SHOWN = 20


def map_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `map`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("--method", default="umap", choices=("umap", "tsne", "pca"), help="by default umap")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--place", nargs="+", default=[], metavar="FILE", help="new image files: say where they belong on the map"
    )


def run_map(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Put the images of a run on a plane, and keep the map with the run."""
    from crlc.analysis.map_settings import MapSettings, map_file
    from crlc.workspace.analysis_maps import map_of
    from crlc.workspace.run_analysis import RunAnalysis
    from crlc.workspace.run_files import maps_folder

    settings = MapSettings(method=options.method, seed=options.seed)
    analysis = RunAnalysis.open(workspace, options.run)
    new = _new_images(analysis, options.place)
    started = time.monotonic()
    places = map_of(analysis, settings, TerminalProgress())
    seconds = time.monotonic() - started
    file = map_file(maps_folder(analysis.run), analysis.all_z, settings)
    points = [
        {"id": number, "x": rounded(x), "y": rounded(y), "cluster": cluster}
        for number, (x, y), cluster in zip(
            analysis.ids.tolist(), places.tolist(), analysis.clusters.tolist(), strict=True
        )
    ]
    placed = _placed(analysis, places, options.place, new)
    content = {"run": analysis.run.id, "method": options.method, "file": str(file), "images": points, "placed": placed}
    lines = [f"{options.method} map of {len(points):,} images in {duration(seconds)}.", *left_out_line(analysis)]
    lines.append(f"Kept in {file}, one row for each image of the run's result.")
    lines += [
        f"At ({one['x']:.3f}, {one['y']:.3f}), nearest to image {one['nearest']}: {one['path']}" for one in placed
    ]
    output.result(content, lines)
    return 0


def quality_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `quality`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("--images", type=Path, metavar="FILE", help="also write what is known of each image (.csv)")


def run_quality(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Each cluster, the run as a whole, and how it compares with classes where they are known."""
    from crlc.workspace.export.quality_table import require_quality_file, write_quality
    from crlc.workspace.run_analysis import RunAnalysis

    if options.images is not None:
        require_quality_file(options.images)
    analysis = RunAnalysis.open(workspace, options.run)
    quality = analysis.quality(TerminalProgress())
    report = analysis.class_report()
    clusters = _clusters(analysis, quality)
    content: dict[str, Any] = {
        "run": analysis.run.id,
        "summary": {
            name: value if isinstance(value, int) else rounded(value) for name, value in quality.run._asdict().items()
        },
        "clusters": clusters,
        "classes": None if report is None else _classes(analysis, report),
    }
    lines = [*_cluster_table(analysis, clusters), *_summary_lines(analysis, quality)]
    if report is not None:
        lines += _class_lines(analysis, report)
    if options.images is not None:
        count = write_quality(analysis, options.images)
        content["images_file"] = str(options.images)
        lines.append(f"Wrote {count:,} images to {printable(str(options.images))}.")
    output.result(content, lines)
    return 0


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `compare`."""
    parser.add_argument("first", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("second", metavar="RUN", help="another run of the same data set")


def run_compare(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """How far two runs agree, which clusters go together, which images moved."""
    from crlc.workspace.run_analysis import RunAnalysis
    from crlc.workspace.run_comparison import compare

    first = RunAnalysis.open(workspace, options.first)
    second = RunAnalysis.open(workspace, options.second)
    found = compare(first, second)
    moved = [
        {"id": number, "from": before, "to": after}
        for number, before, after in zip(
            found.moved_ids.tolist(), found.moved_from.tolist(), found.moved_to.tolist(), strict=True
        )
    ]
    content = {
        "first": first.run.id,
        "second": second.run.id,
        **{name: getattr(found, name) for name in ("images", "only_first", "only_second")},
        **{name: rounded(getattr(found, name)) for name in ("ari", "nmi", "same_share")},
        "matched": [{**line._asdict(), "overlap": rounded(line.overlap)} for line in found.matched],
        "moved": moved,
    }
    rows = [
        [
            "-" if line.first < 0 else called(first, line.first),
            "-" if line.second < 0 else called(second, line.second),
            f"{line.first_size:,}",
            f"{line.second_size:,}",
            f"{line.common:,}",
            short(line.overlap),
        ]
        for line in found.matched
    ]
    lines = [
        f"Images in both: {found.images:,}; only in the first: {found.only_first:,}; "
        f"only in the second: {found.only_second:,}.",
        f"Agreement: ARI {found.ari:.3f}, NMI {found.nmi:.3f}; {found.same_share:.1%} stayed in the matching cluster.",
        *table(("first", "second", "in first", "in second", "in both", "overlap"), rows),
    ]
    paths = printable_paths(first.dataset, [one["id"] for one in moved[:_SHOWN]])
    lines += [f"Moved: {len(moved):,} images."] if moved else ["No image moved."]
    lines += [f"  {one['from']} -> {one['to']}  {paths[one['id']]}" for one in moved[:_SHOWN]]
    if len(moved) > _SHOWN:
        lines.append(f"  ... and {len(moved) - _SHOWN:,} more; all of them with --json")
    output.result(content, lines)
    return 0


# ---- new images on a map


def _new_images(analysis: RunAnalysis, files: list[str]) -> NDArray[np.float32] | None:
    """The `z` of new images, before a map is computed for them in vain."""
    if not files:
        return None
    from crlc.cli.neighbours import file_content
    from crlc.training.device import choose_device
    from crlc.workspace.run_neighbours import NewImages

    contents = [file_content(file) for file in files]
    return NewImages(analysis.run, choose_device("auto")).z(contents, files)


def _placed(
    analysis: RunAnalysis, places: Vectors, files: list[str], new: NDArray[np.float32] | None
) -> list[dict[str, Any]]:
    """Where new images belong: among the images that are nearest to them."""
    if new is None:
        return []
    from crlc.analysis.maps import UMAP_NEIGHBOURS
    from crlc.workspace.analysis_maps import place_on_map
    from crlc.workspace.run_neighbours import RunNeighbours

    neighbours = RunNeighbours(analysis)
    k = min(UMAP_NEIGHBOURS, len(analysis.ids))
    found = [neighbours.nearest([], k, one[None]) for one in new]
    return [
        {"path": printable(file), "x": rounded(x), "y": rounded(y), "nearest": int(near.ids[0])}
        for file, near, (x, y) in zip(files, found, (place_on_map(places, near) for near in found), strict=True)
    ]


# ---- quality in words


def _clusters(analysis: RunAnalysis, quality: QualityReport) -> list[dict[str, Any]]:
    of = quality.clusters
    return [
        {
            "cluster": number,
            "name": analysis.names.get(number),
            "images": int(of.size[number]),
            "confidence": rounded(of.confidence[number]),
            "neighbour_agreement": rounded(of.neighbour_agreement[number]),
            "silhouette": rounded(of.silhouette[number]),
            "subhead_agreement": None if of.subhead_agreement is None else rounded(of.subhead_agreement[number]),
            "closest": None if of.closest[number] < 0 else int(of.closest[number]),
            "closest_mixing": rounded(of.closest_mixing[number]),
            "closest_similarity": rounded(of.closest_similarity[number]),
        }
        for number in analysis.edited.numbers
    ]


def _cluster_table(analysis: RunAnalysis, clusters: list[dict[str, Any]]) -> list[str]:
    measures = ("confidence", "neighbour_agreement", "silhouette", "subhead_agreement")
    rows = [
        [
            called(analysis, one["cluster"]),
            f"{one['images']:,}",
            *(short(one[name]) for name in measures),
            "-" if one["closest"] is None else str(one["closest"]),
            short(one["closest_mixing"]),
        ]
        for one in clusters
    ]
    return table(("cluster", "images", "confidence", "neighbours", "silhouette", "subheads", "closest", "mixing"), rows)


def _summary_lines(analysis: RunAnalysis, quality: QualityReport) -> list[str]:
    run = quality.run
    subheads = "" if run.subhead_agreement is None else f", agreement of subheads {run.subhead_agreement:.3f}"
    return [
        f"{analysis.run.id}: {run.images:,} images in {run.clusters} clusters, the largest holds "
        f"{run.largest_share:.0%}.",
        f"Confidence {run.confidence:.3f}, margin {run.margin:.3f}, neighbours in the same cluster "
        f"{run.neighbour_agreement:.3f}, silhouette {run.silhouette:.3f}{subheads}.",
        *left_out_line(analysis),
        *(["These are the clusters as people changed them."] if analysis.is_edited else []),
    ]


def _classes(analysis: RunAnalysis, report: ClassReport) -> dict[str, Any]:
    assert analysis.classes is not None
    measured = {name: rounded(value) for name, value in report.agreement._asdict().items()}
    return {
        "images": report.images,
        **measured,
        "acc5": rounded(report.acc5),
        "classes": [
            {"class": name, "images": int(row.sum()), "accuracy": rounded(accuracy), "cluster": cluster}
            for name, row, accuracy, cluster in zip(
                analysis.classes[0],
                report.confusion,
                report.class_accuracy,
                (None if number < 0 else number for number in report.matched.tolist()),
                strict=True,
            )
        ],
        "confusion": report.confusion.tolist(),
        "order": report.order.tolist(),
    }


def _class_lines(analysis: RunAnalysis, report: ClassReport) -> list[str]:
    assert analysis.classes is not None
    measured = report.agreement
    rows = []
    for number, name in enumerate(analysis.classes[0]):
        row, matched = report.confusion[number], int(report.matched[number])
        others = row * (report.order != matched)
        elsewhere = int(others.argmax())
        rows.append(
            [
                name,
                f"{int(row.sum()):,}",
                short(report.class_accuracy[number]),
                "-" if matched < 0 else str(matched),
                f"{int(others[elsewhere]):,} in {int(report.order[elsewhere])}" if others.any() else "-",
            ]
        )
    return [
        f"Against the classes of {report.images:,} images: ACC {measured.acc:.1%}, NMI {measured.nmi:.3f}, "
        f"ARI {measured.ari:.3f}, ACC5 {report.acc5:.1%}.",
        *table(("class", "images", "accuracy", "cluster", "most of the others"), rows),
    ]
