"""Pass the standard input of a command to rank 0, as mpirun does; the other workers get an empty input.

All workers come from one template, so the input of each stays open until a client attaches to it. The client reads its
input as rank 0 consumes it, and only once. A worker that replaces rank 0 after a preemption has an empty input, and a
remark says so.
"""

import asyncio
import os
import select
import stat
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from muster.api.core import POD, Pod
from muster.api.status import ApiError
from muster.runtime.realclock import Clock
from muster.runtime.tasks import cancel, in_daemon
from muster.runtime.transport import Request, TransportError, Tunnels

# The subprotocol that can close a single channel, and the prefixes of this command's messages.
PROTOCOL = "v5.channel.k8s.io"
STDIN, END_OF_STDIN = b"\0", b"\xff\0"
_PIECE_BYTES = 64 << 10
_RETRY_SECONDS = 0.5

_NULL = os.makedev(1, 3)


def can_come(descriptor: int) -> bool:
    """Return whether the descriptor may provide input for a job, now or later.

    A terminal never does, because the user types there. Neither does a file at its end.
    """
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return os.lseek(descriptor, 0, os.SEEK_CUR) < status.st_size
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev != _NULL and not os.isatty(descriptor)
    return _has_event(select.POLLIN, descriptor) or not _has_event(select.POLLHUP, descriptor)


def is_there(descriptor: int) -> bool:
    """Return whether the descriptor has input that can be read now."""
    return can_come(descriptor) and _has_event(select.POLLIN, descriptor)


def _has_event(state: int, descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(events & state for _, events in poll.poll(0))


async def read(descriptor: int) -> bytes:
    """Return the next piece of input, when there is one; empty at the end or after an error."""

    def work() -> bytes:
        try:
            return os.read(descriptor, _PIECE_BYTES)
        except OSError:  # closed, a directory, or a closed terminal: there is no more input
            return b""

    return await in_daemon(work, "input")


class Feeding(Struct):
    """The connections that carry this command's input to all running workers.

    read: returns the next piece of the input; empty at its end.
    warn: called with remarks about input that is not delivered.
    """

    tunnels: Tunnels
    clock: Clock
    read: Callable[[], Awaitable[bytes]]
    warn: Callable[[str], None]
    _fed: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by the pod's uid
    _ended: set[str] = field(default_factory=set)  # uids of pods that have ended
    _given: bool = False  # whether a rank 0 has begun to read the input

    def observe(self, pod: Pod, rank: str) -> None:
        """Handle a change of a pod of the job: when the pod runs, start to send it this command's input.

        Pods that have ended are remembered, so that a lost connection to them is no problem.
        """
        uid, states = pod.metadata.uid, [status.state for status in pod.status.container_statuses]
        if any(state.terminated is not None for state in states):
            self._ended.add(uid)
        if any(state.running is not None for state in states) and uid not in self._fed:
            self._fed[uid] = asyncio.create_task(self._feed(pod, rank), name=f"input-{pod.metadata.name}")

    async def close(self) -> None:
        """Cancel all connections to the input of workers."""
        await cancel(self._fed.values())

    async def _feed(self, pod: Pod, rank: str) -> None:
        name, uid, whole = pod.metadata.name, pod.metadata.uid, rank == "0" and not self._given
        if rank == "0" and self._given:
            self.warn(f"{name} has no standard input: its predecessor has read it")
        self._given = self._given or whole
        try:
            while not (await self._attach(pod, whole=whole) or uid in self._ended):
                await self.clock.sleep(_RETRY_SECONDS)
        except (ApiError, TransportError) as error:
            await self.clock.sleep(_RETRY_SECONDS)  # the pod may have ended, which is observed a little later
            if uid not in self._ended:
                self.warn(f"the standard input did not reach {name}, or not all of it did: {error}")

    async def _attach(self, pod: Pod, *, whole: bool) -> bool:
        """Attach to the input of a pod, and send all of this command's input or, unless `whole`, only its end.

        Return False if the connection failed before any input was read, so that the caller can retry. Raises
        `TransportError` if the connection failed later, `ApiError` if the server refuses.
        """
        path = POD.path(pod.metadata.namespace, pod.metadata.name, "attach")
        request = Request("GET", path, {"container": pod.spec.containers[0].name, "stdin": "true"})
        has_read = False
        try:
            async with self.tunnels.converse(request, PROTOCOL) as conversation:
                while whole and (data := await self.read()):
                    has_read = True
                    await conversation.send(STDIN + data)
                await conversation.send(END_OF_STDIN)
                while whole and await conversation.receive():
                    pass  # the server delivers data only while the client is connected
        except TransportError:
            if has_read:
                raise
            return False
        return True
