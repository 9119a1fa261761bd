"""Lines that users type into a shell, and what they look at until it changes."""

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any


def run_line(command: Sequence[str], **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command of a line without a terminal, for at most two minutes. settings: as of `subprocess.run`."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False, **settings
    )


def require_code(done: "subprocess.CompletedProcess[str]", line: str, code: int) -> str:
    """Return what a line has printed. Fails if it ended with another code than this."""
    assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def wait_for(look: Callable[[], str], text: str) -> None:
    """Look until the text is there."""
    deadline = time.monotonic() + 100
    while text not in (seen := look()):
        assert time.monotonic() < deadline, f"{text!r} never came:\n{seen}"
        time.sleep(0.2)
