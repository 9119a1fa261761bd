"""Which refusals pass and which are for good; and which state of a copy is its last."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.status import ApiError, Status
from muster.multicluster.dispatched import Copies, Dispatched
from muster.multicluster.metrics import DispatchMetrics
from muster.multicluster.mirrors.job import JobMirror
from muster.multicluster.steps import Steps, is_for_good
from muster.multicluster.worker import Worker
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.metrics import Registry

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}


@dataclass
class Here:
    """The manager's server. statuses: what was written of jobs."""

    statuses: list[dict[str, Any]] = field(default_factory=list)

    async def patch_object(self, _kind: object, _job: Job, patch: dict[str, Any], *, subresource: str) -> None:
        assert subresource == "status"
        self.statuses.append(patch["status"])


@dataclass
class There:
    """A worker. clone, seen: as cached. stored: the copy as the server has it. reads: how often that was asked."""

    clone: Workload
    seen: Job | None
    stored: Job | None
    name: str = "a"
    reads: int = 0

    @property
    def there(self) -> "There":
        return self

    def workload(self, _key: str) -> Workload:
        return self.clone

    def list_copies(self, _one: Dispatched) -> Copies:
        return Copies({} if self.seen is None else {"j": self.seen}, [])

    async def find_copy(self, _one: Dispatched, name: str) -> Job | None:
        assert name == "j"
        self.reads += 1
        return self.stored

    async def remove(self, _one: Dispatched) -> bool:
        return True


def condition(type_: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}


def workload(*conditions: str) -> Workload:
    metadata = {"name": "w", "namespace": "ns", "ownerReferences": [OWNER]}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": [*map(condition, conditions)]}}, Workload)


def job(version: str = "1", **status: Any) -> Job:
    metadata = {"name": "j", "namespace": "ns", "uid": "1", "resourceVersion": version}
    document = {"metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}, "status": status}
    return msgspec.convert(document, Job)


def running(version: str) -> Job:
    return job(version, startTime=NOW, active=1)


def ended(version: str) -> Job:
    conditions = [condition("SuccessCriteriaMet"), condition("Complete")]
    return job(version, startTime=NOW, completionTime=NOW, succeeded=1, conditions=conditions)


def note_nothing(kind: Kind[Any], written: Any) -> None:
    """Forget what was written: `Here` stores nothing."""
    del kind, written


def mirrored(there: There, *, times: int = 1) -> tuple[Steps, Dispatched, list[dict[str, Any]]]:
    """After so many looks at a job that shows nothing here."""
    here, one = Here(), Dispatched(workload(), workload().metadata.owner_references, JobMirror(), (job(),))
    steps = Steps(cast("Client", here), RealClock(), "here", DispatchMetrics(Registry()), note_nothing)

    async def look() -> None:
        for _ in range(times):
            await steps.mirror(cast("Worker", there), one)

    asyncio.run(look())
    return steps, one, here.statuses


def shows_end(statuses: list[dict[str, Any]]) -> bool:
    return any(one["type"] == "Complete" for status in statuses for one in status.get("conditions") or ())


@pytest.mark.parametrize("seen", [None, running("5")])
def test_the_end_of_a_copy_is_read_once_where_its_watch_is_behind_that_of_its_clone(seen: Job | None) -> None:
    there = There(workload("Finished"), seen, stored=ended("17"))
    steps, one, statuses = mirrored(there, times=3)
    assert (there.reads, len(statuses), shows_end(statuses)) == (1, 1, True)
    assert steps.was_read(one, "j")
    assert [steps.is_last(one, running(version)) for version in ("5", "16", "17", "101")] == [False, False, True, True]


def test_a_copy_that_was_stopped_with_its_clone_is_shown_as_its_server_has_it() -> None:
    """Its clone has finished, and the copy never will: what was read is the last that there is."""
    there = There(workload("Finished"), running("5"), stored=running("17"))
    steps, one, _ = mirrored(there, times=3)
    assert (there.reads, steps.was_read(one, "j")) == (1, True)


def test_where_the_server_has_no_copy_a_cached_one_may_be_the_last() -> None:
    there = There(workload("Finished"), None, stored=None)
    steps, one, statuses = mirrored(there, times=3)
    assert (there.reads, statuses, steps.was_read(one, "j")) == (1, [], True)
    assert steps.is_last(one, running("5"))


@pytest.mark.parametrize(
    ("clone", "seen"),
    [
        pytest.param(workload(), running("5"), id="its clone runs"),
        pytest.param(workload("Finished"), ended("5"), id="it is seen to have ended, too"),
    ],
)
def test_nothing_is_asked_of_a_worker_whose_cache_says_all(clone: Workload, seen: Job) -> None:
    there = There(clone, seen, stored=None)
    _, _, statuses = mirrored(there)
    assert (there.reads, len(statuses)) == (0, 1)


def test_what_is_removed_is_read_again_when_the_job_has_ended_once_more() -> None:
    there = There(workload("Finished"), None, stored=ended("17"))
    steps, one, _ = mirrored(there)
    asyncio.run(cast("Any", steps.remove(cast("Worker", there), one)))
    assert not steps.was_read(one, "j")
    assert not steps.is_last(one, running("101"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *((code, True) for code in (400, 405, 413, 415, 422)),
        *((code, False) for code in (401, 403, 404, 408, 409, 429, 500, 503)),
    ],
)
def test_a_status_that_is_refused_for_good_holds_up_no_end(code: int, expected: bool) -> None:
    assert is_for_good(ApiError(Status(code=code))) is expected


def test_the_end_of_a_local_job_is_dated_once() -> None:
    steps = Steps(cast("Client", Here()), RealClock(), "here", DispatchMetrics(Registry()), note_nothing)
    owners = workload().metadata.owner_references
    ends, runs = (Dispatched(workload(), owners, JobMirror(), (one,)) for one in (ended("5"), running("5")))
    assert steps.note_end(runs) is None
    since = steps.note_end(ends)
    assert since is not None
    assert steps.note_end(ends) == since
    assert steps.note_end(Dispatched(workload(), owners, JobMirror(), ())) is None
    assert steps.note_end(ends) != since
