"""Kill a container whose node has been cut off from its server for too long: the shim's half of a node's fence.

The server then replaces the container's pod. So the container must not continue, whatever happened to the node's agent.
`muster.cluster.nodes.fence` explains the protocol, and writes the file that this module reads.
"""

from __future__ import annotations

import os
import time

from .system import boot_timer, set_timer

NANOSECONDS = 10**9
NUMBER_BYTES = 8
# The reason and the message in the record of a fenced container.
FENCED = "Fenced"
MESSAGE = "The node has not reached its server for so long that the pod may run elsewhere"


class Fence:
    """The time when a container must be killed unless the node reaches its server before.

    The time also passes while the machine sleeps.

    descriptor: the node's file, with the time of the last renewal and the duration of the Lease.
    patience: how many seconds the pod may run after the Lease expires.
    """

    def __init__(self, descriptor: int, patience: float) -> None:
        self._descriptor = descriptor
        self._patience = int(patience * NANOSECONDS)
        self._deadline = 0
        self.timer = boot_timer()
        self.is_over()

    def is_over(self) -> bool:
        """Return whether the container must be killed now. Otherwise set the timer to the time at which it must."""
        try:
            numbers = os.pread(self._descriptor, 2 * NUMBER_BYTES, 0)
        except OSError:
            numbers = b""  # the earlier deadline counts
        if len(numbers) == 2 * NUMBER_BYTES:
            sent, lease = (int.from_bytes(half, "little") for half in (numbers[:NUMBER_BYTES], numbers[NUMBER_BYTES:]))
            self._deadline = sent + lease + self._patience
        if time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= self._deadline:
            return True
        set_timer(self.timer, self._deadline)
        return False
