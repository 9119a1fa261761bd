"""Workers that stay and make calls, as the program that has the calls sees them.

They connect to a socket in a directory that is the user's alone; each makes one call at a time. When the process that
makes calls on a worker dies, it takes one call with it, and the worker starts another.
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
from muster.sdk.worker import address, receive, send, unpacked


class Pool:
    """The seats of workers, and who waits for one. Safe to be used by several threads."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        with address(directory) as path:
            self._socket.bind(path)
        self._socket.listen(128)
        self._changed = Condition()
        self._free: list[_Seat] = []
        self._seats: dict[int, _Seat] = {}  # the newest of each rank
        self._lifelines: list[socket.socket] = []
        self._broken = ""
        Thread(target=self._accept, name="muster-pool", daemon=True).start()

    @property
    def ranks(self) -> int:
        """How many workers have come so far."""
        return len(self._seats)

    def call(self, job: str, call: bytes) -> tuple[Outcome, int]:
        """Have a call made by the first worker that is free; its outcome, and the rank of the worker.

        A worker that is started anew makes its call again. Raises `BrokenExecutor` if the job has
        ended, `JobFailedError` if what makes the call dies.
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
                continue  # it had died before it was asked
            try:
                outcome = receive(seat.stream)
            except (OSError, EOFError):
                outcome = b""
            if not outcome:
                if died := self._how_died(seat) or self._broken:
                    raise JobFailedError(job, f"the process that made the call on rank {seat.rank} has died: {died}")
                continue  # the whole worker was started anew, as when its queue had taken its place away
            with self._changed:
                self._free.append(seat)
                self._changed.notify()
            return Outcome.of(outcome), seat.rank

    def end(self, text: str, *, at_once: bool = False) -> None:
        """No more calls are made, and the workers that are free leave. text: why, for who still waits.

        at_once: those that make one leave it, too, and who waits for it hears of that.
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
                with contextlib.suppress(OSError), lifeline:  # it may have ended before
                    if not at_once:
                        lifeline.send(b".")
            self._lifelines.clear()
        with contextlib.suppress(OSError):  # it was closed before
            self._socket.shutdown(socket.SHUT_RDWR)  # a thread waits in it, and would go on to
        self._socket.close()

    def _how_died(self, seat: "_Seat") -> str:
        """As its successor says it; "" if none comes, because the job has ended."""
        seat.close()
        with self._changed:
            self._changed.wait_for(lambda: self._seats[seat.rank] is not seat or self._broken)
            return self._seats[seat.rank].before if self._seats[seat.rank] is not seat else ""

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # it was closed
            Thread(target=self._greet, args=(connection,), name="muster-seat", daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        stream = connection.makefile("rwb")
        try:
            told, _ = unpacked(receive(stream))
        except (OSError, EOFError, ValueError):
            connection.close()
            return
        if told["rank"] is None:
            self._hold(connection)
            return
        seat = _Seat(int(told["rank"]), told["died"], connection, stream)
        with self._changed:
            self._seats[seat.rank] = seat
            if self._broken:
                seat.close()
            else:
                self._free.append(seat)
            self._changed.notify_all()

    def _hold(self, connection: socket.socket) -> None:
        """By its end a worker knows that no more calls come, whatever it does meanwhile."""
        with self._changed:
            self._lifelines.append(connection)
            if self._broken:
                connection.close()


@dataclass(eq=False, slots=True)
class _Seat:
    """A worker that waits for calls. before: how the process before it died."""

    rank: int
    before: str
    connection: socket.socket
    stream: BufferedRWPair = field(repr=False)

    def break_off(self) -> None:
        """Wake who waits for the outcome of a call."""
        with contextlib.suppress(OSError):  # it was closed before
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let it go."""
        self.stream.close()
        self.connection.close()
