"""Runs: side by side."""

from __future__ import annotations


def render() -> None:
    """The page."""
