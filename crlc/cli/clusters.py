"""Command `clusters`: list, name, merge, split and move clusters of a run, or change their number."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from crlc.cli.labels import print_entry, print_undone
from crlc.cli.options import add_common_arguments, add_run_argument
from crlc.cli.output import Output
from crlc.cli.tables import format_table, round_number
from crlc.errors import NotFoundError
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crlc.annotations.store import AnnotationStore
    from crlc.clusters.clustering import ClusterEditor, Clustering, EditedClustering
    from crlc.data.dataset import ImageDataset
    from crlc.runs.folder import RunFolder
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.words import SuggestedName

    _SuggestedNames: TypeAlias = tuple[dict[int, list[SuggestedName]], str]
    _WordSource: TypeAlias = Callable[[ImageDataset, EditedClustering], _SuggestedNames]

_NO_WORD = "no fitting word"


def add_clusters_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `clusters`."""
    add_run_argument(parser)
    parser.add_argument(
        "--words",
        metavar="WORDS|FILE",
        help="suggest names from these words, separated by commas, or one per line of a file; needs the features of an "
        "image-text model, which 'crlc search RUN WORDS --model open_clip/NAME' computes",
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", help="edit to make; without an action, list the clusters"
    )

    def action(name: str, text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        add_common_arguments(subparser, below=True)
        return subparser

    def cluster(subparser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        subparser.add_argument("cluster", metavar="N", type=int, help="number of a cluster")
        return subparser

    cluster(action("name", "Name a cluster.")).add_argument("name", metavar="NAME", help="name of the cluster")
    cluster(action("unname", "Remove the name of a cluster."))
    merged = action("merge", "Merge clusters into the one with the smallest number.")
    merged.add_argument("clusters", metavar="N", type=int, nargs="+", help="numbers of two or more clusters")
    split = cluster(action("split", "Split a cluster by the features of its images."))
    split.add_argument("--into", metavar="K", type=int, default=2, help="number of parts (default: 2)")
    split.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the split (default: 0)")
    cluster(action("move", "Move images to a cluster.")).add_argument(
        "images", metavar="IMAGE", nargs="+", help="path or id of an image"
    )
    level = action("level", "Merge or divide the clusters into K clusters, without training.")
    level.add_argument(
        "level", metavar="K", type=int, nargs="?", help="number of clusters; without it, list all levels"
    )
    action("undo", "Undo the last edit of the clusters of this run.")
    action("redo", "Redo the edit that was undone last.")


def run_clusters(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List the clusters of a run, or edit them."""
    from crlc.annotations.store import AnnotationStore
    from crlc.services.analyse_run import RunAnalysis
    from crlc.workspace.runs import RunStore

    runs = RunStore(workspace)
    run = runs.open(options.run)
    dataset = runs.open_dataset_of(run.read_metadata(), require_unchanged=False)
    with AnnotationStore(dataset) as annotations:
        if options.action == "undo":
            print_undone(annotations.undo(run=run.id), output)
        elif options.action == "redo":
            print_undone(annotations.redo(run=run.id), output)
        elif options.action is None:
            suggest: _WordSource = _suggest_words
            if options.words is not None:
                suggest = partial(_suggest_own_words, given=options.words, run=run.id, workspace=workspace)
            _print_clusters(run, dataset, annotations, output, suggest)
        elif options.action == "level":
            _change_level(options.level, RunAnalysis(run, dataset, annotations.refresh()), annotations, output)
        else:
            _edit(options, run, dataset, annotations, output)
    return 0


def _edit(
    options: argparse.Namespace, run: RunFolder, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.clusters.clustering import ClusterEditor, Clustering
    from crlc.clusters.names import get_display_names
    from crlc.data.image_lookup import find_image_ids
    from crlc.runs.results import read_result

    arrays = read_result(run).arrays
    clustering = Clustering.from_run(run, dataset, arrays)
    names = get_display_names(run.read_metadata(), clustering.apply_edits(annotations.refresh()))
    editor = ClusterEditor(annotations, clustering, names)
    match options.action:
        case "name":
            print_entry(editor.set_name(options.cluster, options.name), output)
        case "unname":
            print_entry(editor.set_name(options.cluster, None), output)
        case "merge":
            print_entry(editor.merge(options.clusters), output)
        case "split":
            parts = _split_members(options, arrays["z"], clustering, editor)
            print_entry(editor.split(options.cluster, parts), output)
        case "move":
            print_entry(editor.move(find_image_ids(dataset, options.images), options.cluster), output)


def _change_level(level: int | None, analysis: RunAnalysis, annotations: AnnotationStore, output: Output) -> None:
    """Make a level the clusters of the run, or list all levels."""
    from crlc.clusters.levels import apply_level

    levels = analysis.build_levels(output.progress)
    if level is not None:
        print_entry(apply_level(annotations, analysis.clustering, levels, level), output)
        return
    content, rows = [], []
    for number in range(levels.coarsest, levels.finest + 1):
        merged = [list(group) for group in levels.find_merges(number)]
        parts = {cluster: len(ids) for cluster, ids in levels.find_splits(number).items()}
        change = [" + ".join(map(str, group)) for group in merged]
        change += [f"{cluster} in {count} parts" for cluster, count in parts.items()]
        information = float(levels.tree.information[number - 1])
        content.append({"level": number, "information": information, "merged": merged, "parts": parts})
        rows.append([str(number), f"{information:.3f}", ", ".join(change) or "current clusters"])
    output.print_result(
        {"run": analysis.run.id, "current": levels.current, "levels": content},
        format_table(("clusters", "information", "change"), rows),
    )


def _split_members(
    options: argparse.Namespace, z: NDArray[Any], clustering: Clustering, editor: ClusterEditor
) -> list[list[int]]:
    """Return the image ids of each part, largest part first."""
    from crlc.analysis.merge_split import split_cluster

    now = editor.read_current()
    members = now.find_members(options.cluster)
    part = split_cluster(z[clustering.rows[members]], options.into, options.seed)
    return [now.ids[members[part == number]].tolist() for number in range(options.into)]


def _print_clusters(
    run: RunFolder, dataset: ImageDataset, annotations: AnnotationStore, output: Output, suggest: _WordSource
) -> None:
    from crlc.clusters.clustering import Clustering
    from crlc.clusters.names import get_display_names

    clustering = Clustering.from_run(run, dataset)
    state = annotations.refresh()
    edited = clustering.apply_edits(state)
    names = get_display_names(run.read_metadata(), edited)
    confidence, sizes = edited.compute_mean_confidence(), edited.count_images()
    words, origin = suggest(dataset, edited)
    content = [
        {
            "cluster": number,
            "images": sizes[number],
            "confidence": confidence[number],
            "name": names.get(number),
            "words": [
                {"word": one.name, "coverage": round_number(one.coverage), "lift": round_number(one.lift)}
                for one in words.get(number, [])
            ],
        }
        for number in edited.numbers
    ]
    rows = [
        [
            str(number),
            f"{sizes[number]:,}",
            _format_confidence(confidence[number]),
            names.get(number, ""),
            *([_format_words(words.get(number, []))] if words else []),
        ]
        for number in edited.numbers
    ]
    lines = format_table(("cluster", "images", "confidence", "name", *(["words"] if words else [])), rows)
    if words:
        lines.append(f"Suggested names with their lift over all images: {origin}.")
    moved = int(edited.is_moved.sum())
    if moved:
        lines.append(f"Images moved manually: {moved:,}.")
    excluded = int(state.is_excluded(edited.ids).sum())
    if excluded:
        lines.append(f"Excluded images, included in the counts: {excluded:,}.")
    older = bool(state.find_edited_results(clustering.run) - {clustering.result})
    if older:
        lines.append("Edits of an earlier result of this run exist; they do not apply to these clusters.")
    output.print_result(
        {"run": clustering.run, "clusters": content, "moved_by_hand": moved, "edits_of_an_earlier_result": older}, lines
    )


def _suggest_words(dataset: ImageDataset, edited: EditedClustering) -> _SuggestedNames:
    """Return suggested names by cluster, and their origin; empty if no classes were computed for the images."""
    from crlc.data.imagenet_words import WORDS_ORIGIN
    from crlc.services.words import ImageWords, compute_missing_class_scores, read_class_scores

    compute_missing_class_scores(dataset)
    scores = read_class_scores(dataset, edited.ids)
    return ({} if scores is None else ImageWords(scores, edited.clusters).by_cluster), WORDS_ORIGIN


def _suggest_own_words(
    dataset: ImageDataset, edited: EditedClustering, *, given: str, run: str, workspace: Workspace
) -> _SuggestedNames:
    """Return suggested names by cluster from a list of words, or from a file with one word per line."""
    from pathlib import Path

    from crlc.cli.search import format_model_command
    from crlc.services.image_text import OwnWords, parse_words, require_text_features

    is_file = "," not in given and Path(given).is_file()
    words = parse_words(Path(given).read_text(encoding="utf-8", errors="replace") if is_file else given)
    try:
        features = require_text_features(dataset, edited.ids)
    except NotFoundError as error:
        command = format_model_command(workspace, run, words[0])
        raise NotFoundError(error.message, advice=f"To compute them, run: {command}") from None
    return OwnWords(features, edited.clusters, words).by_cluster, "your words, compared by an image-text model"


def _format_words(words: list[SuggestedName]) -> str:
    return ", ".join(f"{one.name} {one.lift:.1f}" for one in words) or _NO_WORD


def _format_confidence(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
