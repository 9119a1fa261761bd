"""Gangs that lost members for which there is no room: whole again, or nothing, in bounded time."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.system.gangs.test_gang_demands import lose, placed
from tests.system.gangs.test_gang_order import why
from tests.system.gangs.test_gang_preemption import bury, classes, template
from tests.system.integrations.queued_jobs import configured
from tests.system.jobsets.test_jobset_gangs import WHOLE, role
from tests.system.plane import World, running, under, virtual
from tests.system.scheduler.test_binding import pod_group, pods, start, stop

from muster.api.core import EVENT, NODE, POD
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue.names import POD_SET_REQUIRED_TOPOLOGY
from muster.api.meta import ObjectMeta
from muster.api.podgroups.kep import POD_GROUP, PodGroup, PodGroupSpec
from muster.api.pods import is_active
from muster.runtime.clock import run_virtual

TIMEOUT = 300.0
# For so long a Job waits at the most until it makes another pod.
MOST_BACK_OFF = 600.0


async def drain(world, *nodes):
    """Close nodes, and take the pods away that are there."""
    for node in nodes:
        await world.client.patch(NODE, node, {"spec": {"unschedulable": True}})
    for pod in await world.pods():
        if pod.spec.node_name in nodes:
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)


async def reopen(world, *nodes):
    for node in nodes:
        await world.client.patch(NODE, node, {"spec": {"unschedulable": False}})


async def pass_time(world, seconds):
    """Let so much time pass on nodes where pods that are to go are soon gone."""
    for _ in range(int(seconds / 10)):
        await world.settle(10)
        await bury(world)


async def nodes_of(world, name):
    return {pod.spec.node_name for pod in await world.pods(name) if pod.spec.node_name and is_active(pod)}


async def said(world, name, reason):
    events = (await world.client.list(EVENT, "default")).items
    return [event.message for event in events if event.involved_object.name == name and event.reason == reason]


@virtual
async def test_of_two_broken_gangs_that_hold_each_others_nodes_the_first_is_completed(world):
    for number in range(8):
        await world.node(f"n{number}", cpu="1")
    await world.job("a", 4, backoffLimit=100)
    await world.settle(2)
    await world.job("b", 4, backoffLimit=100)
    await world.settle(2)
    of_a, of_b = sorted(await nodes_of(world, "a")), sorted(await nodes_of(world, "b"))
    await drain(world, *of_a[:2], *of_b[:2])
    await pass_time(world, 60)
    whole = [name for name in ("a", "b") if await placed(world, name) == [0, 1, 2, 3]]
    assert len(whole) == 1
    [other] = {"a", "b"} - set(whole)
    assert await placed(world, other) == [], "it keeps nothing from anybody"
    assert "2 pods of other broken gangs are being evicted for it." in str(
        await said(world, whole[0], "FailedScheduling")
    )
    await reopen(world, *of_a, *of_b)
    await pass_time(world, 60)
    assert (await placed(world, "a"), await placed(world, "b")) == ([0, 1, 2, 3], [0, 1, 2, 3])


@virtual
async def test_a_gang_that_is_not_whole_again_in_time_gives_all_back(world):
    for number in range(4):
        await world.node(f"n{number}", cpu="1")
    await world.job("j", 4, backoffLimit=100)
    await world.settle(2)
    await drain(world, "n0")
    await pass_time(world, 60)
    await world.job("small", 3)
    await world.settle(2)
    assert (len(await placed(world, "j")), await placed(world, "small")) == (3, [])
    told = await why(world, "j")
    assert "The gang runs without 1 pod that it lost. It gives all its nodes back at " in told
    await pass_time(world, TIMEOUT)
    assert (await placed(world, "j"), len(await placed(world, "small"))) == ([], 3)
    [record] = [one for one in world.plane.decisions.since(0) if one.what == "GaveBack"]
    assert (record.job, record.rule, record.pods) == ("default/j", "RecoveryTimeout", 1)
    assert await said(world, "j", "GangTakenBack") == [
        "The gang found no room for 1 of its pods within 5m0s, and gives its nodes back: starting over"
    ]
    await reopen(world, "n0")
    await lose(world, "small", 0, 1, 2, phase="Succeeded")
    await pass_time(world, 60)
    assert await placed(world, "j") == [0, 1, 2, 3]


@pytest.mark.parametrize("hours", [-1, 1])
def test_how_long_a_broken_gang_has_waited_is_not_told_by_the_time_of_day(hours):
    @virtual
    async def scenario(world):
        for number in range(2):
            await world.node(f"n{number}", cpu="1")
        await world.job("j", 2, backoffLimit=100)
        await world.settle(2)
        await drain(world, "n0")
        await pass_time(world, 60)
        world.clock.set_ahead(hours * 3600.0)
        await world.job("another", 1)  # looked at, as the gang is then
        await pass_time(world, 60)
        assert len(await placed(world, "j")) == 1, "it has waited for two minutes"
        await pass_time(world, TIMEOUT - 60)
        assert await placed(world, "j") == []

    scenario()


@under("muster: {scheduling: {recoveryTimeout: 0s}}")
async def test_without_a_time_out_it_keeps_what_it_has(world):
    await world.node("a", cpu="1")
    await world.node("b", cpu="1")
    await world.job("j", 2, backoffLimit=100)
    await world.settle(2)
    await drain(world, "a")
    await pass_time(world, 3 * TIMEOUT)
    assert len(await placed(world, "j")) == 1
    assert "gives all its nodes back" not in await why(world, "j")


@virtual
async def test_pods_that_no_controller_has_are_not_given_back(world):
    for name in ("a", "b"):
        await world.node(name, cpu="1")
    _, *scheduler = start(world, lambda _pod, _node: "")
    await pod_group(world, "g", 2)
    await world.settle(2)
    await drain(world, "a")
    await pods(world, "again", 1, annotations={"scheduling.k8s.io/group-name": "g"})
    await pass_time(world, 2 * TIMEOUT)
    assert [pod.spec.node_name for pod in await world.pods()] == ["", "b"]
    await stop(*scheduler)


@virtual
async def test_a_group_that_must_stay_in_its_rack_starts_again_in_another(world):
    for number in range(4):
        await world.node(f"n{number}", cpu="1")
        await world.client.patch(NODE, f"n{number}", {"metadata": {"labels": {"rack": f"r{number // 2}"}}})
    annotations = {POD_SET_REQUIRED_TOPOLOGY: "rack"}
    group = PodGroup(metadata=ObjectMeta(name="g", annotations=annotations), spec=PodGroupSpec(min_members=2))
    await world.client.create(POD_GROUP, group, "default")
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}, "spec": spec}
    await world.job("j", 2, template=pods, backoffLimit=100)
    await world.settle(2)
    [first, second] = sorted(await nodes_of(world, "j"))
    await drain(world, first)
    await pass_time(world, 60)
    assert await nodes_of(world, "j") == {second}
    await pass_time(world, TIMEOUT)
    assert await nodes_of(world, "j") == {"n0", "n1", "n2", "n3"} - {first, second}


@virtual
async def test_of_two_broken_jobsets_one_is_completed(world):
    for number in range(8):
        await world.node(f"n{number}", cpu="1")
    for name in ("a", "b"):
        metadata = {"name": name, "annotations": WHOLE}
        roles = [role("workers", 1, 3), role("driver")]
        for one in roles:
            one["template"]["spec"]["backoffLimit"] = 100
        document = {"metadata": metadata, "spec": {"replicatedJobs": roles}}
        await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
        await world.settle(2)

    async def held(name):
        labels = f"{names.JOBSET_NAME}={name}"
        pods = (await world.client.list(POD, "default", labels=labels)).items
        return sorted(pod.spec.node_name for pod in pods if pod.spec.node_name and is_active(pod))

    of_a, of_b = await held("a"), await held("b")
    assert (len(of_a), len(of_b)) == (4, 4)
    await drain(world, *of_a[:2], *of_b[:2])
    await pass_time(world, 60)
    assert sorted([len(await held("a")), len(await held("b"))]) == [0, 4]


@virtual
async def test_a_broken_jobset_that_waits_for_its_next_wave_too_is_completed(world):
    for number in range(8):
        await world.node(f"n{number}", cpu="1")
    for name in ("a", "b"):
        trials = role("trials", 1, 2)
        trials["template"]["spec"]["completions"] = 9
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        trials["template"]["spec"]["template"]["spec"]["containers"] = [container]
        roles = [role("workers", 1, 2), trials]
        for one in roles:
            one["template"]["spec"]["backoffLimit"] = 100
        document = {"metadata": {"name": name, "annotations": WHOLE}, "spec": {"replicatedJobs": roles}}
        await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
        await world.settle(2)

    async def held(name, of):
        labels = f"{names.JOBSET_NAME}={name},{names.REPLICATED_JOB_NAME}={of}"
        pods = (await world.client.list(POD, "default", labels=labels)).items
        return sorted(pod.spec.node_name for pod in pods if pod.spec.node_name and is_active(pod))

    assert [len(await held(name, of)) for name in ("a", "b") for of in ("workers", "trials")] == [2, 2, 2, 2]
    for name in ("a", "b"):
        await drain(world, (await held(name, "workers"))[0], (await held(name, "trials"))[0])
    await pass_time(world, 60)
    assert sorted([len(await held("a", "workers")), len(await held("b", "workers"))]) == [0, 2]


@configured("waitForPodsReady: {recoveryTimeout: 10m}\nmuster: {scheduling: {recoveryTimeout: 10s}}")
async def test_a_gang_with_a_queue_goes_back_to_it_when_its_queue_says(q):
    await q.queue(cpu=4)
    [node] = (await q.client.list(NODE)).items
    amounts = {"status": {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}}
    await q.job(workers=2, backoffLimit=100)
    assert await q.running() == [0, 1]
    await q.client.patch(NODE, node.metadata.name, amounts, subresource="status")
    await q.client.patch(NODE, node.metadata.name, {"spec": {"unschedulable": True}})
    await lose(q.world, "j", 1)
    await q.world.settle(300)
    assert await q.running() == [0], "the scheduler leaves that to the queue"
    await q.world.settle(400)
    assert await q.running() == []
    assert any("Exceeded the PodsReady timeout" in line for line in await q.told()), await q.told()


class Wish(NamedTuple):
    """A gang: so many pods of so many CPUs each."""

    workers: int
    cpus: int
    priority: str

    def fits(self, free: Iterable[int]) -> bool:
        return sum(cpus // self.cpus for cpus in free) >= self.workers


NODES, CPUS = 6, 2
WISHES = st.lists(
    st.builds(Wish, st.integers(1, 5), st.integers(1, CPUS), st.sampled_from(["low", "high"])), min_size=2, max_size=4
)
SOME = st.sets(st.integers(0, NODES - 1), max_size=3)
STEPS = st.lists(st.tuples(SOME, SOME), max_size=4)


@settings(max_examples=max(20, settings.default.max_examples // 5), deadline=None)
@given(WISHES, STEPS)
def test_after_any_losses_each_gang_is_whole_or_nothing_and_one_runs_if_one_fits(wishes, steps):
    async def scenario():
        async with running() as plane:
            await at_rest(World(plane), {f"j{number}": wish for number, wish in enumerate(wishes)}, steps)

    run_virtual(scenario())


async def at_rest(world, wishes, steps):
    await classes(world)
    for number in range(NODES):
        await world.node(str(number), cpu=str(CPUS))
    for name, wish in wishes.items():
        await world.job(name, wish.workers, template=template(wish.priority, cpu=str(wish.cpus)), backoffLimit=100000)
    await pass_time(world, 20)
    closed: set[int] = set()
    for lost, back in steps:
        await reopen(world, *map(str, back & closed))
        await drain(world, *map(str, lost))
        closed = (closed - back) | lost
        await pass_time(world, 20)
    await pass_time(world, TIMEOUT + MOST_BACK_OFF + 100)
    held = {name: await nodes_of_each(world, name) for name in wishes}
    assert all(len(held[name]) in (0, wish.workers) for name, wish in wishes.items()), held
    for name, wish in wishes.items():
        if not held[name]:
            weaker = [other for other, its in wishes.items() if wish.priority == "high" and its.priority == "low"]
            staying = {other: nodes for other, nodes in held.items() if other not in weaker}
            free = {str(number): CPUS for number in range(NODES) if number not in closed}
            for other, nodes in staying.items():
                for node in nodes:
                    free[node] -= wishes[other].cpus
            assert not wish.fits(free.values()), f"{name} would fit, if weaker ones went: {held}"


async def nodes_of_each(world, name):
    return [pod.spec.node_name for pod in await world.pods(name) if pod.spec.node_name and is_active(pod)]
