"""Report of an experiment: a Markdown file with the table, a JSON file with every number, and PNG figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.paper.experiment import SURFACES, Experiment, Trial
from benchmarks.paper.figures import draw_figure
from benchmarks.paper.pictures import PICTURES, draw_picture
from benchmarks.paper.results import TrialResult, format_metric, summarize
from benchmarks.paper.runs import Setup
from benchmarks.support import describe_machine, read_commit

_NOT_RECORDED, _NO_NUMBER, _FAILED = "not recorded", "-", "failed"


class Report(NamedTuple):
    """Written report of an experiment."""

    file: Path
    """The Markdown file; the others are beside it."""

    failures: list[str]
    """One sentence per failed run."""


def write_report(
    experiment: Experiment, results: Sequence[TrialResult], setup: Setup, command: str, *, miniature: bool
) -> Report:
    """Write Markdown, JSON and PNG files."""
    folder = setup.folder / "results"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{experiment.key}-miniature" if miniature else experiment.key
    content = {
        "experiment": experiment.key,
        "title": experiment.title,
        "command": command,
        "commit": read_commit(),
        "machine": describe_machine(),
        "trials": [result.to_json() for result in results],
    }
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False))
    figures = []
    for figure in _list_possible_figures(experiment, results):
        file = folder / f"{name}-{figure}.png"
        if figure in PICTURES:
            draw_picture(figure, results, setup, file)
        else:
            draw_figure(figure, experiment, results, file)
        figures.append(file)
    file = folder / f"{name}.md"
    file.write_text(build_markdown(experiment, results, command, figures, miniature=miniature))
    return Report(file, list_failures(results))


def _list_possible_figures(experiment: Experiment, results: Sequence[TrialResult]) -> list[str]:
    """Return the figures without those of runs if no run is finished."""
    has_runs = any(result.seeds for result in results)
    return [figure for figure in experiment.figures if has_runs or figure == SURFACES]


def build_markdown(
    experiment: Experiment, results: Sequence[TrialResult], command: str, figures: Sequence[Path], *, miniature: bool
) -> str:
    """Return the report as Markdown: data, seeds, command and commit, the table, and the figures."""
    lines = [f"# {experiment.title}", "", f"`{command}`, commit {read_commit()}, {describe_machine()}."]
    if experiment.finding:
        lines += ["", f"The paper: {experiment.finding}"]
    if results:
        lines += ["", *build_table(experiment, results, miniature=miniature)]
    lines += [text for failure in list_failures(results) for text in ("", failure)]
    lines += [text for figure in figures for text in ("", f"![{figure.stem}]({figure.name})")]
    return "\n".join([*lines, ""])


def build_table(experiment: Experiment, results: Sequence[TrialResult], *, miniature: bool) -> list[str]:
    """Return the lines of the table: mean ± standard deviation over the seeds, with the paper's number beside it."""
    metrics = [metric for metric in experiment.metrics if any(result.list_values(metric) for result in results)]
    metrics = metrics or [experiment.metrics[0]]  # no run is finished
    known = {metric for metric in metrics if any(metric in result.trial.paper for result in results)}
    compared = known | set(experiment.unrecorded)
    paper = "paper, on its data" if miniature else "paper"
    header = ["", "seeds"]
    for metric in metrics:
        header += [format_metric(metric), *([paper] if metric in compared else [])]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for result in results:
        cells = [result.trial.label, _format_seeds(result)]
        for metric in metrics:
            cells.append(_format_result(result, metric))
            if metric in compared:
                cells.append(_format_paper(experiment, result.trial, metric))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def list_failures(results: Sequence[TrialResult]) -> list[str]:
    """Return one sentence per failed run."""
    return [
        f"{result.trial.label}, seed {seed} failed: {reason}"
        for result in results
        for seed, reason in result.failures.items()
    ]


def _format_seeds(result: TrialResult) -> str:
    return f"{len(result.seeds)}, {len(result.failures)} failed" if result.failures else str(len(result.seeds))


def _format_result(result: TrialResult, metric: str) -> str:
    """Return mean and deviation of a metric, or why a trial has none."""
    if result.left_out:
        return f"left out: {result.left_out}"
    return _FAILED if result.failures and not result.seeds else summarize(result.list_values(metric), metric)


def _format_paper(experiment: Experiment, trial: Trial, metric: str) -> str:
    missing = _NOT_RECORDED if metric in experiment.unrecorded and trial.is_in_paper else _NO_NUMBER
    return trial.paper.get(metric, missing)
