"""Index the Jobs that count pods of a gang as done, so that a gang does not wait for succeeded and deleted pods.

Most gangs do not need the index, because a Job that is the carrier of its own gang counts its done pods. For a gang
that spans Jobs, each Job is read. A Job belongs to the gang of the pods that its template describes, whether or not any
of these pods exists.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from muster.api.batch import JOB, Job
from muster.controllers.gangs import GangSource, find_gang_of_done
from muster.runtime.control.manager import Manager

_BY_GANG = "gang-of-done"


class DoneJobs:
    """The scheduler's index of Jobs with done pods, by the key of their gang."""

    def __init__(self, manager: Manager, sources: Sequence[GangSource[Any]]) -> None:
        self._sources = sources
        self._jobs = manager.informer(JOB, indexes={_BY_GANG: self._find_keys})

    def of(self, key: str) -> Collection[Job]:
        """Return the Jobs that count done pods of a gang, by the gang's key.

        Return none if the gang's carrier counts them itself, as a Job does.
        """
        return self._jobs.by(_BY_GANG, key)

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Register a callback, called with a gang's key when one of the gang's Jobs changes its number of done pods.

        The scheduler needs the callback because the events of a gang's pods may arrive before their Job's status.
        """

        def job_changed(old: Job | None, new: Job | None) -> None:
            if new is not None and (old is None or _read_done(old) != _read_done(new)):
                for key in self._find_keys(new):
                    changed(key)

        self._jobs.on_change(job_changed)

    def _find_keys(self, job: Job) -> Iterable[str]:
        key = find_gang_of_done(job, self._sources)
        return (key,) if key else ()


def _read_done(job: Job) -> tuple[int, str | None]:
    return job.status.succeeded, job.status.failed_indexes
