"""The program of a worker: it makes the call in a directory, or the calls that arrive over a socket there.

The file is executed on its own, before any module of the caller can be imported, so it uses only the standard library.
Each call starts with the caller's module search path. Only the user who submitted the job reads and unpickles its
output.
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

# The variable with the directory, for the worker. It later also leads to the outcomes of a job.
DIRECTORY = "MUSTER_CALL"

# Files in the directory: the call, or the calls of single ranks; the socket for calls; and each rank's outcome.
CALL = "call"
CALL_OF = "call-{rank}"
SOCKET = "socket"
OUTCOME = "outcome-{rank}"

# The argument on the command line.
ONCE, STAY = "once", "stay"

# How a call ended: it returned, it raised an error, or the call or its result could not be transferred.
RETURNED, RAISED, FAILED = "returned", "raised", "failed"

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_LENGTH = 8  # the number of bytes of the length field in front of each message

# The seconds between SIGTERM and SIGKILL for a call.
_GRACE_SECONDS = 10.0

# Returns the time in seconds since the epoch.
Now = Callable[[], float]

_Made = tuple[dict[str, str], bytes]  # the facts about a call, and the pickled result or error


def pack_message(facts: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a message: one line of JSON with facts about a call, then the pickled body."""
    return json.dumps(facts).encode() + b"\n" + body


def unpack_message(message: bytes) -> tuple[dict[str, Any], memoryview]:
    """Split a message into its facts and its pickled body."""
    end = message.index(b"\n")
    return json.loads(message[:end]), memoryview(message)[end + 1 :]


def send(stream: BufferedRWPair, message: bytes) -> None:
    """Write a message, preceded by its length, and flush the stream."""
    stream.write(len(message).to_bytes(_LENGTH, "big"))
    stream.write(message)
    stream.flush()


def receive(stream: BufferedRWPair) -> bytes:
    """Return the next message of the stream; b"" at its end. Raises `EOFError` if the message is truncated."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    message = stream.read(size)
    if len(head) not in (0, _LENGTH) or len(message) < size:
        raise EOFError("the message breaks off")
    return message


def perform(call: bytes, now: Now) -> bytes:
    """Make a pickled call; return its outcome as a message: the result, or the error that the call raised.

    now: returns the current time, for the time at which the call ended.
    """
    facts, body = _make_call(call)
    return pack_message(facts | {"python": PYTHON, "at": now()}, body)


def _make_call(call: bytes) -> _Made:
    facts, body = unpack_message(call)
    if facts["python"] != PYTHON:
        text = f"the function was pickled by Python {facts['python']}, and the worker has {PYTHON}"
        return _make_outcome(FAILED, f"{text}: give both the same version")
    sys.path[:] = facts["path"]
    try:
        function, args, kwargs = pickle.loads(body)  # noqa: S301 - only who asked for the job can write where it lay
    except BaseException as error:  # noqa: BLE001 - modules are imported by it, which can do anything
        return _make_outcome(FAILED, f"the worker cannot load the function: {type(error).__name__}: {error}")
    try:
        value = function(*args, **kwargs)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            return _make_error_outcome(leaving)
        value = None
    except BaseException as error:  # noqa: BLE001 - it is for who asked
        return _make_error_outcome(error)
    try:
        return _make_outcome(RETURNED, "", _pickle(value))
    except BaseException as error:  # noqa: BLE001 - objects say themselves how they are pickled
        kind = type(value).__qualname__
        return _make_outcome(FAILED, f"its result, a {kind}, cannot be pickled: {type(error).__name__}: {error}")


def _make_error_outcome(error: BaseException) -> _Made:
    """Return the outcome for an error that a call raised, including the error itself if it can be pickled."""
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, below))
    body = b""
    with contextlib.suppress(BaseException):  # the error's own methods may raise, and the text has the error, too
        pickled = _pickle(error)
        pickle.loads(pickled)  # noqa: S301 - it is our own
        body = pickled
    return _make_outcome(RAISED, text, body)


def _make_outcome(how: str, text: str, body: bytes = b"") -> _Made:
    return {"how": how, "text": text}, body


def _pickle(value: object) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps(value)
    return data


def make_call(directory: Path, rank: str, now: Now) -> int:
    """Make the call in the directory, and write its outcome there; return the exit code: 1 if there is no result.

    rank: the rank of this worker.

    An outcome of an earlier attempt is deleted first. If the call is missing, the process exits with a message.
    """
    path = directory / OUTCOME.format(rank=rank)
    path.unlink(missing_ok=True)  # the outcome of an earlier attempt
    own = directory / CALL_OF.format(rank=rank)
    try:
        call = (own if own.exists() else directory / CALL).read_bytes()
    except OSError as error:
        sys.exit(f"the call is not there, which the machine that asked for it has left in {directory}: {error}")
    outcome = perform(call, now)
    facts, _ = unpack_message(outcome)
    if facts["how"] != RETURNED:
        print(facts["text"], file=sys.stderr)
    whole = path.with_suffix(".part")
    whole.write_bytes(outcome)
    whole.replace(path)
    return 0 if facts["how"] == RETURNED else 1


def serve_calls(directory: Path, rank: str, now: Now) -> int:
    """Make the calls that the caller sends, until the caller sends no more or has exited; return the exit code.

    A child process makes the calls, so that a crash loses only one call. After a crash, another child process
    continues.
    """
    died = ""
    try:
        lifeline = connect_to_caller(directory)
        with lifeline.makefile("rwb") as stream:
            send(stream, pack_message({"rank": None}))
    except OSError as error:
        print(f"no more calls come: {error}", file=sys.stderr)
        return 0
    while True:
        child = os.fork()
        if not child:
            return _serve_calls(directory, rank, died, now)
        code = _wait_for_child(child, lifeline)
        if code in (0, None):
            return 0
        died = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.Signals(-code).name})"


def _wait_for_child(child: int, lifeline: socket.socket) -> int | None:
    """Wait for a child process; return its exit code.

    If the calling program has exited, kill the child process and return None.
    """
    descriptor = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([descriptor, lifeline.fileno()], [], [])
        is_caller_gone = descriptor not in ready and not lifeline.recv(1)  # a caller that exits normally sends a byte
        if is_caller_gone:
            os.kill(child, signal.SIGTERM)
            if descriptor not in select.select([descriptor], [], [], _GRACE_SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(descriptor)
    return None if is_caller_gone else os.waitstatus_to_exitcode(status)


def _serve_calls(directory: Path, rank: str, died: str, now: Now) -> int:
    """Make calls that arrive over the socket, as the child process of a worker; return exit code 0.

    died: how the previous child process died, which is reported first; "" for the first child process.

    Returns when the caller closes the connection.
    """
    try:
        connection = connect_to_caller(directory)
    except OSError as error:
        print(f"no more calls come: {error}", file=sys.stderr)
        return 0
    with connection, connection.makefile("rwb") as stream, contextlib.suppress(BrokenPipeError, ConnectionError):
        send(stream, pack_message({"rank": rank, "died": died}))
        while call := receive(stream):
            send(stream, perform(call, now))
    return 0


def connect_to_caller(directory: Path) -> socket.socket:
    """Connect to the caller's socket in the directory; return the connection. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX)
    with shorten_socket_path(directory) as path:
        connection.connect(path)
    return connection


@contextlib.contextmanager
def shorten_socket_path(directory: Path) -> Iterator[str]:
    """Yield a short path to the socket in the directory.

    The kernel limits the length of a socket's path, and the directory's path may be longer.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def main(how: str) -> int:
    """Make the call or calls of this worker, according to the environment; return the exit code.

    how: `STAY` to make calls until the caller sends no more; any other value for a single call.
    """
    rank = os.environ["JOB_COMPLETION_INDEX"]
    return (serve_calls if how == STAY else make_call)(Path(os.environ[DIRECTORY]), rank, time.time)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
