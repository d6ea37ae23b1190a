"""Problems with labels, reported below What changed, without a browser."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.fixtures.app_pages import texts

SCRIPT = """
import numpy as np
from app.components.labelling.label_report import show_label_report
from crlc.services.check_labels import LabelReport

show_label_report(LabelReport(9, 8, 7, (), np.arange({count})))
"""


@pytest.mark.parametrize(("count", "words"), [(1, "1 label contradicts"), (2, "2 labels contradict")])
def test_report_counts_doubtful_labels(count: int, words: str):
    assert f"{words} the labels" in texts(AppTest.from_string(SCRIPT.format(count=count)).run(timeout=60))
