"""The map of images in the browser, in plain JavaScript: the same on the Explore page and in an exported page.

`points.js` draws, `view.js` holds the visible part, `gestures.js` handles input, `motion.js` moves points between
layouts, and `legend.js` has the legend. `density.js` finds dense places, `labels.js` puts names there, `thumbnails.js`
shows images instead of points, and `layers.js` draws both with contour lines. `map.js` connects them.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
_SCRIPTS = (
    "view.js",
    "gestures.js",
    "points.js",
    "legend.js",
    "motion.js",
    "density.js",
    "labels.js",
    "thumbnails.js",
    "layers.js",
    "map.js",
)
"""In this order: a class follows the class that it extends."""


def read_map_script() -> str:
    """Return the script that defines `PointMap`, as one module: the browser loads nothing from other servers."""
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)


def read_map_style() -> str:
    """Return the style sheet of the map. Colours and font are the variables `--st-...`, as Streamlit sets them."""
    return (_HERE / "map.css").read_text(encoding="utf-8")
