"""Fixtures of the tests in this folder."""

from tests.fixtures.small_set import small_set

__all__ = ["small_set"]
