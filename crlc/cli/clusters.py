"""`crlc clusters`: the clusters of a run as they are now, and how people change them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from crlc.cli.labels import told, undone
from crlc.cli.options import common_options
from crlc.cli.output import Output, table
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crlc.data.dataset import ImageDataset
    from crlc.training.run_folder import RunFolder
    from crlc.workspace.annotations import Annotations
    from crlc.workspace.clusterings import ClusterEditor, Clustering


def clusters_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `clusters`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", help="without one, the clusters are listed")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        common_options(subparser, below=True)
        return subparser

    def cluster(subparser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        subparser.add_argument("cluster", metavar="N", type=int, help="the number of a cluster")
        return subparser

    cluster(action("name", "Name a cluster.")).add_argument("name", metavar="NAME")
    cluster(action("unname", "Take the name of a cluster away."))
    merged = action("merge", "Make one cluster of several; it keeps the smallest number.")
    merged.add_argument("clusters", metavar="N", type=int, nargs="+", help="two or more numbers of clusters")
    split = cluster(action("split", "Make several clusters of one, by the features of its images."))
    split.add_argument("--into", metavar="K", type=int, default=2, help="how many; by default 2")
    split.add_argument("--seed", metavar="S", type=int, default=0)
    cluster(action("move", "Put images into a cluster.")).add_argument(
        "images", metavar="IMAGE", nargs="+", help="its path or id"
    )
    action("undo", "Take the last edit of this run's clusters back.")
    action("redo", "Do again what was undone last.")


def run_clusters(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List the clusters of a run, or edit them."""
    from crlc.workspace.annotations import Annotations
    from crlc.workspace.clusterings import Clustering
    from crlc.workspace.runs import Runs

    runs = Runs(workspace)
    run = runs.open(options.run)
    dataset = runs.dataset_of(run.description(), unchanged=False)
    with Annotations(dataset) as annotations:
        if options.action == "undo":
            undone(annotations.undo(run=run.id), output)
        elif options.action == "redo":
            undone(annotations.redo(run=run.id), output)
        elif options.action is None:
            _list(run, Clustering.of(run, dataset), annotations, output)
        else:
            _edit(options, run, dataset, annotations, output)
    return 0


def _edit(
    options: argparse.Namespace, run: RunFolder, dataset: ImageDataset, annotations: Annotations, output: Output
) -> None:
    from crlc.workspace.clusterings import ClusterEditor, Clustering
    from crlc.workspace.image_lookup import find_images
    from crlc.workspace.run_files import read_result

    arrays = read_result(run).arrays
    clustering = Clustering.of(run, dataset, arrays)
    editor = ClusterEditor(annotations, clustering)
    match options.action:
        case "name":
            told(editor.name(options.cluster, options.name), output)
        case "unname":
            told(editor.name(options.cluster, None), output)
        case "merge":
            told(editor.merge(options.clusters), output)
        case "split":
            parts = _parts(options, arrays["z"], clustering, editor)
            told(editor.split(options.cluster, parts), output)
        case "move":
            told(editor.move(find_images(dataset, options.images), options.cluster), output)


def _parts(
    options: argparse.Namespace, z: NDArray[Any], clustering: Clustering, editor: ClusterEditor
) -> list[list[int]]:
    """The images of each part, the largest first."""
    from crlc.analysis.splitting import split_by_features

    now = editor.current()
    members = now.members(options.cluster)
    part = split_by_features(z[clustering.rows[members]], options.into, options.seed)
    return [now.ids[members[part == number]].tolist() for number in range(options.into)]


def _list(run: RunFolder, clustering: Clustering, annotations: Annotations, output: Output) -> None:
    from crlc.workspace.cluster_names import shown_names

    curation = annotations.refresh()
    now = clustering.edited(curation)
    names = shown_names(run.description(), now)
    confidence, sizes = now.mean_confidence(), now.sizes()
    content = [
        {"cluster": number, "images": sizes[number], "confidence": confidence[number], "name": names.get(number)}
        for number in now.numbers
    ]
    rows = [
        [str(number), f"{sizes[number]:,}", _share(confidence[number]), names.get(number, "")] for number in now.numbers
    ]
    lines = table(("cluster", "images", "confidence", "name"), rows)
    moved = int(now.by_hand.sum())
    if moved:
        lines.append(f"Moved by hand: {moved:,}.")
    excluded = int(curation.is_excluded(now.ids).sum())
    if excluded:
        lines.append(f"Excluded by hand, but counted here: {excluded:,}.")
    older = bool(curation.edited_results(clustering.run) - {clustering.result})
    if older:
        lines.append("There are edits of an earlier result of this run; they are not about these clusters.")
    output.result(
        {"run": clustering.run, "clusters": content, "moved_by_hand": moved, "edits_of_an_earlier_result": older}, lines
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
