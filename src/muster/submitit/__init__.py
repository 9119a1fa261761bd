"""An executor with submitit's interface: `from muster import submitit` replaces `import submitit`.

    executor = submitit.AutoExecutor(folder="logs")
    executor.update_parameters(timeout_min=60, cpus_per_task=4, slurm_partition="vision")
    jobs = executor.map_array(train, [0.1, 0.01])
    print([job.result() for job in jobs])

Each task is a worker. A task sees only its own GPUs, so to the task it seems to be the only one on its node.
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

from muster.actions.parsing.limits import parse_time_limit
from muster.runtime.containerlogs import STDERR, STDOUT
from muster.sdk import core
from muster.sdk.background import get_background
from muster.sdk.calls import name_function, pack_call
from muster.sdk.core import Ended, JobReference
from muster.sdk.jobs import Job as MusterJob
from muster.sdk.jobs import job as found
from muster.sdk.options import Options, normalize_options
from muster.sdk.results import collect_result
from muster.sdk.submission import Work, submit_work
from muster.submitit.checkpoints import SIGNAL, Checkpointable, DelayedSubmission, Resumable, find_checkpoint_method
from muster.submitit.paths import JobPaths

__all__ = ["AutoExecutor", "FailedJobError", "Job", "JobEnvironment", "UncompletedJobError", "helpers"]


class UncompletedJobError(RuntimeError):
    """A job without a result; the base class of submitit's errors."""


class FailedJobError(UncompletedJobError):
    """A job that failed; the message contains the traceback from the worker."""


# Slurm's names of shared parameters, which are also accepted.
_OF_SLURM = {
    "partition": "queue",
    "qos": "priority",
    "array_parallelism": "array_parallelism",
    "job_name": "name",
    "time": "timeout_min",
    "ntasks_per_node": "tasks_per_node",
    "exclusive": "exclusive",
    "max_num_timeout": "max_num_timeout",
    "signal_delay_s": "signal_delay_s",
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

# submitit's default number of continuations after a time limit, and of seconds between its signal and the limit.
_MAX_TIMEOUTS, _SIGNAL_DELAY_SECONDS = 3, 90

# submitit's variable with the folder of the executor.
FOLDER = "SUBMITIT_FOLDER"

# submitit's names of the job states.
_STATES = {
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Cancelled": "CANCELLED",
    "Running": "RUNNING",
    "Finishing": "COMPLETING",
    "Cancelling": "COMPLETING",
    "Retrying": "REQUEUED",
}


class AutoExecutor:
    """An executor with submitit's interface that submits function calls as Muster's jobs.

    folder: the folder for output files (`Job.paths`); results are stored elsewhere.
    """

    def __init__(self, folder: str | Path, cluster: str | None = None, **parameters: Any) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.cluster = cluster or "muster"
        self.parameters: dict[str, Any] = {}
        self.update_parameters(**parameters)

    def update_parameters(self, **parameters: Any) -> None:
        """Set parameters for the next submissions.

        A parameter is named by one of submitit's shared names, by `slurm_` and a Slurm name, or by `muster_` and an
        option of `muster.run`. A Slurm parameter without a counterpart is ignored with a warning. Raises `NameError`
        for an unknown parameter.
        """
        for name, value in parameters.items():
            if value is not None:
                self._set_parameter(name, value)

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "Job":
        """Submit one call as a job. Each task of the job makes the call."""
        return self._submit_one(Work([name_function(fn)], _pack_call(fn, args, kwargs)), can_resume=_is_resumable(fn))

    def map_array(self, fn: Callable[..., Any], *iterable: Iterable[Any]) -> "list[Job]":
        """Submit `fn(*args)` for each tuple of the zipped iterables, as trials of one sweep; return a job for each.

        If the parameters request several tasks, each call is a separate job. The parameter `slurm_array_parallelism` is
        the maximum number of concurrent trials.
        """
        calls = [_pack_call(fn, args, {}) for args in zip(*iterable, strict=False)]
        return self._submit_all([name_function(fn)], calls, can_resume=_is_resumable(fn))

    def submit_array(self, fns: Sequence[Callable[[], Any]]) -> "list[Job]":
        """Submit a call of each function, without arguments, as `map_array` submits calls; return a job for each."""
        names = [name_function(fns[0])] if fns else []
        can_resume = any(map(_is_resumable, fns))
        return self._submit_all(names, [_pack_call(fn, (), {}) for fn in fns], can_resume=can_resume)

    @contextmanager
    def batch(self, allow_implicit_submissions: bool = False) -> Iterator[None]:  # noqa: ARG002 - submitit's own
        """Return a context for submissions, as in submitit. Unlike in submitit, each call is submitted immediately."""
        yield

    @property
    def _task_count(self) -> int:
        tasks = int(self.parameters.get("nodes", 1)) * int(self.parameters.get("tasks_per_node", 1))
        return int(self.parameters.get("options", {}).get("workers", tasks))

    def _submit_all(self, name: Sequence[str], calls: Sequence[bytes], *, can_resume: bool) -> "list[Job]":
        if self._task_count > 1:  # each call is a gang, and therefore a separate job
            return [self._submit_one(Work(name, call), can_resume=can_resume) for call in calls]
        if not calls:
            return []
        work = Work(name, trials=calls, at_once=self.parameters.get("array_parallelism"))
        job = self._submit_work(work, can_resume=can_resume)
        return [Job(self.folder, f"{job.name}_{index}", job=job) for index in range(len(calls))]

    def _submit_one(self, work: Work, *, can_resume: bool) -> "Job":
        job = self._submit_work(work, can_resume=can_resume)
        return Job(self.folder, job.name, range(self._task_count), job=job)

    def _submit_work(self, work: Work, *, can_resume: bool) -> MusterJob:
        there = get_background()
        name = self.parameters.get("name")
        named = Work([name], work.call, (), work.trials, work.at_once) if name else work
        return MusterJob(submit_work(there, named, self._make_options(can_resume=can_resume)))

    def _make_options(self, *, can_resume: bool = False) -> Options:
        """Convert the parameters to options of `muster.run`.

        can_resume: whether the function has a method `checkpoint`.
        """
        asked, tasks = self.parameters, int(self.parameters.get("tasks_per_node", 1))
        options: dict[str, Any] = dict(asked.get("options", {}))
        options |= {name: asked[name] for name in ("queue", "priority") if name in asked}
        if "exclusive" in asked:
            options["exclusive"] = bool(asked["exclusive"])  # Slurm's value may be "user", too
        if self._task_count > 1:
            options["workers"] = self._task_count
        if "timeout_min" in asked:
            time = asked["timeout_min"]
            options["time"] = time if isinstance(time, str) else time * 60
        if "cpus_per_task" in asked:
            options["cpus"] = asked["cpus_per_task"]
        if "mem_gb" in asked:
            options["memory"] = f"{ceil(asked['mem_gb'] * 1024 / tasks)}Mi"
        if "gpus_per_node" in asked:
            options["gpus"] = ceil(asked["gpus_per_node"] / tasks)
        options["env"] = {FOLDER: str(self.folder), **options.get("env", {})}
        chosen = normalize_options(options)
        resumes = can_resume and "timeout_min" in asked and "elastic" not in chosen
        return normalize_options({**self._resume_after_limit(options["time"]), **chosen}) if resumes else chosen

    def _resume_after_limit(self, time: str | int) -> dict[str, Any]:
        """Return the options `signal` and `retries` that let a call save its state and continue after its time limit.

        time: the limit, in seconds or in a form that `muster.run` accepts.

        Returns {} if the parameter `max_num_timeout` is 0.
        """
        attempts = self.parameters.get("max_num_timeout", _MAX_TIMEOUTS)
        if attempts == 0:
            return {}
        notice = self.parameters.get("signal_delay_s", _SIGNAL_DELAY_SECONDS)
        limit = parse_time_limit(time) if isinstance(time, str) else time
        return {"signal": f"{SIGNAL.name}@{min(notice, limit // 2)}", "retries": attempts}

    def _set_parameter(self, name: str, value: Any) -> None:
        of, _, rest = name.partition("_")
        if name in _SHARED:
            if not isinstance(value, _SHARED[name]):
                raise AssertionError(f"{name}={value!r}: it is of type {_SHARED[name][-1].__name__}")
            self.parameters[name] = value
        elif of == "muster" and rest in Options.__annotations__:
            self.parameters["options"] = {**self.parameters.get("options", {}), rest: value}
        elif of == "slurm" and rest in _SHARED:
            self._set_parameter(rest, value)
        elif of == "slurm" and rest in _OF_SLURM:
            self.parameters[_OF_SLURM[rest]] = value
        elif of == "slurm":
            warnings.warn(f"{name} has no counterpart, and is ignored", stacklevel=4)
        elif of not in _OTHERS:
            shared, ours = ", ".join(_SHARED), ", ".join(Options.__annotations__)
            raise NameError(f"unknown parameter {name!r}; there is: {shared}, slurm_..., and muster_ with: {ours}")


class Job:
    """A submitted job, or one trial of a sweep.

    job_id: the name of the job, or NAME_INDEX for a trial. Any program can create this object again from the folder,
    the id and the tasks.
    """

    def __init__(
        self, folder: str | Path, job_id: str, tasks: Sequence[int] = (0,), *, job: MusterJob | None = None
    ) -> None:
        name, _, index = job_id.partition("_")
        self.folder, self.job_id, self.num_tasks = Path(folder).expanduser().absolute(), job_id, len(tasks)
        self._index = int(index) if index else None
        self._job = found(name) if job is None else job

    def __repr__(self) -> str:
        return f"Job<job_id={self.job_id}>"

    def result(self) -> Any:
        """Wait for the end; return the result of a job with one task. Raises `FailedJobError`."""
        assert self.num_tasks == 1, "there are several tasks: say results()"
        return self.results()[0]

    def results(self) -> list[Any]:
        """Wait for the end; return the results of all tasks, by rank. Raises `FailedJobError`."""
        try:
            value = collect_result(self._wait_for_end())
        except Exception as error:  # the function may raise any error
            told = "\n".join(getattr(error, "__notes__", [str(error)]))
            raise FailedJobError(f"Job {self.job_id} failed: {told}\n{type(error).__name__}: {error}") from error
        return value if self.num_tasks > 1 else [value]

    def exception(self) -> UncompletedJobError | None:
        """Wait for the end; return the error of a failed job, or None if the job succeeded."""
        try:
            self.results()
        except UncompletedJobError as error:
            return error
        return None

    def wait(self) -> None:
        """Wait until the job has succeeded or failed."""
        self._wait_for_end()

    def done(self, force_check: bool = False) -> bool:  # noqa: ARG002 - submitit's own; it is always up to date
        """Return whether the job has ended."""
        return bool(_find_ended([self]))

    def has_ended(self, known: dict[str, Collection[int]]) -> bool:
        """Return whether the job or trial has ended.

        known: the ended trials by the UID of their sweep, for sweeps that were read already. This method adds the
        trial's sweep.
        """
        if self._index is None:
            return self._job.done()
        reference = self._job.reference
        if reference.uid not in known:
            known[reference.uid] = get_background().call(core.trials_done(reference))
        return self._index in known[reference.uid]

    @property
    def place(self) -> tuple[JobReference, int | None]:
        """The reference to Muster's job, and the index of the trial; the index is None if the job is not a sweep."""
        return self._job.reference, self._index

    def cancel(self, check: bool = True) -> None:  # noqa: ARG002 - submitit's own
        """Cancel the job; for a trial, cancel the whole sweep."""
        self._job.cancel()

    @property
    def state(self) -> str:
        """The state of the job in submitit's words, such as RUNNING; for a trial, the state of the whole sweep."""
        return _STATES.get(self._job.state, "PENDING")

    def get_info(self, mode: str = "force") -> dict[str, str]:  # noqa: ARG002 - submitit's own
        """Return the job's id as `JobID`, and the job's state as `State`."""
        return {"JobID": self.job_id, "State": self.state}

    @property
    def paths(self) -> JobPaths:
        """The paths of the files with the output of task 0. Each access writes the current output to the files."""
        paths = JobPaths(self.folder, self.job_id)
        paths.folder.mkdir(parents=True, exist_ok=True)
        paths.stdout.write_text(self._read_output(STDOUT))
        paths.stderr.write_text(self._read_output(STDERR))
        return paths

    def stdout(self) -> str | None:
        """Return the current stdout of task 0."""
        return self._read_output(STDOUT)

    def stderr(self) -> str | None:
        """Return the current stderr of task 0."""
        return self._read_output(STDERR)

    def _wait_for_end(self) -> Ended:
        reference = self._job.reference
        ended = core.wait_for_end(reference) if self._index is None else core.wait_for_trial(reference, self._index)
        return get_background().call(ended)

    def _read_output(self, stream: bytes) -> str:
        lines = get_background().call(core.read_logs(self._job.reference, self._index or 0, stream))
        return "".join(f"{line}\n" for line in lines)


class JobEnvironment:
    """The rank and the job of the calling task, from the environment. Raises `RuntimeError` outside of a task."""

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

    @property
    def paths(self) -> JobPaths:
        """The paths of this task's output files in the folder of the executor."""
        return JobPaths(Path(os.environ[FOLDER]), self.job_id, self.global_rank)

    def __repr__(self) -> str:
        return f"JobEnvironment(job_id={self.job_id}, global_rank={self.global_rank}({self.num_tasks}))"


def _is_resumable(fn: Any) -> bool:
    return find_checkpoint_method(fn) is not None


def _pack_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Pickle a call. A function with a method `checkpoint` is wrapped, so that it continues after an interruption."""
    return pack_call(Resumable(fn) if _is_resumable(fn) else fn, args, kwargs)


class _CommandFunction:
    """A function that runs a command and returns the command's stdout. Raises `FailedJobError` if the command fails."""

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
        completed = subprocess.run(words, cwd=self.cwd, env=environment, capture_output=True, text=True, check=False)
        if self.verbose:
            print(completed.stdout, end="")
        if completed.returncode:
            raise FailedJobError(f"{' '.join(words)}: exit code {completed.returncode}\n{completed.stderr}")
        return completed.stdout.strip()


def _as_completed(jobs: Sequence[Job], **_: Any) -> Iterator[Job]:
    """Yield the jobs in the order in which they end. Jobs that end together keep the order of `jobs`."""
    left = list(jobs)
    while left:
        while not (ended := _find_ended(left)):
            _wait_for_any(left)
        over = set(ended)
        left = [job for job in left if job not in over]
        yield from ended


def _wait_for_any(jobs: Iterable[Job]) -> None:
    """Wait until one of the jobs has ended. One request covers all trials of an array."""
    whole: list[JobReference] = []
    arrays: dict[str, tuple[JobReference, list[int]]] = {}
    for job in jobs:
        reference, index = job.place
        if index is None:
            whole.append(reference)
        else:
            arrays.setdefault(reference.uid, (reference, []))[1].append(index)
    get_background().call(core.wait_for_any(whole, arrays.values()))


def _find_ended(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that have ended. One request covers all trials of an array."""
    known: dict[str, Collection[int]] = {}
    return [job for job in jobs if job.has_ended(known)]


helpers = SimpleNamespace(
    Checkpointable=Checkpointable,
    CommandFunction=_CommandFunction,
    DelayedSubmission=DelayedSubmission,
    as_completed=_as_completed,
)
