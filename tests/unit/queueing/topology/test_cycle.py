"""Cycles of admission in which places are given with the quota: no place twice, and whole racks by preemption."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing.topology.halls import (
    START,
    flavor,
    node,
    nominated,
    podset,
    preferred,
    required,
    tree_of,
    workload,
)

from muster.queueing.model import Mode, Preemption
from muster.queueing.pending.queues import Queues
from muster.queueing.scheduling.cycle import AdmissionSettings, run

FLAVORS = {"tas": flavor()}


def hall(racks=2, hosts=2, cpu=2):
    return [node(f"b1/r{r}/r{r}h{h}", cpu=cpu) for r in range(1, racks + 1) for h in range(1, hosts + 1)]


def world(nodes, *waiting, queues=("cq",), **policy):
    tree, pending = tree_of(nodes, queues=queues, **policy), Queues()
    for name in queues:
        pending.set_queue(tree.queues[name].policy, active=True)
    pending.set_namespace("ns", {})
    for one in waiting:
        pending.add(one)
    return tree, pending


def cycle(tree, queues):
    return run(tree, queues, FLAVORS, AdmissionSettings(), START)


def hold(tree, name, count, request, *, priority=0, queue="cq"):
    """A workload that has places already."""
    one = workload(podset(count, request), name=name, priority=priority, queue=queue)
    got = nominated(tree, one, FLAVORS.values()).assignment
    assert got.mode == Mode.FIT
    tree.hold(replace(one, usage=got.usage, places=got.places, ready=True, reserved=START))


def taken(tree):
    """Pods by host, of all that hold quota."""
    counts: dict[str, int] = {}
    for queue in tree.queues.values():
        for holder in queue.workloads.values():
            for places in holder.places:
                for values, count in places.domains:
                    counts[values[-1]] = counts.get(values[-1], 0) + count
    return counts


def test_heads_of_different_queues_do_not_get_the_same_place():
    both = [workload(podset(4, required("rack")), name=name, queue=name) for name in ("one", "two", "three")]
    tree, queues = world(hall(), *both, queues=("one", "two", "three"))
    outcome = cycle(tree, queues)
    assert [one.workload.key for one in outcome.admitted] == ["ns/one", "ns/three"]
    assert taken(tree) == {"r1h1": 2, "r1h2": 2, "r2h1": 2, "r2h2": 2}
    (waiting,) = outcome.pending
    assert waiting.workload.key == "ns/two"
    assert waiting.reason == "TopologyPlacementFailed"
    assert waiting.message == (
        "couldn't assign flavors to pod set main: topology \"default\" doesn't allow to fit any of 4 pod(s)."
        ' Total nodes: 4; excluded: resource "cpu": 4'
    )


def test_a_rack_is_made_free_by_preemption_and_no_more_than_that():
    tree, queues = world(hall(), preemption=Preemption(within_queue="LowerPriority"))
    for i in range(4):
        hold(tree, f"low-{i}", 2, required("rack"))
    assert sum(taken(tree).values()) == 8
    queues.add(workload(podset(4, required("rack")), name="high", priority=1))
    before = tree.ledger.version
    outcome = cycle(tree, queues)
    assert not outcome.admitted
    (decision,) = outcome.preemptions
    racks = {
        values[-1][:2] for victim in decision.victims for one in victim.workload.places for values, _ in one.domains
    }
    assert len(decision.victims) == 2
    assert len(racks) == 1, "both are of one rack"
    assert tree.ledger.version == before, "what was tried out is undone"
    for victim in decision.victims:
        tree.release(victim.workload)
        queues.flush(tree.queues["cq"])
    assert [one.workload.key for one in cycle(tree, queues).admitted] == ["ns/high"]


def test_what_would_not_fit_an_empty_hall_displaces_no_workload():
    tree, queues = world(hall(), preemption=Preemption(within_queue="LowerPriority"))
    hold(tree, "low", 2, required("rack"))
    queues.add(workload(podset(5, required("rack")), name="high", priority=1))
    outcome = cycle(tree, queues)
    assert not outcome.preemptions
    assert outcome.pending[0].reason == "TopologyPlacementFailed"
    assert outcome.pending[0].message == (
        'couldn\'t assign flavors to pod set main: topology "default" allows to fit only 4 out of 5 pod(s)'
    )


def test_places_that_victims_leave_are_kept_for_the_preemptor():
    tree, queues = world(hall(racks=1), queues=("cq", "other"), preemption=Preemption(within_queue="LowerPriority"))
    hold(tree, "low", 4, required("rack"))
    queues.add(workload(podset(4, required("rack")), name="high", priority=1))
    queues.add(workload(podset(1, required("rack")), name="small", queue="other"))
    outcome = cycle(tree, queues)
    assert [one.workload.key for one in outcome.preemptions] == ["ns/high"]
    assert not outcome.admitted


def test_who_waits_for_a_place_is_woken_by_one_in_another_tree_and_who_waits_for_quota_is_not():
    names = ("one", "two", "three")
    tree, queues = world(hall(racks=1), queues=names)
    hold(tree, "holder", 4, required("rack"), queue="one")
    queues.add(workload(podset(4, required("rack")), name="for-a-place", queue="two"))
    queues.add(workload(podset(1, required("rack"), cpu=2 * 10**6), name="for-quota", queue="three"))
    cycle(tree, queues)
    assert queues.untried == []
    queues.flush_places()
    assert queues.untried == ["two"]
    assert cycle(tree, queues).looks == 1


sizes = st.tuples(st.integers(1, 5), st.sampled_from(["block", "rack"]), st.booleans(), st.integers(0, 2))


@given(st.integers(1, 3), st.integers(1, 3), st.lists(sizes, max_size=8), st.booleans())
def test_no_host_is_over_committed_and_required_is_kept(racks, hosts, asked, preempting):
    rules = Preemption(within_queue="LowerPriority" if preempting else "Never")
    waiting = [
        workload(
            podset(count, (required if must else preferred)(level)),
            name=f"w{i}",
            queue=("one", "two")[i % 2],
            priority=priority,
        )
        for i, (count, level, must, priority) in enumerate(asked)
    ]
    tree, queues = world(hall(racks, hosts), *waiting, queues=("one", "two"), preemption=rules)
    for _ in range(30):
        outcome = cycle(tree, queues)
        for decision in outcome.preemptions:
            for victim in decision.victims:
                tree.release(victim.workload)
                queues.add(replace(victim.workload, usage=None, places=(), reserved=None))
        if not (outcome.preemptions or outcome.admitted or queues.untried):
            break
        for name in ("one", "two"):
            queues.flush(tree.queues[name])
        assert all(count <= 2 for count in taken(tree).values())
    for queue in tree.queues.values():
        for holder in queue.workloads.values():
            (pods,), (places,) = holder.podsets, holder.places
            assert sum(count for _, count in places.domains) == pods.count
            if pods.topology.how == "required" and pods.topology.level == "rack":
                assert len({values[-1][:2] for values, _ in places.domains}) == 1
