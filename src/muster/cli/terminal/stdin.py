"""The standard input of a command goes to rank 0, as with mpirun; that of the other workers is empty.

All of them come from one template, so the input of each stays open until it is attached to. What rank 0 gets is read
as it takes it, and once only: a worker that runs in its stead, after a preemption, has an empty input, which is said.
"""

import asyncio
import os
import select
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from muster.api.core import POD, Pod
from muster.api.status import ApiError
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel, in_daemon
from muster.runtime.transport import Request, TransportError, Tunnels

# The subprotocol in which one channel can be ended, and the messages that we send in it.
PROTOCOL = "v5.channel.k8s.io"
STDIN, END_OF_STDIN = b"\0", b"\xff\0"
_PIECE_BYTES = 64 << 10
_RETRY_SECONDS = 0.5

_NULL = os.makedev(1, 3)


def can_come(descriptor: int) -> bool:
    """Whether anything can come from it. A terminal is for the user, and says so when asked."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return os.lseek(descriptor, 0, os.SEEK_CUR) < status.st_size
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev != _NULL and not os.isatty(descriptor)
    return _is_in(select.POLLIN, descriptor) or not _is_in(select.POLLHUP, descriptor)


def is_there(descriptor: int) -> bool:
    """Whether something has come already."""
    return can_come(descriptor) and _is_in(select.POLLIN, descriptor)


def _is_in(state: int, descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(events & state for _, events in poll.poll(0))


async def read(descriptor: int) -> bytes:
    """What comes next; empty at the end."""

    def work() -> bytes:
        try:
            return os.read(descriptor, _PIECE_BYTES)
        except OSError:  # closed, a directory, a terminal that has gone: nothing more will come
            return b""

    return await in_daemon(work, "input")


@dataclass(slots=True)
class Feeding:
    """Attaches to every worker that runs.

    read: the next piece of the input; empty at its end.
    warn: gets what the user should know of input that does not arrive.
    """

    tunnels: Tunnels
    clock: Clock
    read: Callable[[], Awaitable[bytes]]
    warn: Callable[[str], None]
    _fed: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by the pod's uid
    _ended: set[str] = field(default_factory=set)  # uids of pods that read no more
    _given: bool = False  # a rank 0 has begun to take it

    def observe(self, pod: Pod, rank: str) -> None:
        """A pod of the job is like that now."""
        uid, states = pod.metadata.uid, [status.state for status in pod.status.container_statuses]
        if any(state.terminated is not None for state in states):
            self._ended.add(uid)
        if any(state.running is not None for state in states) and uid not in self._fed:
            self._fed[uid] = asyncio.create_task(self._feed(pod, rank), name=f"input-{pod.metadata.name}")

    async def close(self) -> None:
        """Give up what is under way."""
        await cancel(self._fed.values())

    async def _feed(self, pod: Pod, rank: str) -> None:
        name, uid, whole = pod.metadata.name, pod.metadata.uid, rank == "0" and not self._given
        if rank == "0" and self._given:
            self.warn(f"{name} has no standard input: it went to the one in whose stead it runs")
        self._given = self._given or whole
        try:
            while not (await self._attach(pod, whole=whole) or uid in self._ended):
                await self.clock.sleep(_RETRY_SECONDS)
        except (ApiError, TransportError) as error:
            await self.clock.sleep(_RETRY_SECONDS)  # it may have ended, which is heard of a little later
            if uid not in self._ended:
                self.warn(f"the standard input does not reach {name}, or not all of it: {error}")

    async def _attach(self, pod: Pod, *, whole: bool) -> bool:
        """Give it its input to the end; False if that is to be tried again."""
        path = POD.path(pod.metadata.namespace, pod.metadata.name, "attach")
        request = Request("GET", path, {"container": pod.spec.containers[0].name, "stdin": "true"})
        taken = False
        try:
            async with self.tunnels.converse(request, PROTOCOL) as conversation:
                while whole and (data := await self.read()):
                    taken = True
                    await conversation.send(STDIN + data)
                await conversation.send(END_OF_STDIN)
                while whole and await conversation.receive():
                    pass  # what is under way arrives only while we are there
        except TransportError:
            if taken:
                raise
            return False
        return True
