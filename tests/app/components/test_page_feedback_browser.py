"""Signs for a click that was heard while the server is busy, and the ? key, in a real browser."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocket, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from app.navigation import PAGE_LINKS
from tests.app.conftest import RunningApp
from tests.fixtures.browser import button, by_key, cluster_card, open_page
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MAX_DELAY_MS = 200
RECORD = """() => {
  window.heard = {};
  document.addEventListener('pointerdown', () => (window.heard = { clicked: performance.now() }), true);
  const sign = document.getElementById('crlc-busy');
  new MutationObserver(() => {
    if (sign.checkVisibility()) window.heard.shown ??= performance.now();
  }).observe(sign, { attributes: true });
}"""
RECORD_CLEARED = """() => new MutationObserver(() => {
  if (!document.querySelector('h1')) window.isCleared = true;
}).observe(document.body, { childList: true, subtree: true })"""
KEEP_SOCKET = """() => {
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (...content) { window.socket = this; return send.apply(this, content); };
}"""
IS_IDLE = "() => !document.querySelector('#crlc-busy.shown') && !window.crlcFeedback.timer"


@contextmanager
def stopped(app: RunningApp) -> Iterator[None]:
    """Stop the server for a while, which is the worst case of a busy computer."""
    os.kill(app.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(app.pid, signal.SIGCONT)


def measure_delay(page: Page, app: RunningApp, click: Callable[[], None]) -> float:
    """Return the milliseconds from a click to the sign that it was heard, while the server does not answer."""
    page.wait_for_function(IS_IDLE)
    with stopped(app):
        click()
        page.wait_for_function("() => window.heard.shown")
    page.wait_for_function(IS_IDLE)  # the sign disappears with the answer
    return page.evaluate("window.heard.shown - window.heard.clicked")


def test_every_click_shows_a_sign_while_the_server_is_busy(page: Page, app: RunningApp, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    page.goto(f"{app.url}/clusters")
    expect(page.locator("section.cluster")).to_have_count(3)
    page.wait_for_function("() => window.crlcFeedback")
    page.evaluate(RECORD)
    order = by_key(page, "clusters-sort").get_by_role("radio")
    clicks: list[Callable[[], None]] = [
        lambda: order.nth(1).click(),  # a widget
        lambda: cluster_card(page, 0).get_by_role("checkbox").click(),  # a component
        lambda: page.get_by_role("tab").nth(1).click(),
        lambda: button(page, "show-keys").click(),
    ]
    delays = [measure_delay(page, app, click) for click in clicks]
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    delays.append(measure_delay(page, app, lambda: by_key(page, "page-links").get_by_role("link").nth(5).click()))
    assert max(delays) < MAX_DELAY_MS, delays

    # The ? key opens the list of shortcuts on every page, but not in a text field.
    open_page(page, "Runs")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    box = page.get_by_role("dialog").bounding_box()
    assert box["y"] + box["height"] <= 720  # all shortcuts without scrolling
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    open_page(page, "Clusters")
    field = cluster_card(page, 0).get_by_role("textbox")
    field.press_sequentially("who?")
    expect(field).to_have_value("who?")
    assert page.get_by_role("dialog").count() == 0


def encode_poll() -> list[int]:
    """Return the messages about a run of a fragment that refreshes itself, as in the sidebar; here, its end."""
    message = ForwardMsg(script_finished=ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
    message.metadata.run.fragment_ids.append("a-poll")
    return list(message.SerializeToString())


def test_sign_stays_until_the_page_has_answered_the_click(page: Page, app: RunningApp, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    page.goto(f"{app.url}/clusters")
    expect(page.locator("section.cluster")).to_have_count(3)
    page.wait_for_function("() => window.crlcFeedback")
    page.wait_for_function(IS_IDLE)
    page.evaluate(KEEP_SOCKET)
    sign = page.locator("#crlc-busy.shown")
    with stopped(app):
        by_key(page, "clusters-sort").get_by_role("radio").nth(1).click()
        expect(sign).to_have_count(1)
        page.evaluate(
            "(bytes) => socket.dispatchEvent(new MessageEvent('message', { data: new Uint8Array(bytes).buffer }))",
            encode_poll(),
        )
        page.wait_for_timeout(600)  # a poll is no answer
        expect(sign).to_have_count(1)
    page.wait_for_function(IS_IDLE)

    # A busy browser sends the message of a component long after the click.
    page.get_by_role("heading", name="Clusters").click()
    page.wait_for_timeout(1000)
    page.wait_for_function(IS_IDLE)
    with stopped(app):
        page.evaluate("window.crlcFeedback.send('shortcuts', true)")
        expect(sign).to_have_count(1)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.wait_for_function(IS_IDLE)


def test_page_is_restored_after_a_late_message_of_another_page(page: Page, app: RunningApp, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    sent: list[bytes] = []
    received: list[bytes] = []

    def record(socket: WebSocket) -> None:
        socket.on("framesent", lambda content: sent.append(bytes(content)))
        socket.on("framereceived", lambda content: received.append(bytes(content)))

    page.on("websocket", record)
    page.add_init_script(f"({KEEP_SOCKET})()")
    page.goto(app.url)
    expect(page.get_by_role("heading", name="Start", level=1)).to_be_visible()
    page.wait_for_function("() => window.crlcFeedback")
    open_page(page, "Runs")
    late = BackMsg.FromString(sent[-1])
    open_page(page, "Clusters")
    expect(page.locator("section.cluster")).to_have_count(3)
    page.wait_for_function(IS_IDLE)

    # A fragment of the sidebar has asked for a run on the Runs page, which starts after the Clusters page has opened.
    fragments = [ForwardMsg.FromString(content).delta.fragment_id for content in received]
    late.rerun_script.fragment_id = next(filter(None, fragments))
    page.evaluate(RECORD_CLEARED)
    page.evaluate("(bytes) => socket.send(new Uint8Array(bytes))", list(late.SerializeToString()))
    page.wait_for_function("() => window.isCleared")
    expect(page.get_by_role("heading", name="Clusters", level=1)).to_be_visible()
    expect(page.locator("section.cluster")).to_have_count(3)


def test_poll_of_a_page_that_the_user_has_left_is_not_sent(page: Page, app: RunningApp, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    sent: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda content: sent.append(bytes(content))))
    page.add_init_script(f"({KEEP_SOCKET})()")
    page.goto(app.url)
    expect(page.get_by_role("heading", name="Start", level=1)).to_be_visible()
    page.wait_for_function("() => window.crlcFeedback")

    def poll(of: BackMsg) -> bytes:
        """Send the message with which a fragment of a page refreshes itself."""
        message = BackMsg()
        message.rerun_script.page_script_hash = of.rerun_script.page_script_hash
        message.rerun_script.fragment_id, message.rerun_script.is_auto_rerun = "a-poll", True
        page.evaluate("(bytes) => socket.send(new Uint8Array(bytes))", list(message.SerializeToString()))
        return message.SerializeToString()

    open_page(page, "Runs")
    runs = BackMsg.FromString(sent[-1])
    page.wait_for_function(IS_IDLE)
    with stopped(app):
        by_key(page, PAGE_LINKS).get_by_role("link", name="Clusters").click()
        page.wait_for_function("() => window.crlcFeedback.timer")
        late = poll(runs)
    expect(page.locator("section.cluster")).to_have_count(3)
    assert late not in sent  # a busy server would merge it with the click, and stay on the Runs page
    page.wait_for_function(IS_IDLE)
    clusters = next(one for one in map(BackMsg.FromString, reversed(sent)) if one.rerun_script.page_script_hash)
    assert clusters.rerun_script.page_script_hash != runs.rerun_script.page_script_hash
    in_time = poll(clusters)
    page.wait_for_function(IS_IDLE)
    assert in_time in sent
