"""Commands about images and clusters to review: suggest, duplicates and outliers."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.options import add_run_argument
from crlc.cli.output import Output
from crlc.cli.tables import format_cluster_cell, format_left_out, format_table, read_printable_paths, round_number
from crlc.errors import NotFoundError, UsageError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.data.dataset import ImageDataset
    from crlc.services.analyse_run import RunAnalysis, SimilarImages, Suggestions

_MAX_GROUPS = 20
_MAX_PATHS_PER_GROUP = 5


def add_suggest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suggest`."""
    add_run_argument(parser)
    parser.add_argument("-n", type=int, default=20, metavar="N", help="maximum number of images to label (default: 20)")


def run_suggest(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Suggest clusters to merge or split, and images to label."""
    from crlc.services.analyse_run import RunAnalysis

    analysis = RunAnalysis.open(workspace, options.run)
    found = analysis.suggest(options.n, report=output.progress)
    shown_ids = [one.id for one in found.label] + [number for one in found.split for number in one.examples]
    paths = read_printable_paths(analysis.dataset, shown_ids)
    content = {
        "run": analysis.run.id,
        "merge": [_round_numbers(one._asdict()) for one in found.merge],
        "split": [_round_numbers(one._asdict()) for one in found.split],
        "label": [{**one._asdict(), "path": paths[one.id]} for one in found.label],
    }
    output.print_result(content, _format_suggestions(analysis, found, paths))
    return 0


@dataclass
class DuplicateActions:
    """Changes and files that `duplicates` was asked for; `None` where it was not."""

    excluded: int | None = None
    moved: int = 0
    """Number of images that the list names for moving."""

    file: str | None = None


def add_duplicates_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `duplicates`."""
    parser.add_argument(
        "name", metavar="DATASET|RUN", help="name of a dataset, to compare pixels; or a run, to compare features"
    )
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--alike", type=float, metavar="S", help="run: minimum cosine similarity (default: 0.98)")
    limits.add_argument(
        "--bits",
        type=int,
        metavar="B",
        help="dataset: maximum number of bits in which the 64-bit hashes differ (default: 3)",
    )
    limits.add_argument("--exact", action="store_true", help="dataset: only files with the same content")
    parser.add_argument(
        "--exclude",
        action="store_true",
        help="keep the largest, sharpest image of each group and exclude the others; `crlc label NAME undo` undoes it",
    )
    parser.add_argument(
        "--list", type=Path, metavar="FILE.csv", help="write a list of all groups with the action keep or move"
    )


def run_duplicates(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Find groups of near duplicates."""
    from crlc.analysis.near_duplicates import DEFAULT_MIN_SIMILARITY
    from crlc.annotations.state import AnnotationState
    from crlc.annotations.store import AnnotationStore
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.duplicates import DEFAULT_MAX_BITS, find_equal_files, find_similar_images

    if options.name in workspace.list_dataset_names():
        if options.alike is not None:
            raise UsageError(f"--alike is only for runs, and {options.name!r} is a dataset: use --bits.")
        dataset = workspace.open_dataset(options.name)
        with AnnotationStore(dataset) as annotations:
            # Actions need whole groups: an excluded image may be the copy of one that is left.
            exclusions = AnnotationState() if options.exclude or options.list else annotations.refresh()
        bits = DEFAULT_MAX_BITS if options.bits is None else options.bits
        groups = (
            find_equal_files(dataset, exclusions)
            if options.exact
            else find_similar_images(dataset, exclusions, bits, output.progress)
        )
        run, measure = None, "files with the same content" if options.exact else "fraction of equal bits"
    else:
        require_run(options.name, workspace)
        if options.exact:
            raise UsageError(f"--exact is only for datasets, and {options.name!r} is a run.")
        if options.bits is not None:
            raise UsageError(f"--bits is only for datasets, and {options.name!r} is a run: use --alike.")
        analysis = RunAnalysis.open(workspace, options.name)
        groups = analysis.find_near_duplicates(
            DEFAULT_MIN_SIMILARITY if options.alike is None else options.alike, output.progress
        )
        dataset, run, measure = analysis.dataset, analysis.run.id, "cosine similarity of features"
    actions = _act_on_duplicates(options, dataset, groups, output)
    _print_groups(groups, dataset, run, measure, output, actions)
    return 0


def _act_on_duplicates(
    options: argparse.Namespace, dataset: ImageDataset, groups: list[SimilarImages], output: Output
) -> DuplicateActions:
    """Exclude redundant images and write the list, as requested."""
    from crlc.annotations.store import AnnotationStore
    from crlc.export.destinations import require_new_file, write_new_text
    from crlc.services.duplicate_review import build_duplicate_sets, exclude_redundant_images, write_duplicate_list

    actions = DuplicateActions()
    if options.list is not None:
        require_new_file(options.list)
    if not options.exclude and options.list is None:
        return actions
    sets = build_duplicate_sets(dataset, groups, output.progress)
    with AnnotationStore(dataset) as annotations:
        if options.exclude:
            before = len(annotations.refresh().get_excluded_ids())
            exclude_redundant_images(dataset, annotations, sets)
            actions.excluded = len(annotations.refresh().get_excluded_ids()) - before
        if options.list is not None:
            state = annotations.refresh()
            actions.moved = write_new_text(
                options.list, lambda stream: write_duplicate_list(dataset, state, sets, stream)
            )
            actions.file = to_printable(str(options.list))
    return actions


def add_outliers_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `outliers`."""
    add_run_argument(parser)
    parser.add_argument("-n", type=int, default=50, metavar="N", help="maximum number of images (default: 50)")
    parser.add_argument(
        "--at-least", type=float, default=2.0, metavar="SCORE", help="minimum outlier score (1 = typical; default: 2)"
    )


def run_outliers(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List the images that are farthest from their neighbours."""
    from crlc.services.analyse_run import RunAnalysis

    analysis = RunAnalysis.open(workspace, options.run)
    found = analysis.find_outliers(options.n, min_score=options.at_least, report=output.progress)
    paths = read_printable_paths(analysis.dataset, [one.id for one in found])
    rows = [
        [str(one.id), f"{one.score:.2f}", format_cluster_cell(analysis, one.cluster), paths[one.id]] for one in found
    ]
    lines = (
        format_table(("id", "score", "cluster", "path"), rows) if rows else ["No image has such a high outlier score."]
    )
    content = [{**one._asdict(), "score": round_number(one.score), "path": paths[one.id]} for one in found]
    output.print_result({"run": analysis.run.id, "outliers": content}, [*lines, *format_left_out(analysis)])
    return 0


# ---- helpers


def require_run(name: str, workspace: Workspace) -> None:
    """Check that a name is that of a run.

    Raises:
        NotFoundError: no dataset or run has this name; the error suggests a similar one.
    """
    from crlc.workspace.runs import RunStore, suggest_name

    runs = RunStore(workspace)
    names = [*workspace.list_dataset_names(), *runs.list_ids()]
    if any(run.startswith(name) for run in runs.list_ids()) or (name == "last" and runs.list_ids()):
        return
    raise NotFoundError(
        f"No dataset or run is named '{to_printable(name)}' in {workspace.root}.", advice=suggest_name(name, names)
    )


def _print_groups(
    groups: list[SimilarImages],
    dataset: ImageDataset,
    run: str | None,
    measure: str,
    output: Output,
    actions: DuplicateActions,
) -> None:
    paths = read_printable_paths(dataset, (number for group in groups for number in group.ids.tolist()))
    content = [
        {
            "score": round_number(group.score),
            "images": [{"id": number, "path": paths[number]} for number in group.ids.tolist()],
        }
        for group in groups
    ]
    copies = sum(len(group.ids) - 1 for group in groups)
    lines = [
        f"{format_count(len(groups), 'group')} of near duplicates with {format_count(copies, 'redundant image')} "
        f"({measure})."
    ]
    for group in groups[:_MAX_GROUPS]:
        shown = ", ".join(paths[number] for number in group.ids[:_MAX_PATHS_PER_GROUP].tolist())
        more = f" and {len(group.ids) - _MAX_PATHS_PER_GROUP:,} more" if len(group.ids) > _MAX_PATHS_PER_GROUP else ""
        lines.append(f"  {group.score:.3f}  {shown}{more}")
    if len(groups) > _MAX_GROUPS:
        lines.append(f"  ... and {len(groups) - _MAX_GROUPS:,} more groups; use --json to list all")
    if actions.excluded is not None:
        lines.append(f"Excluded {format_count(actions.excluded, 'image')}; the best one of each group is kept.")
    if actions.file is not None:
        lines.append(f"Listed {format_count(actions.moved, 'image')} to move in {actions.file}.")
    output.print_result({"dataset": dataset.name, "run": run, "groups": content, **asdict(actions)}, lines)


def _format_suggestions(analysis: RunAnalysis, found: Suggestions, paths: dict[int, str]) -> list[str]:
    lines = ["Clusters to merge:" if found.merge else "No clusters to merge."]
    for one in found.merge:
        lines.append(
            f"  {format_cluster_cell(analysis, one.first)} and {format_cluster_cell(analysis, one.second)}: "
            f"overlap {one.mixing:.2f}, "
            f"similarity {one.similarity:.2f}, {one.first_size:,} and {one.second_size:,} images"
        )
    lines.append("Clusters to split:" if found.split else "No clusters to split.")
    for part in found.split:
        first, second = (paths[number] for number in part.examples)
        lines.append(
            f"  {format_cluster_cell(analysis, part.cluster)}: separation {part.separation:.2f}, "
            f"about {part.sizes[0]:,} images like {first} and {part.sizes[1]:,} like {second}"
        )
    if not found.label:
        return [*lines, "All images are labelled."]
    rows = [[str(one.id), format_cluster_cell(analysis, one.cluster), one.reason, paths[one.id]] for one in found.label]
    return [*lines, "Images to label:", *format_table(("id", "cluster", "reason", "path"), rows)]


def _round_numbers(content: dict[str, Any]) -> dict[str, Any]:
    return {name: round_number(value) if isinstance(value, float) else value for name, value in content.items()}
