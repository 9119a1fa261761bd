"""Decide until when the pods of a node on another machine may run.

A pod must have ended before the server may replace it.

A server that hears nothing of a node cannot know whether the node's pods still run: the machine may be off, its agent
may be dead, or the network between them may be down. The server replaces the pods all the same, or a gang would wait
for ever. A promise about time, which each side keeps alone, keeps a pod from running twice:

    The node:    a pod has ended             L + T  after the last successful renewal was *sent*.
    The server:  replaces the pod       1.25 L + T  or later, after that renewal was *received*.

L is the duration of the Lease (`spec.leaseDurationSeconds`). T is how long the pod tolerates the taint
`node.kubernetes.io/unreachable`. A pod that tolerates the taint for ever is never replaced, and the fence never ends
it.

A renewal is received after it was sent, so the node's time is over first, by a quarter of L. That quarter allows for
clocks that do not run equally fast and for a kernel that is slow to kill. No clock of one side is ever compared with a
clock of the other. The server counts only time in which it runs itself, which makes its wait longer.

A renewal that succeeds after the Lease had expired does not count, because the server may be replacing the pods at the
same time. The node learns of that from its watch before the next renewal, a moment later.

A pod that arrives at the node while it is silent, or at an agent that wakes up, waits for a renewal that counts: its
time begins after that. The agent reads such a pod from the server before it admits it, because the server may have
replaced the pod meanwhile.

On the node two parties end a pod. The agent asks the pod to end after L/2 + T, so that programs can save their state.
Each container's shim kills the container after L + T, even if the agent is dead. The shims read the last renewal from a
file that the agent writes after each one. They measure by a clock that continues while the machine sleeps: the pods of
a laptop that wakes up too late are killed as soon as it wakes. No fence can prevent that they run for that instant.
"""

import os
from pathlib import Path

from muster.api.core import Pod, Taint
from muster.api.nodes import NO_EXECUTE, UNREACHABLE
from muster.api.values.taints import compute_tolerated_seconds
from muster.cluster.nodes.shim.fence import NANOSECONDS, NUMBER_BYTES
from muster.runtime.clock import boot_nanoseconds

FILE = "fence"
_LOST = Taint(key=UNREACHABLE, effect=NO_EXECUTE)


def seconds_until_replaced(pod: Pod) -> float | None:
    """Return how many seconds the server waits before it replaces a pod of an unreachable node; None for ever."""
    return compute_tolerated_seconds((_LOST,), pod.spec.tolerations)


def must_end_pod(pod: Pod, silent_seconds: float, lease_seconds: float) -> bool:
    """Return whether the node must terminate a pod now, because the server may soon evict the pod.

    silent_seconds: the time since the last renewal of the Lease that counts.
    """
    seconds = seconds_until_replaced(pod)
    return seconds is not None and silent_seconds >= seconds + lease_seconds / 2


def can_take_pods(silent_seconds: float, lease_seconds: float) -> bool:
    """Return whether the last renewal of the Lease is so recent that a pod which arrives now gets its full time.

    Otherwise the node could terminate a pod because the server became unreachable before the pod arrived.

    silent_seconds: the time since the last renewal of the Lease that counts.
    """
    return silent_seconds < lease_seconds / 2


class Fence:
    """The file that tells the shims of a node until when their containers may run.

    The constructor discards a recorded time that lies in the future, as after a reboot of the machine. Raises OSError.
    """

    def __init__(self, directory: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.descriptor = os.open(directory / FILE, flags, 0o600)
        sent = int.from_bytes(os.pread(self.descriptor, NUMBER_BYTES, 0), "little")
        if sent > boot_nanoseconds():
            self.record_renewal(0, 0.0)

    def record_renewal(self, sent: int, lease_seconds: float) -> None:
        """Record a renewal of the Lease. sent: when the renewal was sent, by `boot_nanoseconds`. Raises OSError."""
        numbers = (sent, int(lease_seconds * NANOSECONDS))
        os.pwrite(self.descriptor, b"".join(number.to_bytes(NUMBER_BYTES, "little") for number in numbers), 0)

    def close(self) -> None:
        """Close the file; the shims have their own descriptors of it."""
        os.close(self.descriptor)
