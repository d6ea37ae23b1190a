"""Report of an experiment: a Markdown file with the table, a JSON file with every number, and PNG figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.experiment import Experiment
from benchmarks.paper.figures import draw_figure
from benchmarks.paper.pictures import PICTURES, draw_picture
from benchmarks.paper.results import FRACTIONS, TrialResult, summarize
from benchmarks.paper.runs import Setup
from benchmarks.support import describe_machine, read_commit

_UNITS = {"seconds": "s", "memory_mb": "MB"}
_NAMES = {
    "acc": "ACC",
    "acc5": "ACC5",
    "nmi": "NMI",
    "ari": "ARI",
    "error": "error",
    "k_means_acc": "ACC of k-means on z",
    "oracle_acc": "ACC of the best subhead (oracle)",
    "oracle_acc_any_epoch": "... at its best epoch (oracle)",
    "seconds": "time",
    "memory_mb": "peak memory",
}


def write_report(
    experiment: Experiment, results: Sequence[TrialResult], setup: Setup, command: str, *, miniature: bool
) -> Path:
    """Write Markdown, JSON and PNG files, and return the Markdown file."""
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
    for figure in experiment.figures:
        file = folder / f"{name}-{figure}.png"
        if figure in PICTURES:
            draw_picture(figure, results, setup, file)
        else:
            draw_figure(figure, experiment, results, file)
        figures.append(file)
    file = folder / f"{name}.md"
    file.write_text(build_markdown(experiment, results, command, figures, miniature=miniature))
    return file


def build_markdown(
    experiment: Experiment, results: Sequence[TrialResult], command: str, figures: Sequence[Path], *, miniature: bool
) -> str:
    """Return the report as Markdown: data, seeds, command and commit, the table, and the figures."""
    lines = [f"# {experiment.title}", "", f"`{command}`, commit {read_commit()}, {describe_machine()}."]
    if experiment.finding:
        lines += ["", f"The paper: {experiment.finding}"]
    if results:
        lines += ["", *build_table(experiment, results, miniature=miniature)]
    lines += [text for figure in figures for text in ("", f"![{figure.stem}]({figure.name})")]
    return "\n".join([*lines, ""])


def build_table(experiment: Experiment, results: Sequence[TrialResult], *, miniature: bool) -> list[str]:
    """Return the lines of the table: mean ± standard deviation over the seeds, with the paper's number beside it."""
    metrics = [metric for metric in experiment.metrics if any(result.list_values(metric) for result in results)]
    known = [metric for metric in metrics if any(metric in result.trial.paper for result in results)]
    paper = "paper, on its data" if miniature else "paper"
    header = ["", "seeds"]
    for metric in metrics:
        unit = "%" if metric in FRACTIONS else _UNITS[metric]
        header += [f"{_NAMES[metric]} ({unit})", *([paper] if metric in known else [])]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for result in results:
        cells = [result.trial.label, str(len(result.seeds))]
        for metric in metrics:
            cells.append(summarize(result.list_values(metric), metric))
            if metric in known:
                cells.append(result.trial.paper.get(metric, "-"))
        lines.append("| " + " | ".join(cells) + " |")
    return lines
