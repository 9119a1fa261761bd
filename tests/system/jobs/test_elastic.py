"""Elastic Jobs on a cluster that is short, and on one that has room."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.system.plane import virtual

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import EVENT, NODE
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import ELASTIC_ANNOTATION
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.ours.simulated import RUN_TIME, STOP_TIME
from muster.cluster.controllers.nodes.lostpods import QUARANTINE_SECONDS
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.transport import TransportError

pytestmark = pytest.mark.slow


class Nodes:
    """Simulated nodes that come and go, each with so many CPUs."""

    def __init__(self, world):
        self.world = world
        self.managers = {}

    async def add(self, *names, cpu=1):
        inputs = self.world.plane.inputs
        manager = Manager(self.world.client, inputs.clock, inputs.random)
        nodes = SimulatedNodes(manager, names, resources={"cpu": str(cpu)}, labels={SERVER_MACHINE: "true"})
        manager.add(nodes)
        self.managers[names] = manager, asyncio.create_task(manager.run())
        await nodes.ready.wait()

    async def lose(self, *names):
        manager, run = self.managers.pop(names)
        await manager.stop()
        await run
        for name in names:
            await self.world.client.delete(NODE, name)

    async def stop(self):
        for names in list(self.managers):
            manager, run = self.managers.pop(names)
            await manager.stop()
            await run


def story(test):
    """A test on a cluster in virtual time, with simulated nodes."""

    async def body(world):
        nodes = Nodes(world)
        try:
            await test(world, nodes)
        finally:
            await nodes.stop()

    body.__name__, body.__doc__ = test.__name__, test.__doc__
    return virtual(body)


def pod_template(*, cpu="1", annotations=None, **spec):
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


async def elastic(world, name, workers, bounds, **spec):
    """An elastic Job that forgives its pods everything."""
    given = {"backoffLimit": 1000, **spec}
    return await world.job(name, workers, annotations={ELASTIC_ANNOTATION: bounds}, **given)


async def running(world, name):
    """The indexes of the job's pods that run."""
    return sorted(
        int(pod.metadata.annotations[COMPLETION_INDEX])
        for pod in await world.pods(name)
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    )


async def size(world, name):
    """The size of a job whose pods all run; otherwise what is wrong."""
    job = await world.client.get(JOB, name, "default")
    assert job.spec.completions == job.spec.parallelism
    indexes = await running(world, name)
    return job.spec.completions if indexes == list(range(job.spec.completions)) else (job.spec.completions, indexes)


async def story_of(world, name):
    """What was said about the job's size, in order."""
    events = (await world.client.list(EVENT, "default")).items
    ours = ("Shrunk", "Grown", "ElasticIgnored", "ResizeRefused")
    said = [event for event in events if event.involved_object.name == name and event.reason in ours]
    return [event.message for event in sorted(said, key=lambda event: int(event.metadata.resource_version))]


async def priority_class(world, name, value):
    await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name=name), value=value))


@story
async def test_it_starts_smaller_grows_with_the_cluster_and_no_further_than_it_may(world, nodes):
    await nodes.add("a", cpu=4)
    await elastic(world, "j", 6, "2:7")
    await world.settle(30)
    assert await size(world, "j") == 4
    before = {pod.metadata.uid for pod in await world.pods("j")}
    await nodes.add("b", cpu=16)
    await world.settle(30)
    assert await size(world, "j") == 7
    assert before < {pod.metadata.uid for pod in await world.pods("j")}, "who ran was left alone"
    assert await story_of(world, "j") == [
        "Shrunk from 6 to 4 workers: cpu for 4 is free",
        "Grown from 4 to 7 workers: room for 3 more is free",
    ]


@story
async def test_it_waits_like_anyone_if_not_even_its_least_fits(world, nodes):
    await nodes.add("a", cpu=2)
    await elastic(world, "j", 6, "3:6")
    await world.settle(30)
    assert await size(world, "j") == (6, [])
    assert await story_of(world, "j") == []


@story
async def test_it_makes_room_for_another_gang_and_takes_it_back(world, nodes):
    await nodes.add("a", cpu=6)
    await elastic(world, "j", 6, "1:6", template=pod_template(annotations={STOP_TIME: "30s"}))
    await world.settle(10)
    assert await size(world, "j") == 6
    await world.job("other", 2, template=pod_template(annotations={RUN_TIME: "100s"}))
    await world.settle(20)
    assert await running(world, "other") == [], "who has to go has half a minute"
    await world.settle(20)
    assert await running(world, "other") == [0, 1]
    assert await size(world, "j") == 4
    await world.settle(120)
    assert await size(world, "j") == 6
    assert await story_of(world, "j") == [
        "Shrunk from 6 to 4 workers to make room for default/other",
        "Grown from 4 to 6 workers: room for 2 more is free",
    ]
    records = [one for one in world.plane.decisions.since(0) if one.what in ("Shrunk", "Grown")]
    assert [(one.name, one.pods_before, one.pods, len(one.others)) for one in records] == [
        ("j", 6, 4, 1),
        ("j", 4, 6, 0),
    ]


@story
async def test_it_is_not_touched_if_that_would_not_help(world, nodes):
    await nodes.add("a", cpu=6)
    await elastic(world, "j", 6, "2:6")
    await world.settle(10)
    await world.job("large", 5)
    await world.settle(60)
    assert await size(world, "j") == 6
    assert await running(world, "large") == []


@story
async def test_priority_is_respected(world, nodes):
    await priority_class(world, "high", 10)
    await nodes.add("a", cpu=8)
    await elastic(world, "important", 4, "1:4", template=pod_template(priorityClassName="high"))
    await elastic(world, "cheap", 4, "1:4")
    await world.settle(10)
    await world.job("other", 4)
    await world.settle(60)
    assert await running(world, "other") == [], "it is worth less than what would have to shrink"
    assert (await size(world, "important"), await size(world, "cheap")) == (4, 4)
    await world.job("modest", 3)
    await world.settle(60)
    assert await running(world, "modest") == [0, 1, 2]
    assert (await size(world, "important"), await size(world, "cheap")) == (4, 1)


@story
async def test_a_single_pod_and_a_sweep_get_room_too(world, nodes):
    await nodes.add("a", cpu=6)
    await elastic(world, "j", 6, "2:6")
    await world.settle(10)
    await world.job("sweep", 10, annotations={"muster.dev/gang": "false"}, template=pod_template())
    await world.settle(60)
    assert await size(world, "j") == 2
    assert len(await running(world, "sweep")) == 4


@story
async def test_two_elastic_jobs_share_what_becomes_free(world, nodes):
    await nodes.add("a", cpu=4)
    await elastic(world, "one", 8, "2:8")
    await world.settle(10)
    await elastic(world, "two", 8, "2:8")
    await world.settle(30)
    assert (await size(world, "one"), await size(world, "two")) == (2, 2)
    await nodes.add("b", cpu=5)
    await world.settle(30)
    assert (await size(world, "one"), await size(world, "two")) == (5, 4)
    assert (await story_of(world, "two"))[-1] == "Grown from 2 to 4 workers: room for 2 more is free"


@story
async def test_a_lost_node_shrinks_it_and_its_return_grows_it(world, nodes):
    await nodes.add("a", cpu=3)
    await nodes.add("b", cpu=3)
    await elastic(world, "j", 6, "2:6")
    await world.settle(10)
    await nodes.lose("b")
    await world.settle(180)
    assert await size(world, "j") == 3
    await nodes.add("b", cpu=3)
    await world.settle(60)
    assert await size(world, "j") == 6


@story
async def test_who_is_left_does_not_wait_for_replacements_that_would_find_no_room(world, nodes):
    """A Job makes new pods only after a pause, and that is longer with each that failed."""
    await nodes.add("a", cpu=3)
    await nodes.add("b", cpu=5)
    await elastic(world, "j", 8, "2:8")
    await world.settle(10)
    [short] = {pod.spec.node_name for pod in await world.pods("j") if pod.metadata.annotations[COMPLETION_INDEX] == "7"}
    await nodes.lose(short)
    await world.settle(QUARANTINE_SECONDS + 2)
    assert await size(world, "j") == (3 if short == "b" else 5)


@story
async def test_it_grows_once_it_runs_whole_again(world, nodes):
    await nodes.add("a", cpu=4)
    await elastic(world, "j", 4, "1:6")
    await world.settle(10)
    for pod in (await world.pods("j"))[:3]:  # so that their replacements take their time
        await world.finish(pod, "Failed")
    await world.settle(1)
    await nodes.add("b", cpu=4)
    await world.settle(8)
    assert (await world.client.get(JOB, "j", "default")).spec.completions == 4
    await world.settle(120)
    assert await size(world, "j") == 6


@story
async def test_a_gang_that_ends_pod_by_pod_is_one_step_for_those_who_grow(world, nodes):
    await nodes.add("a", cpu=6)
    await world.job("other", 4, template=pod_template())
    await elastic(world, "j", 2, "2:6")
    await world.settle(20)
    for pod in await world.pods("other"):
        await world.finish(pod)
        await world.settle(0.9)
    await world.settle(20)
    assert await size(world, "j") == 6
    assert await story_of(world, "j") == ["Grown from 2 to 6 workers: room for 4 more is free"]


@story
async def test_idle_nothing_is_written(world, nodes):
    await nodes.add("a", cpu=4)
    await elastic(world, "j", 8, "2:8")
    await elastic(world, "k", 8, "2:8")
    await world.job("waits", 3)
    await world.settle(600)
    before = (await world.client.list(JOB)).metadata.resource_version
    await world.settle(3600)
    assert (await world.client.list(JOB)).metadata.resource_version == before


@story
async def test_no_finished_work_is_lost_and_nothing_grows_after_it(world, nodes):
    await nodes.add("a", cpu=6)
    await elastic(world, "j", 5, "1:9", template=pod_template(annotations={RUN_TIME: "1h"}))
    await world.settle(10)
    assert await size(world, "j") == 6
    [third] = [pod for pod in await world.pods("j") if pod.metadata.annotations[COMPLETION_INDEX] == "2"]
    await world.finish(third)
    await world.settle(10)
    await world.job("too-large", 5, template=pod_template(annotations={RUN_TIME: "60s"}))
    await world.settle(30)
    assert await running(world, "too-large") == [], "only the indexes above the one that succeeded may go"
    await world.job("other", 4, template=pod_template(annotations={RUN_TIME: "60s"}))
    await world.settle(30)
    assert await running(world, "other") == [0, 1, 2, 3]
    assert await size(world, "j") == (3, [0, 1])
    await world.settle(300)
    assert await size(world, "j") == (3, [0, 1])
    await world.settle(3600)
    job = await world.client.get(JOB, "j", "default")
    assert (job.status.succeeded, job.status.conditions[-1].type) == (3, "Complete")


async def scale(world, name, workers):
    """What `muster scale` writes."""
    size = {"completions": workers, "parallelism": workers}
    await world.client.patch(JOB, name, {"spec": size}, "default")


@story
async def test_sizes_that_a_person_chooses_are_respected(world, nodes):
    await nodes.add("a", cpu=10)
    await elastic(world, "j", 4, "2:4")
    await world.settle(10)
    await scale(world, "j", 6)
    await world.settle(10)
    assert await size(world, "j") == 6, "above MAX: it is not grown, nor taken back"
    await world.job("other", 7, template=pod_template(annotations={RUN_TIME: "60s"}))
    await world.settle(30)
    assert await size(world, "j") == 3, "but it makes room"
    await world.settle(60)
    assert await size(world, "j") == 4
    await scale(world, "j", 1)
    await world.settle(30)
    assert await size(world, "j") == 1, "below MIN: it is left alone"
    await scale(world, "j", 3)
    await world.settle(30)
    assert await size(world, "j") == 4


@story
async def test_suspended_jobs_are_left_alone_and_grow_when_they_go_on(world, nodes):
    await nodes.add("a", cpu=6)
    await elastic(world, "j", 2, "2:4", suspend=True)
    await world.settle(10)
    assert await size(world, "j") == (2, [])
    await world.client.patch(JOB, "j", {"spec": {"suspend": False}}, "default")
    await world.settle(10)
    assert await size(world, "j") == 4


@story
async def test_bounds_may_change_at_any_time(world, nodes):
    await nodes.add("a", cpu=6)
    await world.job("j", 2)
    await world.settle(10)
    for bounds, expected in (("2:4", 4), ("2:5", 5), ("nonsense", 5), (None, 5), ("1:6", 6)):
        patch = {"metadata": {"annotations": {ELASTIC_ANNOTATION: bounds}}}
        await world.client.patch(JOB, "j", patch, "default")
        await world.settle(10)
        assert await size(world, "j") == expected


@pytest.mark.parametrize(
    ("annotations", "spec", "complaint"),
    [
        pytest.param({ELASTIC_ANNOTATION: "4"}, {}, "'4' is not MIN:MAX, such as 2:8", id="no bounds"),
        pytest.param({ELASTIC_ANNOTATION: "4:2"}, {}, "'4:2': MIN must be at least 1 and at most MAX", id="reversed"),
        pytest.param(
            {ELASTIC_ANNOTATION: "1:4"},
            {"parallelism": 1},
            "completions (2) and parallelism (1) change only together, so they must be equal",
            id="fewer at once",
        ),
        pytest.param(
            {ELASTIC_ANNOTATION: "1:4"},
            {"completionMode": "NonIndexed"},
            "only a Job with completionMode Indexed can be resized",
            id="without indexes",
        ),
        pytest.param({ELASTIC_ANNOTATION: ""}, {"suspend": True}, "", id="suspended: nothing is said yet"),
        pytest.param(
            {ELASTIC_ANNOTATION: "1:4", "muster.dev/gang": "false"},
            {},
            'the pods are no gang, as muster.dev/gang is "false"',
            id="no gang",
        ),
    ],
)
def test_an_annotation_that_cannot_be_followed_is_ignored_and_one_event_says_why(annotations, spec, complaint):
    @story
    async def scenario(world, nodes):
        await nodes.add("a", cpu=6)
        await world.job("j", 2, annotations=annotations, **spec)
        await world.settle(30)
        job = await world.client.get(JOB, "j", "default")
        assert job.spec.completions == 2
        events = (await world.client.list(EVENT, "default")).items
        said = [(e.type, e.message, e.count) for e in events if e.reason == "ElasticIgnored"]
        assert said == ([("Warning", f"muster.dev/elastic is ignored: {complaint}", 1)] if complaint else [])

    scenario()


@story
async def test_a_size_that_the_server_refuses_is_not_asked_for_again_and_others_shrink_instead(world, nodes):
    await nodes.add("a", cpu=8)
    await elastic(world, "willing", 4, "1:4")
    await world.settle(10)
    # Its maxFailedIndexes may not be more than its completions.
    await elastic(world, "stiff", 4, "1:4", backoffLimitPerIndex=1, maxFailedIndexes=4)
    await world.settle(10)
    await world.job("other", 2)
    await world.settle(30)
    assert (await size(world, "stiff"), await size(world, "willing")) == (4, 2)
    assert await running(world, "other") == [0, 1]
    [said] = await story_of(world, "stiff")
    assert said.startswith("Not shrunk from 4 to 2 workers to make room for default/other: ")
    assert "maxFailedIndexes" in said


# Crashes and races. These schedulers have a name of their own, so the control plane's lets their Jobs be.


class ResizeTransport:
    """Something happens before a Job gets another size."""

    def __init__(self, inner, before):
        self.inner, self.before = inner, before

    async def request(self, request):
        if request.method == "PATCH" and "/jobs/" in request.path and b"completions" in request.body:
            await self.before(request)
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


@asynccontextmanager
async def scheduler(world, client=None):
    """A scheduler of the name `test`. Only what it wrote survives its end."""
    plane = world.plane
    manager = Manager(client or world.client, plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
    run = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


OURS = {"schedulerName": "test"}


@pytest.mark.parametrize("resizes", [0, 1, 2])
def test_a_scheduler_that_dies_while_it_makes_room_is_continued(resizes):
    @story
    async def scenario(world, nodes):
        left = resizes

        async def die(request):
            nonlocal left
            if left == 0:
                raise TransportError("the scheduler died")
            left -= 1

        await nodes.add("a", cpu=8)
        ours = pod_template(annotations={STOP_TIME: "5s"}, **OURS)
        async with scheduler(world, Client(ResizeTransport(world.client.transport, die))):
            for name in ("one", "two"):
                await elastic(world, name, 4, "2:4", template=ours)
                await world.settle(5)
            await world.job("other", 3, template=pod_template(**OURS))
            await world.settle(1)
        assert sum(
            [(await world.client.get(JOB, name, "default")).spec.completions == 4 for name in ("one", "two")]
        ) == (2 - resizes)
        async with scheduler(world):
            await world.settle(30)
        assert await running(world, "other") == [0, 1, 2]
        assert (await size(world, "one"), await size(world, "two")) == (3, 2)

    scenario()


@story
async def test_a_new_scheduler_knows_what_runs_and_lets_the_jobs_of_others_be(world, nodes):
    await priority_class(world, "high", 10)
    await nodes.add("a", cpu=4)
    async with scheduler(world):
        await elastic(world, "j", 4, "1:6", template=pod_template(priorityClassName="high", **OURS))
        await world.settle(10)
    async with scheduler(world):
        await world.job("other", 1, template=pod_template(**OURS))
        await world.settle(30)
        assert await size(world, "j") == 4, "it is worth more"
    await nodes.add("b", cpu=2)
    await world.settle(30)
    assert await size(world, "j") == 4, "the control plane's scheduler is not in charge of it"
    async with scheduler(world):
        await world.settle(30)
    assert await running(world, "other") == [0]
    assert await size(world, "j") == 5


@story
async def test_whoever_scales_at_the_same_time_is_not_overwritten(world, nodes):
    raced = asyncio.Event()

    async def scale_first(request):
        if not raced.is_set():
            raced.set()
            await scale(world, "j", 3)

    await nodes.add("a", cpu=6)
    async with scheduler(world, Client(ResizeTransport(world.client.transport, scale_first))):
        await elastic(world, "j", 6, "1:6", template=pod_template(**OURS))
        await world.settle(10)
        await world.job("other", 4, template=pod_template(**OURS))
        await world.settle(30)
        assert raced.is_set()
        assert await running(world, "other") == [0, 1, 2, 3]
        assert await size(world, "j") == 2
        assert await story_of(world, "j") == ["Shrunk from 3 to 2 workers to make room for default/other"]


@story
async def test_nor_if_that_is_seen_between_two_writes(world, nodes):
    raced = asyncio.Event()

    async def scale_the_other(request):
        if not raced.is_set():
            raced.set()
            await scale(world, "one", 2)
            await world.settle(1)

    await nodes.add("a", cpu=8)
    async with scheduler(world, Client(ResizeTransport(world.client.transport, scale_the_other))):
        for name in ("one", "two"):
            await elastic(world, name, 4, "2:4", template=pod_template(**OURS))
            await world.settle(10)
        await world.job("other", 3, template=pod_template(**OURS))
        await world.settle(30)
        assert await running(world, "other") == [0, 1, 2]
        assert await story_of(world, "one") == ["Grown from 2 to 3 workers: room for 1 more is free"]


@pytest.mark.parametrize("bindings", [1, 3])
def test_a_gang_that_was_half_bound_starts_anew_at_the_size_that_is_left(bindings):
    @story
    async def scenario(world, nodes):
        left = bindings

        class Dying(ResizeTransport):
            async def request(self, request):
                nonlocal left
                if request.path.endswith("/binding"):
                    if left == 0:
                        raise TransportError("the scheduler died")
                    left -= 1
                return await self.inner.request(request)

        await nodes.add("a", cpu=3)
        await nodes.add("b", cpu=3)
        async with scheduler(world, Client(Dying(world.client.transport, None))):
            await elastic(world, "j", 6, "2:6", template=pod_template(**OURS))
            await world.settle(5)
        await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})
        async with scheduler(world):
            await world.settle(120)
        assert await size(world, "j") == 3

    scenario()


@story
async def test_a_late_cache_makes_no_shrink_deeper(world, nodes):
    """Changes of Jobs and pods are seen two seconds after they were made."""
    await nodes.add("a", cpu=8)
    async with scheduler(world, Client(LateTransport(world.client.transport, world.clock))):
        for name in ("one", "two"):
            await elastic(world, name, 4, "1:4", template=pod_template(**OURS))
            await world.settle(10)
        for name in ("x", "y"):
            await world.job(name, 2, template=pod_template(**OURS))
        await world.settle(60)
        assert (await running(world, "x"), await running(world, "y")) == ([0, 1], [0, 1])
        assert (await size(world, "one"), await size(world, "two")) == (3, 1)
        assert len(await story_of(world, "one") + await story_of(world, "two")) <= 3


class LateTransport:
    """Changes are seen two seconds after they were made."""

    def __init__(self, inner, clock):
        self.inner, self.clock = inner, clock

    async def request(self, request):
        return await self.inner.request(request)

    @asynccontextmanager
    async def stream(self, request):
        async with self.inner.stream(request) as chunks:
            yield self.late(chunks)

    async def late(self, chunks):
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read():
            async for chunk in chunks:
                waiting.put_nowait((self.clock.monotonic() + 2, chunk))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, chunk = await waiting.get()
                await self.clock.sleep(due - self.clock.monotonic())
                yield chunk
        finally:
            reading.cancel()

    async def close(self):
        pass


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_nothing_is_overcommitted_and_all_get_what_they_may_in_the_end(seed):
    """Gangs come, nodes go and come back, people scale, the scheduler is killed."""

    @story
    async def scenario(world, nodes):
        chance = Random(seed)
        bounds: dict[str, tuple[int, int]] = {}

        async def come():
            name = f"g{len(await world.pods())}-{chance.randrange(1000)}"
            ours = pod_template(annotations={RUN_TIME: f"{chance.randint(5, 60)}s", STOP_TIME: "3s"}, **OURS)
            await world.job(name, chance.randint(1, 6), template=ours, backoffLimit=1000)

        async def come_elastic():
            name, least = f"e{len(bounds)}", chance.randint(1, 3)
            workers, most = sorted((chance.randint(least, 8), chance.randint(least, 8)))
            bounds[name] = least, most
            ours = pod_template(annotations={STOP_TIME: "3s"}, **OURS)
            await elastic(world, name, workers, f"{least}:{most}", template=ours)

        async def lose():
            if ("b",) in nodes.managers:
                await nodes.lose("b")
            else:
                await nodes.add("b", cpu=5)

        async def scale_one():
            if bounds:
                name = chance.choice(sorted(bounds))
                await scale(world, name, chance.randint(*bounds[name]))

        await nodes.add("a", cpu=6)
        await nodes.add("b", cpu=5)
        await come_elastic()
        for _ in range(6):
            async with scheduler(world):
                for _ in range(4):
                    await chance.choice((come, come, come_elastic, lose, scale_one))()
                    await world.settle(chance.choice((0.05, 0.5, 5, 60)))
                    await check(world, bounds)
        await nodes.add("large", cpu=100)
        async with scheduler(world):
            await world.settle(3600)
            assert {name: await size(world, name) for name in bounds} == {
                name: most for name, (_, most) in bounds.items()
            }
            for job in (await world.client.list(JOB)).items:
                assert job.metadata.name in bounds or job.status.conditions[-1].type == "Complete"

    scenario()


async def check(world, bounds):
    """No node has more than it can hold, and nobody is moved out of bounds."""
    held: Counter[str] = Counter()
    for pod in await world.pods():
        if pod.status.phase not in ("Succeeded", "Failed"):
            held[pod.spec.node_name] += 1
    assert held["a"] <= 6
    assert held["b"] <= 5
    for name, (least, most) in bounds.items():
        assert least <= (await world.client.get(JOB, name, "default")).spec.completions <= most
