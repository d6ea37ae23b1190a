"""Pages without a browser: what Streamlit's AppTest sees of them."""

from __future__ import annotations

from html import unescape

from streamlit.testing.v1 import AppTest

from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

SCRIPT = """
from app.components.sidebar import show_sidebar
from app.pages import navigation
from app.views import {name}

navigation()
show_sidebar()
{name}.render()
"""


def page(name: str, **address: str) -> AppTest:
    """One page with its sidebar, run once."""
    test = AppTest.from_string(SCRIPT.format(name=name), default_timeout=60)
    for key, value in address.items():
        test.query_params[key] = value
    return test.run()


def texts(test: AppTest) -> str:
    """Everything that is written on a page, tags and all."""
    html = [unescape(one.proto.body) for one in test.get("html")]
    written = [one.value for kind in ("title", "subheader", "markdown", "info", "caption") for one in test.get(kind)]
    return "\n".join([*html, *written])


def run_ids(workspace: Workspace) -> list[str]:
    """All runs, oldest first."""
    return Runs(workspace).ids()
