"""Which CPUs a container may run on where no cgroup limits it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.nodes.disk.storage import PodRecord
from muster.cluster.nodes.machine.cpus import CpuDemand, Cpus, choose_cpus, list_demands, select_part


def loads(*thousandths):
    return dict(enumerate(thousandths))


@pytest.mark.parametrize(
    ("demand", "held", "chosen"),
    [
        (CpuDemand(2000, 2000), loads(1000, 0, 0, 0), {1: 1000, 2: 1000}),
        (CpuDemand(500, 500), loads(0, 0), {0: 500}),
        (CpuDemand(500, 500), loads(0, 500), {1: 500}),  # the fuller one that has room: the other stays whole
        (CpuDemand(600, 600), loads(500, 0), {1: 600}),
        (CpuDemand(1500, 1500), loads(0, 300, 0), {0: 1000, 1: 500}),
        (CpuDemand(1000, 3000), loads(1000, 0, 500, 0), {1: 1000, 3: 0, 2: 0}),  # may use more than it reserves
        (CpuDemand(0, 1000), loads(1000, 0), {1: 0}),
        (CpuDemand(600, 600), loads(600, 500), {1: 600}),  # fits nowhere: where least is reserved
        (CpuDemand(1000, 1000), loads(500, 600), {0: 1000}),
        (CpuDemand(64000, 64000), loads(0, 0), {0: 1000, 1: 1000}),  # a node that offers more than there is
        (CpuDemand(2500, 2500), loads(0, 0), {0: 1000, 1: 1000}),
    ],
)
def test_a_container_gets_the_cpus_that_others_reserve_least_of(demand, held, chosen):
    assert choose_cpus(demand, held) == chosen


def test_a_pods_cpus_are_its_own_until_it_ends():
    cpus = Cpus(range(4))
    assert cpus.take("a", {"main": CpuDemand(2000, 2000)}) == {"main": {0: 1000, 1: 1000}}
    assert cpus.take("a", {"main": CpuDemand(2000, 2000)}) == {"main": {0: 1000, 1: 1000}}, (
        "asked again, it is the same"
    )
    assert cpus.take("b", {"one": CpuDemand(1000, 1000), "two": CpuDemand(500, 500)}) == {
        "one": {2: 1000},
        "two": {3: 500},
    }
    assert (cpus.of("b", "one"), cpus.of("b", "absent"), cpus.of("c", "main")) == ([2], [], [])
    cpus.release("a")
    assert cpus.take("c", {"main": CpuDemand(2000, 2000)}) == {"main": {0: 1000, 1: 1000}}


def test_a_pod_without_a_limit_holds_none_and_may_run_on_all(make_pod):
    cpus = Cpus(range(2))
    resources = {"requests": {"cpu": "1"}}
    pod = make_pod({"containers": [{"name": "main", "command": ["run"], "resources": resources}]})
    assert cpus.take("a", list_demands(pod)) == {}
    assert cpus.of("a", "main") == []


def test_a_pod_has_the_same_cpus_after_a_restart():
    record = PodRecord("ns", "p", "a", cpus=Cpus(range(2)).take("a", {"main": CpuDemand(1000, 1000)}))
    restored = msgspec.json.decode(msgspec.json.encode(record), type=PodRecord)
    cpus = Cpus(range(2))
    cpus.restore("a", restored.cpus)
    assert cpus.of("a", "main") == [0]
    assert cpus.take("b", {"main": CpuDemand(1000, 1000)}) == {"main": {1: 1000}}


def test_a_server_that_may_use_fewer_cpus_than_before_gives_none_of_the_others():
    cpus = Cpus([1])
    cpus.restore("a", {"main": {0: 1000, 1: 1000}, "other": {0: 1000}})
    assert (cpus.of("a", "main"), cpus.of("a", "other")) == ([1], [])
    assert cpus.take("b", {"main": CpuDemand(1000, 1000)}) == {"main": {1: 1000}}


def test_steps_before_the_main_containers_reserve_nothing_and_sidecars_do(make_pod):
    one = {"resources": {"limits": {"cpu": "1"}}, "command": ["run"]}
    spec = {
        "initContainers": [{"name": "step", **one}, {"name": "side", "restartPolicy": "Always", **one}],
        "containers": [{"name": "main", "command": ["run"], "resources": {"limits": {"cpu": "1500m"}}}],
    }
    demands = {"main": CpuDemand(1500, 1500), "side": CpuDemand(1000, 1000), "step": CpuDemand(0, 1000)}
    assert list_demands(make_pod(spec)) == demands


@pytest.mark.parametrize(
    ("number", "of", "numbers"), [(0, 1, [0, 1, 2, 3]), (1, 2, [1, 3]), (3, 4, [3]), (4, 5, [0]), (5, 6, [1])]
)
def test_nodes_of_one_machine_divide_its_cpus(number, of, numbers):
    assert select_part({3, 1, 0, 2}, number, of) == numbers


@given(st.lists(st.integers(1, 8).map(lambda whole: whole * 1000), max_size=12), st.integers(1, 32))
def test_masks_of_whole_cpus_never_overlap_while_the_cpus_suffice(limits, count):
    cpus = Cpus(range(count))
    taken: list[int] = []
    for number, limit in enumerate(limits):
        if sum(limits[: number + 1]) <= count * 1000:
            taken += cpus.take(str(number), {"main": CpuDemand(limit, limit)})["main"]
    assert len(taken) == len(set(taken))


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 4000)), max_size=12), st.integers(1, 8))
def test_a_container_always_gets_as_many_cpus_as_its_limit_needs(demands, count):
    cpus = Cpus(range(count))
    for number, (request, more) in enumerate(demands):
        demand = CpuDemand(request, request + more)
        chosen = cpus.take(str(number), {"main": demand})["main"]
        assert len(chosen) == min(-(-demand.limit // 1000), count)
