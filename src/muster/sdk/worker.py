"""What a worker runs: the call that was left for it in a directory, or those that come over a socket there.

It runs as a file of its own, before anything of the caller is known, and so knows the standard library alone: where the
caller finds modules stands in front of each call. What it writes, only the user who asked for it reads and unpickles.
"""

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from io import BufferedRWPair
from pathlib import Path
from typing import Any

# Names the directory to a worker; by it the outcomes of a job are found again.
DIRECTORY = "MUSTER_CALL"

# Files in it: the call, or those of single ranks; where calls come from; and each rank's outcome.
CALL = "call"
CALL_OF = "call-{rank}"
SOCKET = "socket"
OUTCOME = "outcome-{rank}"

# The word on the command line.
ONCE, STAY = "once", "stay"

# How a call ended: it returned, it raised, or it could not be made or told.
RETURNED, RAISED, FAILED = "returned", "raised", "failed"

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_LENGTH = 8  # bytes in front of each message

# A call that does not end when it is told to has so long; then it is killed.
_GRACE_SECONDS = 10.0

# What time it is, in seconds since the epoch.
Now = Callable[[], float]

_Made = tuple[dict[str, str], bytes]  # what is told of a call that was made, and what is pickled


def packed(told: dict[str, Any], body: bytes = b"") -> bytes:
    """A message: what is told of it in a line, and what is pickled."""
    return json.dumps(told).encode() + b"\n" + body


def unpacked(message: bytes) -> tuple[dict[str, Any], memoryview]:
    """The two parts of a message."""
    end = message.index(b"\n")
    return json.loads(message[:end]), memoryview(message)[end + 1 :]


def send(stream: BufferedRWPair, message: bytes) -> None:
    """Write a message."""
    stream.write(len(message).to_bytes(_LENGTH, "big"))
    stream.write(message)
    stream.flush()


def receive(stream: BufferedRWPair) -> bytes:
    """The next message; empty at the end. Raises `EOFError` if it breaks off."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    message = stream.read(size)
    if len(head) not in (0, _LENGTH) or len(message) < size:
        raise EOFError("the message breaks off")
    return message


def perform(call: bytes, now: Now) -> bytes:
    """Make a call; the outcome, which says everything that went wrong, too."""
    told, body = _made(call)
    return packed(told | {"python": PYTHON, "at": now()}, body)


def _made(call: bytes) -> _Made:
    told, body = unpacked(call)
    if told["python"] != PYTHON:
        text = f"the function was pickled by Python {told['python']}, and the worker has {PYTHON}"
        return _outcome(FAILED, f"{text}: give both the same version")
    sys.path[:] = told["path"]
    try:
        function, args, kwargs = pickle.loads(body)  # noqa: S301 - only who asked for the job can write where it lay
    except BaseException as error:  # noqa: BLE001 - modules are imported by it, which can do anything
        return _outcome(FAILED, f"the worker cannot load the function: {type(error).__name__}: {error}")
    try:
        value = function(*args, **kwargs)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            return _raised(leaving)
        value = None
    except BaseException as error:  # noqa: BLE001 - it is for who asked
        return _raised(error)
    try:
        return _outcome(RETURNED, "", _pickled(value))
    except BaseException as error:  # noqa: BLE001 - objects say themselves how they are pickled
        kind = type(value).__qualname__
        return _outcome(FAILED, f"its result, a {kind}, cannot be pickled: {type(error).__name__}: {error}")


def _raised(error: BaseException) -> _Made:
    """With the error itself, if that can travel."""
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, below))
    body = b""
    with contextlib.suppress(BaseException):  # its own methods are asked, and the text tells it as well
        pickled = _pickled(error)
        pickle.loads(pickled)  # noqa: S301 - it is our own
        body = pickled
    return _outcome(RAISED, text, body)


def _outcome(how: str, text: str, body: bytes = b"") -> _Made:
    return {"how": how, "text": text}, body


def _pickled(value: object) -> bytes:
    import cloudpickle

    found: bytes = cloudpickle.dumps(value)
    return found


def once(directory: Path, rank: str, now: Now) -> int:
    """Make the call that lies in the directory, and leave the outcome there; the exit code."""
    path = directory / OUTCOME.format(rank=rank)
    path.unlink(missing_ok=True)  # an earlier attempt's
    own = directory / CALL_OF.format(rank=rank)
    try:
        call = (own if own.exists() else directory / CALL).read_bytes()
    except OSError as error:
        sys.exit(f"the call is not there, which the machine that asked for it has left in {directory}: {error}")
    outcome = perform(call, now)
    told, _ = unpacked(outcome)
    if told["how"] != RETURNED:
        print(told["text"], file=sys.stderr)
    whole = path.with_suffix(".part")
    whole.write_bytes(outcome)
    whole.replace(path)
    return 0 if told["how"] == RETURNED else 1


def stay(directory: Path, rank: str, now: Now) -> int:
    """Make calls until no more come. A child makes them: one that dies takes only its call with it."""
    died = ""
    try:
        lifeline = connected(directory)
        with lifeline.makefile("rwb") as stream:
            send(stream, packed({"rank": None}))
    except OSError as error:
        print(f"no more calls come: {error}", file=sys.stderr)
        return 0
    while True:
        child = os.fork()
        if not child:
            return _take(directory, rank, died, now)
        code = _exit_code(child, lifeline)
        if code in (0, None):
            return 0
        died = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.Signals(-code).name})"


def _exit_code(child: int, lifeline: socket.socket) -> int | None:
    """Of a child that has ended; None if it was ended as the program has gone for which it made calls."""
    descriptor = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([descriptor, lifeline.fileno()], [], [])
        gone = descriptor not in ready and not lifeline.recv(1)  # who ends in good order says so, and is waited for
        if gone:
            os.kill(child, signal.SIGTERM)
            if descriptor not in select.select([descriptor], [], [], _GRACE_SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(descriptor)
    return None if gone else os.waitstatus_to_exitcode(status)


def _take(directory: Path, rank: str, died: str, now: Now) -> int:
    """Make calls, having said how the one before has died."""
    try:
        connection = connected(directory)
    except OSError as error:
        print(f"no more calls come: {error}", file=sys.stderr)
        return 0
    with connection, connection.makefile("rwb") as stream, contextlib.suppress(BrokenPipeError, ConnectionError):
        send(stream, packed({"rank": rank, "died": died}))
        while call := receive(stream):
            send(stream, perform(call, now))
    return 0


def connected(directory: Path) -> socket.socket:
    """A connection to where calls come from. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX)
    with address(directory) as path:
        connection.connect(path)
    return connection


@contextlib.contextmanager
def address(directory: Path) -> Iterator[str]:
    """What a socket in a directory is named by: the name of a socket is short, and the directory's may be long."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def main(how: str) -> int:
    """The exit code."""
    rank = os.environ["JOB_COMPLETION_INDEX"]
    return (stay if how == STAY else once)(Path(os.environ[DIRECTORY]), rank, time.time)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
