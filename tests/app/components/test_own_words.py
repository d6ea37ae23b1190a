"""Name suggestions from the user's own words on the Clusters page, and the model that they need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from app.background.tasks import get_task
from crlc.data.feature_source import FeatureSource
from crlc.services.image_text import OwnWords, compute_text_features, require_text_features
from crlc.workspace import Workspace
from tests.fixtures.app_pages import alerts, page, texts
from tests.fixtures.tiny_clip import NAME, write_tiny_clip
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset, write_tiny_run

pytestmark = pytest.mark.slow


def test_own_words_replace_the_suggested_names(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    at = page("clusters")
    assert not at.exception
    assert "CLIP ViT-B/32 with text" in texts(at)  # the model is offered first
    assert not [one for one in at.button if one.key == "own-words-suggest"]

    source = FeatureSource(NAME, str(write_tiny_clip(tmp_path / "tiny")))
    compute_text_features(workspace, dataset, source, device=torch.device("cpu"))
    at = page("clusters")
    at.text_area(key="own-words-text").set_value("cat").run()
    at.button(key="own-words-suggest").click().run()
    assert "1 words are not allowed" in alerts(at)
    at.text_area(key="own-words-text").set_value("cat, dog\nred bicycle").run()
    at.button(key="own-words-suggest").click().run()
    state = at.session_state["clusters-page"]
    if state.words_task is not None:
        get_task(state.words_task).wait(60)
        at.run()
    features = require_text_features(dataset, np.arange(1, 13))
    words = OwnWords(features, np.array(CLUSTERS), ["cat", "dog", "red bicycle"])
    assert at.session_state["clusters-page"].own_suggestions == words.by_cluster
    assert not at.exception
    at.button(key="own-words-clear").click().run()
    assert at.session_state["clusters-page"].own_suggestions is None
