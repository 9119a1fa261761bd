"""Tests of admission cycles with places: no place twice, and whole racks by preemption."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing.topology.halls import (
    HOST,
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
from muster.queueing.scheduling.estimate import RunTime, StartForecast

FLAVORS = {"tas": flavor()}


def hall(racks=2, hosts=2, cpu=2):
    return [node(f"b1/r{r}/r{r}h{h}", cpu=cpu) for r in range(1, racks + 1) for h in range(1, hosts + 1)]


def world(nodes, *waiting, queues=("cq",), nominal=10**9, **policy):
    tree, pending = tree_of(nodes, queues=queues, nominal=nominal, **policy), Queues()
    for name in queues:
        pending.set_queue(tree.queues[name].policy, active=True)
    pending.set_namespace("ns", {})
    for one in waiting:
        pending.add(one)
    return tree, pending


def cycle(tree, queues):
    return run(tree, queues, FLAVORS, AdmissionSettings(), START)


def hold(tree, name, count, request, *, priority=0, queue="cq"):
    """Hold a workload that has places already."""
    hold_pods(tree, name, podset(count, request), priority=priority, queue=queue)


def hold_pods(tree, name, pods, *, priority=0, queue="cq"):
    one = workload(pods, name=name, priority=priority, queue=queue)
    result = nominated(tree, one, FLAVORS.values()).assignment
    assert result.mode == Mode.FIT
    tree.hold(replace(one, usage=result.usage, places=result.places, ready=True, reserved=START))


def taken(tree):
    """Return the number of pods by host, of all holders."""
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


def test_who_has_the_places_goes_too_where_quota_is_short_of_something_else():
    nodes = [node("b1/r1/r1h1", cpu=8, gpu=2)]
    tree, queues = world(nodes, nominal=4000, preemption=Preemption(within_queue="LowerPriority"))
    for name, asks in (("low-cpu", {"cpu": 4}), ("low-gpu", {"gpu": 2})):
        hold_pods(tree, name, podset(1, required(HOST), **asks))
    queues.add(workload(podset(1, required(HOST), cpu=2, gpu=2), name="high", priority=1))
    (decision,) = cycle(tree, queues).preemptions
    assert {victim.workload.uid for victim in decision.victims} == {"low-cpu", "low-gpu"}


def test_who_has_places_and_no_quota_that_is_asked_for_goes_where_there_is_no_place():
    nodes = [node("b1/r1/r1h1", cpu=4, gpu=2), node("b1/r1/r1h2", cpu=4)]
    tree, queues = world(nodes, preemption=Preemption(within_queue="LowerPriority"))
    hold_pods(tree, "low-cpu", podset(2, required("rack"), cpu=4))
    asking = podset(1, required(HOST), gpu=2)
    queues.add(workload(replace(asking, asks={"cpu": 1000, "gpu": 2}), name="high", priority=1))
    (decision,) = cycle(tree, queues).preemptions
    assert [victim.workload.uid for victim in decision.victims] == ["low-cpu"]


def test_the_places_of_victims_that_leave_one_after_the_other_are_the_preemptors():
    tree, queues = world(hall(racks=1), queues=("cq", "other"), preemption=Preemption(within_queue="LowerPriority"))
    low = [workload(podset(2, required("rack")), name=f"low-{i}") for i in range(2)]
    for one in low:
        hold_pods(tree, one.uid, *one.podsets)
    queues.add(workload(podset(4, required("rack")), name="high", priority=1))
    (decision,) = cycle(tree, queues).preemptions
    for victim in decision.victims:
        tree.hold(replace(victim.workload, evicted=True))
    for number, victim in enumerate(decision.victims):
        tree.release(victim.workload)
        queues.flush(tree.queues["cq"])
        queues.flush_places()
        queues.add(workload(podset(1, required("rack")), name=f"small-{number}", queue="other"))
        assert [one.workload.uid for one in cycle(tree, queues).admitted] == ["high"][1 - number :]


def test_places_that_a_preemptor_waits_for_are_not_those_of_another_tree():
    """Two ClusterQueues without a Cohort share the nodes; something is tried in the other one alone."""
    tree, queues = world(hall(), queues=("one", "two"), preemption=Preemption(within_queue="LowerPriority"))
    for name in ("low-0", "low-1"):
        hold(tree, name, 4, required("rack"), queue="one")
    queues.add(workload(podset(8, required("block")), name="high", priority=1, queue="one"))
    (decision,) = cycle(tree, queues).preemptions
    for victim in decision.victims:
        tree.hold(replace(victim.workload, evicted=True))
    leave(tree, queues, "ns/low-0")
    cycle(tree, queues)
    queues.add(workload(podset(4, required("rack")), name="other", queue="two"))
    assert cycle(tree, queues).admitted == []
    leave(tree, queues, "ns/low-1")
    assert [one.workload.key for one in cycle(tree, queues).admitted] == ["ns/high"]


def leave(tree, queues, key):
    """End the pods of a victim."""
    holder = tree.holder(key)
    tree.release(holder)
    queues.flush(tree.queues[holder.queue], holder.usage)
    queues.flush_places()


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
    assert cycle(tree, queues).nominations == 1


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


pods = st.builds(
    lambda count, level, cpu, gpu: podset(count, required(level), cpu=cpu, gpu=gpu),
    st.integers(1, 2),
    st.sampled_from(["rack", HOST]),
    st.integers(0, 2),
    st.integers(0, 1),
)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3), st.lists(pods, max_size=5), pods
)
def test_where_the_place_of_lower_ones_would_do_some_are_displaced(machines, low, high):
    nodes = [node(f"b1/r{i % 2}/r{i % 2}h{i}", cpu=cpu, gpu=gpu) for i, (cpu, gpu) in enumerate(machines)]
    rules = Preemption(within_queue="LowerPriority")
    tree, _ = world(nodes, nominal=4000, preemption=rules)
    for number, one in enumerate(low):
        wanted = workload(one, name=f"low-{number}")
        if (got := nominated(tree, wanted, FLAVORS.values())).fits:
            tree.hold(replace(wanted, usage=got.assignment.usage, places=got.assignment.places, reserved=START))
    incoming = workload(high, name="high", priority=1)
    result = nominated(tree, incoming, FLAVORS.values())
    for holder in list(tree.queues["cq"].workloads.values()):
        tree.release(holder)
    assert result.is_possible == nominated(tree, incoming, FLAVORS.values()).fits


def test_a_forecast_wakes_who_waits_for_domains_that_another_flavor_leaves():
    """Both flavors have the same nodes, so the quota that comes free is not the quota that the workload asks for."""
    flavors = {name: flavor(name=name) for name in ("first", "second")}
    tree = tree_of(hall(racks=1), [flavors["first"]], queues=("one",), cohort="all")
    tree.set_queue(tree_of((), [flavors["second"]], queues=("two",), cohort="all").queues["two"].policy)
    pending = Queues()
    for one in tree.queues.values():
        pending.set_queue(one.policy, active=True)
    pending.set_namespace("ns", {})
    holder = workload(podset(4, required("rack")), name="holder", queue="one")
    result = nominated(tree, holder, flavors.values()).assignment
    tree.hold(replace(holder, usage=result.usage, places=result.places, ready=True, reserved=START))
    pending.add(workload(podset(4, required("rack")), name="waiting", queue="two"))
    runs = {"ns/holder": RunTime(timedelta(minutes=10))}
    forecast = StartForecast(tree, pending, flavors, runs, START, AdmissionSettings(), names={})
    assert forecast.estimate(["ns/waiting"])["ns/waiting"].at == START + timedelta(minutes=10)
