"""Descriptions of the jobs of the queue, by which several trainings of a dataset can be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.view_models.run_table import RunEntry
from crlc.formatting import format_count
from crlc.jobs.job import Job

_SEMI = "semi"


def describe_job(job: Job, entries: Mapping[str, RunEntry]) -> str:
    """Return dataset, preset, number of clusters and time of a job; of a run or job with a title, dataset and title.

    Args:
        job: the job.
        entries: the runs of the workspace by id.
    """
    if job.run is not None and job.run in entries:
        return f"{entries[job.run].dataset} · {entries[job.run].unique_title}"
    options = dict(zip(job.arguments, job.arguments[1:], strict=False))
    if "--title" in options:
        return f"{job.title} · {options['--title']}"
    facts = [job.title, options.get("--preset", "")]
    if options.get("--method") == _SEMI:
        facts.append("with labels")
    clusters = options.get("--clusters", "")
    facts.append(format_count(int(clusters), "cluster") if clusters.isdecimal() else "")
    facts.append(f"added {datetime.fromtimestamp(job.created).astimezone():%H:%M}")
    return " · ".join(filter(None, facts))
