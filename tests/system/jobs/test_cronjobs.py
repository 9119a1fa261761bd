"""CronJobs in virtual time, with all controllers of an embedded cluster; pods are driven by hand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

import msgspec
import pytest
from tests.system.dashboard.test_rights import EVE, allow, grant
from tests.system.plane import World, alone, looks, virtual

from muster.actions.jobs.cancelling import cancel, cancel_cron_job
from muster.api.batch import CRON_JOB, JOB, CronJob, Job
from muster.api.core import EVENT, NAMESPACE, NODE, Namespace
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.cluster.defaultqueue import create_default_queue
from muster.controllers.cronjob import CronJobController
from muster.jobs.job.conditions import find_announced_end, finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.transport import Request, Response, Transport

HOUR = 3600.0


async def create(world: World, name: str = "tick", schedule: str = "0 * * * *", **spec: Any) -> CronJob:
    """Create a CronJob; the world begins at midnight. spec: as in JSON."""
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": spec.pop("queue")} if "queue" in spec else {}
    template = {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": pods}}
    document = {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": template} | spec}
    return await world.client.create(CRON_JOB, msgspec.convert(document, CronJob), "default")


async def get(world: World, name: str = "tick") -> CronJob:
    return await world.client.get(CRON_JOB, name, "default")


async def jobs(world: World) -> list[Job]:
    found = (await world.client.list(JOB, "default")).items
    return sorted(found, key=lambda job: job.metadata.name)


async def hours(world: World) -> list[int]:
    """The hours since the beginning that the Jobs were made for."""
    begin = datetime.fromisoformat("2026-01-01T00:00:00+00:00").timestamp() // HOUR
    return [int(int(job.metadata.name.rpartition("-")[2]) // 60 - begin) for job in await jobs(world)]


async def events(world: World) -> list[str]:
    found = (await world.client.list(EVENT, "default")).items
    return [event.reason for event in found if event.involved_object.kind == "CronJob"]


async def end_pods(world: World, phase: str = "Succeeded") -> None:
    """End the pods that there are."""
    for pod in await world.pods():
        if pod.status.phase not in ("Succeeded", "Failed"):
            await world.finish(pod, phase)
    await world.settle()


@virtual
async def test_jobs_come_at_their_time(world: World) -> None:
    await world.node("n")
    await create(world)
    await world.elapse(HOUR - 10)
    assert await jobs(world) == []
    await world.elapse(10.5)
    [job] = await jobs(world)
    assert job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T01:00:00Z"
    one = await get(world)
    assert [each.uid for each in one.status.active] == [job.metadata.uid]
    assert one.status.last_schedule_time == datetime.fromisoformat("2026-01-01T01:00:00+00:00")
    assert one.status.last_successful_time is None
    await world.settle()
    await end_pods(world)
    one = await get(world)
    assert one.status.active == ()
    assert one.status.last_successful_time is not None
    await world.elapse(5 * HOUR)
    assert await hours(world) == [1, 2, 3, 4, 5, 6]
    assert sorted(set(await events(world))) == ["SawCompletedJob", "SuccessfulCreate"]
    metrics = world.plane.manager.registry.text().decode()
    assert 'cronjob_controller_job_creation_skew_duration_seconds_bucket{le="1.0"} 6.0' in metrics


@virtual
async def test_an_idle_cron_job_writes_nothing(world: World) -> None:
    await create(world, schedule="0 0 1 6 *")
    await world.settle()
    before = (await get(world)).metadata.resource_version
    seen = looks(world.plane, "cronjob-controller")
    await world.elapse(3 * HOUR)
    assert (await get(world)).metadata.resource_version == before
    assert looks(world.plane, "cronjob-controller") == seen
    assert await jobs(world) == []


@virtual
async def test_history_is_limited(world: World) -> None:
    await world.node("n")
    await create(world, successfulJobsHistoryLimit=2)
    for _ in range(4):
        await world.elapse(HOUR)
        await end_pods(world)
    assert await hours(world) == [3, 4]
    await world.elapse(HOUR)
    await end_pods(world, "Failed")
    await world.elapse(HOUR)
    await end_pods(world, "Failed")
    assert await hours(world) == [3, 4, 6]
    assert "SuccessfulDelete" in await events(world)


@virtual
async def test_a_running_job_forbids_the_next(world: World) -> None:
    await world.node("n")
    await create(world, concurrencyPolicy="Forbid")
    await world.elapse(3 * HOUR + 60)
    assert await hours(world) == [1]
    assert "JobAlreadyActive" in await events(world)
    await end_pods(world)
    assert await hours(world) == [1, 3]


def test_a_job_of_another_namespace_is_none_of_its_jobs() -> None:
    async def scenario() -> None:
        async with alone(CronJobController) as world:
            one = await create(world, successfulJobsHistoryLimit=0)
            await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="other")))
            meta = ObjectMeta(name="tick-1", owner_references=(CRON_JOB.refer_to_controller(one.metadata),))
            await world.client.create(JOB, Job(metadata=meta, spec=one.spec.job_template.spec), "other")
            await world.elapse(HOUR + 1)
            assert [each.namespace for each in (await get(world)).status.active] == ["default"]
            assert await events(world) == ["SuccessfulCreate"], "and no UnexpectedJob"
            ends = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
            times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z"}
            status = {"status": {"conditions": ends, **times, "succeeded": 1}}
            await world.client.patch(JOB, "tick-1", status, "other", subresource="status")
            await world.elapse(HOUR)
            assert await world.client.find(JOB, "tick-1", "other") is not None, "its history has a limit of its own"

    run_virtual(scenario())


@virtual
async def test_a_running_job_is_replaced(world: World) -> None:
    await world.node("n")
    await create(world, concurrencyPolicy="Replace")
    await world.elapse(3 * HOUR + 60)
    assert await hours(world) == [3]
    assert len((await get(world)).status.active) == 1
    assert "UnexpectedJob" not in await events(world)


@virtual
async def test_what_is_suspended_makes_up_for_the_last_start(world: World) -> None:
    await create(world, suspend=True)
    await world.elapse(3 * HOUR + 60)
    assert await jobs(world) == []
    await world.client.patch(CRON_JOB, "tick", {"spec": {"suspend": False}}, "default")
    await world.settle()
    assert await hours(world) == [3]


@virtual
async def test_a_new_schedule_makes_up_for_nothing(world: World) -> None:
    await create(world, schedule="0 20 * * *")
    await world.elapse(2 * HOUR)
    await world.client.patch(CRON_JOB, "tick", {"spec": {"schedule": "0 1,4 * * *"}}, "default")
    await world.elapse(HOUR)
    assert await jobs(world) == []
    await world.elapse(HOUR + 60)
    assert await hours(world) == [4]


@virtual
async def test_a_deleted_cron_job_takes_its_jobs_along(world: World) -> None:
    await create(world)
    await world.elapse(HOUR + 60)
    assert len(await jobs(world)) == 1
    await world.client.delete(CRON_JOB, "tick", "default")
    await world.elapse(HOUR)
    assert await jobs(world) == []


@virtual
async def test_a_job_that_a_user_deletes_is_no_longer_active(world: World) -> None:
    await create(world)
    await world.elapse(HOUR + 60)
    [job] = await jobs(world)
    await world.client.delete(JOB, job.metadata.name, "default")
    await world.settle()
    assert (await get(world)).status.active == ()
    assert "MissingJob" in await events(world)


@virtual
async def test_its_jobs_queue(world: World) -> None:
    await world.node("n")
    await create_default_queue(world.client, (await world.client.list(NODE)).items)
    await create(world, queue="default")
    await world.elapse(HOUR + 60)
    [job] = await jobs(world)
    [workload] = (await world.client.list(WORKLOAD, "default")).items
    assert workload.metadata.owner_references[0].uid == job.metadata.uid
    assert await world.nodes_of(job.metadata.name) == ["n"]


@virtual
async def test_a_machine_that_slept_makes_up_for_the_last_start(world: World) -> None:
    """Timers stand still while a machine sleeps; the time of day goes on."""
    clock = world.clock
    assert isinstance(clock, VirtualClock)
    await create(world, schedule="0 3 * * *")
    await world.elapse(HOUR)
    clock.set_ahead(7 * HOUR)
    await world.elapse(15)
    assert await hours(world) == [3]


@virtual
async def test_a_clock_that_goes_back_starts_nothing_twice(world: World) -> None:
    clock = world.clock
    assert isinstance(clock, VirtualClock)
    await create(world)
    await world.elapse(3 * HOUR + 60)
    assert await hours(world) == [1, 2, 3]
    clock.set_ahead(-2 * HOUR)
    await world.elapse(2 * HOUR)
    assert await hours(world) == [1, 2, 3]
    await world.elapse(HOUR)
    assert await hours(world) == [1, 2, 3, 4]


@virtual
async def test_a_clock_that_is_years_ahead_starts_one_job(world: World) -> None:
    clock = world.clock
    assert isinstance(clock, VirtualClock)
    await create(world, schedule="* * * * *")
    await world.elapse(30)
    clock.set_ahead(10 * 365 * 24 * HOUR)
    await world.elapse(15)
    assert len(await jobs(world)) == 1
    assert "TooManyMissedTimes" in await events(world)
    clock.set_ahead(-10 * 365 * 24 * HOUR)  # it was wrong
    await world.elapse(3 * 60)
    assert len(await jobs(world)) >= 3


@virtual
async def test_a_day_that_never_comes_is_told(world: World) -> None:
    await create(world, schedule="0 0 30 2 *")
    await world.elapse(HOUR)
    assert await jobs(world) == []
    assert await events(world) == ["InvalidSchedule"]


@virtual
async def test_a_line_that_is_no_schedule_is_refused(world: World) -> None:
    with pytest.raises(ApiError, match=r"end of range \(61\) above maximum \(59\): 61") as refusal:
        await create(world, schedule="61 * * * *")
    assert refusal.value.code == 422


@virtual
async def test_a_name_that_is_taken_is_told(world: World) -> None:
    await create(world)
    await world.job("tick-29453820", 1)  # one o'clock, in minutes since 1970
    await world.elapse(HOUR + 60)
    assert (await get(world)).status.active == ()
    assert "FailedCreate" in await events(world)
    await world.elapse(HOUR)
    assert len((await get(world)).status.active) == 1


@virtual
async def test_many_cron_jobs(world: World) -> None:
    """All start in the same minute, and none is left out."""
    many = 200
    await asyncio.gather(*(create(world, f"c{number}", suspend=False) for number in range(many)))
    await world.elapse(HOUR + 60)
    made = await jobs(world)
    assert len(made) == many
    assert len({job.metadata.owner_references[0].uid for job in made}) == many
    assert all(finish(job) is None for job in made)
    assert all(len(one.status.active) == 1 for one in (await world.client.list(CRON_JOB, "default")).items)


@virtual
async def test_a_cancel_ends_every_job_of_the_cron_job(world: World) -> None:
    await world.node("n")
    cron_job = await create(world, concurrencyPolicy="Allow")
    await world.elapse(HOUR + 1)
    [scheduled] = await jobs(world)
    by_hand = msgspec.structs.replace(
        scheduled.metadata, name="by-hand", uid="", resource_version="", labels={}, annotations={}
    )
    template = cron_job.spec.job_template
    await world.client.create(JOB, Job(metadata=by_hand, spec=template.spec), "default")
    other = msgspec.structs.replace(by_hand, name="other", owner_references=())
    await world.client.create(JOB, Job(metadata=other, spec=template.spec), "default")
    await world.settle()
    await cancel(world.client, "tick", "default")
    await world.settle()
    assert (await get(world)).spec.suspend
    going_on = [
        job.metadata.name for job in await jobs(world) if finish(job) is None and find_announced_end(job) is None
    ]
    assert going_on == ["other"]


class StartingLate:
    """A transport that lets a job start before the first write."""

    def __init__(self, transport: Transport, start: Callable[[], Awaitable[object]]) -> None:
        self._transport = transport
        self._start = start
        self._has_written = False

    async def request(self, request: Request) -> Response:
        """Return what the server answers."""
        if request.method == "PATCH" and not self._has_written:
            self._has_written = True
            await self._start()
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Do nothing: the server goes on."""


@virtual
async def test_a_cancel_ends_a_job_that_starts_meanwhile(world: World) -> None:
    await world.node("n")
    await create(world, concurrencyPolicy="Allow")
    await world.elapse(HOUR + 1)
    assert len(await jobs(world)) == 1
    transport = StartingLate(world.client.transport, lambda: world.elapse(HOUR))
    await cancel_cron_job(Client(transport, field_manager="test"), await get(world))
    made = await jobs(world)
    assert len(made) == 2
    assert all(find_announced_end(job) is not None or finish(job) is not None for job in made)


@virtual
async def test_a_cancel_ends_a_job_that_the_status_of_the_cron_job_does_not_name_yet(world: World) -> None:
    """The controller creates a Job first, and writes the status of the CronJob then."""
    one = await create(world)
    meta = ObjectMeta(name="tick-1", owner_references=(CRON_JOB.refer_to_controller(one.metadata),))
    job = Job(metadata=meta, spec=one.spec.job_template.spec)
    transport = StartingLate(world.client.transport, lambda: world.client.create(JOB, job, "default"))
    await cancel_cron_job(Client(transport, field_manager="test"), one)
    [made] = await jobs(world)
    assert find_announced_end(made) is not None or finish(made) is not None


@virtual
async def test_a_user_who_may_not_cancel_the_jobs_does_not_cancel_half_of_a_cron_job(world: World) -> None:
    await world.node("n")
    await create(world, concurrencyPolicy="Allow")
    await world.elapse(HOUR + 1)
    await allow(world, "batch")
    await grant(world, "patch", "cronjobs", "jobs")
    eve = world.plane.client(EVE)
    for delete, refusal in ((False, 'patch resource "jobs/status"'), (True, 'delete resource "cronjobs"')):
        with pytest.raises(ApiError, match=f"cannot {refusal}"):
            await cancel(eve, "tick", "default", delete=delete)
    assert not (await get(world)).spec.suspend
    await grant(world, "patch", "jobs", "jobs/status")
    assert "starts no more jobs" in await cancel(eve, "tick", "default")
    await world.settle()
    assert (await get(world)).spec.suspend
    assert all(find_announced_end(job) is not None or finish(job) is not None for job in await jobs(world))


@virtual
async def test_a_foreign_job_with_the_name_of_a_start_is_not_tried_again(world: World) -> None:
    await world.node("n")
    template = (await create(world)).spec.job_template
    begin = int(datetime.fromisoformat("2026-01-01T00:00:00+00:00").timestamp())
    foreign = ObjectMeta(name=f"tick-{(begin + 3600) // 60}")
    await world.client.create(JOB, Job(metadata=foreign, spec=template.spec), "default")
    await world.elapse(1.9 * HOUR)
    [refused] = [one for one in (await world.client.list(EVENT, "default")).items if one.reason == "FailedCreate"]
    assert refused.count == 1
    assert (await get(world)).status.active == ()
    await world.elapse(0.2 * HOUR)
    assert await hours(world) == [1, 2]
