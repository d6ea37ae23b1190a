"""Settings of a run: a frozen dataclass of the groups in `setting_groups`.

Field names are unique across the groups, so that the name alone is enough on a command line and in files.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from crlc.backbone_catalogue import CATALOGUE, DEFAULT_BACKBONE, OPEN_CLIP_PREFIX
from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import UsageError
from crlc.training.setting_groups import (
    AUGMENTATIONS,
    CRITIC_NAMES,
    ENGINES,
    IMPLEMENTATIONS,
    NEIGHBOURS,
    PIP_BACKBONES,
    SCRATCH_NAMES,
    VIEWS,
    ClusteringLossSettings,
    DataSettings,
    FeatureLossSettings,
    ModelSettings,
    OptimizationSettings,
    PairSettings,
    RunSettings,
    StageSettings,
)
from crlc.validation import FieldInfo, Validated, describe_fields, get_fields

__all__ = [
    "AUGMENTATIONS",
    "CRITIC_NAMES",
    "DEFAULT_BACKBONE",
    "ENGINES",
    "GROUPS",
    "IMPLEMENTATIONS",
    "NEIGHBOURS",
    "PIP_BACKBONES",
    "SCRATCH_NAMES",
    "SETTING_NAMES",
    "VIEWS",
    "OptimizationSettings",
    "TrainSettings",
    "describe_settings",
    "find_setting",
    "is_known_backbone",
]


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a run, in groups."""

    model: ModelSettings = field(default_factory=ModelSettings)
    pairing: PairSettings = field(default_factory=PairSettings)
    clustering_loss: ClusteringLossSettings = field(default_factory=ClusteringLossSettings)
    feature_loss: FeatureLossSettings = field(default_factory=FeatureLossSettings)
    stages: StageSettings = field(default_factory=StageSettings)
    optimization: OptimizationSettings = field(default_factory=OptimizationSettings)
    data: DataSettings = field(default_factory=DataSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        """Check that the groups are consistent; each group has checked its own fields.

        Raises:
            UsageError: naming the inconsistent fields.
        """
        model, stages, pairing = self.model, self.stages, self.pairing
        _check_backbone(model)
        expected = {"end-to-end": VIEWS, "two-stage": NEIGHBOURS}.get(stages.method, pairing.pairs)
        if pairing.pairs != expected:
            raise UsageError(
                f"pairs={pairing.pairs!r} is not allowed with method={stages.method!r}: it must be {expected}."
            )
        if pairing.implementation == "memory-bank" and pairing.pairs == NEIGHBOURS:
            raise UsageError(
                "implementation='memory-bank' is not allowed with pairs='neighbours': choose implementation=simclr, "
                "or method=end-to-end."
            )
        if model.frozen and pairing.pairs == VIEWS:
            raise UsageError("frozen=True is not allowed with pairs='views': choose method=two-stage.")
        if model.frozen and not model.stored_features and model.pca_components:
            raise UsageError(
                f"pca_components={model.pca_components} is not allowed with stored_features=False: it must be 0."
            )
        if model.frozen and stages.pretrain_epochs:
            raise UsageError(
                f"pretrain_epochs={stages.pretrain_epochs} is not allowed with frozen=True: "
                "a frozen backbone is not trained in a first stage."
            )
        if stages.finetune_epochs and model.backbone.startswith(VECTORS_PREFIX):
            raise UsageError(
                f"finetune_epochs={stages.finetune_epochs} is not allowed with imported vectors: they have no backbone "
                "that could be trained."
            )
        if stages.finetune_epochs and not model.frozen:
            raise UsageError(
                f"finetune_epochs={stages.finetune_epochs} is not allowed with frozen=False: "
                "the backbone is trained in every epoch."
            )

    @property
    def effective_unbalanced_subheads(self) -> int:
        """Number of subheads that are trained with another λ1: none for pairs of views, at most half of all."""
        if self.pairing.pairs != NEIGHBOURS:
            return 0
        return min(self.clustering_loss.unbalanced_subheads, self.model.subheads // 2)

    def replace(self, **values: Any) -> TrainSettings:
        """Return a copy with some fields changed, given by field name.

        Raises:
            UsageError: a name is not known, or a value is not allowed.
        """
        changes: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group, field_name = find_setting(name)
            changes.setdefault(group, {})[field_name] = value
        groups = {group: dataclasses.replace(getattr(self, group), **own) for group, own in changes.items()}
        return dataclasses.replace(self, **groups)

    def with_overrides(self, assignments: Iterable[str]) -> TrainSettings:
        """Return a copy with some fields changed, given as `name=value` or `group.name=value`.

        Raises:
            UsageError: a name is unknown (the error suggests the most similar one), or a value is of the wrong type.
        """
        values: dict[str, Any] = {}
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            group, field_name = find_setting(name)
            if not equals:
                raise UsageError(f"{assignment!r} is not allowed: it must be written as {field_name}=value.")
            values[field_name] = get_fields(GROUPS[group])[field_name].parse(value)
        return self.replace(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return all values by field name, without groups."""
        return {name: value for group in GROUPS for name, value in vars(getattr(self, group)).items()}

    def to_json(self) -> dict[str, Any]:
        """Return the content for run.json: one flat dictionary with the names that earlier versions wrote."""
        return {
            info.json_name: getattr(getattr(self, group), name)
            for group, kind in GROUPS.items()
            for name, info in get_fields(kind).items()
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TrainSettings:
        """Create settings from run.json; unknown names are ignored, and missing ones get their defaults."""
        return cls().replace(**{name: value for name, value in content.items() if name in _LOCATIONS})


GROUPS: dict[str, type[Validated]] = get_type_hints(TrainSettings)
"""The group classes by the name of their group."""


def describe_settings() -> dict[str, dict[str, FieldInfo]]:
    """Return the declarations of all fields with their help texts, by group and field name."""
    return {group: describe_fields(kind) for group, kind in GROUPS.items()}


def find_setting(name: str) -> tuple[str, str]:
    """Return the group and the field name of a setting.

    Args:
        name: a field name, `group.name`, or the name in files (`optimiser` for `optimizer`).

    Raises:
        UsageError: there is no such setting; the error suggests the most similar one.
    """
    group, _, field_name = name.rpartition(".")
    found = _LOCATIONS.get(field_name)
    if found is not None and group in ("", found[0]):
        return found
    if found is None:
        near = difflib.get_close_matches(field_name, SETTING_NAMES, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(SETTING_NAMES)}."
    else:
        advice = f"Did you mean {'.'.join(found)}?"
    raise UsageError(f"{name!r} is not a setting.", advice=advice)


def is_known_backbone(name: str) -> bool:
    """Return whether a name has the form of a backbone name; the library may still not have that backbone."""
    return (
        name in SCRATCH_NAMES
        or name.startswith(VECTORS_PREFIX)
        or all(
            part in PIP_BACKBONES or part.startswith(("torchvision/", "timm/", OPEN_CLIP_PREFIX))
            for part in name.split("+")
        )
    )


def _check_backbone(model: ModelSettings) -> None:
    if not is_known_backbone(model.backbone):
        known = (*SCRATCH_NAMES, *(one.name for one in CATALOGUE))
        near = difflib.get_close_matches(model.backbone, known, n=1)
        others = "models of timm are written as timm/NAME, those of torchvision as torchvision/NAME"
        advice = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(known)}; other {others}."
        raise UsageError(f"backbone={model.backbone!r} is not known.", advice=advice)
    if model.backbone.startswith(VECTORS_PREFIX) and not (model.frozen and model.stored_features):
        raise UsageError(
            f"frozen=False is not allowed with backbone={model.backbone!r}: imported vectors cannot be trained.",
            advice="Choose another backbone, or frozen=True.",
        )
    if model.frozen and model.backbone in SCRATCH_NAMES and not model.weights:
        raise UsageError(
            f"frozen=True is not allowed with backbone={model.backbone!r}: it is not pretrained.",
            advice="Choose backbone=default, or give weights.",
        )


_LOCATIONS: dict[str, tuple[str, str]] = {
    known: (group, name)
    for group, kind in GROUPS.items()
    for name, info in get_fields(kind).items()
    for known in (info.json_name, name)
}
"""Group and field name, by field name and by name in files."""

SETTING_NAMES = tuple(name for kind in GROUPS.values() for name in get_fields(kind))
