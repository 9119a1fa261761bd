"""What `muster service` refuses, before it changes anything."""

import os
import pwd
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.actions.server import service, systemunit
from muster.api.ours.unixusers import SYSTEM_SOCKET
from muster.cli.commands.server.service import choose_socket
from muster.cli.main import cli

ROOT = os.geteuid() == 0


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what a command line prints on a machine that systemd runs; its systemctl and directories are ours."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_HOME", raising=False)
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setattr(systemunit, "SYSTEM_DIRECTORY", tmp_path / "etc")

    def call(*words: str) -> Result:
        return CliRunner().invoke(cli, ["service", *words])

    return call


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["install", "--as", "root"], 2, "--as is for --system"),
        (["install", "--nodes", "kubelet"], 2, "'kubelet' is not a kind of node"),
        (["install", "--port", "70000"], 2, "70000"),
        (["remove"], 1, "has no service: there is no"),
        (["status"], 1, "has no service: there is no"),
        pytest.param(
            ["install", "--system", "--as", "nobody-of-that-name"],
            1,
            "there is no user nobody-of-that-name",
            marks=pytest.mark.skipif(not ROOT, reason="as root"),
        ),
        pytest.param(
            ["install", "--system"], 1, "which only root may", marks=pytest.mark.skipif(ROOT, reason="as another")
        ),
    ],
)
def test_what_makes_no_sense_changes_nothing(call, tmp_path: Path, words: list[str], code: int, text: str) -> None:
    done = call(*words)
    said = done.stderr or str(done.exception)
    assert text in " ".join(said.split())
    assert done.exit_code == code
    assert not (tmp_path / ".muster").exists()
    assert not (tmp_path / ".config").exists()


@pytest.mark.parametrize(
    ("scope", "owner", "named", "chosen"),
    [
        ("system", "root", "", SYSTEM_SOCKET),
        ("system", "root", "/srv/m.sock", "/srv/m.sock"),
        ("system", "daemon", "", ""),
        ("user", "root", None, ""),
    ],
)
def test_a_service_of_root_serves_all_users(
    scope: systemunit.Scope, owner: str, named: str | None, chosen: str
) -> None:
    assert choose_socket(scope, pwd.getpwnam(owner), named) == chosen


def test_a_home_has_one_service(call, tmp_path: Path) -> None:
    unit = systemunit.Unit("system", tmp_path / ".muster", "ada", tmp_path)
    unit.path.parent.mkdir()
    unit.path.write_text(systemunit.HEADER)
    done = call("install")
    assert f"has a service, {unit.path}: `muster service remove --system` first" in str(done.exception)
    assert not (tmp_path / ".muster").exists()
    assert not (tmp_path / ".config").exists()


@pytest.mark.skipif(not ROOT, reason="only the superuser can act as others")
def test_an_owner_who_cannot_run_muster_gets_no_service(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.touch(mode=0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    done = call("install", "--system", "--as", "daemon", "--data", str(tmp_path / "home"))
    assert str(done.exception) == f"daemon cannot run {python}: install Muster where every user can read it"
    assert os.geteuid() == 0
    assert not (tmp_path / "etc").exists()


def test_without_systemd_there_is_one_clear_line(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BOOTED", Path("/missing"))
    for words in (["install"], ["remove"], ["status"]):
        assert str(call(*words).exception).startswith("systemd does not run this machine")
