"""Pause another process for a moment, in which it writes nothing."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The looks at the threads, every millisecond. A thread stops once it leaves the kernel, which a full disk may delay.
_LOOKS = 1000


@contextmanager
def pause(pid: int) -> Iterator[None]:
    """Stop all threads of a process for the time of the context. A process that has ended needs no pause."""
    try:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            for _ in range(_LOOKS):
                if _is_stopped(pid):
                    break
                time.sleep(0.001)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped or has ended."""
    return all(_read_state(thread) in ("T", "t", "Z", "X") for thread in Path(f"/proc/{pid}/task").glob("*"))


def _read_state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
