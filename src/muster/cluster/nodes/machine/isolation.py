"""Find out how far containers can be isolated on this machine, by starting one when the node starts.

The candidates, in order of preference:

- namespaces, as root,
- user namespaces,
- bubblewrap, which may have more rights than this process,
- mount and UTS namespaces without a PID namespace, if /proc may not be mounted again,
- nothing.
"""

import os
import shutil
from pathlib import Path

from msgspec import Struct

from muster.cluster.nodes import shims
from muster.cluster.nodes.shim.spec import ShimAccount, Spec
from muster.cluster.nodes.shims import ShimError
from muster.cluster.nodes.volumes.mounts import Mount, list_bubblewrap_arguments, plan

# An unprivileged user, to test what every user may do.
NOBODY: ShimAccount = {"uid": 65534, "gid": 65534, "groups": [], "limits": []}


class IsolationError(RuntimeError):
    """A machine that cannot isolate the pods of different accounts from each other. The message says why."""


class Isolation(Struct, frozen=True):
    """How far the containers of a node are isolated from the machine and from each other.

    problem: the system's message about why the isolation is incomplete; "" if it is complete.
    """

    kind: str = "none"  # namespaces | user-namespaces | bubblewrap | none
    own_pids: bool = False
    bubblewrap: str = ""  # the path of the program
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the containers have namespaces of their own, including a PID namespace."""
        return self.kind != "none" and self.own_pids

    def warning(self) -> str:
        """Return a warning about what the incomplete isolation means for pods, as text for an event."""
        if self.kind == "none":
            return (
                f"This machine does not allow namespaces ({self.problem}): the pod runs with the node's host name, "
                "files and process ids; names of other pods do not resolve, and volumes are not mounted at their paths."
            )
        return f"This machine does not allow pid namespaces ({self.problem}): the pod sees the processes of the node."


def candidates_of_accounts() -> list[Isolation]:
    """Return the isolations to try on a node that runs pods as other accounts. Only one kind is safe.

    Every process that the node starts for an account switches to that account before it makes namespaces.
    """
    return [Isolation("user-namespaces", own_pids=True)]


def list_candidates() -> list[Isolation]:
    """Return the isolations to try, best first."""
    kind = "namespaces" if os.geteuid() == 0 else "user-namespaces"
    isolations = [Isolation(kind, own_pids=True)]
    if path := shutil.which("bwrap"):
        isolations.append(Isolation("bubblewrap", own_pids=True, bubblewrap=path))
    return [*isolations, Isolation(kind)]


async def probe(
    directory: Path, tried: list[Isolation] | None = None, identity: ShimAccount | None = None
) -> Isolation:
    """Start a container with each isolation, best first; return the first that works, or else the kind `none`.

    directory: an empty directory; the caller may remove its contents afterwards.
    tried: the isolations to try; None for all.
    identity: the account that runs the containers; None for the node's own user.
    """
    problem = ""
    for number, isolation in enumerate(list_candidates() if tried is None else tried):
        attempt = directory / f"{number}"
        attempt.mkdir(mode=0o700)
        hosts = attempt / "hosts"
        hosts.write_text("127.0.0.1 localhost\n")
        hosts.chmod(0o644)
        if identity is not None:
            os.chown(attempt, identity["uid"], identity["gid"])
        failure = await _try_isolation(isolation, attempt, hosts, identity)
        if not failure:
            return Isolation(isolation.kind, isolation.own_pids, isolation.bubblewrap, problem)
        problem = problem or failure
    return Isolation(problem=problem or "not tried")


async def _try_isolation(isolation: Isolation, attempt: Path, hosts: Path, identity: ShimAccount | None) -> str:
    """Start a container that does nothing; return the error as text, or "" if the container ran."""
    operations = plan([Mount("/etc/hosts", str(hosts), is_directory=False)], str(attempt))
    spec: Spec = {
        "identity": identity,
        "directory": str(attempt),
        "isolation": isolation.kind,
        "own_pids": isolation.own_pids,
        "bubblewrap": make_command(isolation, operations, "probe"),
        "mounts": operations,
        "hostname": "probe",
        "stdin": False,
        "stdin_once": False,
        "tty": False,
        "argv": [b"/bin/sh", b"-c", b":"],
        "env": [],
        "working_directory": b"/",
        "ids": None,
        "no_new_privileges": False,
        "umask": 0o022,
        "dropped": [],
        "writable": None,
        "cgroups": [],
        "cpus": [],
        "log_bytes": 0,
        "log_files": 1,
        "log_patience": 0.0,
        "report": -1,
        "lifeline": -1,
        "fence": -1,
        "patience": 0.0,
    }
    try:
        shim = await shims.start(spec)
    except ShimError as error:
        return str(error)
    record = await shim.wait_for_end() if shim else shims.read_record(attempt)
    if record is None:
        return "the probe container was killed"
    return record.message or (f"the probe exited with code {record.code}" if record.code else "")


def make_command(isolation: Isolation, operations: list[tuple[str, ...]], hostname: str) -> list[str]:
    """Return the bubblewrap command that continues the start of a shim in a sandbox; [] without bubblewrap."""
    if isolation.kind != "bubblewrap":
        return []
    flags = ["--unshare-pid", "--as-pid-1", "--unshare-uts", "--hostname", hostname]
    return [
        isolation.bubblewrap,
        *flags,
        *list_bubblewrap_arguments(operations),
        "--proc",
        "/proc",
        "--",
        *shims.LAUNCHER,
    ]
