"""Calls that save their state before they are interrupted, by submitit's `checkpoint()`. Runs on a worker.

Muster sends a worker SIGTERM before it stops the worker, and `SIGNAL` before the time limit. Rank 0 then calls
`checkpoint`, saves the returned call in the state directory of the job, and exits. The next attempt makes the saved
call instead of the submitted one. As in submitit, the other ranks ignore `SIGNAL`, because the exit of any rank would
end rank 0, too.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# submitit's signal before the time limit.
SIGNAL = signal.SIGUSR2


class DelayedSubmission:
    """A call that is made when its result is first requested, as in submitit."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self._done = False
        self._result: Any = None

    def result(self) -> Any:
        """Return the result of the call, which is made at the first use."""
        if not self._done:
            self._result, self._done = self.function(*self.args, **self.kwargs), True
        return self._result

    def done(self) -> bool:
        """Return whether the call has returned, so that its result is stored."""
        return self._done


class Checkpointable:
    """A base class for callable objects whose state is saved at an interruption and restored by the next attempt."""

    def checkpoint(self, *args: Any, **kwargs: Any) -> DelayedSubmission:
        """Return the call for the next attempt: the same arguments, and the current state of this object."""
        assert callable(self), f"{type(self).__name__} needs the method __call__"
        return DelayedSubmission(self, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class Resumable:
    """A function with a method `checkpoint`, wrapped for a worker. It continues at its last checkpoint."""

    func: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the call, or the call that an earlier attempt saved. Save a checkpoint at SIGTERM or `SIGNAL`."""
        path = find_checkpoint_path(os.environ)
        saved = load_checkpoint(path) if path is not None else None
        submission = saved or DelayedSubmission(self.func, *args, **kwargs)

        def end(number: int, _: object) -> None:
            if number == SIGNAL and not _is_first_rank():
                return
            for ending in (signal.SIGTERM, SIGNAL):
                signal.signal(ending, signal.SIG_IGN)
            _save_and_exit(submission, path, 128 + number)

        for ending in (signal.SIGTERM, SIGNAL):
            signal.signal(ending, end)
        return submission.result()


def find_checkpoint_method(function: Any) -> Callable[..., DelayedSubmission | None] | None:
    """Return a function's method `__submitit_checkpoint__`, else `checkpoint`; None if it has neither."""
    checkpoint: Callable[..., DelayedSubmission | None] | None = getattr(function, "checkpoint", None)
    special: Callable[..., DelayedSubmission | None] | None = getattr(function, "__submitit_checkpoint__", checkpoint)
    return special


def find_checkpoint_path(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the checkpoint of this job or trial; None if the job has no state directory."""
    directory = environment.get("MUSTER_STATE")
    return Path(directory, f"submitit-{environment.get('MUSTER_INDEX', '0')}.pkl") if directory else None


def load_checkpoint(path: Path) -> DelayedSubmission | None:
    """Unpickle the saved call; None if there is none.

    Safe because only the job's user can write the state directory.
    """
    try:
        with path.open("rb") as file:
            saved: DelayedSubmission = pickle.load(file)  # noqa: S301 - see above
    except FileNotFoundError:
        return None
    return saved


def _is_first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _save_and_exit(submission: DelayedSubmission, path: Path | None, code: int) -> NoReturn:
    """Save a checkpoint if this is rank 0, and exit with this code, without an outcome of the call."""
    try:
        if _is_first_rank():
            _save_checkpoint(submission, path)
    except BaseException:  # noqa: BLE001 - the method is the user's, and the process ends anyway
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _save_checkpoint(submission: DelayedSubmission, path: Path | None) -> None:
    import cloudpickle

    method = find_checkpoint_method(submission.function)
    checkpoint = method(*submission.args, **submission.kwargs) if method is not None else None
    if checkpoint is None:
        return
    if path is None:
        print("the checkpoint is lost: this machine has no MUSTER_STATE", file=sys.stderr)
        return
    whole = path.with_suffix(".part")
    whole.write_bytes(cloudpickle.dumps(checkpoint))
    whole.replace(path)
