"""Who goes first when gangs wait, who may pass, and for how long."""

import pytest
from tests.system.plane import virtual

from muster.api.batch import JOB
from muster.api.core import EVENT, NODE, POD
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.meta import ObjectMeta
from muster.api.pods import why_unplaced
from muster.gang.order.ends import EXPECTED_DURATION_ANNOTATION
from muster.gang.order.reservation import MOST_OVERTAKINGS
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


def template(*, cpu="1", labels=None, **spec):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": labels or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


async def started(world, job):
    """Play the nodes: the pods of a job have started."""
    now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in await world.pods(job):
        status = {"status": {"phase": "Running", "startTime": now}}
        name = pod.metadata.name
        await world.client.patch(POD, name, status, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


async def ended(world, job):
    for pod in await world.pods(job):
        await world.finish(pod)


async def bound(world, job):
    return sum(map(bool, await world.nodes_of(job)))


async def why(world, job):
    """The last that was said of a job's waiting."""
    events = (await world.client.list(EVENT, "default")).items
    said = [e for e in events if e.involved_object.name == job and e.reason == "FailedScheduling"]
    return max(said, key=lambda event: int(event.metadata.resource_version)).message if said else ""


def lasts(seconds):
    return {EXPECTED_DURATION_ANNOTATION: f"{seconds}s"}


@virtual
async def test_what_ends_in_time_passes_the_head_and_what_does_not_waits(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await world.job("running", 4, annotations=lasts(100))
    await world.settle(1)
    await started(world, "running")
    await world.job("head", 8, annotations=lasts(100))
    await world.settle(1)
    assert "It goes first, expected at " in await why(world, "head")
    await world.job("short", 1, annotations=lasts(50))
    await world.job("long", 1, annotations=lasts(500))
    await world.settle(1)
    assert (await bound(world, "short"), await bound(world, "long")) == (1, 0)
    assert (await why(world, "long")).startswith("The nodes are kept for default/head, which goes first, expected at ")
    await ended(world, "short")
    await ended(world, "running")
    await world.settle(1)
    assert (await bound(world, "head"), await bound(world, "long")) == (8, 0)
    await ended(world, "head")
    await world.settle(1)
    assert await bound(world, "long") == 1


@virtual
async def test_without_known_ends_a_bounded_number_passes(world):
    """Pitfall 2: a stream of small gangs starves no large one."""
    await world.node("a", cpu="4")
    await world.job("running", 1)
    await world.settle(1)
    await world.job("head", 4)
    await world.settle(1)
    passed = 0
    for number in range(MOST_OVERTAKINGS + 3):
        await world.job(f"j{number}", 1)
        await world.settle(0.5)
        passed += await bound(world, f"j{number}")
        await ended(world, f"j{number}")
    assert passed == MOST_OVERTAKINGS
    await ended(world, "running")
    await world.settle(1)
    assert await bound(world, "head") == 4


@virtual
async def test_a_gang_that_never_fits_keeps_nothing_from_anybody(world):
    """Pitfall 3: an impossible gang at the head stops no other, and is told so."""
    await world.node("a", cpu="4")
    await world.job("impossible", 9)
    await world.settle(1)
    assert "It would not fit even if everything that ever ends had ended." in await why(world, "impossible")
    for number in range(MOST_OVERTAKINGS + 3):
        await world.job(f"j{number}", 1)
        await world.settle(0.5)
        assert await bound(world, f"j{number}") == 1
        await ended(world, f"j{number}")


@virtual
async def test_what_leaves_the_head_its_room_passes_however_long_it_lasts(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="1")
    await world.job("running", 4, annotations=lasts(100))
    await world.settle(1)
    await started(world, "running")
    await world.job("head", 4)
    await world.settle(1)
    for number in range(MOST_OVERTAKINGS + 3):
        await world.job(f"j{number}", 1)
        await world.settle(0.5)
        assert await world.nodes_of(f"j{number}") == ["b"]
        await ended(world, f"j{number}")


@virtual
async def test_a_broken_gang_is_made_whole_before_a_new_one_of_higher_priority_starts(world):
    await world.client.create(
        PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name="high"), value=1000, preemption_policy="Never")
    )
    await world.node("a", cpu="2")
    await world.node("b", cpu="2")
    await world.job("gang", 4, backoffLimit=10)
    await world.settle(1)
    await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})
    [lost, _] = [pod for pod in await world.pods("gang") if pod.spec.node_name == "b"]
    await world.finish(lost, "Failed")
    await world.settle(30)
    await world.job("new", 1, template=template(priorityClassName="high"))
    await world.settle(1)
    assert await bound(world, "new") == 0
    await world.client.patch(NODE, "b", {"spec": {"unschedulable": False}})
    await world.settle(1)
    running = [pod for pod in await world.pods("gang") if pod.status.phase == "Pending" and pod.spec.node_name]
    assert (len(running), await bound(world, "new")) == (4, 0)


@pytest.mark.parametrize("order", ["rich first", "poor first"])
def test_between_equals_the_queue_that_holds_less_goes_first(order):
    queue = "kueue.x-k8s.io/cluster-queue-name"

    @virtual
    async def scenario(world):
        await world.node("a", cpu="4")
        await world.node("b", cpu="4")
        await world.job("holds", 4, template=template(labels={queue: "rich"}))
        await world.job("blocks", 4, template=template(labels={queue: "other"}))
        await world.settle(1)
        names = ["rich", "poor"] if order == "rich first" else ["poor", "rich"]
        for name in names:
            await world.job(name, 4, template=template(labels={queue: name}))
            await world.settle(1.5)
        await ended(world, "blocks")
        await world.settle(1)
        assert (await bound(world, "poor"), await bound(world, "rich")) == (4, 0)

    scenario()


@virtual
async def test_what_is_said_of_a_gang_that_waits_stays_true(world):
    await world.node("a", cpu="2")
    await world.job("j", 4)
    await world.settle(2)
    assert "2 of 4 identical pods fit now" in why_unplaced(await world.pods("j"))
    await world.node("b", cpu="1")
    await world.settle(2)
    assert "3 of 4 identical pods fit now" in why_unplaced(await world.pods("j"))
    said = [condition.message for pod in await world.pods("j") for condition in pod.status.conditions]
    assert sum("3 of 4" in message for message in said) == 1, "one write for a reason that is another"


@virtual
async def test_a_tenant_that_uses_less_now_starts_at_once(world):
    """Nothing ends, and nothing that waits starts. But a start changes the shares, and by them the order."""
    await world.node("a", cpu="10")
    for job, cpus, queue, expected in [
        ("one", 1, "one", {}),
        ("two", 2, "two", {}),
        ("long", 4, "three", lasts(1000)),
        ("head", 7, "one", {}),
        ("behind", 1, "two", {}),
    ]:
        await make_job(world, job, cpus, queue, expected)
        await started(world, job)
    assert (await why(world, "behind")).startswith("The nodes are kept for default/head, which goes first")
    await make_job(world, "passes", 2, "one", lasts(100))
    assert (await bound(world, "passes"), await bound(world, "behind"), await bound(world, "head")) == (2, 1, 0)


async def make_job(world, name, workers, queue, annotations):
    """Make a Job whose pods are of a Volcano queue, which is their tenant."""
    pods = template()
    pods["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": queue}
    spec = {"parallelism": workers, "completions": workers, "completionMode": "Indexed", "template": pods}
    document = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    await world.client.create(JOB.seen_as(dict), document, "default")
    await world.settle(1)
