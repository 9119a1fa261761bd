"""Which options a start has: those that the user gives, and those of the last start."""

from pathlib import Path
from typing import Any

import click
import pytest

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import ServerOptions, write_options
from muster.cli.serveroptions import (
    RequestedOptions,
    ResolvedOptions,
    require_same_options,
    resolve_options,
    server_options,
)
from muster.cluster.nodespec import NodeSpec


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def request(*words: str) -> RequestedOptions:
    """Return the options of a command line."""
    received: list[RequestedOptions] = []

    @click.command()
    @server_options
    def command(**options: Any) -> None:
        received.append(RequestedOptions.of(options))

    command.main(list(words), standalone_mode=False)
    return received[0]


def resolve(home: Home, *words: str) -> ResolvedOptions:
    return resolve_options(home, request(*words))


def test_a_first_start_has_the_defaults(home: Home) -> None:
    first = resolve(home)
    assert (first.options, first.remembered, first.nodes) == (ServerOptions(), "", (NodeSpec(),))


def test_options_that_are_not_given_are_those_of_the_last_start(home: Home) -> None:
    write_options(home, ServerOptions(port=0, nodes=("simulated:3",)))
    bare = resolve(home)
    assert (bare.options.port, bare.nodes) == (0, (NodeSpec("simulated", 3),))
    assert bare.remembered == "--port 0 --nodes simulated:3"
    other = resolve(home, "--nodes", "process")
    assert (other.options.port, other.options.nodes, other.remembered) == (0, ("process",), "--port 0")
    assert resolve(home, "--port", "7000").remembered == "--nodes simulated:3"


def test_nothing_is_remembered_where_the_user_says_so(home: Home) -> None:
    write_options(home, ServerOptions(port=0, listen=("box1",)))
    assert resolve(home, "--forget").options == ServerOptions()
    home.options.write_text("damaged")
    assert resolve(home, "--forget", "--port", "0").options == ServerOptions(port=0)


def test_files_are_remembered_by_their_whole_path(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert request("--config", "a.yaml").given == {"config": str(tmp_path / "a.yaml")}


def test_a_remembered_option_that_is_wrong_now_says_where_it_comes_from(home: Home, tmp_path: Path) -> None:
    write_options(home, ServerOptions(config=str(tmp_path / "gone.yaml")))
    with pytest.raises(click.UsageError) as refusal:
        resolve(home)
    assert f"gone.yaml: No such file or directory\nFrom the last start: --config {tmp_path}/gone.yaml" in str(
        refusal.value.message
    )
    with pytest.raises(click.UsageError) as refusal:
        resolve(home, "--forget", "--nodes", "kubelet")
    assert "last start" not in refusal.value.message


def test_a_name_of_a_file_that_cannot_be_kept_is_refused(home: Home) -> None:
    with pytest.raises(click.UsageError, match="control characters"):
        resolve(home, "--config", "/a\udce9.yaml")


def test_a_server_with_other_options_is_not_taken_for_the_wanted_one(home: Home) -> None:
    require_same_options(home, ServerOptions(port=1))  # a server of an older release
    write_options(home, ServerOptions())
    require_same_options(home, ServerOptions())
    with pytest.raises(UserError, match=r"other options: --port 6443, not --port 1\. `muster restart` with your"):
        require_same_options(home, ServerOptions(port=1))
