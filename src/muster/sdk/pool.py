"""The caller's side of persistent workers that make calls.

Workers connect to a socket in a directory that only the user can access. Each worker makes one call at a time. If the
process that makes calls on a worker dies, its call fails, and the worker starts another process.
"""

import contextlib
import socket
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from io import BufferedRWPair
from pathlib import Path
from threading import Condition, Thread

from muster.sdk.calls import Outcome
from muster.sdk.errors import JobFailedError
from muster.sdk.worker import receive, send, shorten_socket_path, unpack_message


class Pool:
    """The connections to persistent workers, and the threads that wait for a free worker. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        with shorten_socket_path(directory) as path:
            self._socket.bind(path)
        self._socket.listen(128)
        self._changed = Condition()
        self._free: list[_Seat] = []
        self._seats: dict[int, _Seat] = {}  # the newest connection of each rank
        self._lifelines: list[socket.socket] = []  # one of each worker, open until the pool ends
        self._broken = ""  # why the pool has ended; "" before that
        Thread(target=self._accept, name="muster-pool", daemon=True).start()

    @property
    def ranks(self) -> int:
        """The number of workers that have connected so far."""
        return len(self._seats)

    def call(self, job: str, call: bytes) -> tuple[Outcome, int]:
        """Send a call to the first free worker; return the outcome, and the rank of the worker.

        If the worker is restarted, the call is made again. Raises `BrokenExecutor` if the pool ends before the call is
        sent, and `JobFailedError` if the pool or the process that makes the call ends afterwards.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._free or self._broken)
                if self._broken:
                    raise BrokenExecutor(f"{job}: {self._broken}")
                seat = self._free.pop()
            try:
                send(seat.stream, call)
            except OSError:
                continue  # the worker died before it received the call
            try:
                outcome = receive(seat.stream)
            except (OSError, EOFError):
                outcome = b""
            if not outcome:
                if died := self._read_death(seat) or self._broken:
                    raise JobFailedError(job, f"the process that made the call on rank {seat.rank} has died: {died}")
                continue  # the whole worker was restarted, for example after a preemption
            with self._changed:
                self._free.append(seat)
                self._changed.notify()
            return Outcome.of(outcome), seat.rank

    def end(self, text: str, *, at_once: bool = False) -> None:
        """Make no more calls, and release the free workers.

        text: the error for threads that still wait for a worker.
        at_once: whether to interrupt workers that make a call, too. Threads that wait for these calls then get an
        error.
        """
        with self._changed:
            self._broken = self._broken or text
            self._changed.notify_all()
            for seat in self._free:
                seat.close()
            self._free.clear()
            for seat in self._seats.values() if at_once else ():
                seat.break_off()
            for lifeline in self._lifelines:
                with contextlib.suppress(OSError), lifeline:  # the worker may have ended
                    if not at_once:
                        lifeline.send(b".")
            self._lifelines.clear()
        with contextlib.suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept()
        self._socket.close()

    def _read_death(self, seat: "_Seat") -> str:
        """Wait for the worker's next process; return how the previous process died, as the next one reports it.

        Returns "" if the job has ended instead.
        """
        seat.close()
        with self._changed:
            self._changed.wait_for(lambda: self._seats[seat.rank] is not seat or self._broken)
            return self._seats[seat.rank].before if self._seats[seat.rank] is not seat else ""

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # the pool has ended
            Thread(target=self._register_connection, args=(connection,), name="muster-seat", daemon=True).start()

    def _register_connection(self, connection: socket.socket) -> None:
        """Add a connection, by its first message: a process that runs calls, or a worker's lifeline."""
        stream = connection.makefile("rwb")
        try:
            facts, _ = unpack_message(receive(stream))
        except (OSError, EOFError, ValueError):
            connection.close()
            return
        if facts["rank"] is None:  # not a process that makes calls, but the lifeline of a worker
            self._hold_lifeline(connection)
            return
        seat = _Seat(int(facts["rank"]), facts["died"], connection, stream)
        with self._changed:
            self._seats[seat.rank] = seat
            if self._broken:
                seat.close()
            else:
                self._free.append(seat)
            self._changed.notify_all()

    def _hold_lifeline(self, connection: socket.socket) -> None:
        """Keep a worker's connection open until the pool ends; its end tells the worker that no more calls arrive."""
        with self._changed:
            self._lifelines.append(connection)
            if self._broken:
                connection.close()


@dataclass(eq=False, slots=True)
class _Seat:
    """The connection to one process of a worker, which makes calls.

    before: how the previous process of that worker died; "" for the first process.
    """

    rank: int
    before: str
    connection: socket.socket
    stream: BufferedRWPair = field(repr=False)

    def break_off(self) -> None:
        """Shut down the connection in both directions, so that a thread that waits for an outcome gets an error."""
        with contextlib.suppress(OSError):  # it may be closed already
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection to the worker."""
        self.stream.close()
        self.connection.close()
