"""The palette: distinct colours, with and without colour vision deficiency, on light and dark pages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from app.figures.colours import PALETTE, SEQUENTIAL_RAMP, UNKNOWN_COLOUR, get_colour
from crlc.analysis.cluster_colours import PALETTE_SIZE

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colours: tuple[str, ...], vision: str = "normal") -> np.ndarray:
    """Convert colours to CIELAB, (N, 3)."""
    encoded = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ np.array(VISION[vision]).T, 0, 1) @ TO_XYZ.T / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def ciede2000(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Perceived difference of colours in CIELAB (CIE 142-2001)."""
    (light1, a1, b1), (light2, a2, b2) = np.moveaxis(one, -1, 0), np.moveaxis(other, -1, 0)
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    chroma1, chroma2 = np.hypot(a1, b1), np.hypot(a2, b2)
    hue1, hue2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (hue2 - hue1 + 180) % 360 - 180
    light, chroma = (light1 + light2) / 2, (chroma1 + chroma2) / 2
    hue = (hue1 + turn / 2) % 360

    def compute_cosine(degrees: np.ndarray) -> np.ndarray:
        return np.cos(np.radians(degrees))

    waves = 1 - 0.17 * compute_cosine(hue - 30) + 0.24 * compute_cosine(2 * hue) + 0.32 * compute_cosine(3 * hue + 6)
    waves -= 0.2 * compute_cosine(4 * hue - 63)
    by_light = (light2 - light1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    by_chroma = (chroma2 - chroma1) / (1 + 0.045 * chroma)
    by_hue = 2 * np.sqrt(chroma1 * chroma2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * waves)
    bend = np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2)))) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    return np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 - bend * by_chroma * by_hue)


def test_ciede2000_matches_the_published_pairs():
    """Pairs 1, 4, 7 and 25 of Sharma, Wu and Dalal (2005)."""
    first = np.array([[50, 2.6772, -79.7751], [50, -1.3802, -84.2814], [50, 0, 0], [60.2574, -34.0099, 36.2677]])
    second = np.array([[50, 0, -82.7485], [50, 0, -82.7485], [50, -1, 2], [60.4626, -34.1751, 39.4387]])
    np.testing.assert_allclose(ciede2000(first, second), [2.0425, 1.0, 2.3669, 1.2644], atol=1e-4)


@pytest.mark.parametrize(("count", "normal", "deficient"), [(10, 18, 9.5), (20, 11, 8)])
@pytest.mark.parametrize("vision", VISION)
def test_palette_colours_are_distinct(vision: str, count: int, normal: float, deficient: float):
    assert len(PALETTE) == PALETTE_SIZE == 20
    one, other = np.triu_indices(count, 1)
    seen = lab(PALETTE, vision)
    assert ciede2000(seen[one], seen[other]).min() > (normal if vision == "normal" else deficient)


@pytest.mark.parametrize("background", ["#ffffff", "#12171c"])
@pytest.mark.parametrize("vision", VISION)
def test_palette_is_visible_on_light_and_dark_pages(vision: str, background: str):
    seen, page = lab((*PALETTE, UNKNOWN_COLOUR), vision), lab((background,), vision)
    assert ciede2000(seen, page).min() > 9
    assert np.abs(lab((*PALETTE, UNKNOWN_COLOUR))[:, 0] - lab((background,))[0, 0]).min() > 13


def test_sequential_ramp_gets_lighter():
    assert all(b > a + 5 for a, b in pairwise(lab(SEQUENTIAL_RAMP)[:, 0]))


def test_get_colour_repeats_and_has_one_for_unknown():
    assert [get_colour(number) for number in (0, 19, 20, -1)] == [PALETTE[0], PALETTE[19], PALETTE[0], UNKNOWN_COLOUR]
