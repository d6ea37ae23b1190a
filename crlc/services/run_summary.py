"""Summary of a run: state, progress, newest metrics and warnings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from crlc.errors import AccessError, CrlcError, UnavailableError, explain_system_error
from crlc.runs.folder import RunFolder
from crlc.training.metric_names import CLASSIFICATION_ACCURACY, ORACLE_ACC, ORACLE_ACC_ANY_EPOCH

METRICS = (
    "acc",
    "nmi",
    "ari",
    CLASSIFICATION_ACCURACY,
    ORACLE_ACC,
    ORACLE_ACC_ANY_EPOCH,
    "cluster_information",
    "clusters_found",
    "largest_share",
)
DAMAGED, UNREADABLE = "damaged", "unreadable"
"""States of a summary whose run has damaged files, or files that cannot be read now."""


@dataclass(frozen=True)
class RunSummary:
    """State, progress, newest metrics and warnings of one run."""

    run: str
    state: str
    message: str | None = None
    """Reason why the run failed or was interrupted."""

    dataset: str | None = None
    stage: str | None = None
    warnings: tuple[dict[str, Any], ...] = ()
    """Warnings that hold now, each with `kind`, `text` and sometimes `advice`."""

    metrics: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(METRICS), hash=False)
    """Newest value of each metric in `METRICS`; `None` for metrics that were not computed."""

    epoch: int = 0
    epochs: int = 0
    seconds: float = 0.0
    """Time spent on training steps, in seconds."""

    images_per_second: float | None = None
    peak_memory_mb: float | None = None

    @property
    def accuracy(self) -> float | None:
        """Classification accuracy of a run with labels, ACC of other runs; `None` without ground-truth classes."""
        by_name: float | None = self.metrics[CLASSIFICATION_ACCURACY]
        by_matching: float | None = self.metrics["acc"]
        return by_matching if by_name is None else by_name

    def to_json(self) -> dict[str, Any]:
        """Return the content of `train --json`, `runs --json` and `show --json`."""
        return {**asdict(self), "warnings": list(self.warnings)}


def summarize_run(run: RunFolder) -> RunSummary:
    """Read the summary of a run.

    Raises:
        CrlcError: a file of the run is damaged.
    """
    status = run.read_status()
    newest = run.metrics_log.summarize()
    return RunSummary(
        run.id,
        status.state.value,
        status.message or None,
        run.read_metadata()["dataset"],
        status.stage or None,
        newest.warnings,
        {name: newest.metrics.get(name) for name in METRICS},
        status.epoch,
        status.epochs,
        newest.seconds,
        newest.images_per_second,
        newest.peak_memory_mb,
    )


def summarize_run_or_damage(run: RunFolder) -> RunSummary:
    """Read the summary of a run. A run with unreadable files has the error as its message.

    Its state is `UNREADABLE` if the user has no permission to read it or its disk does not answer, else `DAMAGED`.
    """
    try:
        return summarize_run(run)
    except (AccessError, UnavailableError) as error:
        return RunSummary(run.id, UNREADABLE, str(error))
    except CrlcError as error:
        return RunSummary(run.id, DAMAGED, str(error))
    except OSError as error:
        explained = explain_system_error(error, run.path)
        if explained is not None:
            return RunSummary(run.id, UNREADABLE, str(explained))
        return RunSummary(run.id, DAMAGED, f"{error.filename or run.path} cannot be read ({error.strerror or error}).")
