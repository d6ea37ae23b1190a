"""The Dockerfile and the compose example, as far as they can be checked without Docker."""

from __future__ import annotations

import json
import shlex

import yaml

from crlc.cli.main import build_parser
from tests.conftest import ROOT


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments, with continued lines joined."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def get_last(instruction: str) -> str:
    return [arguments for name, arguments in read_instructions() if name == instruction][-1]


def test_every_copied_file_exists_and_is_not_ignored():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for name, arguments in read_instructions():
        if name == "COPY" and not arguments.startswith("--from"):
            copied |= set(shlex.split(arguments)[:-1])
    assert copied == allowed
    assert all((ROOT / path).exists() for path in copied)


def test_app_runs_as_a_user_without_rights_and_demands_a_token():
    assert get_last("USER") not in ("root", "0")
    program, *arguments = json.loads(get_last("ENTRYPOINT"))
    assert program == "crlc"
    options = build_parser().parse_args(arguments)
    assert (options.command, options.host, options.no_browser) == ("app", "0.0.0.0", True)  # not loopback: a token
    assert str(options.port) == get_last("EXPOSE")
    assert get_last("ENV") == f"CRLC_WORKSPACE={get_last('VOLUME')}"


def test_compose_example_publishes_the_port_on_this_computer_only():
    (service,) = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"].values()
    port = get_last("EXPOSE")
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = {volume.split(":")[1 if "$" not in volume else 2] for volume in service["volumes"]}
    assert get_last("VOLUME") in mounted
    assert all(volume.endswith(":ro") for volume in service["volumes"] if "/images" in volume)
