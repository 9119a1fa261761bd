"""Who listens on a port of localhost.

On Kubernetes every pod has a localhost of its own, and many programs (notebooks, dashboards) listen nowhere else. Here
all pods share the machine's: a forwarded port of a pod must reach what that pod's processes listen to, and never
what those of other pods do.
"""

from collections.abc import Iterator
from pathlib import Path

from muster.cluster.nodes.shim.system import descendants

_LISTENING = "0A"
# The addresses of localhost, as the kernel's tables have them.
_TABLES = (("tcp", "0100007F", "127.0.0.1"), ("tcp6", "00000000000000000000000001000000", "::1"))


def listener(shim: int, port: int, proc: Path = Path("/proc")) -> str:
    """The address of localhost on which a container, known by its shim, listens to a port; empty if it does not."""
    wanted = dict(_inodes(proc, port))
    if not wanted:
        return ""
    for pid in descendants(shim, str(proc)):
        for inode in _sockets(proc / str(pid)):
            if inode in wanted:
                return wanted[inode]
    return ""


def _inodes(proc: Path, port: int) -> Iterator[tuple[str, str]]:
    """The sockets that listen to a port of localhost, with their addresses."""
    for name, address, text in _TABLES:
        try:
            rows = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:  # no IPv6 on this machine
            continue
        for row in rows:
            fields = row.split()
            if fields[1] == f"{address}:{port:04X}" and fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]", text


def _sockets(process: Path) -> Iterator[str]:
    try:
        for descriptor in (process / "fd").iterdir():
            yield str(descriptor.readlink())
    except OSError:  # it has ended, or is not ours to look at
        return
