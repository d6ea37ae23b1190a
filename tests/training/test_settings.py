"""Settings of a run: groups, validation, overrides and run.json."""

from __future__ import annotations

import re

import pytest

from crlc.data.augmentation import RECIPES
from crlc.errors import UsageError
from crlc.losses import CRITICS
from crlc.model import SCRATCH_BACKBONES
from crlc.training.settings import (
    AUGMENTATIONS,
    CRITIC_NAMES,
    SCRATCH_NAMES,
    SETTING_NAMES,
    TrainSettings,
    describe_settings,
)

# The settings in run.json of version 0.1.0, with values that are not the defaults.
OLD_RUN_JSON = {
    "clusters": 7, "method": "two-stage", "epochs": 5, "batch_size": 64, "backbone": "default", "weights": "",
    "frozen": True, "components": 32, "hidden": 16, "dropout": 0.25, "pairs": "neighbours", "neighbours": 9,
    "pretrain_epochs": 0, "pretrain_optimiser": "sgd", "pretrain_learning_rate": 0.2, "finetune_epochs": 2,
    "finetune_learning_rate": 2e-4, "image_size": 48, "subheads": 4, "implementation": "simclr", "critic": "neg-js",
    "smoothing": 0.02, "temperature": 0.3, "entropy_weight": 2.0, "uneven_subheads": 1, "feature_weight": 3.0,
    "label_weight": 0.5, "labelled_batch": 8, "clustering_weight": 0.9, "bank_negatives": 99, "bank_momentum": 0.4,
    "augment": "glyph", "optimiser": "sgd", "learning_rate": 0.05, "schedule": "cosine", "last_share": 0.1,
    "warmup_epochs": 1.5, "momentum": 0.8, "weight_decay": 1e-3, "clip_norm": 5.0, "seed": 3, "log_steps": 4,
    "evaluations": 6, "checkpoint_seconds": 7.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"clusters": 1}, ("clusters=1", "from 2 to 100,000")),
        ({"smoothing": 0.9}, ("smoothing=0.9", "from 0.0 to 0.5")),
        ({"critic": "cosine"}, ("critic='cosine'", "log-dot, dot, neg-l2, neg-js")),
        ({"learning_rate": float("nan")}, ("learning_rate=nan",)),
        ({"frozen": 1}, ("frozen=1", "true or false")),
        ({"backbone": "resnt18"}, ("backbone='resnt18'", "resnet18?")),
        ({"backbone": "nonsense"}, ("backbone='nonsense'", "small, resnet18", "default, ", "as timm/NAME")),
        ({"backbone": "efficientnet-lite3"}, ("backbone='efficientnet-lite3'", "Did you mean efficientnet-lite")),
        ({"frozen": True}, ("frozen=True", "backbone='small'")),
        ({"frozen": True, "backbone": "default"}, ("frozen=True", "pairs='views'")),
        ({"pairs": "neighbours"}, ("pairs='neighbours'", "method='end-to-end'", "views")),
        ({"method": "two-stage"}, ("pairs='views'", "method='two-stage'", "neighbours")),
        ({"finetune_epochs": 3}, ("finetune_epochs=3", "frozen=False")),
        (
            {"method": "two-stage", "pairs": "neighbours", "backbone": "default", "frozen": True, "pretrain_epochs": 4},
            ("pretrain_epochs=4", "frozen=True"),
        ),
        (
            {"method": "two-stage", "pairs": "neighbours", "implementation": "memory-bank"},
            ("implementation='memory-bank'", "pairs='neighbours'"),
        ),
        (
            {
                "method": "two-stage",
                "pairs": "neighbours",
                "backbone": "default",
                "frozen": True,
                "stored_features": False,
            },
            ("pca_components=256", "stored_features=False"),
        ),
        ({"epoch": 3}, ("'epoch'", "epochs?")),
    ],
)
def test_settings_error_names_field_value_and_what_is_allowed(change: dict[str, object], facts: tuple[str, ...]):
    with pytest.raises(UsageError) as error:
        TrainSettings().replace(**change)
    assert all(fact in str(error.value) for fact in facts)


def test_overrides_accept_names_with_and_without_group_and_earlier_names():
    changed = TrainSettings().with_overrides(
        ["epochs=7", "optimization.learning_rate=1e-2", "clustering_loss.critic=dot", "weights=a.pt", "optimiser=sgd"]
    )
    assert (changed.stages.epochs, changed.optimization.learning_rate, changed.model.weights) == (7, 0.01, "a.pt")
    assert (changed.clustering_loss.critic, changed.optimization.optimizer) == ("dot", "sgd")


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ("epoch=7", ("'epoch'", "epochs?")),
        ("optimization.epochs=7", ("'optimization.epochs'", "stages.epochs?")),
        ("epochs", ("'epochs'", "epochs=value")),
        ("epochs=many", ("epochs='many'", "whole number")),
        ("epochs=1.5", ("epochs='1.5'", "whole number")),
        ("epochs=0", ("epochs=0", "from 1")),
        ("xyz=1", ("'xyz'", "learning_rate", "critic")),
    ],
)
def test_overrides_error_offers_the_nearest_name_or_the_type(wrong: str, facts: tuple[str, ...]):
    with pytest.raises(UsageError) as error:
        TrainSettings().with_overrides([wrong])
    assert all(fact in str(error.value) for fact in facts)


def test_settings_names_are_unique_across_groups_and_documented():
    assert len(set(SETTING_NAMES)) == len(SETTING_NAMES)
    infos = [info for described in describe_settings().values() for info in described.values()]
    assert all(info.help for info in infos)
    assert set(TrainSettings().as_dict()) == set(SETTING_NAMES)


def test_settings_total_epochs_counts_all_stages():
    changes = {"method": "two-stage", "pairs": "neighbours", "epochs": 5}
    pretrained = {"backbone": "default", "frozen": True, "finetune_epochs": 2}
    assert TrainSettings().replace(**changes, pretrain_epochs=3).stages.total_epochs == 8
    assert TrainSettings().replace(**changes, **pretrained).stages.total_epochs == 7


def test_settings_choices_equal_the_implemented_ones():
    assert tuple(CRITICS) == CRITIC_NAMES
    assert tuple(SCRATCH_BACKBONES) == SCRATCH_NAMES
    assert {"auto", *RECIPES} == set(AUGMENTATIONS)


def test_settings_help_names_all_choices():
    for described in describe_settings().values():
        for info in described.values():
            missing = [choice for choice in info.choices if not re.search(rf"\b{choice}\b", info.help)]
            assert not missing, info.name


NEWER_SETTINGS = {
    "clusterable_fraction": 0.0,
    "consensus": False,
    "engine": "auto",
    "finetune_feature_weight": None,
    "mixed_precision": True,
    "pseudo_label_weight": 0.0,
    "stem": "auto",
    "stored_features": True,
    "unbalanced_entropy_weight": 0.0,
    "view_source": "stored",
}
"""Settings that earlier versions did not have, with the values that reproduce their training."""


def test_settings_run_json_of_earlier_versions_is_read_and_written():
    settings = TrainSettings.from_json(OLD_RUN_JSON)
    assert settings.to_json() == OLD_RUN_JSON | NEWER_SETTINGS
    assert (settings.model.pca_components, settings.model.hidden_width, settings.data.feature_dropout) == (32, 16, 0.25)
    assert (settings.optimization.optimizer, settings.optimization.final_rate_fraction) == ("sgd", 0.1)
    defaults = TrainSettings().to_json()
    assert all(defaults[name] != value for name, value in OLD_RUN_JSON.items() if name not in _AT_DEFAULT)


_AT_DEFAULT = ("weights", "pretrain_epochs", "implementation")


def test_settings_from_json_ignores_unknown_names_and_fills_missing_ones():
    settings = TrainSettings().replace(clusters=7)
    assert TrainSettings.from_json({"clusters": 7, "from_the_future": 1}) == settings


def test_unbalanced_subheads_are_at_most_half_and_only_for_neighbours():
    neighbours = TrainSettings().replace(method="two-stage", pairs="neighbours", subheads=5, unbalanced_subheads=4)
    assert neighbours.effective_unbalanced_subheads == 2
    assert TrainSettings().replace(unbalanced_subheads=4).effective_unbalanced_subheads == 0
