"""Calls of functions, as they go to workers, and what comes back."""

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from muster.runtime.process.ownership import NotOursError, require_directory
from muster.sdk.errors import Error, JobFailedError, RemoteTraceback
from muster.sdk.worker import OUTCOME, PYTHON, RAISED, RETURNED, packed, unpacked


def packed_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """The call as it travels. Raises `Error` if it cannot."""
    import cloudpickle

    try:
        body = cloudpickle.dumps((function, tuple(args), dict(kwargs)))
    except Exception as error:
        raise Error(f"{_culprit(function, args, kwargs)} cannot be pickled: {type(error).__name__}: {error}") from error
    path = [entry or str(Path.cwd()) for entry in sys.path]
    return packed({"python": PYTHON, "path": path}, body)


def _culprit(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Which part of a call cannot be pickled."""
    import cloudpickle

    parts = {f"the function {title(function)}": function}
    parts |= {f"argument {number}": value for number, value in enumerate(args)}
    parts |= {f"argument {name}": value for name, value in kwargs.items()}
    for what, value in parts.items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001 - that is the question
            return what
    return "the call"


def title(function: Callable[..., Any]) -> str:
    """What people call a function."""
    named = getattr(function, "func", function)  # of a functools.partial
    return getattr(named, "__name__", "") or type(named).__name__


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call has ended on a worker: as `worker` says it. at: when, in seconds since the epoch."""

    how: str
    text: str
    python: str
    at: float
    body: memoryview

    @classmethod
    def of(cls, message: bytes) -> "Outcome":
        """As the worker has written it."""
        told, body = unpacked(message)
        return cls(body=body, **told)

    def value(self, job: str, rank: int) -> Any:
        """What was returned. Raises what was raised, or `JobFailedError`."""
        if self.how == RETURNED:
            return self._unpickled(job, rank)
        if self.how == RAISED:
            self._raise(job, rank)
        raise JobFailedError(job, f"rank {rank}: {self.text}")

    def _raise(self, job: str, rank: int) -> NoReturn:
        """What was raised there, with its cause; what would end this program is only told."""
        cause = RemoteTraceback(self.text)
        error = self._unpickled(job, rank) if self.body else None
        if isinstance(error, Exception):
            error.add_note(f"It was raised by rank {rank} of job {job}.")
            raise error from cause
        told = self.text.rstrip().rpartition("\n")[2]
        raise JobFailedError(job, f"rank {rank} raised {told}") from cause

    def _unpickled(self, job: str, rank: int) -> Any:
        try:
            return pickle.loads(self.body)  # noqa: S301 - it lay where only the user can write
        except Exception as error:
            text = f"what rank {rank} sent cannot be loaded here: {type(error).__name__}: {error}"
            if self.python != PYTHON:
                text += f" (it was pickled by Python {self.python}, and this is {PYTHON})"
            raise JobFailedError(job, text) from error


def outcomes(directory: Path, ranks: int) -> list[Outcome | None]:
    """What the ranks have left in the directory of a call; None of one that left nothing. Raises `Error`."""
    return [_left(directory, rank) for rank in range(ranks)] if _is_there(directory) else [None] * ranks


def outcome_of(directory: Path, rank: int) -> Outcome | None:
    """What one has left. Raises `Error`."""
    return _left(directory, rank) if _is_there(directory) else None


def ranks_done(directory: Path) -> frozenset[int]:
    """The ranks that have left an outcome, by the names of the files alone. Raises `Error`."""
    if not _is_there(directory):
        return frozenset()
    head, tail = OUTCOME.split("{rank}")
    ranks = (path.name.removeprefix(head).removesuffix(tail) for path in directory.glob(OUTCOME.format(rank="*")))
    return frozenset(int(rank) for rank in ranks if rank.isdecimal())


def _is_there(directory: Path) -> bool:
    """Whether a directory is there and ours alone: its name is what a job says, which may be another user's.

    What others could have put there would be run as it is unpickled. Raises `Error`.
    """
    try:
        require_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (NotOursError, OSError) as error:
        raise Error(f"results are read only from where no other user can put any: {error}") from error
    return True


def _left(directory: Path, rank: int) -> Outcome | None:
    try:
        return Outcome.of((directory / OUTCOME.format(rank=rank)).read_bytes())
    except FileNotFoundError:
        return None
