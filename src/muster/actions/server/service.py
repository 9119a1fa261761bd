"""Install and remove the systemd unit of a server, and query systemd about it.

If systemd refuses to enable or disable a unit, the file of the unit stays as it was. Only `start_unit` and
`cancel_starts` start or stop a server.
"""

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.actions.errors import FAILED, UserError
from muster.actions.server.home import Home
from muster.actions.server.systemunit import HEADER, SCOPES, Scope, Unit, is_current
from muster.runtime.process.privatefiles import write_private

# This directory exists only on a machine whose init system is systemd; see sd_booted(3).
BOOTED = Path("/run/systemd/system")
_LINGERING = Path("/var/lib/systemd/linger")
_PATIENCE_SECONDS = 90.0


def require_systemd() -> None:
    """Raise `UserError` if systemd is not the init system of this machine."""
    if not _has_systemd():
        raise UserError(
            "systemd does not run this machine, so there are no services: let its init system run `muster up`"
        )


def _has_systemd() -> bool:
    if not BOOTED.is_dir():
        return False
    import shutil  # muster status seldom needs it, and importing it takes long

    return shutil.which("systemctl") is not None


def find_version() -> int:
    """Return the version of systemd; 0 if its output cannot be parsed. Raises `UserError`."""
    words = _run(["systemctl", "--version"]).split()  # as in: systemd 252 (252.38-1~deb12u1)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def make_unit(scope: Scope, home: Home, account: pwd.struct_passwd) -> Unit:
    """Return the unit for a home, installed or not, in the user's systemd manager or the system's."""
    named = os.environ.get("HOME") if account.pw_uid == os.getuid() else None
    return Unit(scope, home.path, account.pw_name, Path(named or account.pw_dir))


def find_units(home: Home, account: pwd.struct_passwd) -> list[Unit]:
    """Return the installed units of a home, from the user's systemd manager and from the system's."""
    units = [make_unit(scope, home, account) for scope in SCOPES]
    return [unit for unit in units if unit.path.exists()]


def find_outdated(home: Home) -> str:
    """Return a sentence if an installed unit of this home is outdated or cannot be read; "" otherwise."""
    if not _has_systemd():
        return ""
    try:
        units = find_units(home, find_account(os.getuid()))
        return next(filter(None, map(describe_outdated, units)), "")
    except (UserError, OSError) as error:
        return f"whether its unit is what this release writes is not known: {error}"


def describe_outdated(unit: Unit) -> str:
    """Return a sentence if a unit of Muster differs from what this release would write; "" otherwise.

    Raises `UserError`, `OSError`.
    """
    text = unit.path.read_text(errors="replace")
    if not text.startswith(HEADER) or is_current(text, unit, version=find_version()):
        return ""
    return f"{unit.path} is not what this release writes; write it again: {name_install(unit)}"


def find_account(user: int | str) -> pwd.struct_passwd:
    """Return the Unix account with this id or name. Raises `UserError`."""
    try:
        return pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except KeyError:
        raise UserError(f"there is no user {user} on this machine") from None


@contextmanager
def acting_as(account: pwd.struct_passwd) -> Iterator[None]:
    """Access files with the rights of a user inside the `with` block.

    The process has to be root or that user. No other thread may run during the block, because the ids apply to the
    whole process.
    """
    if os.geteuid() == account.pw_uid:
        yield
        return
    groups = os.getgroups()
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        os.setegid(os.getgid())
        os.setgroups(groups)


def is_lingering(user: str) -> bool:
    """Return whether systemd starts the user's units with the machine, rather than at the first login."""
    return (_LINGERING / user).exists()


def install_unit(unit: Unit, text: str) -> None:
    """Check a unit, write its file, and enable it. If that fails, restore the previous file.

    Raises `UserError`, also if a unit of that name was not written by Muster, and `OSError`.
    """
    former = _read_ours(unit)
    _verify(unit, text)
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(unit, text)
        _run_systemctl(unit, "daemon-reload")
        _run_systemctl(unit, "enable", unit.name)
    except BaseException:
        if former:
            _write(unit, former)
        else:
            unit.path.unlink(missing_ok=True)
        raise


def remove_unit(unit: Unit) -> None:
    """Disable and delete a unit whose server does not run.

    If the server ran, systemd could no longer restart it, and would kill its containers when it fails. Raises
    `UserError` if the server runs or Muster did not write the unit, and `OSError`.
    """
    _read_ours(unit)
    if _show(unit, "MainPID") not in ("", "0"):
        raise UserError("the unit's server runs: `muster down` first")
    _run_systemctl(unit, "disable", unit.name)
    unit.path.unlink(missing_ok=True)
    _run_systemctl(unit, "daemon-reload")


def start_unit(unit: Unit) -> None:
    """Make systemd start the server of a unit, without waiting until it is ready. Raises `UserError`."""
    _run_systemctl(unit, "start", "--no-block", unit.name)


def describe_state(unit: Unit) -> tuple[str, str]:
    """Return systemd's words for whether a unit runs, and for whether it starts at boot. Raises `UserError`."""
    return _show(unit, "ActiveState"), _show(unit, "UnitFileState")


def count_restarts(unit: Unit) -> int:
    """Return how often systemd has restarted the unit's server on its own. Raises `UserError`."""
    return int(_show(unit, "NRestarts") or 0)


def find_failure(unit: Unit) -> str:
    """Return the reason why the unit's server last failed to start; "" if its log does not contain it.

    Raises `UserError`.
    """
    log = _run(["journalctl", *_name_manager(unit), "-u", unit.name, "-n", "50", "-o", "cat", "--no-pager"])
    errors = [line.removeprefix(FAILED) for line in log.splitlines() if line.startswith(FAILED)]
    return errors[-1] if errors else ""


def find_running_unit(home: Home, pid: int) -> Unit | None:
    """Return the unit under which systemd runs this home's server; None if systemd does not run it.

    Raises `UserError`.
    """
    if not BOOTED.is_dir():
        return None
    units = find_units(home, find_account(os.getuid()))
    return next((unit for unit in units if _show(unit, "MainPID") == str(pid)), None)


def cancel_starts(home: Home) -> list[Unit]:
    """Stop the units of this home whose server systemd is about to start; return these units. Raises `UserError`.

    The state of a unit whose server failed or was killed is `activating` until the next server is ready.
    """
    if not BOOTED.is_dir():
        return []
    units = find_units(home, find_account(os.getuid()))
    starting = [unit for unit in units if _show(unit, "ActiveState") == "activating"]
    for unit in starting:
        _run_systemctl(unit, "stop", unit.name)
    return starting


def name_log(unit: Unit) -> str:
    """Return the command that shows the logs of the unit's server."""
    return shlex.join(["journalctl", *_name_manager(unit), "-u", unit.name])


def name_start(unit: Unit) -> str:
    """Return the command that starts the unit's server."""
    return shlex.join(["systemctl", *_name_manager(unit), "start", unit.name])


def name_install(unit: Unit) -> str:
    """Return the command that installs the unit, with the options that select it."""
    is_system, is_default = unit.scope == "system", unit.home == unit.user_home / ".muster"
    return shlex.join(
        [
            *(["sudo"] if is_system else []),
            *("muster", "service", "install"),
            *(["--system"] if is_system else []),
            *(["--as", unit.user] if is_system and unit.user != "root" else []),
            *([] if is_default else ["--data", str(unit.home)]),
        ]
    )


def _read_ours(unit: Unit) -> str:
    """Return the text of a unit that Muster has written; "" if the unit does not exist.

    Raises `UserError` if Muster has not written the unit, and `OSError`.
    """
    try:
        text = unit.path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    if not text.startswith(HEADER):
        raise UserError(f"{unit.path} is not of `muster service install`: rename or remove it first")
    return text


def _write(unit: Unit, text: str) -> None:
    write_private(unit.path, text.encode())
    unit.path.chmod(0o644)  # systemctl shows the unit to all users


def _verify(unit: Unit, text: str) -> None:
    """Raise `UserError` if systemd cannot parse a unit; do nothing if systemd-analyze is not installed."""
    import shutil  # muster status needs none of them, and importing them takes long
    import subprocess
    import tempfile

    if shutil.which("systemd-analyze") is None:
        return

    with tempfile.TemporaryDirectory(prefix="muster-unit-") as directory:
        file = Path(directory) / unit.name
        file.write_text(text)
        result = subprocess.run(
            ["systemd-analyze", f"--{unit.scope}", "verify", str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    # systemd ignores a line that it cannot parse, and its exit code does not show that.
    problems = [line for line in result.stderr.splitlines() if unit.name in line]
    if result.returncode or problems:
        raise UserError(
            f"systemd refuses the unit: {(problems or result.stderr.splitlines() or ['it gives no reason'])[0]}"
        )


def _show(unit: Unit, field: str) -> str:
    return _run_systemctl(unit, "show", f"--property={field}", "--value", unit.name)


def _run_systemctl(unit: Unit, *words: str) -> str:
    return _run(["systemctl", *_name_manager(unit), *words])


def _name_manager(unit: Unit) -> list[str]:
    """Return the option that selects the user's or the system's systemd manager for the unit."""
    return ["--user"] if unit.scope == "user" else []


def _run(command: list[str]) -> str:
    """Run a command and return its output. Raises `UserError` if the command fails or takes too long."""
    import subprocess  # muster status does not need it, and importing it takes long

    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{' '.join(command)}: no answer within {_PATIENCE_SECONDS:.0f} s") from None
    if result.returncode:
        raise UserError(f"{' '.join(command)}: {(result.stderr.strip().splitlines() or ['failed'])[-1]}")
    return result.stdout.strip()
