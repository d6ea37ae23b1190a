"""Command `search`: the images of a run or dataset that a text finds."""

from __future__ import annotations

import argparse

from crlc.cli.datasets import format_command
from crlc.cli.output import Output
from crlc.cli.suggestions import require_run
from crlc.cli.tables import format_number, format_table, read_printable_paths, round_number
from crlc.errors import NotFoundError, UsageError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.workspace import Workspace

_TEXT = "text"


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `search`."""
    parser.add_argument("name", metavar="RUN|DATASET", help="run id, unique prefix, or 'last'; or an explored dataset")
    parser.add_argument(
        "words", nargs="+", metavar="WORDS", help="word such as dog, name of a cluster, label, or part of a file name"
    )
    parser.add_argument(
        "--in", dest="kind", metavar="KIND", help="search only label, cluster, word, 'file name' or text (default: all)"
    )
    parser.add_argument(
        "--at-least",
        type=float,
        default=0.2,
        metavar="P",
        help="minimum probability of a word, from 0 to 1 (default: 0.2)",
    )
    parser.add_argument(
        "--model",
        metavar="open_clip/NAME",
        help="first compute the features of this image-text model, where they are missing; searches then take any text",
    )
    parser.add_argument("--weights", default="", metavar="FILE", help="local weights file of the model")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="maximum number of printed images (default: 20)")


def run_search(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the images that a text finds, the best first."""
    from crlc.data.imagenet_words import WORDS_ORIGIN
    from crlc.services.image_text import has_text_features
    from crlc.services.search import ImageSearch, open_search_scope
    from crlc.services.search_matchers import create_matchers
    from crlc.services.words import compute_missing_class_scores

    if options.n < 1:
        raise UsageError(f"-n {options.n} is not allowed: it must be at least 1.")
    if not 0 < options.at_least <= 1:
        raise UsageError(f"--at-least {options.at_least} is not allowed: it must be above 0 and at most 1.")
    _require_searchable(workspace, options.name)
    scope = open_search_scope(workspace, options.name)
    text = " ".join(options.words)
    if options.model:
        from crlc.data.feature_source import FeatureSource
        from crlc.services.image_text import compute_text_features
        from crlc.training.device import choose_device

        source = FeatureSource(options.model, options.weights)
        compute_text_features(workspace, scope.dataset, source, device=choose_device("auto"), report=output.progress)
        scope = open_search_scope(workspace, options.name)
    takes_text = has_text_features(scope.dataset)
    if options.kind == _TEXT and not takes_text:
        raise NotFoundError(
            f"The dataset {scope.dataset.name} has no features of an image-text model.",
            advice=f"To compute them, run: {format_model_command(workspace, options.name, text)}",
        )
    compute_missing_class_scores(scope.dataset)
    search = ImageSearch(scope, create_matchers(scope, options.at_least))
    found = search.search(text, options.kind)
    listed = found.ids[: options.n] if not output.as_json else found.ids
    paths = read_printable_paths(scope.dataset, listed)
    rows = [
        {
            "id": number,
            "score": round_number(score),
            "found_by": to_printable(found.reasons[reason]),
            "path": paths[number],
        }
        for number, score, reason in zip(
            listed.tolist(), found.scores.tolist(), found.reason_indices.tolist(), strict=False
        )
    ]
    cells = [[str(row["id"]), format_number(row["score"]), str(row["found_by"]), str(row["path"])] for row in rows]
    lines = [f"Found {format_count(len(found.ids), 'image')} for '{to_printable(text)}'."]
    if rows:
        lines += format_table(("id", "score", "found by", "path"), cells)
    elif not takes_text and options.kind is None:
        command = format_model_command(workspace, options.name, text)
        lines.append(f"To search for any text with an image-text model, run: {command}")
    if len(found.ids) > len(rows):
        lines.append(f"... and {len(found.ids) - len(rows):,} more; use -n or --json to list them")
    if any(reason.startswith("word") for reason in found.reasons):
        lines.append(f"Scores of words are probabilities; {WORDS_ORIGIN}.")
    output.print_result({"name": options.name, "text": text, "images": rows}, lines)
    return 0


def format_model_command(workspace: Workspace, name: str, text: str) -> str:
    """Return the command that computes the features of an image-text model, and searches for a text.

    Args:
        workspace: workspace of the command.
        name: run or dataset to search.
        text: text to search for.
    """
    from crlc.backbone_catalogue import CATALOGUE

    model = next(one.name for one in CATALOGUE if one.takes_text)
    return format_command(workspace, "search", name, text, "--model", model)


def _require_searchable(workspace: Workspace, name: str) -> None:
    """Check that a name is that of a run or of an explored dataset.

    Raises:
        NotFoundError: it is not; the advice names a similar one, or the command that explores the dataset.
    """
    from crlc.services.exploration import read_exploration
    from crlc.workspace.runs import RunStore

    if name not in workspace.list_dataset_names():
        require_run(name, workspace)
        return
    if read_exploration(workspace.open_dataset(name)) is None:
        runs = [run for run in RunStore(workspace).list_ids() if run.startswith(f"{name}-")]
        instead = f"Search its run {runs[-1]} instead, or explore it" if runs else "To explore it, run"
        raise NotFoundError(
            f"The dataset {name} was not explored.",
            advice=f"{instead}: {format_command(workspace, 'explore', name)}",
        )
