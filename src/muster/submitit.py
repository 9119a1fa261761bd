"""An executor of submitit's shape: `from muster import submitit` in the place of `import submitit`.

    executor = submitit.AutoExecutor(folder="logs")
    executor.update_parameters(timeout_min=60, cpus_per_task=4, slurm_partition="vision")
    jobs = executor.map_array(train, [0.1, 0.01])
    print([job.result() for job in jobs])

Each task is a worker; it sees its own GPUs alone, and so is the only one on what it takes for its node.
"""

import os
import socket
import subprocess
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from muster.runtime.containerlogs import STDERR, STDOUT
from muster.sdk import core
from muster.sdk.background import background
from muster.sdk.calls import packed_call, title
from muster.sdk.core import Ended, Reference, Work
from muster.sdk.jobs import Job as MusterJob
from muster.sdk.jobs import job as found
from muster.sdk.options import Options, checked
from muster.sdk.results import result

__all__ = ["AutoExecutor", "FailedJobError", "Job", "JobEnvironment", "UncompletedJobError", "helpers"]


class UncompletedJobError(RuntimeError):
    """A job has no result."""


class FailedJobError(UncompletedJobError):
    """A job has failed; the text has the traceback of where."""


# What shared parameters are called by Slurm, beside their own names.
_OF_SLURM = {
    "partition": "queue",
    "qos": "priority",
    "array_parallelism": "array_parallelism",
    "job_name": "name",
    "time": "timeout_min",
    "ntasks_per_node": "tasks_per_node",
    "exclusive": "exclusive",
}
_SHARED: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "timeout_min": (int,),
    "mem_gb": (int, float),
    "nodes": (int,),
    "cpus_per_task": (int,),
    "gpus_per_node": (int,),
    "tasks_per_node": (int,),
    "stderr_to_stdout": (bool,),
}
_OTHERS = ("local", "debug")

# submitit's words for states.
_STATES = {
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Cancelled": "CANCELLED",
    "Running": "RUNNING",
    "Finishing": "COMPLETING",
    "Retrying": "REQUEUED",
}


class AutoExecutor:
    """Submits functions. What they return lies where Muster keeps results; folder is kept for who asks for it."""

    def __init__(self, folder: str | Path, cluster: str | None = None, **parameters: Any) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.cluster = cluster or "muster"
        self.parameters: dict[str, Any] = {}
        self.update_parameters(**parameters)

    def update_parameters(self, **parameters: Any) -> None:
        """Shared parameters of submitit; those of Slurm that have a counterpart; `muster_` and an option of run.

        Raises `NameError` for one that there is not.
        """
        for name, value in parameters.items():
            if value is not None:
                self._set(name, value)

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "Job":
        """Submit a call, which all tasks make."""
        _warn_of_checkpoint(fn)
        work = Work([title(fn)], packed_call(fn, args, kwargs))
        return self._one(work)

    def map_array(self, fn: Callable[..., Any], *iterable: Iterable[Any]) -> "list[Job]":
        """Submit a call for the values of each step: all are one sweep, of which so many run at a time."""
        _warn_of_checkpoint(fn)
        return self._submit_all([title(fn)], [packed_call(fn, args, {}) for args in zip(*iterable, strict=False)])

    def submit_array(self, fns: Sequence[Callable[[], Any]]) -> "list[Job]":
        """Submit several functions without arguments, as one sweep."""
        return self._submit_all([title(fns[0])] if fns else [], [packed_call(fn, (), {}) for fn in fns])

    @contextmanager
    def batch(self, allow_implicit_submissions: bool = False) -> Iterator[None]:  # noqa: ARG002 - submitit's own
        """Scripts submit inside of this what is to be one array. Here each is submitted at once."""
        yield

    @property
    def _tasks(self) -> int:
        return int(self.parameters.get("nodes", 1)) * int(self.parameters.get("tasks_per_node", 1))

    def _submit_all(self, name: Sequence[str], calls: Sequence[bytes]) -> "list[Job]":
        if self._tasks > 1:  # each a gang, and so a job of its own
            return [self._one(Work(name, call)) for call in calls]
        if not calls:
            return []
        work = Work(name, trials=calls, at_once=self.parameters.get("array_parallelism"))
        job = self._run(work)
        return [Job(self.folder, f"{job.name}_{index}", job=job) for index in range(len(calls))]

    def _one(self, work: Work) -> "Job":
        job = self._run(work)
        return Job(self.folder, job.name, range(self._tasks), job=job)

    def _run(self, work: Work) -> MusterJob:
        there = background()
        name = self.parameters.get("name")
        named = Work([name], work.call, (), work.trials, work.at_once) if name else work
        return MusterJob(there.call(core.run(there.connections, named, self._options())))

    def _options(self) -> Options:
        """What was asked for, in Muster's words."""
        asked, tasks = self.parameters, int(self.parameters.get("tasks_per_node", 1))
        options: dict[str, Any] = dict(asked.get("options", {}))
        options |= {name: asked[name] for name in ("queue", "priority") if name in asked}
        if "exclusive" in asked:
            options["exclusive"] = bool(asked["exclusive"])  # Slurm's may be "user", too
        if self._tasks > 1:
            options["workers"] = self._tasks
        if "timeout_min" in asked:
            time = asked["timeout_min"]
            options["time"] = time if isinstance(time, str) else time * 60
        if "cpus_per_task" in asked:
            options["cpus"] = asked["cpus_per_task"]
        if "mem_gb" in asked:
            options["memory"] = f"{ceil(asked['mem_gb'] * 1024 / tasks)}Mi"
        if "gpus_per_node" in asked:
            options["gpus"] = ceil(asked["gpus_per_node"] / tasks)
        return checked(options)

    def _set(self, name: str, value: Any) -> None:
        of, _, rest = name.partition("_")
        if name in _SHARED:
            if not isinstance(value, _SHARED[name]):
                raise AssertionError(f"{name}={value!r}: it is of type {_SHARED[name][-1].__name__}")
            self.parameters[name] = value
        elif of == "muster" and rest in Options.__annotations__:
            self.parameters["options"] = {**self.parameters.get("options", {}), rest: value}
        elif of == "slurm" and rest in _SHARED:
            self._set(rest, value)
        elif of == "slurm" and rest in _OF_SLURM:
            self.parameters[_OF_SLURM[rest]] = value
        elif of == "slurm":
            warnings.warn(f"{name} has no counterpart, and is passed over", stacklevel=4)
        elif of not in _OTHERS:
            shared, ours = ", ".join(_SHARED), ", ".join(Options.__annotations__)
            raise NameError(f"unknown parameter {name!r}; there is: {shared}, slurm_..., and muster_ with: {ours}")


class Job:
    """A job, or one of an array, whose id is NAME_INDEX. Another program finds it by that."""

    def __init__(
        self, folder: str | Path, job_id: str, tasks: Sequence[int] = (0,), *, job: MusterJob | None = None
    ) -> None:
        name, _, index = job_id.partition("_")
        self.folder, self.job_id, self.num_tasks = Path(folder), job_id, len(tasks)
        self._index = int(index) if index else None
        self._job = found(name) if job is None else job

    def __repr__(self) -> str:
        return f"Job<job_id={self.job_id}>"

    def result(self) -> Any:
        """What the function returned. Raises `FailedJobError`."""
        assert self.num_tasks == 1, "there are several tasks: say results()"
        return self.results()[0]

    def results(self) -> list[Any]:
        """What it returned in each task. Raises `FailedJobError`."""
        try:
            value = result(self._ended())
        except Exception as error:  # whatever the function raised
            cause = error.__cause__ if error.__cause__ is not None else error
            raise FailedJobError(f"Job {self.job_id} failed: {cause}\n{type(error).__name__}: {error}") from error
        return value if self.num_tasks > 1 else [value]

    def exception(self) -> UncompletedJobError | None:
        """What is wrong once it has ended; None if nothing is."""
        try:
            self.results()
        except UncompletedJobError as error:
            return error
        return None

    def wait(self) -> None:
        """Wait until it has ended, however it does."""
        self._ended()

    def done(self, force_check: bool = False) -> bool:  # noqa: ARG002 - submitit's own; it is always up to date
        """Whether it has ended."""
        return bool(_ended_of([self]))

    def has_ended(self, known: dict[str, Collection[int]]) -> bool:
        """Whether it has. known: by the uid of an array, which of it have, where that has been asked."""
        if self._index is None:
            return self._job.done()
        reference = self._job.reference
        if reference.uid not in known:
            known[reference.uid] = background().call(core.trials_done(reference))
        return self._index in known[reference.uid]

    @property
    def place(self) -> tuple[Reference, int | None]:
        """Muster's job, and which of an array it is."""
        return self._job.reference, self._index

    def cancel(self, check: bool = True) -> None:  # noqa: ARG002 - submitit's own
        """End it; of an array, all of it."""
        self._job.cancel()

    @property
    def state(self) -> str:
        """In submitit's words; of an array, that of all of it."""
        return _STATES.get(self._job.state, "PENDING")

    def get_info(self, mode: str = "force") -> dict[str, str]:  # noqa: ARG002 - submitit's own
        """Its id and state."""
        return {"JobID": self.job_id, "State": self.state}

    def stdout(self) -> str | None:
        """What it has printed."""
        return self._printed(STDOUT)

    def stderr(self) -> str | None:
        """What it has printed as errors."""
        return self._printed(STDERR)

    def _ended(self) -> Ended:
        reference = self._job.reference
        ended = core.ended(reference) if self._index is None else core.trial_ended(reference, self._index)
        return background().call(ended)

    def _printed(self, stream: bytes) -> str:
        lines = background().call(core.logs(self._job.reference, self._index or 0, stream))
        return "".join(f"{line}\n" for line in lines)


class JobEnvironment:
    """What a task knows of itself. Raises `RuntimeError` outside of one."""

    def __init__(self) -> None:
        if "MUSTER_JOB" not in os.environ:
            raise RuntimeError("this is no task of a job")
        self.cluster = "muster"
        self.hostname = socket.gethostname()
        index = os.environ.get("MUSTER_INDEX")
        self.array_job_id = os.environ["MUSTER_JOB"] if index else None
        self.array_task_id = index
        self.job_id = f"{os.environ['MUSTER_JOB']}_{index}" if index else os.environ["MUSTER_JOB"]
        self.num_tasks = self.num_nodes = int(os.environ.get("WORLD_SIZE", "1"))
        self.global_rank = self.node = int(os.environ.get("RANK", "0"))
        self.local_rank = 0

    def __repr__(self) -> str:
        return f"JobEnvironment(job_id={self.job_id}, global_rank={self.global_rank}({self.num_tasks}))"


class _CommandFunction:
    """A command as a function: its output, or `FailedJobError`."""

    def __init__(
        self,
        command: Sequence[str],
        verbose: bool = True,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.verbose, self.cwd, self.env = verbose, cwd, env

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        words = self.command + [str(arg) for arg in args] + [f"--{name}={value}" for name, value in kwargs.items()]
        environment = None if self.env is None else os.environ | dict(self.env)
        done = subprocess.run(words, cwd=self.cwd, env=environment, capture_output=True, text=True, check=False)
        if self.verbose:
            print(done.stdout, end="")
        if done.returncode:
            raise FailedJobError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout.strip()


def _as_completed(jobs: Sequence[Job], **_: Any) -> Iterator[Job]:
    """Jobs as they end; those that have ended together, in their order."""
    left = list(jobs)
    while left:
        while not (ended := _ended_of(left)):
            _wait_for_any(left)
        over = set(ended)
        left = [job for job in left if job not in over]
        yield from ended


def _wait_for_any(jobs: Iterable[Job]) -> None:
    """Wait until one has ended; those of an array are waited for together."""
    whole: list[Reference] = []
    arrays: dict[str, tuple[Reference, list[int]]] = {}
    for job in jobs:
        reference, index = job.place
        if index is None:
            whole.append(reference)
        else:
            arrays.setdefault(reference.uid, (reference, []))[1].append(index)
    background().call(core.any_ended(whole, arrays.values()))


def _ended_of(jobs: Iterable[Job]) -> list[Job]:
    """Those that have ended; of an array the cluster is asked once, however many of it there are."""
    known: dict[str, Collection[int]] = {}
    return [job for job in jobs if job.has_ended(known)]


helpers = SimpleNamespace(CommandFunction=_CommandFunction, as_completed=_as_completed)


def _warn_of_checkpoint(fn: Any) -> None:
    if hasattr(fn, "checkpoint"):
        text = "checkpoint() is not called: keep what is done in $MUSTER_STATE, and say how often to try with retries"
        warnings.warn(text, stacklevel=3)
