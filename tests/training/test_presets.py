"""Presets: the paper's values, and the lengths of the presets that adapt to data and computer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crlc.errors import UsageError
from crlc.training.optimizer import compute_learning_rate
from crlc.training.paper_presets import PAPER_PRESETS, PRESETS_WITH_WEIGHTS, VARIANTS, list_variants
from crlc.training.presets import PRESET_NAMES, PresetContext, build_preset, choose_cluster_count
from crlc.training.settings import TrainSettings
from crlc.training.stages import plan_stages

DIGITS = PresetContext(images=1797, image_size=16, has_glyphs=True, has_gpu=False)


def assert_values(settings: TrainSettings, **expected: object) -> None:
    values = settings.as_dict()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("classes", "images", "clusters"),
    [(0, 500, 10), (1, 500, 10), (2, 500, 2), (100, 500, 100), (0, 6, 6), (1, 2, 2), (0, 1, 2)],
)
def test_cluster_count_is_that_of_several_classes(classes: int, images: int, clusters: int):
    assert choose_cluster_count(classes, images) == clusters


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_preset_can_be_built(name: str):
    weights = "moco.pth" if name in PRESETS_WITH_WEIGHTS else ""
    assert build_preset(name, replace(DIGITS, weights=weights)).stages.epochs >= 1


def test_preset_error_offers_the_nearest_name():
    with pytest.raises(UsageError, match="balanced"):
        build_preset("balance", DIGITS)


def test_paper_presets_end_to_end():
    assert_values(
        PAPER_PRESETS["paper-cifar10"],
        epochs=2000, batch_size=512, backbone="resnet34", optimizer="sgd", learning_rate=0.1, schedule="constant",
        momentum=0.9, weight_decay=5e-4, entropy_weight=1.0, feature_weight=10.0, temperature=0.1, smoothing=0.01,
        subheads=10, critic="log-dot", bank_momentum=0.5, bank_negatives=4096,
    )  # fmt: skip
    assert PAPER_PRESETS["paper-cifar20"].model.clusters == 20
    assert PAPER_PRESETS["paper-imagenet-dogs"].model.clusters == 15
    assert_values(PAPER_PRESETS["paper-stl10"], stem="pooled", clusterable_fraction=0.5)
    assert not any(settings.optimization.mixed_precision for settings in PAPER_PRESETS.values())
    assert_values(PAPER_PRESETS["paper-imagenet10"], view_source="originals", augment="photo-blur", epochs=500)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [("c-head-only", {"feature_weight": 0.0}), ("memory-bank", {"implementation": "memory-bank"})],
)
def test_paper_preset_variants_keep_clusters_epochs_and_augmentation_of_the_preset(
    variant: str, expected: dict[str, object]
):
    dogs = build_preset("paper-imagenet-dogs", replace(DIGITS, variant=variant))
    assert_values(dogs, clusters=15, epochs=500, augment="photo-blur", image_size=224, **expected)
    assert dogs.replace(feature_weight=10.0, implementation="simclr") == PAPER_PRESETS["paper-imagenet-dogs"]


@pytest.mark.parametrize(
    ("preset", "variant", "fact"),
    [
        ("paper-cifar10", "c-head", "c-head-only"),
        ("paper-two-stage-cifar10", "memory-bank", "paper-two-stage-cifar10"),
        ("paper-cifar10", "stored-features", "paper-cifar10"),
        ("quick", "c-head-only", "quick"),
    ],
)
def test_preset_refuses_unknown_and_unsuitable_variants(preset: str, variant: str, fact: str):
    with pytest.raises(UsageError, match=fact) as error:
        build_preset(preset, replace(DIGITS, variant=variant))
    assert f"variant={variant!r}" in str(error.value)


def test_list_variants_has_exactly_the_variants_that_a_preset_accepts():
    for preset in PAPER_PRESETS:
        accepted = []
        for variant in VARIANTS:
            try:
                build_preset(preset, replace(DIGITS, variant=variant, weights="moco.pth"))
            except UsageError:
                continue
            accepted.append(variant)
        assert list_variants(preset) == tuple(accepted)
    assert list_variants("paper-cifar10") == ("c-head-only", "memory-bank")
    assert list_variants("paper-two-stage-stl10") == ()
    assert list_variants("paper-imagenet200") == ("stored-features",)


def test_paper_presets_two_stage():
    cifar = PAPER_PRESETS["paper-two-stage-cifar10"]
    assert_values(
        cifar,
        backbone="resnet18", pretrain_epochs=500, epochs=200, neighbours=50, pretrain_learning_rate=0.4,
        learning_rate=1e-4, weight_decay=1e-4,
    )  # fmt: skip
    first, second = plan_stages(cifar)
    assert_values(first.settings, optimizer="sgd", schedule="cosine", clustering_weight=0.0)
    assert_values(second.settings, optimizer="adam", pairs="neighbours", feature_weight=0.0)


def test_paper_presets_of_imagenet_subsets_need_weights():
    with pytest.raises(UsageError, match="paper-imagenet50") as error:
        build_preset("paper-imagenet50", DIGITS)
    assert "weights" in str(error.value)
    assert_values(
        build_preset("paper-imagenet50", replace(DIGITS, weights="moco.pth")),
        clusters=50, backbone="resnet50", frozen=True, pca_components=0, optimizer="sgd", learning_rate=5.0,
        epochs=200, weight_decay=0.0, stored_features=False, augment="photo-blur", view_source="originals",
    )  # fmt: skip
    faster = build_preset("paper-imagenet50", replace(DIGITS, weights="moco.pth", variant="stored-features"))
    assert_values(faster, stored_features=True, clusters=50)


def test_paper_presets_semi():
    semi = PAPER_PRESETS["paper-semi-cifar10"]
    assert_values(semi, entropy_weight=1.0, feature_weight=5.0, label_weight=1.0, labelled_batch_size=64)
    assert compute_learning_rate(semi, 2000 * 97, 97) == pytest.approx(0.001)
    halfway = [compute_learning_rate(semi, 1000 * 97 + step, 97) for step in (0, 96)]
    assert halfway == pytest.approx([0.0505, 0.0505])  # A.13: the mean of 0.1 and 0.001, constant within an epoch


def test_quick_preset_has_at_most_60_epochs_and_fewer_with_more_images():
    assert build_preset("quick", DIGITS).stages.epochs == 60
    assert build_preset("quick", replace(DIGITS, images=100_000)).stages.epochs < 10
