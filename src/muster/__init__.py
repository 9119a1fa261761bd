"""Muster: a batch system for gangs of workers, which start together or not at all.

    job = muster.run(train, args=(config,), workers=4)
    job.result()

The names below are loaded when they are used: the command line shares this package, and starts at once. This module
imports nothing, because Ctrl-C prints a traceback until `muster.cli.entry` runs.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from muster import aio, submitit
    from muster.insight.jobs.state import JobState
    from muster.sdk.core import Why
    from muster.sdk.errors import Error, JobFailedError
    from muster.sdk.executor import Executor
    from muster.sdk.jobs import Job, job, run
    from muster.sdk.simulation import simulate

__all__ = ["Error", "Executor", "Job", "JobFailedError", "JobState", "Why", "aio", "job", "run", "simulate", "submitit"]

_HOMES = {
    "Error": "muster.sdk.errors",
    "Executor": "muster.sdk.executor",
    "Job": "muster.sdk.jobs",
    "JobFailedError": "muster.sdk.errors",
    "JobState": "muster.insight.jobs.state",
    "Why": "muster.sdk.core",
    "job": "muster.sdk.jobs",
    "run": "muster.sdk.jobs",
    "simulate": "muster.sdk.simulation",
}
_MODULES = ("aio", "submitit")


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
