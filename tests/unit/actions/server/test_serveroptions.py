"""The options of a server: what a home remembers of them, and how two sets of them differ."""

import os
import stat
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import (
    ServerOptions,
    describe_differences,
    describe_options,
    merge_options,
    read_options,
    write_options,
)

FULL = ServerOptions(
    port=0,
    listen=("box1", "10.0.0.1:7000"),
    name=("box1.lab",),
    nodes=("simulated:3,cpu=8", "process"),
    config="/a b/c.yaml",
    audit_policy="/p.yaml",
    log_format="json",
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_what_is_remembered_is_what_was_written_and_is_the_owners_alone(home: Home) -> None:
    assert read_options(home) is None
    write_options(home, FULL)
    assert read_options(home) == FULL
    assert stat.S_IMODE(home.options.stat().st_mode) == 0o600


def test_the_same_options_are_not_written_again(home: Home) -> None:
    """A full disk keeps no cluster from starting again."""
    write_options(home, FULL)
    before = home.options.stat().st_ino
    write_options(home, FULL)
    assert home.options.stat().st_ino == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"port": 6443, "nodez": ["process"]}', "unknown field `nodez`"),
        ('{"port": 70000}', "<= 65535"),
        ('{"port": "6443"}', "Expected `int`, got `str`"),
        ('{"nodes": "process"}', "Expected `array`, got `str`"),
        ('{"logFormat": "xml"}', "Invalid enum value 'xml'"),
        ("{", "truncated"),
        ("", "truncated"),
        ("\0" * 40, "malformed"),
        ("[]", "Expected `object`"),
    ],
)
def test_a_file_that_says_something_else_is_one_clear_line(home: Home, text: str, problem: str) -> None:
    home.options.write_text(text)
    home.options.chmod(0o600)
    with pytest.raises(UserError) as refusal:
        read_options(home)
    assert problem in str(refusal.value)
    assert str(home.options) in str(refusal.value)
    assert "give the options again, with --forget" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_others_could_write_is_refused(home: Home) -> None:
    write_options(home, FULL)
    home.options.chmod(0o666)
    with pytest.raises(UserError, match=f"chmod 600 {home.options}"):
        read_options(home)


def test_a_pipe_in_place_of_the_file_blocks_nobody(home: Home) -> None:
    os.mkfifo(home.options, 0o600)
    with pytest.raises(UserError, match="is not a regular file: remove it"):
        read_options(home)


def test_given_options_replace_remembered_ones() -> None:
    merged = merge_options(FULL, {"nodes": ("process",), "port": 7000})
    assert (merged.nodes, merged.port, merged.listen) == (("process",), 7000, FULL.listen)


def test_options_as_words() -> None:
    assert describe_options(ServerOptions()) == ""
    assert describe_options(FULL, ["port", "nodes", "config"]) == (
        "--port 0 --nodes simulated:3,cpu=8 --nodes process --config '/a b/c.yaml'"
    )


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, ""),
        ({"port": 0}, "--port 6443, not --port 0"),
        ({"nodes": ("process:2", "simulated")}, "--nodes process, not --nodes process:2 --nodes simulated"),
        ({"listen": ("box1",)}, "no --listen, not --listen box1"),
        (
            {"audit_policy": "/p", "log_format": "json"},
            "no --audit-policy, not --audit-policy /p; --log-format text, not --log-format json",
        ),
    ],
)
def test_which_options_differ(wanted: dict[str, object], text: str) -> None:
    assert describe_differences(ServerOptions(), merge_options(ServerOptions(), wanted)) == text
