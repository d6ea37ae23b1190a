"""Settings, presets and schedules."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from itertools import pairwise

import pytest

from crlc.data.augment import RECIPES
from crlc.errors import UsageError
from crlc.losses import CRITICS
from crlc.model import SCRATCH_BACKBONES
from crlc.training import settings as settings_module
from crlc.training.presets import PAPER, PRESET_NAMES, SUBSETS_OF_IMAGENET, Circumstances, preset
from crlc.training.randomness import generator_for
from crlc.training.schedule import learning_rate
from crlc.training.settings import AUGMENTATIONS, CRITIC_NAMES, SCRATCH_NAMES, TrainSettings
from crlc.training.stages import stages_of

DIGITS = Circumstances(images=1797, image_size=16, glyphs=True, has_gpu=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clusters": 1}, "clusters=1 is not allowed: it must be from 2 to 100,000"),
        ({"temperature": 0.0}, "temperature=0.0 is not allowed"),
        ({"smoothing": 0.9}, "smoothing=0.9 is not allowed: it must be from 0.0 to 0.5"),
        ({"critic": "cosine"}, "critic='cosine' is not allowed: it must be one of log-dot, dot, neg-l2, neg-js"),
        ({"learning_rate": float("nan")}, "learning_rate=nan is not allowed"),
        ({"epochs": 2.5}, "epochs=2.5 is not allowed: it must be a whole number"),
        ({"seed": "0"}, "seed='0' is not allowed: it must be a whole number"),
        ({"frozen": 1}, "frozen=1 is not allowed: it must be true or false"),
        ({"backbone": "resnt18"}, "backbone='resnt18' is not known. Did you mean resnet18"),
        ({"backbone": "vgg16"}, "For a pretrained one say timm/vgg16"),
        ({"frozen": True}, "frozen=True is not allowed with backbone='small': it has not learned anything"),
        ({"pairs": "neighbours"}, "pairs='neighbours' is not allowed with method='end-to-end'"),
        ({"method": "two-stage"}, "pairs='views' is not allowed with method='two-stage'"),
        ({"finetune_epochs": 3}, "finetune_epochs is only for frozen=True"),
    ],
)
def test_errors_name_field_value_and_range(change: dict[str, object], words: str):
    with pytest.raises(UsageError, match=words):
        replace(TrainSettings(), **change)


def test_overrides_from_a_command_line():
    changed = TrainSettings().with_overrides(["epochs=7", "learning_rate=1e-2", "critic=dot", "weights=a.pt"])
    assert (changed.epochs, changed.learning_rate, changed.critic) == (7, 0.01, "dot")
    for wrong, words in {
        "epoch=7": "Did you mean epochs?",
        "epochs": "is not a setting as name=value",
        "epochs=many": "epochs='many' is not allowed: it must be a whole number",
        "epochs=1.5": "must be a whole number",
    }.items():
        with pytest.raises(UsageError, match=words.replace("?", r"\?")):
            TrainSettings().with_overrides([wrong])


def test_the_names_are_those_that_exist():
    assert tuple(CRITICS) == CRITIC_NAMES
    assert tuple(SCRATCH_BACKBONES) == SCRATCH_NAMES
    assert {"auto", *RECIPES} == set(AUGMENTATIONS)


def test_every_field_is_documented():
    (body,) = [
        node.body
        for node in ast.parse(inspect.getsource(settings_module)).body
        if isinstance(node, ast.ClassDef) and node.name == "TrainSettings"
    ]
    documented = {
        field.target.id
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
    assert documented == {field.name for field in fields(TrainSettings)}


def test_settings_survive_run_json():
    settings = replace(TrainSettings(), clusters=7, critic="neg-js")
    assert TrainSettings.from_json(settings.to_json()) == settings
    assert TrainSettings.from_json({**settings.to_json(), "from_the_future": 1}) == settings


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_presets_exist(name: str):
    weights = "moco.pth" if name in SUBSETS_OF_IMAGENET else ""
    assert preset(name, replace(DIGITS, weights=weights)).epochs >= 1


def test_the_papers_numbers():
    cifar = PAPER["paper-cifar10"]
    assert (cifar.epochs, cifar.batch_size, cifar.backbone, cifar.optimiser) == (2000, 512, "resnet34", "sgd")
    assert (cifar.learning_rate, cifar.schedule, cifar.momentum, cifar.weight_decay) == (0.1, "constant", 0.9, 5e-4)
    assert (cifar.entropy_weight, cifar.feature_weight, cifar.temperature, cifar.smoothing) == (1, 10, 0.1, 0.01)
    assert (cifar.subheads, cifar.critic, cifar.bank_momentum, cifar.bank_negatives) == (10, "log-dot", 0.5, 4096)
    assert PAPER["paper-cifar20"].clusters == 20
    assert PAPER["paper-imagenet-dogs"].clusters == 15
    c_head_only = preset("paper-c-head-only", DIGITS)
    assert (c_head_only.feature_weight, c_head_only.image_size) == (0, 16)  # on any data, at its size
    assert preset("paper-memory-bank", DIGITS).implementation == "memory-bank"


def test_the_papers_numbers_of_two_stages_and_semi():
    cifar = PAPER["paper-two-stage-cifar10"]
    assert (cifar.backbone, cifar.pretrain_epochs, cifar.epochs, cifar.neighbours) == ("resnet18", 500, 200, 50)
    assert (cifar.pretrain_learning_rate, cifar.learning_rate, cifar.weight_decay) == (0.4, 1e-4, 1e-4)
    first, second = stages_of(cifar)
    assert (first.settings.optimiser, first.settings.schedule, first.settings.clustering_weight) == ("sgd", "cosine", 0)
    assert (second.settings.optimiser, second.settings.pairs, second.settings.feature_weight) == (
        "adamw",
        "neighbours",
        0,
    )
    with pytest.raises(UsageError, match="paper-imagenet50.* needs --weights FILE"):
        preset("paper-imagenet50", DIGITS)
    subset = preset("paper-imagenet50", replace(DIGITS, weights="moco.pth"))
    assert (subset.clusters, subset.backbone, subset.frozen, subset.components) == (50, "resnet50", True, 0)
    assert (subset.optimiser, subset.learning_rate, subset.epochs, subset.weight_decay) == ("sgd", 5.0, 200, 0)
    semi = PAPER["paper-semi-cifar10"]
    assert (semi.entropy_weight, semi.feature_weight, semi.label_weight, semi.labelled_batch) == (1, 5, 1, 64)
    assert learning_rate(semi, 2000 * 97, 97) == pytest.approx(0.001)


def test_quick_is_at_most_60_epochs_and_shrinks_with_more_images():
    assert preset("quick", DIGITS).epochs == 60
    assert preset("quick", replace(DIGITS, images=100_000)).epochs < 10
    with pytest.raises(UsageError, match="Did you mean balanced"):
        preset("balance", DIGITS)


def test_the_learning_rate_at_its_ends():
    constant = replace(TrainSettings(), epochs=10, learning_rate=0.4, schedule="constant")
    assert {learning_rate(constant, step, 5) for step in range(50)} == {0.4}
    cosine = replace(constant, schedule="cosine")
    assert learning_rate(cosine, 0, 5) == pytest.approx(0.4)
    assert learning_rate(cosine, 25, 5) == pytest.approx(0.2)
    assert learning_rate(cosine, 50, 5) == pytest.approx(0.0)
    warm = replace(constant, warmup_epochs=2)
    assert [learning_rate(warm, step, 2) for step in range(6)] == pytest.approx([0.08, 0.16, 0.24, 0.32, 0.4, 0.4])


def test_chance_depends_on_seed_purpose_and_number():
    seeds = {
        generator_for(seed, purpose, number).initial_seed()
        for seed in (0, 1)
        for purpose in ("step", "order")
        for number in (0, 1)
    }
    assert len(seeds) == 8
    assert generator_for(3, "step", 5).initial_seed() == generator_for(3, "step", 5).initial_seed()
