"""Experiments as data: which runs a table or figure consists of, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STRIPS, CONFIDENT, MAPS, SURFACES = "strips", "confident", "maps", "surfaces"
BARS, SWEEP, LOSSES, ERRORS = "bars", "sweep", "losses", "errors"
"""Names of the figures; `figures` and `pictures` draw them."""


@dataclass(frozen=True)
class Trial:
    """One row of a table: a run that is repeated with several seeds."""

    label: str
    dataset: str
    """A key of `data.DATASETS`."""

    preset: str
    variant: str = ""
    """Variant of the preset; see `crlc.training.paper_presets`."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset."""

    epochs_factor: float = 1.0
    """Length relative to the preset or the miniature."""

    split: str | None = None
    evaluate_split: str | None = None
    labels: str | None = None
    """Labels of CRLC-semi, as `crlc train --labels` accepts them."""

    paper: Mapping[str, str] = field(default_factory=dict)
    """The paper's numbers by metric; empty where they are not known."""

    group: str = ""
    """Curve of a sweep that the trial belongs to."""

    value: float | None = None
    """Value of the varied setting in a sweep."""

    isolated: bool = False
    """Whether each run needs a process of its own, so that its peak memory can be measured."""

    is_in_paper: bool = True
    """Whether the paper has this trial."""

    miniature_only: bool = False
    """Whether the trial is not part of the paper, and too long for its data."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    key: str
    title: str
    trials: tuple[Trial, ...]
    metrics: tuple[str, ...] = ("acc", "nmi", "ari", "oracle_acc", "oracle_acc_any_epoch")
    """Columns of the table."""

    figures: tuple[str, ...] = (BARS,)
    miniature: Mapping[str, str] = field(default_factory=dict)
    """Dataset of the miniature by dataset of the paper; trials of other datasets are left out."""

    unrecorded: tuple[str, ...] = ()
    """Metrics that the paper reports, but whose numbers are not recorded here."""

    bar_metrics: tuple[str, ...] = ()
    """Metrics of the figure `BARS`, one panel each; by default the first column of the table."""

    max_seeds: int | None = None
    """Number of seeds if fewer suffice: pictures show one run. `None` for all requested ones."""

    finding: str = ""
    """Finding of the paper, in one sentence."""

    sweep_name: str = ""
    """Name of the varied setting."""
