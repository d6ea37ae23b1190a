"""Generators by seed, purpose and position."""

from __future__ import annotations

from itertools import product

from crlc.training.randomness import make_generator


def test_make_generator_depends_on_seed_purpose_and_number():
    seeds = {make_generator(*key).initial_seed() for key in product((0, 1), ("step", "order"), (0, 1))}
    assert len(seeds) == 8
    assert make_generator(3, "step", 5).initial_seed() == make_generator(3, "step", 5).initial_seed()
