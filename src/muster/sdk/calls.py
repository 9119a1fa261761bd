"""Pickle function calls for workers, and unpickle their outcomes."""

import pickle
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from muster.actions.errors import UserError
from muster.actions.submission.caller import find_working_directory
from muster.runtime.process.ownership import NotOursError, require_directory
from muster.sdk.errors import Error, JobFailedError
from muster.sdk.worker import OUTCOME, PYTHON, RAISED, RETURNED, pack_message, unpack_message

# The first line of a traceback; the caller's own traceback starts with the same line.
_HEADER = "Traceback (most recent call last):\n"
# The name of the main module in a process that `multiprocessing` has spawned.
_SPAWNED_MAIN = "__mp_main__"


def pack_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return the pickled call. Raises `Error` if the call cannot be pickled, or the working directory was deleted."""
    try:
        body = _pickle((function, tuple(args), dict(kwargs)))
    except Exception as error:
        raise Error(
            f"{_find_culprit(function, args, kwargs)} cannot be pickled: {type(error).__name__}: {error}"
        ) from error
    try:
        path = [entry or find_working_directory() for entry in sys.path]
    except UserError as error:
        raise Error(str(error)) from None
    return pack_message({"python": PYTHON, "path": path}, body)


def _pickle(value: object) -> bytes:
    """Pickle a value together with the code of the main program that it uses, which workers cannot import."""
    import cloudpickle

    if spawned_main := sys.modules.get(_SPAWNED_MAIN):
        cloudpickle.register_pickle_by_value(spawned_main)  # cloudpickle does the same with `__main__`
    data: bytes = cloudpickle.dumps(value)
    return data


def _find_culprit(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a description of the first part of a call that cannot be pickled; `the call` if each part can."""
    parts = {f"the function {name_function(function)}": function}
    parts |= {f"argument {number}": value for number, value in enumerate(args)}
    parts |= {f"argument {name}": value for name, value in kwargs.items()}
    for what, value in parts.items():
        try:
            _pickle(value)
        except Exception:  # noqa: BLE001 - that is the question
            return what
    return "the call"


def name_function(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages; for a `functools.partial`, the name of the wrapped function."""
    named = getattr(function, "func", function)  # of a functools.partial
    return getattr(named, "__name__", "") or type(named).__name__


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result or the error of a call, as reported by the worker.

    at: the time at which the call ended, in seconds since the epoch.
    """

    how: str
    text: str
    python: str
    at: float
    body: memoryview

    @classmethod
    def of(cls, message: bytes) -> "Outcome":
        """Parse a worker's message."""
        facts, body = unpack_message(message)
        return cls(body=body, **facts)

    def value(self, job: str, rank: int) -> Any:
        """Return the result of the call.

        Raises the error of the call, or `JobFailedError` if it cannot be raised here.
        """
        if self.how == RETURNED:
            return self._unpickle(job, rank)
        if self.how == RAISED:
            self._raise(job, rank)
        raise JobFailedError(job, f"rank {rank}: {self.text}")

    def _raise(self, job: str, rank: int) -> NoReturn:
        """Raise the error of the call, with its traceback from the worker as a note.

        An error such as SystemExit, which would end this program, is replaced by a `JobFailedError` that quotes it.
        """
        error = self._unpickle(job, rank) if self.body else None
        if not isinstance(error, Exception):
            last_line = self.text.rstrip().rpartition("\n")[2]
            error = JobFailedError(job, f"rank {rank} raised {last_line}")
        error.add_note(f"It was raised by rank {rank} of job {job}:\n{self.text.removeprefix(_HEADER).rstrip()}")
        raise error from None

    def _unpickle(self, job: str, rank: int) -> Any:
        try:
            return pickle.loads(self.body)  # noqa: S301 - it lay where only the user can write
        except Exception as error:
            text = f"what rank {rank} sent cannot be loaded here: {type(error).__name__}: {error}"
            if self.python != PYTHON:
                text += f" (it was pickled by Python {self.python}, and this is {PYTHON})"
            raise JobFailedError(job, text) from error


def read_outcomes(directory: Path, ranks: int) -> list[Outcome | None]:
    """Read the outcomes that the ranks wrote to the directory of a call; None for each rank without an outcome.

    All are None if the directory was deleted. Raises `Error` if other users can change the directory.
    """
    return [_read_outcome(directory, rank) for rank in range(ranks)] if _is_trusted(directory) else [None] * ranks


def outcome_of(directory: Path, rank: int) -> Outcome | None:
    """Read the outcome of one rank; None if it has none. Raises `Error` if other users can change the directory."""
    return _read_outcome(directory, rank) if _is_trusted(directory) else None


def list_returned_ranks(directory: Path, known: Container[int]) -> frozenset[int]:
    """Return the ranks whose calls have returned without an error, except those in `known`, whose files are not read.

    The result is empty if the directory does not exist. Raises `Error` if other users can change it.
    """
    if not _is_trusted(directory):
        return frozenset()
    head, tail = OUTCOME.split("{rank}")
    names = (path.name for path in directory.glob(OUTCOME.format(rank="*")))
    ranks = [int(rank) for name in names if (rank := name.removeprefix(head).removesuffix(tail)).isdecimal()]
    return frozenset(rank for rank in ranks if rank not in known and _has_returned(directory, rank))


def _is_trusted(directory: Path) -> bool:
    """Return whether a directory exists and only this user can write to it. Raises `Error` if others can.

    The job names the directory, and another user may have submitted the job. Unpickling a file of that user would
    execute that user's code.
    """
    try:
        require_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (NotOursError, OSError) as error:
        raise Error(f"results are read only from where no other user can put any: {error}") from error
    return True


def _has_returned(directory: Path, rank: int) -> bool:
    """Return whether the last attempt of a rank's call has returned, without reading the result."""
    try:
        with (directory / OUTCOME.format(rank=rank)).open("rb") as file:
            facts, _ = unpack_message(file.readline())
    except FileNotFoundError:  # the next attempt has started
        return False
    return bool(facts["how"] == RETURNED)


def _read_outcome(directory: Path, rank: int) -> Outcome | None:
    try:
        return Outcome.of((directory / OUTCOME.format(rank=rank)).read_bytes())
    except FileNotFoundError:
        return None
