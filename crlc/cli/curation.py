"""Commands that say what a person should look at: suggest, duplicates, outliers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from crlc.cli.image_words import called, left_out_line, printable_paths, rounded
from crlc.cli.output import Output, TerminalProgress, table
from crlc.errors import NotFoundError, UsageError
from crlc.names import printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.data.dataset import ImageDataset
    from crlc.workspace.run_analysis import RunAnalysis, SimilarImages, Suggestions

_SHOWN_GROUPS = 20
_SHOWN_IN_GROUP = 5


def suggest_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `suggest`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="images to label; by default 20")


def run_suggest(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Clusters that may be one, clusters that may be two, images worth labelling."""
    from crlc.workspace.run_analysis import RunAnalysis

    analysis = RunAnalysis.open(workspace, options.run)
    found = analysis.suggestions(options.n, report=TerminalProgress())
    wanted = [one.id for one in found.label] + [number for one in found.split for number in one.examples]
    paths = printable_paths(analysis.dataset, wanted)
    content = {
        "run": analysis.run.id,
        "merge": [_numbers(one._asdict()) for one in found.merge],
        "split": [_numbers(one._asdict()) for one in found.split],
        "label": [{**one._asdict(), "path": paths[one.id]} for one in found.label],
    }
    output.result(content, _suggestion_lines(analysis, found, paths))
    return 0


def duplicates_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `duplicates`."""
    parser.add_argument("name", metavar="DATASET|RUN", help="a data set: by the look of its images; a run: by its z")
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--alike", type=float, metavar="S", help="of a run: the least cosine; by default 0.98")
    limits.add_argument("--bits", type=int, metavar="B", help="of a data set: bits of 64 that may differ; by default 3")


def run_duplicates(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Groups of images that are nearly the same."""
    from crlc.analysis.duplicates import ALIKE
    from crlc.workspace.annotations import Annotations
    from crlc.workspace.look_alikes import BITS, look_alikes
    from crlc.workspace.run_analysis import RunAnalysis

    if options.name in workspace.dataset_names():
        if options.alike is not None:
            raise UsageError(f"--alike is for runs; {options.name!r} is a data set: use --bits.")
        dataset = workspace.dataset(options.name)
        with Annotations(dataset) as annotations:
            curation = annotations.refresh()
        groups = look_alikes(dataset, curation, BITS if options.bits is None else options.bits, TerminalProgress())
        run, measure = None, "share of equal bits"
    else:
        _require_run(options.name, workspace)
        if options.bits is not None:
            raise UsageError(f"--bits is for data sets; {options.name!r} is a run: use --alike.")
        analysis = RunAnalysis.open(workspace, options.name)
        groups = analysis.near_duplicates(ALIKE if options.alike is None else options.alike, TerminalProgress())
        dataset, run, measure = analysis.dataset, analysis.run.id, "cosine of z"
    _tell_groups(groups, dataset, run, measure, output)
    return 0


def outliers_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `outliers`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("-n", type=int, default=50, metavar="N", help="how many at most; by default 50")
    parser.add_argument(
        "--at-least", type=float, default=2.0, metavar="SCORE", help="how odd at least, 1 being usual; by default 2"
    )


def run_outliers(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Images that are far from all others."""
    from crlc.workspace.run_analysis import RunAnalysis

    analysis = RunAnalysis.open(workspace, options.run)
    found = analysis.outliers(options.n, at_least=options.at_least, report=TerminalProgress())
    paths = printable_paths(analysis.dataset, [one.id for one in found])
    rows = [[str(one.id), f"{one.score:.2f}", called(analysis, one.cluster), paths[one.id]] for one in found]
    lines = table(("id", "score", "cluster", "path"), rows) if rows else ["No image is that odd."]
    content = [{**one._asdict(), "score": rounded(one.score), "path": paths[one.id]} for one in found]
    output.result({"run": analysis.run.id, "outliers": content}, [*lines, *left_out_line(analysis)])
    return 0


# ---- inside


def _require_run(name: str, workspace: Workspace) -> None:
    """Check that a name that is no data set's is a run's.

    Raises:
        NotFoundError: it is neither; the nearest of both are offered.
    """
    from crlc.workspace.runs import Runs, nearest_hint

    runs = Runs(workspace)
    names = [*workspace.dataset_names(), *runs.ids()]
    if any(run.startswith(name) for run in runs.ids()) or (name == "last" and runs.ids()):
        return
    hint = nearest_hint(name, names)
    raise NotFoundError(f"No data set or run is named '{printable(name)}' in {workspace.root}. {hint}")


def _tell_groups(
    groups: list[SimilarImages], dataset: ImageDataset, run: str | None, measure: str, output: Output
) -> None:
    paths = printable_paths(dataset, (number for group in groups for number in group.ids.tolist()))
    content = [
        {
            "score": rounded(group.score),
            "images": [{"id": number, "path": paths[number]} for number in group.ids.tolist()],
        }
        for group in groups
    ]
    copies = sum(len(group.ids) - 1 for group in groups)
    lines = [f"Groups of near duplicates: {len(groups):,}, with {copies:,} images too many ({measure})."]
    for group in groups[:_SHOWN_GROUPS]:
        shown = ", ".join(paths[number] for number in group.ids[:_SHOWN_IN_GROUP].tolist())
        more = f", and {len(group.ids) - _SHOWN_IN_GROUP:,} more" if len(group.ids) > _SHOWN_IN_GROUP else ""
        lines.append(f"  {group.score:.3f}  {shown}{more}")
    if len(groups) > _SHOWN_GROUPS:
        lines.append(f"  ... and {len(groups) - _SHOWN_GROUPS:,} groups more; all of them with --json")
    output.result({"dataset": dataset.name, "run": run, "groups": content}, lines)


def _suggestion_lines(analysis: RunAnalysis, found: Suggestions, paths: dict[int, str]) -> list[str]:
    lines = ["Clusters that may be one:" if found.merge else "No two clusters look like one."]
    for one in found.merge:
        lines.append(
            f"  {called(analysis, one.first)} and {called(analysis, one.second)}: mixing {one.mixing:.2f}, "
            f"similarity {one.similarity:.2f}, {one.first_size:,} and {one.second_size:,} images"
        )
    lines.append("Clusters that may be two:" if found.split else "No cluster looks like two.")
    for part in found.split:
        first, second = (paths[number] for number in part.examples)
        lines.append(
            f"  {called(analysis, part.cluster)}: separation {part.separation:.2f}, "
            f"about {part.sizes[0]:,} images like {first} and {part.sizes[1]:,} like {second}"
        )
    if not found.label:
        return [*lines, "All images have a label."]
    rows = [[str(one.id), called(analysis, one.cluster), one.reason, paths[one.id]] for one in found.label]
    return [*lines, "Images worth labelling:", *table(("id", "cluster", "why", "path"), rows)]


def _numbers(content: dict[str, Any]) -> dict[str, Any]:
    return {name: rounded(value) if isinstance(value, float) else value for name, value in content.items()}
