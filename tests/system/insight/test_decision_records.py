"""What the parts of the engine record, in virtual time: the scheduler, the life cycle of workloads, stopped queues."""

from tests.system.gangs.test_gang_preemption import bury, classes, job
from tests.system.plane import virtual
from tests.system.queueing import queueing_world

from muster.api.kueue import CLUSTER_QUEUE


def told(world, name):
    """The decisions about a job, in order."""
    return [one for one in world.plane.decisions.since(0) if one.name == name]


@virtual
async def test_the_scheduler_records_who_was_preempted_for_whom_and_where_pods_go(world):
    await classes(world)
    await world.node("n", cpu="4")
    await job(world, "weak", 4, "low")
    await job(world, "strong", 3, "high")
    await bury(world)
    [placed, preempted, *later] = told(world, "weak")
    assert (placed.what, placed.nodes, placed.rule, placed.priority) == ("Placed", {"n": 4}, "start", 10)
    assert (preempted.what, preempted.rule, preempted.priority) == ("Preempted", "PodPriority", 10)
    assert [(one.job, one.priority) for one in preempted.others] == [("default/strong", 1000)]
    assert {one.what for one in later} <= {"Unplaced"}
    unplaced, preempting, started = told(world, "strong")
    assert (unplaced.what, unplaced.rule) == ("Unplaced", "NoRoom")
    assert unplaced.because.startswith("0/1 nodes are available")
    assert [(one.job, one.rule) for one in preempting.others] == [("default/weak", "PodPriority")]
    assert (started.what, started.nodes) == ("Placed", {"n": 3})
    assert all(one.uid for one in (placed, preempted, unplaced, preempting, started))


@virtual
async def test_nodes_that_are_kept_for_the_first_gang_are_a_rule_of_their_own(world):
    await world.node("n", cpu="4")
    limit = {"activeDeadlineSeconds": 600}
    await world.job("runs", 3, **limit)
    await world.settle()
    await world.job("first", 4, **limit)
    await world.settle()
    await world.job("late", 1, activeDeadlineSeconds=6_000)
    await world.settle()
    [waits] = told(world, "late")
    assert (waits.what, waits.rule, [one.job for one in waits.others]) == ("Unplaced", "NodesKept", ["default/first"])


@virtual
async def test_an_eviction_by_a_stopped_queue_and_the_wait_after_it_are_recorded(world):
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "q", 4)
    await queueing_world.workload(world, "w", "q", 2)
    await world.settle()
    await world.client.patch(CLUSTER_QUEUE, "q", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await world.settle()
    assert [(one.what, one.rule, one.queue) for one in told(world, "w")][:2] == [
        ("QuotaReserved", "", "q"),
        ("Evicted", "ClusterQueueStopped", "q"),
    ]
    await queueing_world.workload(world, "late", "q", 2)
    await world.settle()
    [waits] = told(world, "late")
    assert (waits.what, waits.queue) == ("Waiting", "q")
    assert "is inactive" in waits.because or "stopped" in waits.because
