"""The paper's formulas as plain loops over numbers: slow, and hard to get wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Vector = Sequence[float]


def dot(p: Vector, q: Vector) -> float:
    return sum(a * b for a, b in zip(p, q, strict=True))


def entropy(p: Vector) -> float:
    return -sum(a * math.log(a) for a in p if a > 0)


def negative_l2(p: Vector, q: Vector) -> float:
    return -sum((a - b) ** 2 for a, b in zip(p, q, strict=True))


def negative_js(p: Vector, q: Vector) -> float:
    """Eq. as divergences from the mixture: not the entropy form that the fast code uses."""

    def divergence(a: Vector, b: Vector) -> float:
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    mixture = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return -(divergence(p, mixture) + divergence(q, mixture)) / 2


CRITICS: dict[str, Callable[[Vector, Vector], float]] = {
    "log-dot": lambda p, q: math.log(dot(p, q)),
    "dot": dot,
    "neg-l2": negative_l2,
    "neg-js": negative_js,
}


def smoothed(q: Vector, smoothing: float) -> list[float]:
    return [(1 - smoothing) * value + smoothing / len(q) for value in q]


def infonce(critic: Callable[[Vector, Vector], float], row: Vector, positive: Vector, negatives: list[Vector]) -> float:
    candidates = [critic(row, positive), *(critic(row, negative) for negative in negatives)]
    return -candidates[0] + math.log(sum(math.exp(value) for value in candidates))


def contrastive(critic: Callable[[Vector, Vector], float], first: list[Vector], second: list[Vector]) -> float:
    """Every row of both views; its positive is the other view, its negatives all rows but these two."""
    rows = [*first, *second]
    count = len(first)
    losses = []
    for index, row in enumerate(rows):
        partner = (index + count) % (2 * count)
        negatives = [rows[other] for other in range(2 * count) if other not in (index, partner)]
        losses.append(infonce(critic, row, rows[partner], negatives))
    return sum(losses) / len(losses)
