"""A run as the Train page shows it while it goes on: from its status and metrics, without Streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crlc.training.settings import TrainSettings
from crlc.training.stages import stages_of

_TRAINS = ("queued", "running", "stopping")
_TO_TRY = {
    "stalled": "Next time, under Advanced settings: a higher Learning rate, another choice of Augment, or more Epochs.",
    "collapse": "If the groups are not really that uneven, next time, under Advanced settings: a higher Entropy "
    "weight λ1, or another choice of Augment.",
    "dead-clusters": "Next time: fewer Clusters, or under Advanced settings a higher Entropy weight λ1.",
}
"""By the kind of a warning, in the words that stand above the boxes of the Train page."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class RunView:
    """What there is to show."""

    state: str
    """As people call it: `interrupted` is apart from `failed`."""

    message: str
    share: float
    """Of all steps, from 0 to 1; of the preparation while there is one."""

    headline: str
    """What is being done and how far it is."""

    images_per_second: float | None
    seconds_left: float | None
    seconds: float
    warnings: tuple[str, ...] = ()
    """The newest word on what goes wrong, each with what to try."""

    latest: dict[str, Any] = field(default_factory=dict, compare=False)
    """The newest value of each metric."""

    @property
    def trains(self) -> bool:
        """Whether its process works on it."""
        return self.state in _TRAINS


def view_of(status: Record, records: Sequence[Record], settings: Mapping[str, Any]) -> RunView:
    """Put together what is known.

    Args:
        status: of the run.
        records: its metrics so far.
        settings: from its description.
    """
    message = status.get("message") or ""
    state = "interrupted" if status["state"] == "failed" and message.startswith("interrupted") else status["state"]
    latest: dict[str, Any] = {}
    warnings: dict[str, str] = {}
    for record in records:
        if record["kind"] == "step":
            continue
        latest |= {name: value for name, value in record.items() if value is not None}
        if record["kind"] == "epoch":  # of clusters only the newest word counts
            warnings = {kind: text for kind, text in warnings.items() if kind == "small-batch"}
        warnings |= {warning["kind"]: _on_a_page(warning) for warning in record.get("warnings", ())}
    step, steps = status.get("step", 0), status.get("steps", 0)
    is_over = state not in _TRAINS
    per_step = _seconds_per_step(records, status.get("stage"))
    left = None if is_over or per_step is None or not steps else max(0, steps - step) * per_step
    timing = latest.get("timing", {})
    return RunView(
        state,
        message,
        *_progress(status, step, steps, settings),
        timing.get("images_per_second") or None,
        left,
        timing.get("seconds", 0.0),
        tuple(warnings.values()),
        latest,
    )


def _on_a_page(warning: Mapping[str, str]) -> str:
    """What there is to see, and what to try with the boxes of the page; as it was told where that is not known."""
    advice = _TO_TRY.get(warning["kind"]) if "advice" in warning else None
    return f"{warning['text']} {advice}" if advice else warning["text"]


def stage_titles(settings: Mapping[str, Any]) -> dict[str, str]:
    """The stages of a run by their names, in words; a single one needs none."""
    names = [stage.name for stage in stages_of(TrainSettings.from_json(dict(settings)))]
    if len(names) == 1:
        return {names[0]: ""}
    return {name: f"Stage {number} of {len(names)}: {name}" for number, name in enumerate(names, 1)}


def first_look(settings: Mapping[str, Any]) -> int:
    """The epoch after which there are clusters to look at for the first time."""
    known = TrainSettings.from_json(dict(settings))
    stages = stages_of(known)
    epochs = sum(stage.settings.epochs for stage in stages)
    every, before = max(1, epochs // known.evaluations), 0
    for stage in stages:
        first = (before // every + 1) * every
        if stage.finds_clusters and first <= before + stage.settings.epochs:
            return first
        before += stage.settings.epochs
    return epochs


def epoch_of(facts: Record, status: Record) -> int:
    """The epoch after which a result was written."""
    steps, epochs = status.get("steps") or 0, status.get("epochs") or 0
    return int(facts["step"]) * epochs // steps if steps else 0


def unfinished_words(facts: Record, status: Record) -> str:
    """What a result on its way is of, and whether its run goes on."""
    said = f"Not finished: clusters after epoch {epoch_of(facts, status):,} of {status.get('epochs', 0):,}"
    if facts["images"] < facts["of"]:
        said += f", a sample of {facts['images']:,} of {facts['of']:,} images"
    return f"{said}; {'training goes on' if status['state'] in _TRAINS else 'the Train page can resume it'}"


def _progress(status: Record, step: int, steps: int, settings: Mapping[str, Any]) -> tuple[float, str]:
    if status["state"] in _TRAINS and "preparing" in status:
        total, done = status.get("total"), status.get("done", 0)
        share = done / total if total else 0.0
        return share, f"{status['preparing']} {share:.0%}" if total else f"{status['preparing']} {done:,}"
    share = min(1.0, step / steps) if steps else 0.0
    if status["state"] == "queued":
        return share, "Preparing"
    titles = stage_titles(settings)
    stage = titles.get(status.get("stage") or "", "")
    epoch, epochs = status.get("epoch", 0), status.get("epochs", 0)
    if status["state"] in _TRAINS and step < steps:
        epoch += 1  # the one it is in
    return share, ", ".join(filter(None, [stage, f"epoch {epoch:,} of {epochs:,}"])).capitalize()


def _seconds_per_step(records: Sequence[Record], stage: str | None) -> float | None:
    """Of the present stage: others may be quicker or slower."""
    own = [record for record in records if record.get("stage") == stage and "timing" in record]
    if not own:
        return None
    steps = own[-1]["step"] - own[0]["step"]
    return (own[-1]["timing"]["seconds"] - own[0]["timing"]["seconds"]) / steps if steps > 0 else None
