"""Script of components that send numbered edits; see `app/view_models/numbered_edits.py`."""

from __future__ import annotations

from pathlib import Path

EDITS_SCRIPT = Path(__file__).with_suffix(".js")
"""JavaScript with the class `EditSender` and the function `element`, to put before a component's own script."""
