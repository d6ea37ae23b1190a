"""The request for a training run, as users make it, without torch: forms check it before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crlc.errors import UsageError
from crlc.training.presets import AUTO
from crlc.training.settings import NEIGHBOURS, TrainSettings


@dataclass(frozen=True)
class TrainRequest:
    """Requested preset, method and settings; `None` where the request leaves the choice open."""

    preset: str = "quick"
    method: str = AUTO
    frozen: bool | None = None
    backbone: str | None = None
    weights: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of other settings by field name."""

    assignments: tuple[str, ...] = ()
    """Values of other settings as `name=value`."""

    variant: str = ""
    """Variant of a paper preset, such as `memory-bank`; empty for none."""

    @property
    def has_paper_preset(self) -> bool:
        """True if the preset is one of the paper's, which leaves neither method nor network open."""
        return self.preset.startswith("paper-")

    @property
    def has_semi_preset(self) -> bool:
        """True if the preset is one of the paper's for CRLC-semi, which trains from scratch."""
        return self.preset.startswith("paper-semi")

    @property
    def named_settings(self) -> frozenset[str]:
        """Names of the settings in `values` and `assignments`, without their groups."""
        assigned = (text.partition("=")[0].strip().rpartition(".")[2] for text in self.assignments)
        return frozenset((*self.values, *assigned))


def require_effect(request: TrainRequest, settings: TrainSettings) -> None:
    """Check that every requested value has an effect with the preset's settings.

    Raises:
        UsageError: a value would have no effect.
    """
    method = settings.stages.method
    if request.method not in (AUTO, method):
        raise UsageError(f"method={request.method!r} is not allowed with preset={request.preset!r}: it is {method}.")
    uses_neighbours = settings.pairing.pairs == NEIGHBOURS
    if request.frozen and not uses_neighbours:
        raise UsageError(f"frozen=True is not allowed with method={method!r}.", advice="Choose method='two-stage'.")
    if "neighbours" in request.values and not uses_neighbours:
        raise UsageError(f"neighbours have no effect with method={method!r}.", advice="Choose method='two-stage'.")
    uses_stored = settings.model.frozen and settings.model.stored_features
    stays_frozen = uses_stored and not settings.stages.finetune_epochs and request.frozen is not False
    if "augment" in request.values and stays_frozen:
        raise UsageError(
            "augment has no effect while the backbone is frozen.",
            advice="Fine-tune the backbone (frozen=False), or choose method='end-to-end'.",
        )
