"""Find the container that listens on a port of localhost, for port forwarding.

On Kubernetes every pod has a localhost of its own, and many programs (notebooks, dashboards) listen only there. Here
all pods share the machine's localhost. A forwarded port must reach the listener of the requested pod, and never a
listener of another pod.
"""

from collections.abc import Iterator
from pathlib import Path

from muster.cluster.nodes.shim.system import list_descendants

_LISTENING = "0A"
# The addresses of localhost, in the format of the kernel's tables.
_TABLES = (("tcp", "0100007F", "127.0.0.1"), ("tcp6", "00000000000000000000000001000000", "::1"))


def find_listener(shim: int, port: int, proc: Path = Path("/proc")) -> str:
    """Return the localhost address at which a container listens on this port; "" if it does not listen there.

    shim: the PID of the container's shim.
    """
    inodes = dict(_find_inodes(proc, port))
    if not inodes:
        return ""
    for pid in list_descendants(shim, str(proc)):
        for inode in _list_sockets(proc / str(pid)):
            if inode in inodes:
                return inodes[inode]
    return ""


def _find_inodes(proc: Path, port: int) -> Iterator[tuple[str, str]]:
    """Yield each socket that listens on this port of localhost, named as in /proc/PID/fd, with its address."""
    for name, address, text in _TABLES:
        try:
            rows = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:  # no IPv6 on this machine
            continue
        for row in rows:
            fields = row.split()
            if fields[1] == f"{address}:{port:04X}" and fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]", text


def _list_sockets(process: Path) -> Iterator[str]:
    try:
        for descriptor in (process / "fd").iterdir():
            yield str(descriptor.readlink())
    except OSError:  # the process has ended, or may not be inspected
        return
