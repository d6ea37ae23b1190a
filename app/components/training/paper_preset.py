"""Preset of the paper in the advanced settings of the Train page, with its variant and weights file."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.state import training
from app.view_models.training_form import TrainForm
from crlc.paths import parse_typed_path
from crlc.training.paper_presets import (
    C_HEAD_ONLY,
    MEMORY_BANK,
    PAPER_PRESETS,
    PRESETS_WITH_WEIGHTS,
    STORED_FEATURES,
    list_variants,
)

_PRESET_KEY, _WEIGHTS_KEY = "train-paper", "train-weights"
_PRESET_HELP = (
    "Replaces the preset above by the settings of an experiment in the paper. Takes hours on a GPU. Presets with semi "
    "learn from the labels that you gave on the Label page."
)
_VARIANT_HELP = (
    "Changes one part of the experiment. C-head only trains without the feature loss L_FC. Memory bank takes the "
    "negatives from earlier batches. Stored features is faster, and trains without augmentation."
)
_WEIGHTS_HELP = "Sets the file with the pretrained ResNet-50, such as the weights that MoCo published for ImageNet."
_VARIANT_TITLES = {
    C_HEAD_ONLY: "C-head only (λ2 = 0)",
    MEMORY_BANK: "Memory bank",
    STORED_FEATURES: "Stored features (faster)",
}


def show_paper_preset(form: TrainForm) -> TrainForm:
    """Show the widgets, and return the form with the chosen preset, variant and weights; unchanged without a preset."""
    preset = st.selectbox(
        "Preset from the paper", list(PAPER_PRESETS), index=None, placeholder="None", key=_PRESET_KEY,
        persist_state=training.PERSISTENCE, help=_PRESET_HELP,
    )  # fmt: skip
    if preset is None:
        return form
    return replace(form, preset=preset, variant=_show_variant(preset), weights=_show_weights(preset))


def list_default_values() -> dict[str, str | None]:
    """Return the keys of the widgets with their values before the user changes them."""
    return {_PRESET_KEY: None, _WEIGHTS_KEY: "", **dict.fromkeys(map(_build_variant_key, PAPER_PRESETS))}


def _show_variant(preset: str) -> str:
    variants = list_variants(preset)
    if not variants:
        return ""
    chosen = st.selectbox(
        "Variant", variants, index=None, placeholder="As in the paper", key=_build_variant_key(preset),
        format_func=_VARIANT_TITLES.__getitem__, persist_state=training.PERSISTENCE, help=_VARIANT_HELP,
    )  # fmt: skip
    return chosen or ""


def _show_weights(preset: str) -> str:
    if preset not in PRESETS_WITH_WEIGHTS:
        return ""
    typed = st.text_input(
        "Weights file", placeholder="e.g. /home/me/moco_v2_800ep_pretrain.pth.tar", key=_WEIGHTS_KEY,
        persist_state=training.PERSISTENCE, help=_WEIGHTS_HELP,
    )  # fmt: skip
    return parse_typed_path(typed)


def _build_variant_key(preset: str) -> str:
    """Return the key of the variant: one per preset, because presets have different variants."""
    return f"train-variant-{preset}"
