"""Commands that analyse runs: map, quality and compare."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.analysis.maps.settings import DEFAULT_MAP_METHOD, MAP_METHODS
from crlc.cli.columns import count_image_quality, format_image_quality, list_flagged_images
from crlc.cli.options import add_run_argument
from crlc.cli.output import Output
from crlc.cli.tables import (
    format_cluster_cell,
    format_left_out,
    format_number,
    format_table,
    read_printable_paths,
    round_number,
)
from crlc.errors import UsageError
from crlc.formatting import format_duration
from crlc.paths import to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crlc.analysis.class_metrics import ClassReport
    from crlc.arrays import FloatArray
    from crlc.services.analyse_run import QualityReport, RunAnalysis

_MAX_LISTED_IMAGES = 20


def add_map_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `map`."""
    add_run_argument(parser)
    parser.add_argument(
        "--method", default=DEFAULT_MAP_METHOD, choices=MAP_METHODS, help=f"map method (default: {DEFAULT_MAP_METHOD})"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the map (default: 0)")
    parser.add_argument(
        "--place",
        nargs="+",
        default=[],
        metavar="FILE",
        help="new image files whose coordinates on the map are printed",
    )


def run_map(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Compute the map of a run and store it with the run."""
    from crlc.analysis.maps.settings import MapSettings, get_map_path
    from crlc.runs.results import get_maps_folder
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.maps import ensure_map

    settings = MapSettings(method=options.method, seed=options.seed)
    analysis = RunAnalysis.open(workspace, options.run)
    new = _encode_new_images(analysis, options.place)
    started = time.monotonic()
    coordinates = ensure_map(analysis, settings, output.progress)
    seconds = time.monotonic() - started
    file = get_map_path(get_maps_folder(analysis.run), analysis.all_z, settings)
    points = [
        {"id": number, "x": round_number(x), "y": round_number(y), "cluster": cluster}
        for number, (x, y), cluster in zip(
            analysis.ids.tolist(), coordinates.tolist(), analysis.clusters.tolist(), strict=True
        )
    ]
    placed = _place_new_images(analysis, coordinates, options.place, new)
    content = {"run": analysis.run.id, "method": options.method, "file": str(file), "images": points, "placed": placed}
    lines = [
        f"{options.method} map of {len(points):,} images in {format_duration(seconds)}.",
        *format_left_out(analysis),
    ]
    lines.append(f"Stored in {file}, one row per image of the result.")
    lines += [
        f"{image['path']}: ({image['x']:.3f}, {image['y']:.3f}), nearest image {image['nearest']}" for image in placed
    ]
    output.print_result(content, lines)
    return 0


def add_quality_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `quality`."""
    parser.add_argument(
        "name",
        metavar="RUN|DATASET",
        help="run id, unique prefix, or 'last'; or a dataset, to list blurred, dark and uniform images",
    )
    parser.add_argument(
        "--images", type=Path, metavar="FILE", help="run: also write the metrics of each image to a new CSV file"
    )


def run_quality(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the quality of each cluster and of the run, and the metrics against ground-truth classes.

    Of a dataset, print the images that are blurred, dark or uniform.
    """
    if options.name in workspace.list_dataset_names():
        return _print_dataset_quality(options, workspace, output)
    from crlc.cli.suggestions import require_run
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.quality_csv import check_quality_file, write_quality_csv

    if options.images is not None:
        check_quality_file(options.images)
    require_run(options.name, workspace)
    analysis = RunAnalysis.open(workspace, options.name)
    quality = analysis.compute_quality(output.progress)
    report = analysis.compute_class_report()
    clusters = _build_clusters(analysis, quality)
    content: dict[str, Any] = {
        "run": analysis.run.id,
        "summary": {
            name: value if isinstance(value, int) else round_number(value)
            for name, value in quality.run._asdict().items()
        },
        "clusters": clusters,
        "classes": None if report is None else _build_classes(analysis, report),
        "image_quality": count_image_quality(analysis.dataset, analysis.ids),
        "flagged_images": list_flagged_images(analysis.dataset, analysis.ids),
    }
    lines = [*_format_clusters(analysis, clusters), *_format_summary(analysis, quality)]
    lines += format_image_quality(content["image_quality"], content["flagged_images"])
    if report is not None:
        lines += _format_classes(analysis, report)
    if options.images is not None:
        count = write_quality_csv(analysis, options.images)
        content["images_file"] = str(options.images)
        lines.append(f"Wrote {count:,} images to {to_printable(str(options.images))}.")
    output.print_result(content, lines)
    return 0


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compare`."""
    parser.add_argument("first", metavar="RUN", help="run id, unique prefix, or 'last'")
    parser.add_argument("second", metavar="RUN", help="another run of the same dataset")


def run_compare(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the agreement of two runs, their matching clusters and the reassigned images."""
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.compare_runs import compare_runs

    first = RunAnalysis.open(workspace, options.first)
    second = RunAnalysis.open(workspace, options.second)
    found = compare_runs(first, second)
    moved = [
        {"id": number, "from": before, "to": after}
        for number, before, after in zip(
            found.reassigned_ids.tolist(), found.reassigned_from.tolist(), found.reassigned_to.tolist(), strict=True
        )
    ]
    content = {
        "first": first.run.id,
        "second": second.run.id,
        **{name: getattr(found, name) for name in ("images", "only_first", "only_second")},
        **{name: round_number(getattr(found, name)) for name in ("ari", "nmi", "same_share")},
        "matched": [{**line._asdict(), "overlap": round_number(line.overlap)} for line in found.matched],
        "moved": moved,
    }
    rows = [
        [
            "-" if line.first < 0 else format_cluster_cell(first, line.first),
            "-" if line.second < 0 else format_cluster_cell(second, line.second),
            f"{line.first_size:,}",
            f"{line.second_size:,}",
            f"{line.common:,}",
            format_number(line.overlap),
        ]
        for line in found.matched
    ]
    lines = [
        f"Images in both: {found.images:,}; only in the first: {found.only_first:,}; "
        f"only in the second: {found.only_second:,}.",
        f"Agreement: ARI {found.ari:.3f}, NMI {found.nmi:.3f}; {found.same_share:.1%} of the images are in the "
        "matching cluster.",
        *format_table(("first", "second", "in first", "in second", "in both", "overlap"), rows),
    ]
    paths = read_printable_paths(first.dataset, [one["id"] for one in moved[:_MAX_LISTED_IMAGES]])
    lines += [f"Reassigned images: {len(moved):,}."]
    lines += [f"  {one['from']} -> {one['to']}  {paths[one['id']]}" for one in moved[:_MAX_LISTED_IMAGES]]
    if len(moved) > _MAX_LISTED_IMAGES:
        lines.append(f"  ... and {len(moved) - _MAX_LISTED_IMAGES:,} more; use --json to list all")
    output.print_result(content, lines)
    return 0


# ---- new images


def _encode_new_images(analysis: RunAnalysis, files: list[str]) -> NDArray[np.float32] | None:
    """Return the features of new images. Called before the map is computed, so that unreadable files fail early."""
    if not files:
        return None
    from crlc.cli.neighbours import read_image_file
    from crlc.services.neighbours import ImageEncoder
    from crlc.training.device import choose_device

    contents = [read_image_file(file) for file in files]
    return ImageEncoder(analysis.run, choose_device("auto")).encode(contents, files)


def _place_new_images(
    analysis: RunAnalysis, coordinates: FloatArray, files: list[str], new: NDArray[np.float32] | None
) -> list[dict[str, Any]]:
    """Return the coordinates of new images, interpolated from their nearest images."""
    if new is None:
        return []
    from crlc.analysis.maps.projections import UMAP_NEIGHBOURS
    from crlc.services.maps import place_on_map
    from crlc.services.neighbours import RunNeighbours

    neighbours = RunNeighbours(analysis)
    k = min(UMAP_NEIGHBOURS, len(analysis.ids))
    found = [neighbours.find_nearest([], k, one[None]) for one in new]
    return [
        {"path": to_printable(file), "x": round_number(x), "y": round_number(y), "nearest": int(near.ids[0])}
        for file, near, (x, y) in zip(files, found, (place_on_map(coordinates, near) for near in found), strict=True)
    ]


# ---- quality


def _print_dataset_quality(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the flags of all images of a dataset that are not excluded."""
    import numpy as np

    from crlc.annotations.store import read_annotations
    from crlc.data.manifest import Manifest
    from crlc.data.manifest_columns import read_content_versions

    if options.images is not None:
        raise UsageError(f"--images is only for runs, and {options.name!r} is a dataset: use --json.")
    dataset = workspace.open_dataset(options.name)
    with Manifest(dataset.folder) as manifest:
        ids = np.sort(read_content_versions(manifest)[0])
    ids = ids[~read_annotations(dataset).is_excluded(ids)]
    counts, flagged = count_image_quality(dataset, ids), list_flagged_images(dataset, ids)
    content = {"dataset": dataset.name, "image_quality": counts, "flagged_images": flagged}
    output.print_result(content, format_image_quality(counts, flagged, has_table=False))
    return 0


def _build_clusters(analysis: RunAnalysis, quality: QualityReport) -> list[dict[str, Any]]:
    metrics = quality.clusters
    return [
        {
            "cluster": number,
            "name": analysis.names.get(number),
            "images": int(metrics.size[number]),
            "confidence": round_number(metrics.confidence[number]),
            "neighbour_agreement": round_number(metrics.neighbour_agreement[number]),
            "silhouette": round_number(metrics.silhouette[number]),
            "subhead_agreement": None
            if metrics.subhead_agreement is None
            else round_number(metrics.subhead_agreement[number]),
            "closest": None if metrics.closest[number] < 0 else int(metrics.closest[number]),
            "closest_mixing": round_number(metrics.closest_mixing[number]),
            "closest_similarity": round_number(metrics.closest_similarity[number]),
        }
        for number in analysis.edited.numbers
    ]


def _format_clusters(analysis: RunAnalysis, clusters: list[dict[str, Any]]) -> list[str]:
    measures = ("confidence", "neighbour_agreement", "silhouette", "subhead_agreement")
    rows = [
        [
            format_cluster_cell(analysis, one["cluster"]),
            f"{one['images']:,}",
            *(format_number(one[name]) for name in measures),
            "-" if one["closest"] is None else str(one["closest"]),
            format_number(one["closest_mixing"]),
        ]
        for one in clusters
    ]
    return format_table(
        ("cluster", "images", "confidence", "neighbours", "silhouette", "subheads", "closest", "overlap"), rows
    )


def _format_summary(analysis: RunAnalysis, quality: QualityReport) -> list[str]:
    run = quality.run
    subheads = "" if run.subhead_agreement is None else f", subhead agreement {run.subhead_agreement:.3f}"
    return [
        f"{analysis.run.id}: {run.images:,} images in {run.clusters} clusters, largest cluster "
        f"{run.largest_share:.0%} of the images.",
        f"Confidence {run.confidence:.3f}, margin {run.margin:.3f}, neighbour agreement "
        f"{run.neighbour_agreement:.3f}, silhouette {run.silhouette:.3f}{subheads}.",
        *format_left_out(analysis),
        *(["The clusters were edited manually."] if analysis.is_edited else []),
    ]


def _build_classes(analysis: RunAnalysis, report: ClassReport) -> dict[str, Any]:
    assert analysis.classes is not None
    metrics = {name: round_number(value) for name, value in report.agreement._asdict().items()}
    return {
        "images": report.images,
        **metrics,
        "acc5": round_number(report.acc5),
        "classes": [
            {"class": name, "images": int(row.sum()), "accuracy": round_number(accuracy), "cluster": cluster}
            for name, row, accuracy, cluster in zip(
                analysis.classes[0],
                report.confusion,
                report.class_accuracy,
                (None if number < 0 else number for number in report.matched_clusters.tolist()),
                strict=True,
            )
        ],
        "confusion": report.confusion.tolist(),
        "order": report.cluster_order.tolist(),
    }


def _format_classes(analysis: RunAnalysis, report: ClassReport) -> list[str]:
    assert analysis.classes is not None
    agreement = report.agreement
    rows = []
    for number, name in enumerate(analysis.classes[0]):
        row, matched = report.confusion[number], int(report.matched_clusters[number])
        others = row * (report.cluster_order != matched)
        elsewhere = int(others.argmax())
        rows.append(
            [
                name,
                f"{int(row.sum()):,}",
                format_number(report.class_accuracy[number]),
                "-" if matched < 0 else str(matched),
                f"{int(others[elsewhere]):,} in {int(report.cluster_order[elsewhere])}" if others.any() else "-",
            ]
        )
    return [
        f"Against the ground truth of {report.images:,} images: ACC {agreement.acc:.1%}, NMI {agreement.nmi:.3f}, "
        f"ARI {agreement.ari:.3f}, ACC5 {report.acc5:.1%}.",
        *format_table(("class", "images", "accuracy", "cluster", "largest other cluster"), rows),
    ]
