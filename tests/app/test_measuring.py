"""Questions asked in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.measuring import Measuring, Question


@pytest.fixture
def asking() -> Iterator[Measuring]:
    measuring = Measuring()
    yield measuring
    measuring.close()
    assert not any(thread.name == "crlc-measuring" for thread in threading.enumerate())


def test_an_answer_is_remembered_and_a_failure_explained(asking: Measuring, tmp_path: Path):
    question = Question(tmp_path, ("datasets",))
    assert asking.known(question) is None
    assert asking.ask(question).content is None
    answer = asking.wait(question, 60)
    assert (answer.state, answer.content["datasets"]) == ("done", [])
    assert asking.ask(question) is answer
    failing = Question(tmp_path, ("dataset", "nothing"))
    assert asking.wait(failing, 60).text.startswith("No data set is named 'nothing'")
    assert asking.known(failing).state == "failed"
    asking.forget(failing)
    assert asking.known(failing) is None


def test_a_question_can_be_dropped_and_asked_again(asking: Measuring, tmp_path: Path):
    question, other = Question(tmp_path, ("train", "digits", "--dry-run")), Question(tmp_path, ("datasets",))
    asking.ask(question)
    asking.ask(other)
    asking.drop(other)  # not begun yet
    while (begun := asking.known(question)) is None or not asking.drop(question):
        assert begun is None or begun.state == "running"  # dropped before it is begun, it never would be
    assert asking.wait(other, 60).state == "done"
    assert asking.known(question) is None
    asking.drop(other)  # an answer stays
    assert asking.known(other).state == "done"


def test_the_end_of_the_server_ends_the_command(asking: Measuring, tmp_path: Path):
    asking.ask(Question(tmp_path, ("doctor",)))  # the fixture closes it while the command runs
