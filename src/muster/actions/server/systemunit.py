"""The systemd unit of a server: its name, its file, and its text. Pure.

A unit runs `muster up` with only the home as an argument. The server's other options are read from the home.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from muster.actions.errors import UserError

Scope = Literal["user", "system"]
SCOPES: tuple[Scope, ...] = ("user", "system")

# The first line of each unit that Muster writes.
HEADER = "# Written by `muster service install`; `muster service remove` removes it."
SYSTEM_DIRECTORY = Path("/etc/systemd/system")
_USER_DIRECTORY = Path(".config/systemd/user")
# The first version of systemd that starts a service in a sub-cgroup of its delegated cgroup. An older version cannot
# restart the server while pods run, because the kernel allows no process in a cgroup whose children have limits.
_DELEGATING = 254

_TEXT = """\
{header}
[Unit]
Description=Muster, a batch system, in {home}
Documentation=https://muster.dev/docs/
{ordering}StartLimitIntervalSec=300
StartLimitBurst=30

[Service]
Type=notify
# A large store takes its time, and a start that is cut off would only begin anew.
TimeoutStartSec=infinity
{identity}ExecStart=:{command}
Restart=on-failure
RestartSec=1
# The server ends its pods itself. A server that is started after a failure adopts them.
KillMode=process
TimeoutStopSec=120
OOMPolicy=continue
TasksMax=infinity
{delegation}
[Install]
WantedBy={target}
"""
# A system server must know all users, including the users of a network directory such as LDAP.
_NETWORK = "Wants=network-online.target\nAfter=network-online.target nss-user-lookup.target\n"


class Unit(Struct, frozen=True):
    """The systemd unit for one home.

    user: the account that the server runs as. Its home directory is `user_home`.
    """

    scope: Scope
    home: Path
    user: str
    user_home: Path

    @property
    def name(self) -> str:
        """The name of the unit: `muster.service` for a user's default home; otherwise it contains the home's path."""
        if self.scope == "user" and self.home == self.user_home / ".muster":
            return "muster.service"
        return f"muster-{_escape_path(self.home)}.service"

    @property
    def path(self) -> Path:
        """The path of the file in which systemd finds the unit."""
        directory = SYSTEM_DIRECTORY if self.scope == "system" else self.user_home / _USER_DIRECTORY
        return directory / self.name


def render_unit(unit: Unit, python: str, environ: Mapping[str, str], *, version: int) -> str:
    """Return the text of a unit.

    python: the path of the interpreter that has Muster.
    environ: the environment variables of the server.
    version: the version of systemd.

    Raises `UserError`.
    """
    from muster.cluster.nodes.machine.cgroups import SERVER_GROUP

    for text in (str(unit.home), python, *environ.values()):
        if not text.isprintable():
            raise UserError(f"{text!a} has characters that a unit of systemd cannot name")
    is_system = unit.scope == "system"
    variables = "".join(f"Environment={_quote(f'{name}={value}')}\n" for name, value in sorted(environ.items()))
    return _TEXT.format(
        header=HEADER,
        home=_escape_specifiers(str(unit.home)),
        ordering=_NETWORK if is_system else "",
        identity=(f"User={unit.user}\n" if is_system else "") + variables,
        command=" ".join(map(_quote, (python, "-m", "muster.cli", "up", "--data", str(unit.home)))),
        delegation=f"Delegate=yes\nDelegateSubgroup={SERVER_GROUP}\n" if version >= _DELEGATING else "",
        target="multi-user.target" if is_system else "default.target",
    )


def is_current(text: str, unit: Unit, *, version: int) -> bool:
    """Return whether an installed unit has the text that this release would write.

    The interpreter and the variables are ignored, because they depend on the installation.

    version: the version of systemd.

    Raises `UserError`.
    """
    return _list_fixed_lines(text) == _list_fixed_lines(render_unit(unit, "", {}, version=version))


def _list_fixed_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("ExecStart=", "Environment="))]


def _escape_path(path: Path) -> str:
    """Return a path escaped for a unit's name, as by systemd-escape(1)."""
    text = "-".join(
        "".join(
            chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b":_." else f"\\x{byte:02x}" for byte in part
        )
        for part in (part.encode(errors="surrogateescape") for part in path.parts[1:])
    )
    return f"\\x2e{text[1:]}" if text.startswith(".") else text


def _quote(word: str) -> str:
    """Return a word in quotes for a systemd unit."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape_specifiers(escaped)}"'


def _escape_specifiers(text: str) -> str:
    return text.replace("%", "%%")
