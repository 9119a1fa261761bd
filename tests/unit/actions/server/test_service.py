"""Units are installed whole or not at all. A script stands in for systemctl, and the real systemd-analyze checks."""

import os
import pwd
import stat
from pathlib import Path

import click
import pytest

from muster.actions.errors import UserError
from muster.actions.server import service, systemunit
from muster.actions.server.home import Home
from muster.actions.server.systemunit import HEADER, Unit
from muster.cli.actions import serving

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
  {failing}) echo 'Failed: no bus' >&2; exit 1;;
  *--version*) echo 'systemd 255 (255.4-1)'; echo '+PAM';;
  *MainPID*) echo {pid};;
  *ActiveState*) echo active;;
  *UnitFileState*) echo enabled;;
  *NRestarts*) echo 3;;
esac
"""
TEXT = f"{HEADER}\n[Service]\nType=exec\nExecStart=/bin/true\n"


class Machine:
    """A machine that systemd runs, with a home and its unit."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.home = Home(path / "home")
        self.account = pwd.getpwuid(os.getuid())
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(service, "BOOTED", path)
        monkeypatch.setattr(systemunit, "SYSTEM_DIRECTORY", path / "etc")
        monkeypatch.setenv("HOME", str(path / "ada"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
        (path / "bin").mkdir()
        self.answer()

    def answer(self, *, pid: int = 0, failing: str = "none") -> None:
        """From now on the unit's server is this process, and systemctl fails with these words, a pattern of sh."""
        program = self.path / "bin/systemctl"
        program.write_text(SYSTEMCTL.format(calls=self.path / "calls", pid=pid, failing=failing))
        program.chmod(0o755)
        self._monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    def unit(self, scope: systemunit.Scope = "user") -> Unit:
        return service.make_unit(scope, self.home, self.account)

    def calls(self) -> list[str]:
        return (self.path / "calls").read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_unit_is_installed_and_removed(machine: Machine) -> None:
    unit = machine.unit()
    service.install_unit(unit, TEXT)
    assert unit.path.read_text() == TEXT
    assert str(unit.path).startswith(f"{machine.path}/ada/.config/systemd/user/muster-")
    assert stat.S_IMODE(unit.path.stat().st_mode) == 0o644
    assert machine.calls() == ["--user daemon-reload", f"--user enable {unit.name}"]
    assert service.find_units(machine.home, machine.account) == [unit]
    assert service.describe_state(unit) == ("active", "enabled")
    service.remove_unit(unit)
    assert not unit.path.exists()
    assert machine.calls()[-2:] == [f"--user disable {unit.name}", "--user daemon-reload"]


def test_a_unit_whose_server_runs_stays(machine: Machine) -> None:
    unit = machine.unit()
    service.install_unit(unit, TEXT)
    machine.answer(pid=4321)
    with pytest.raises(UserError, match="the unit's server runs: `muster down` first"):
        service.remove_unit(unit)
    assert unit.path.exists()
    assert f"--user disable {unit.name}" not in machine.calls()


def test_a_unit_of_the_machine_is_not_the_users(machine: Machine) -> None:
    (machine.path / "etc").mkdir()
    service.install_unit(machine.unit("system"), TEXT)
    assert machine.calls() == ["daemon-reload", f"enable {machine.unit('system').name}"]
    assert [unit.scope for unit in service.find_units(machine.home, machine.account)] == ["system"]


@pytest.mark.parametrize("former", ["", TEXT.replace("/bin/true", "/bin/false")])
def test_what_systemd_does_not_enable_leaves_all_as_it_was(machine: Machine, former: str) -> None:
    unit = machine.unit()
    unit.path.parent.mkdir(parents=True)
    if former:
        unit.path.write_text(former)
    machine.answer(failing="*enable*")
    with pytest.raises(UserError, match=f"systemctl --user enable {unit.name}: Failed: no bus".replace("\\", "\\\\")):
        service.install_unit(unit, TEXT)
    assert (unit.path.read_text() if unit.path.exists() else "") == former


@pytest.mark.skipif(not Path("/usr/bin/systemd-analyze").exists(), reason="without systemd")
@pytest.mark.parametrize("line", ["Type=exek", "Nonsense=1", "ExecStart=/no/such/program"])
def test_what_systemd_does_not_understand_is_not_written(machine: Machine, line: str) -> None:
    with pytest.raises(UserError, match="systemd refuses the unit: "):
        service.install_unit(machine.unit(), f"{TEXT}{line}\n")
    assert not machine.unit().path.exists()


def test_a_unit_that_somebody_else_wrote_stays(machine: Machine) -> None:
    unit = machine.unit()
    unit.path.parent.mkdir(parents=True)
    unit.path.write_text("[Service]\nExecStart=/bin/true\n")
    for change in (lambda: service.install_unit(unit, TEXT), lambda: service.remove_unit(unit)):
        with pytest.raises(UserError, match="is not of `muster service install`: rename or remove it first"):
            change()
    assert "/bin/true" in unit.path.read_text()


def test_which_unit_runs_a_server(machine: Machine) -> None:
    machine.answer(pid=4321)
    assert service.find_running_unit(machine.home, 4321) is None
    service.install_unit(machine.unit(), TEXT)
    assert service.find_running_unit(machine.home, 4321) == machine.unit()
    assert service.find_running_unit(machine.home, 1) is None


def test_commands_can_be_typed_as_they_are_printed(machine: Machine) -> None:
    user, system = (Unit(scope, Path("/a-b"), "ada", Path("/home/ada")) for scope in systemunit.SCOPES)
    assert service.name_log(user) == r"journalctl --user -u 'muster-a\x2db.service'"
    assert service.name_start(system) == r"systemctl start 'muster-a\x2db.service'"


def test_a_unit_of_another_release_is_named_with_what_to_do(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = machine.unit()
    assert service.find_outdated(machine.home) == ""
    service.install_unit(unit, TEXT)
    expected = (
        f"{unit.path} is not what this release writes; write it again: "
        f"muster service install --data {machine.home.path}"
    )
    assert service.find_outdated(machine.home) == service.describe_outdated(unit) == expected
    unit.path.write_text(systemunit.render_unit(unit, "/bin/true", {"ROCR_VISIBLE_DEVICES": "1"}, version=255))
    assert service.find_outdated(machine.home) == ""
    unit.path.write_text("[Service]\nExecStart=/bin/true\n")
    assert service.find_outdated(machine.home) == "", "somebody else wrote it"
    unit.path.write_text(TEXT)
    monkeypatch.setattr(service, "BOOTED", machine.path / "missing")
    assert service.find_outdated(machine.home) == ""


@pytest.mark.parametrize(
    ("scope", "user", "home", "command"),
    [
        ("user", "ada", "/home/ada/.muster", "muster service install"),
        ("user", "ada", "/srv/a b", "muster service install --data '/srv/a b'"),
        ("system", "root", "/root/.muster", "sudo muster service install --system"),
        ("system", "ada", "/home/ada/.muster", "sudo muster service install --system --as ada"),
    ],
)
def test_the_command_that_installed_a_unit(scope: systemunit.Scope, user: str, home: str, command: str) -> None:
    account_home = Path("/root" if user == "root" else f"/home/{user}")
    assert service.name_install(Unit(scope, Path(home), user, account_home)) == command


def test_the_version_of_systemd(machine: Machine) -> None:
    assert service.find_version() == 255


def test_a_machine_without_systemd(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.answer(pid=4321)
    service.require_systemd()
    service.install_unit(machine.unit(), TEXT)
    monkeypatch.setattr(service, "BOOTED", machine.path / "missing")
    with pytest.raises(UserError, match="systemd does not run this machine"):
        service.require_systemd()
    assert service.find_running_unit(machine.home, 4321) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can act as others")
def test_the_superuser_touches_files_with_the_rights_of_the_owner(tmp_path: Path) -> None:
    before = (os.geteuid(), os.getegid(), os.getgroups())
    closed = tmp_path / "closed"
    closed.touch(mode=0o600)
    with service.acting_as(pwd.getpwnam("nobody")):
        assert os.geteuid() == pwd.getpwnam("nobody").pw_uid
        with pytest.raises(PermissionError):
            closed.read_text()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before


def test_a_user_who_does_not_exist() -> None:
    with pytest.raises(UserError, match="there is no user nobody-of-that-name on this machine"):
        service.find_account("nobody-of-that-name")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("Error: no space left\nError: the port is taken\nas at the last start: --port 6443", "the port is taken"),
        ("Segmentation fault", ""),
    ],
)
def test_the_log_of_a_unit_says_why_its_server_fails_to_start(machine: Machine, log: str, reason: str) -> None:
    (machine.path / "log").write_text(log)
    journal = machine.path / "bin/journalctl"
    journal.write_text(f"#!/bin/sh\ncat {machine.path}/log\n")
    journal.chmod(0o755)
    assert (service.count_restarts(machine.unit()), service.find_failure(machine.unit())) == (3, reason)


def test_a_server_that_fails_again_and_again_is_not_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts = iter(range(5, 100))
    monkeypatch.setattr(serving, "count_restarts", lambda _unit: next(restarts))
    monkeypatch.setattr(serving, "find_failure", lambda _unit: "the port is taken")
    with pytest.raises(click.ClickException, match=r"fails to start, and systemd tries again: the port is taken"):
        serving.await_service(machine.home, machine.unit(), former=None)
    assert next(restarts) == 8  # the first failure may be the last
