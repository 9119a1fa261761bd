"""Detect whether a process has exited or is about to, which takes the kernel a moment after a kill."""

from pathlib import Path
from signal import SIGKILL

_PF_EXITING = 0x4


def is_ending(pid: int) -> bool:
    """Return whether a process was killed or has exited.

    The files that it locked stay locked until its last thread has exited.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    state, flags, pending_signals = fields[0], int(fields[6]), int(fields[28])
    return state in ("Z", "X") or bool(flags & _PF_EXITING or pending_signals & 1 << SIGKILL - 1)
