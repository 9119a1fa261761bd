"""Let a process of an account join its container's cgroups, without the right to move other processes there.

Such a right comes with a descriptor of `cgroup.procs` that the superuser opened. With it the account could move any
process of the machine into the cgroup, and the end of the container would kill that process. So the descriptor stays
with a child of the superuser, the *usher*. A process sends the usher a request over a socket, and the kernel tells the
usher which process sent it.
"""

from __future__ import annotations

import errno
import os

from .system import RefusedError, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from .spec import ProgramSpec

_SOL_SOCKET, _SO_PASSCRED, _SCM_CREDENTIALS = 1, 16, 2
_CREDENTIALS_BYTES = 12  # struct ucred: pid, uid, gid
_MESSAGE_BYTES = 4096
_JOINED = b"!"
# The account may keep the socket open for ever.
_PATIENCE_SECONDS = 120.0


class Usher:
    """A helper process that can move one process into the cgroups of a container or command.

    The helper keeps rights that the shim has dropped. It exits after one request, or if no request arrives in time.
    """

    def __init__(self, door: socket, pid: int) -> None:
        self._door = door
        self._pid = pid

    def join(self) -> None:
        """Move this process into the cgroups. Raises `RefusedError`."""
        self._door.send(_JOINED)
        answer = self._door.recv(_MESSAGE_BYTES)
        if answer != _JOINED:
            raise RefusedError(f"joining the cgroups: {answer.decode(errors='replace') or 'nobody answers'}")

    def leave(self) -> None:
        """Close this process's end of the socket to the usher."""
        self._door.close()

    def wait(self) -> None:
        """Close this process's end of the socket, and wait for the usher, which is a child of this process, to exit."""
        self._door.close()
        os.waitpid(self._pid, 0)


def start_usher(command: ProgramSpec) -> Usher | None:
    """Start an usher, while this process still has the necessary rights.

    Return None for a command without an account or a cgroup. Raises OSError.
    """
    identity = command["identity"]
    if identity is None or not command["cgroups"]:
        return None
    import _socket  # few containers need it

    procs = [os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for group in command["cgroups"]]
    door, inside = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    inside.setsockopt(_SOL_SOCKET, _SO_PASSCRED, 1)
    pid = os.fork()
    if pid == 0:
        try:
            door.close()
            _serve(inside, procs, identity["uid"])
        finally:
            os._exit(0)
    for descriptor in procs:
        os.close(descriptor)
    inside.close()
    return Usher(door, pid)


def _serve(inside: socket, procs: list[int], uid: int) -> None:
    """Move the first process that sends a request into the cgroups, if it belongs to the account.

    Reply with the result.

    procs: descriptors of the cgroups' `cgroup.procs`.
    uid: the account's user ID.
    """
    inside.settimeout(_PATIENCE_SECONDS)
    data, ancillary, _, _ = inside.recvmsg(_MESSAGE_BYTES, _CREDENTIALS_BYTES * 4)
    if not data:
        return
    try:
        pid = next(
            int.from_bytes(content[:4], "little")
            for level, kind, content in ancillary
            if (level, kind) == (_SOL_SOCKET, _SCM_CREDENTIALS)
        )
        # The number may mean another process by now, because the sender may have ended.
        if os.stat(f"/proc/{pid}").st_uid != uid:  # noqa: PTH116
            raise PermissionError(errno.EPERM, "the process belongs to another user")
        for descriptor in procs:
            os.write(descriptor, b"%d" % pid)
        answer = _JOINED
    except (OSError, StopIteration) as error:
        answer = describe(error).encode()
    inside.send(answer)
