"""Jobs that start later, in virtual time, with all controllers of an embedded cluster; pods are driven by hand."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, looks, running, under, virtual

from muster.actions.jobs.cancelling import cancel
from muster.actions.jobs.holding import set_active
from muster.actions.server.session import Session
from muster.api.batch import JOB, Job
from muster.api.core import NODE
from muster.api.jobset import JOB_SET, JobSet
from muster.api.managed.surroundings import Settings
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.defaultqueue import create_default_queue
from muster.controllers import deferral
from muster.controllers.deferral import DeferralController
from muster.insight.reader.jobs.job import investigate
from muster.jobs.deferral import find_circle
from muster.jobs.job.conditions import finish
from muster.jobs.jobset.terms import finish as jobset_finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random

HOUR = 3600.0
QUEUE = "kueue.x-k8s.io/queue-name"
GATE = "kueue.x-k8s.io/admission-gated-by"
GATED = {GATE: "muster.dev/deferral"}


async def begin(world: World, *, queue: bool) -> None:
    await world.node("n", cpu="8")
    if queue:
        await create_default_queue(world.client, (await world.client.list(NODE)).items)


async def defer(world: World, name: str, after: str = "", **at: float) -> Job:
    """Create a Job that waits for others, or for a moment `at` from now, as of timedelta."""
    annotations = GATED | ({"muster.dev/after": after} if after else {})
    if at:
        annotations |= {"muster.dev/begin-at": (world.clock.now() + timedelta(**at)).isoformat()}
    return await world.job(name, 1, annotations=annotations, suspend=True)


async def create_job(world: World, namespace: str, annotations: dict[str, str]) -> None:
    """Create a suspended Job behind the gate that names no queue."""
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none", "command": ["x"]}]}}
    document = {
        "metadata": {"name": "j", "annotations": GATED | annotations},
        "spec": {"suspend": True, "template": pods},
    }
    await world.client.create(JOB, msgspec.convert(document, Job), namespace)


async def end(world: World, name: str, phase: str = "Succeeded") -> None:
    """End the pods of a Job, and with them the Job."""
    await world.settle()
    for pod in await world.pods(name):
        await world.finish(pod, phase)
    await world.settle()


async def runs(world: World, name: str) -> bool:
    await world.settle()
    return bool(await world.pods(name))


async def verdict(world: World, name: str) -> tuple[str, str] | None:
    """How a Job has ended."""
    await world.settle()
    over = finish(await world.client.get(JOB, name, "default"))
    return (over.reason, over.message) if over is not None else None


async def told(world: World, name: str) -> tuple[str, str]:
    """What people are told of a job."""
    readings = await investigate(world.client, "default", name, world.clock.now())
    assert readings is not None
    return readings.state.word, readings.state.reason


def queued_and_not(test: Any) -> Any:
    """Run a test with a default queue, and without one."""

    def play(queue: bool) -> None:
        async def story() -> None:
            async with running() as plane:
                world = World(plane)
                await begin(world, queue=queue)
                await test(world)

        run_virtual(story())

    play.__doc__ = test.__doc__
    return pytest.mark.parametrize("queue", [True, False], ids=["queued", "without a queue"])(play)


@queued_and_not
async def test_a_job_starts_once_another_has_completed(world: World) -> None:
    await world.job("prep", 1)
    await defer(world, "train", "prep")
    assert not await runs(world, "train")
    assert await told(world, "train") == ("Held", "waits for prep to complete")
    await end(world, "prep")
    assert await runs(world, "train")
    await end(world, "train")
    assert await verdict(world, "train") == ("CompletionsReached", "Reached expected number of succeeded pods")


@queued_and_not
async def test_a_job_begins_at_its_time(world: World) -> None:
    await defer(world, "late", hours=2)
    await world.elapse(2 * HOUR - 10)
    assert not await runs(world, "late")
    await world.elapse(10)
    assert await runs(world, "late")


@queued_and_not
async def test_a_job_whose_dependency_failed_fails(world: World) -> None:
    await world.job("prep", 1, backoffLimit=0)
    await defer(world, "train", "prep")
    await defer(world, "mend", "prep:fail")
    await defer(world, "last", "train:any")
    await end(world, "prep", "Failed")
    never = ("DependencyNeverSatisfied", "it waits for prep to complete, and prep failed")
    assert await verdict(world, "train") == never
    assert await runs(world, "mend")
    assert await runs(world, "last")
    assert await told(world, "train") == ("Failed", "it waits for prep to complete, and prep failed")


ALL_BUT_ONE = """
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector:
  matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}]
"""


@under(ALL_BUT_ONE)
async def test_a_job_of_a_namespace_without_queues_is_resumed(world: World) -> None:
    await begin(world, queue=False)
    begin_at = (world.clock.now() + timedelta(hours=1)).isoformat()
    for namespace in ("kube-system", "default"):
        await create_job(world, namespace, {"muster.dev/begin-at": begin_at})
    await world.elapse(HOUR + 10)
    jobs = [await world.client.get(JOB, "j", namespace) for namespace in ("kube-system", "default")]
    assert [(job.spec.suspend, GATE in job.metadata.annotations) for job in jobs] == [(False, False), (True, False)]


@virtual
async def test_an_end_is_remembered_after_its_job_was_deleted(world: World) -> None:
    await begin(world, queue=True)
    await world.job("one", 1)
    await world.job("two", 1)
    await defer(world, "last", "one,two")
    await end(world, "one")
    await world.client.delete(JOB, "one", "default", propagation="Background")
    await world.elapse(120)
    assert await told(world, "last") == ("Held", "waits for two to complete")
    await end(world, "two")
    assert await runs(world, "last")


@virtual
async def test_a_job_that_was_deleted_before_its_end_has_not_completed(world: World) -> None:
    await begin(world, queue=True)
    await world.job("prep", 1)
    await defer(world, "train", "prep")
    await defer(world, "clean", "prep:any")
    await world.elapse(120)
    await world.client.delete(JOB, "prep", "default", propagation="Background")
    never = ("DependencyNeverSatisfied", "it waits for prep to complete, and there is no job prep")
    assert await verdict(world, "train") == never
    assert await runs(world, "clean")


@virtual
async def test_a_job_may_be_created_before_the_one_that_it_waits_for(world: World) -> None:
    await begin(world, queue=True)
    await defer(world, "train", "prep")
    await defer(world, "lost", "nobody")
    await world.elapse(30)
    await world.job("prep", 1)
    await end(world, "prep")
    assert await runs(world, "train")
    assert await verdict(world, "lost") is None
    await world.elapse(30)
    never = ("DependencyNeverSatisfied", "it waits for nobody to complete, and there is no job nobody")
    assert await verdict(world, "lost") == never


@virtual
async def test_a_circle_ends(world: World) -> None:
    await begin(world, queue=True)
    await defer(world, "a", "b")
    await defer(world, "b", "c")
    await defer(world, "c", "a")
    await world.settle()
    messages = [(await verdict(world, name) or ("", ""))[1] for name in "abc"]
    assert any(message.startswith("the jobs wait for each other: ") for message in messages)
    assert all(messages)


@virtual
async def test_a_circle_that_a_change_closes_ends(world: World) -> None:
    await begin(world, queue=True)
    await world.job("prep", 1)
    await defer(world, "a", "prep")
    await world.elapse(10)
    await defer(world, "b", "a")
    await world.elapse(10)
    await defer(world, "c", "b")
    await world.settle()
    await world.client.patch(JOB, "a", {"metadata": {"annotations": {"muster.dev/after": "c"}}}, "default")
    assert await verdict(world, "c") == ("DependencyNeverSatisfied", "the jobs wait for each other: c -> b -> a -> c")
    assert await verdict(world, "a") == ("DependencyNeverSatisfied", "it waits for c to complete, and c failed")


def test_a_job_searches_no_circle_among_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of jobs, each created after the one that it waits for, costs no search, however long the chain is."""
    visited: list[list[str]] = []

    def spy(name: str, list_waiting: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
        reached_jobs: list[str] = []
        visited.append(reached_jobs)

        def list_and_note(reached: str) -> Iterable[str]:
            reached_jobs.append(reached)
            return list_waiting(reached)

        return find_circle(name, list_and_note)

    async def story() -> None:
        async with running() as plane:
            world = World(plane)
            await begin(world, queue=True)
            await world.job("j0", 1)
            for number in range(1, 10):
                await world.elapse(2)
                await defer(world, f"j{number}", f"j{number - 1}")
            await end(world, "j0")

    monkeypatch.setattr(deferral, "find_circle", spy)
    run_virtual(story())
    assert {reached for reached, *_ in visited} == {f"j{number}" for number in range(1, 10)}
    assert {len(each) for each in visited} == {1}


@virtual
async def test_jobsets_wait_and_are_waited_for(world: World) -> None:
    await begin(world, queue=True)

    async def create(name: str, after: str = "") -> None:
        container = {"name": "c", "image": "none", "command": ["x"]}
        pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        role = {"name": "r", "template": {"spec": {"backoffLimit": 0, "template": pods}}}
        annotations = GATED | {"muster.dev/after": after} if after else {}
        metadata = {"name": name, "annotations": annotations}
        document = {"metadata": metadata, "spec": {"suspend": bool(after), "replicatedJobs": [role]}}
        await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")

    await create("prep")
    await create("train", "prep")
    await create("mend", "prep:fail")
    await end(world, "prep-r-0")
    assert await runs(world, "train-r-0")
    over = jobset_finish(await world.client.get(JOB_SET, "mend", "default"))
    assert over is not None
    assert (over.type, over.message) == ("Failed", "it waits for prep to fail, and prep completed")


@queued_and_not
async def test_a_user_starts_cancels_and_holds_a_waiting_job(world: World) -> None:
    await world.job("prep", 1)
    for name in ("now", "never"):
        await defer(world, name, "prep")
    await world.settle()
    session = Session(world.client, "default")
    assert await set_active(session, "now", active=True) == "now released: it starts without waiting"
    assert await runs(world, "now")
    assert await cancel(world.client, "never", "default") == "cancelled"
    assert await verdict(world, "never") == ("Cancelled", "It was cancelled")
    await end(world, "prep")
    assert not await runs(world, "never")


@virtual
async def test_a_held_job_waits_for_its_user_too(world: World) -> None:
    await begin(world, queue=True)
    await defer(world, "late", seconds=60)
    await world.settle()
    session = Session(world.client, "default")
    await set_active(session, "late", active=False)
    await world.elapse(120)
    assert not await runs(world, "late")
    await set_active(session, "late", active=True)
    assert await runs(world, "late")


@virtual
async def test_a_machine_that_slept_starts_what_is_due(world: World) -> None:
    clock = world.clock
    assert isinstance(clock, VirtualClock)
    await begin(world, queue=True)
    await defer(world, "late", hours=5)
    await world.settle()
    clock.set_ahead(6 * HOUR)
    await world.elapse(15)
    assert await runs(world, "late")


@virtual
async def test_a_waiting_job_costs_nothing(world: World) -> None:
    await begin(world, queue=True)
    await world.job("prep", 1)
    await defer(world, "train", "prep", hours=100)
    await world.elapse(120)
    before = looks(world.plane, "deferral-controller")
    await world.elapse(24 * HOUR)
    assert looks(world.plane, "deferral-controller") == before


@virtual
async def test_bad_annotations_are_refused(world: World) -> None:
    for annotation in ({"muster.dev/after": "a:maybe"}, {"muster.dev/begin-at": "soon"}):
        with pytest.raises(ApiError) as refused:
            await world.job("j", 1, annotations=GATED | annotation, suspend=True)
        assert next(iter(annotation)) in str(refused.value)


@pytest.mark.parametrize("lag", [0.0, 30.0])
@pytest.mark.parametrize("lost", [True, False], ids=["an answer is lost", "killed after a write"])
@pytest.mark.parametrize("number", range(4))
def test_the_controller_dies(number: int, lost: bool, lag: float) -> None:
    """Whatever it has written, another one goes on from there: each job starts, or fails, once."""

    async def story() -> None:
        async with running(controllers=False) as plane:
            world = World(plane)
            await conclude(world, "good", "Complete")
            await conclude(world, "bad", "Failed")
            await world.job("open", 1)
            for name, after in {"a": "good", "b": "good,open", "c": "bad", "d": "bad:any"}.items():
                await defer(world, name, after)
            wire = Wire(InProcessTransport(plane.server))
            wire.lost_answers, wire.writes_left = ({number}, None) if lost else (set(), number)
            wire.lags = {"jobs": lag}
            await control(world, wire)
            await conclude(world, "open", "Complete")
            await control(world, Wire(InProcessTransport(plane.server)))
            suspended = {name: (await world.client.get(JOB, name, "default")).spec.suspend for name in "abcd"}
            assert suspended == {"a": False, "b": False, "c": True, "d": False}
            conditions = (await world.client.get(JOB, "c", "default")).status.conditions
            assert [(one.type, one.reason) for one in conditions] == [("FailureTarget", "DependencyNeverSatisfied")]

    async def conclude(world: World, name: str, type: str) -> None:
        if await world.client.find(JOB, name, "default") is None:
            await world.job(name, 1)
        moment = world.clock.now().isoformat()
        interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[type]
        since = {"status": "True", "lastTransitionTime": moment, "lastProbeTime": moment}
        conditions = [{"type": one} | since for one in (interim, type)]
        status = {"conditions": conditions, "startTime": moment}
        status |= {"completionTime": moment} if type == "Complete" else {}
        await world.client.patch(JOB, name, {"status": status}, "default", subresource="status")

    async def control(world: World, wire: Wire) -> None:
        manager = Manager(Client(wire), world.clock, Random(3))
        recorder = world.plane.events.recorder("deferral")
        manager.add(DeferralController(manager, recorder, settings=Settings()))
        run = asyncio.create_task(manager.run())
        await world.elapse(300)
        await manager.stop()
        await run

    run_virtual(story())
