"""Planning: requests, presets and images become settings."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.errors import UsageError
from crlc.training.images import TrainingImages
from crlc.training.planning import plan_run
from crlc.training.request import TrainRequest

RANDOM = np.random.default_rng(0)
PHOTOS = TrainingImages.from_array(RANDOM.integers(0, 256, (20, 48, 48, 3), dtype=np.uint8))
GLYPHS = TrainingImages.from_array(RANDOM.integers(0, 256, (20, 16, 16, 1), dtype=np.uint8).repeat(3, axis=3))


@pytest.mark.parametrize(
    ("images", "request_", "expected"),
    [
        (PHOTOS, TrainRequest(), {"method": "two-stage", "frozen": True, "backbone": "default"}),
        (GLYPHS, TrainRequest(), {"method": "end-to-end", "backbone": "small", "image_size": 16}),
        (PHOTOS, TrainRequest(backbone="resnet18"), {"method": "end-to-end", "backbone": "resnet18"}),
        (PHOTOS, TrainRequest(frozen=False), {"method": "two-stage", "frozen": False}),
        (GLYPHS, TrainRequest(method="two-stage"), {"method": "two-stage", "pairs": "neighbours"}),
        (PHOTOS, TrainRequest(weights="a.pth", backbone="resnet18"), {"image_size": 224, "weights": "a.pth"}),
        (PHOTOS, TrainRequest("paper-cifar10"), {"method": "end-to-end", "backbone": "resnet34", "image_size": 32}),
        (GLYPHS, TrainRequest(values={"epochs": 3}, assignments=("epochs=4", "seed=5")), {"epochs": 4, "seed": 5}),
    ],
)
def test_plan_run_adapts_the_preset(images: TrainingImages, request_: TrainRequest, expected: dict[str, object]):
    plan = plan_run(request_, images, has_gpu=False)
    values = plan.settings.as_dict()
    assert {name: values[name] for name in expected} == expected
    assert plan.reason


@pytest.mark.parametrize(
    ("request_", "facts"),
    [
        (TrainRequest("paper-cifar10", method="two-stage"), ("method='two-stage'", "preset='paper-cifar10'")),
        (TrainRequest(method="end-to-end", frozen=True), ("frozen=True", "method='end-to-end'")),
        (TrainRequest(method="end-to-end", values={"neighbours": 5}), ("neighbours", "method='end-to-end'")),
        (TrainRequest(values={"augment": "photo"}), ("augment", "frozen")),
        (TrainRequest(method="semi"), ("method='semi'", "parent")),
        (TrainRequest(values={"epoch": 3}), ("'epoch'", "epochs?")),
    ],
)
def test_plan_run_refuses_contradicting_and_unknown_requests(request_: TrainRequest, facts: tuple[str, ...]):
    with pytest.raises(UsageError) as error:
        plan_run(request_, PHOTOS, has_gpu=False)
    assert all(fact in str(error.value) for fact in facts)
