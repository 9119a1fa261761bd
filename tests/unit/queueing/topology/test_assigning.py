"""Tests of where pods are placed and why they are refused: the cases of upstream's topology assignments."""

import pytest
from msgspec.structs import replace
from tests.unit.queueing.topology.halls import (
    HOST,
    HOSTS,
    RACKS,
    anywhere,
    flavor,
    found,
    node,
    nominated,
    podset,
    preferred,
    required,
    tree_of,
    workload,
)

from muster.queueing.model import FlavorResource, FlavorSpec, Places, QueueSpec, Quota, ResourceGroup


def hall(levels=HOSTS, **cpus):
    """Return nodes from `b1_r1_x3=1`."""
    return [node(path.replace("_", "/"), cpu=cpu, memory=2**30) for path, cpu in cpus.items()]


# One host in a rack, three in another; and two blocks.
MIXED = hall(b1_r1_x3=1, b1_r2_x5=1, b1_r2_x1=1, b1_r2_x6=1, b2_r1_x2=1, b2_r2_x4=2)
SCATTERED = hall(b1_r1_x3=4, b1_r1_x5=1, b1_r1_x1=1, b2_r1_x6=2, b2_r1_x2=1)
BINARY = hall(b1_r1_x3=1, b1_r1_x5=1, b1_r2_x1=1, b1_r2_x6=1, b2_r1_x2=1, b2_r1_x4=1, b2_r2_x7=1, b2_r2_x8=1)
RACK_OF_FOUR = hall(b1_r1_x3=2, b1_r2_x5=2, b1_r3_x1=1, b1_r3_x6=1, b1_r3_x2=1, b1_r3_x4=1)
ONE_RACK = hall(b1_r1_x3=2, b1_r1_x5=1, b1_r1_x1=1)
BLOCKS = hall(b1=2, b2=1, b3=4)


@pytest.mark.parametrize(
    ("nodes", "levels", "pods", "expected"),
    [
        pytest.param(
            RACK_OF_FOUR,
            HOSTS,
            podset(4, required("block")),
            {"x1": 1, "x2": 1, "x4": 1, "x6": 1},
            id="few racks come before few hosts",
        ),
        pytest.param(ONE_RACK, HOSTS, podset(2, required("block")), {"x3": 2}, id="the host that takes all"),
        pytest.param(
            SCATTERED,
            HOSTS,
            podset(6, anywhere()),
            {"x1": 1, "x5": 1, "x2": 1, "x6": 2, "x3": 1},
            id="anywhere: what is nearly full comes first",
        ),
        pytest.param(
            SCATTERED,
            HOSTS,
            podset(6),
            {"x1": 1, "x5": 1, "x2": 1, "x6": 2, "x3": 1},
            id="without a request, where all flavors have a topology: anywhere",
        ),
        pytest.param(MIXED, HOSTS, podset(1, anywhere()), {"x3": 1}, id="anywhere: one pod"),
        pytest.param(
            BINARY, HOSTS, podset(4, required("block")), {"x3": 1, "x5": 1, "x1": 1, "x6": 1}, id="one pod a host"
        ),
        pytest.param(MIXED, HOSTS, podset(1, required(HOST)), {"x3": 1}, id="one host"),
        pytest.param(MIXED, RACKS, podset(1, required("rack")), {"b1/r1": 1}, id="one rack: the tightest"),
        pytest.param(MIXED, RACKS, podset(3, required("rack")), {"b1/r2": 3}, id="one rack: the one that takes three"),
        pytest.param(MIXED, RACKS, podset(2, required("rack")), {"b2/r2": 2}, id="one rack: the tightest of two"),
        pytest.param(
            MIXED,
            RACKS,
            podset(4, required("rack")),
            'topology "default" allows to fit only 3 out of 4 pod(s)',
            id="no rack takes four",
        ),
        pytest.param(MIXED, RACKS, podset(1, required("block")), {"b2/r1": 1}, id="the tightest block, then rack"),
        pytest.param(MIXED, RACKS, podset(4, required("block")), {"b1/r1": 1, "b1/r2": 3}, id="a block, two racks"),
        pytest.param(
            MIXED,
            RACKS,
            podset(1, required("block"), cpu=4),
            'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 4; excluded: resource "cpu": 4',
            id="a pod that no node takes is not split",
        ),
        pytest.param(
            MIXED,
            RACKS,
            podset(5, required("block")),
            'topology "default" allows to fit only 4 out of 5 pod(s)',
            id="no block takes five",
        ),
        pytest.param(MIXED, RACKS, podset(4, preferred("rack")), {"b1/r1": 1, "b1/r2": 3}, id="preferred: a level up"),
        pytest.param(
            MIXED,
            RACKS,
            podset(6, preferred("rack")),
            {"b1/r1": 1, "b1/r2": 3, "b2/r2": 2},
            id="preferred rack: several blocks",
        ),
        pytest.param(
            MIXED,
            RACKS,
            podset(6, preferred("block")),
            {"b1/r1": 1, "b1/r2": 3, "b2/r2": 2},
            id="preferred block: several blocks",
        ),
        pytest.param(
            MIXED,
            RACKS,
            podset(10, preferred("block")),
            'topology "default" allows to fit only 7 out of 10 pod(s)',
            id="more than there is",
        ),
        pytest.param(BLOCKS, ("block",), podset(5, preferred("block")), {"b2": 1, "b3": 4}, id="the tightest last"),
        pytest.param(
            MIXED,
            RACKS,
            podset(1, required("zone")),
            'Flavor "tas" does not contain the requested level',
            id="no level",
        ),
    ],
)
def test_a_podset_goes_where_upstream_puts_it(nodes, levels, pods, expected):
    flavors = [flavor(levels)]
    outcome = found(tree_of(nodes), workload(pods), flavors)
    assert outcome == (expected if isinstance(expected, str) else {"main": expected})


SLICES = hall(b1_r1_x3=2, b1_r2_x5=2, b1_r3_x1=2, b2_r4_x6=3, b2_r5_x2=3)


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param(
            hall(b1_r1_x3=3, b1_r1_x5=3, b1_r1_x1=3),
            podset(6, required("block", (HOST, 2))),
            {"x1": 2, "x3": 2, "x5": 2},
            id="slices of hosts",
        ),
        pytest.param(
            hall(b1_r1_x3=6, b1_r1_x5=5, b1_r1_x1=4, b1_r1_x6=2),
            podset(12, required("block", (HOST, 2))),
            {"x1": 4, "x3": 6, "x6": 2},
            id="room for slices first, then the tightest",
        ),
        pytest.param(
            hall(b1_r1_x3=3, b1_r1_x5=2, b1_r1_x1=2),
            podset(4, required("block", (HOST, 2))),
            {"x1": 2, "x5": 2},
            id="no room is left over where that can be",
        ),
        pytest.param(
            hall(b1_r1_x3=4, b1_r1_x5=3, b1_r1_x1=2),
            podset(6, required("block", (HOST, 2))),
            {"x1": 2, "x3": 4},
            id="the last domain is the tightest",
        ),
        pytest.param(
            hall(b1_r1_x3=1, b1_r1_x5=1, b1_r2_x1=1, b1_r2_x6=1, b1_r2_x2=1, b2_r1_x4=1, b2_r1_x7=1),
            podset(4, required("block", ("rack", 2))),
            {"x3": 1, "x5": 1, "x1": 1, "x2": 1},
            id="slices of racks",
        ),
        pytest.param(
            MIXED, podset(4, preferred("block", ("rack", 2))), {"x1": 1, "x5": 1, "x4": 2}, id="over blocks, in racks"
        ),
        pytest.param(
            hall(b1_r1_x3=3, b1_r1_x5=3, b1_r1_x1=3, b2_r1_x6=6),
            podset(12, preferred("block", (HOST, 3))),
            {"x1": 3, "x3": 3, "x6": 6},
            id="blocks of different widths",
        ),
        pytest.param(
            hall(b1_r1_x3=2, b1_r2_x5=2, b1_r3_x1=2),
            podset(6, required("block", ("rack", 3))),
            'topology "default" doesn\'t allow to fit any of 2 slice(s)',
            id="the pods fit, but no slice does",
        ),
        pytest.param(
            hall(b1_r1_x3=3, b1_r2_x5=1, b1_r3_x1=1, b1_r4_x6=1),
            podset(6, required("block", ("rack", 3))),
            'topology "default" allows to fit only 1 out of 2 slice(s)',
            id="one slice fits",
        ),
        pytest.param(
            SLICES,
            podset(6, required("block", ("rack", 3))),
            {"x6": 3, "x2": 3},
            id="the block whose racks take slices",
        ),
        pytest.param(
            MIXED,
            podset(1, required(HOST, ("block", 1))),
            f"podset slice topology block is above the podset topology {HOST}",
            id="slices wider than the podset",
        ),
        pytest.param(
            MIXED, podset(3, anywhere(("rack", 2))), "pod set count 3 is not a multiple of the slice size 2", id="odd"
        ),
        pytest.param(SCATTERED, podset(6, anywhere((HOST, 2))), {"x3": 4, "x6": 2}, id="slices of hosts, anywhere"),
        pytest.param(
            MIXED, podset(4, anywhere(("rack", 2))), {"x1": 1, "x5": 1, "x4": 2}, id="slices of racks, anywhere"
        ),
        pytest.param(
            hall(b1_r1_x1=4, b1_r1_x2=4, b1_r2_x3=5, b1_r2_x4=3),
            podset(8, required("block", ("rack", 4), (HOST, 2))),
            {"x1": 4, "x2": 4},
            id="slices of slices: all in the rack that takes two",
        ),
        pytest.param(
            hall(b1_r1_x1=3, b1_r2_x2=5, b2_r1_x3=7),
            podset(8, required("block", ("block", 8), ("rack", 4), (HOST, 2))),
            'topology "default" doesn\'t allow to fit; 1/1 slice(s) fit on level block;'
            f" 1/2 slice(s) fit on level rack; 3/4 slice(s) fit on level {HOST}",
            id="the block with most slices, and what fits in it at each level",
        ),
        pytest.param(
            hall(b1_r1_x1=3, b1_r1_x2=3, b1_r1_x3=1),
            podset(6, required("block", ("rack", 6), (HOST, 2))),
            'topology "default" doesn\'t allow to fit; 1/1 slice(s) fit on level rack;'
            f" 2/3 slice(s) fit on level {HOST}",
            id="room for the large slice, not for the small ones in it",
        ),
        pytest.param(
            MIXED,
            podset(4, required("block", (HOST, 2), ("rack", 2))),
            f"additional slice layer topology rack must be at a lower level than {HOST}",
            id="smaller slices at a wider level",
        ),
        pytest.param(
            MIXED,
            podset(6, required("block", ("rack", 3), (HOST, 2))),
            "additional slice layer size 2 must evenly divide parent layer size 3",
            id="slices that do not divide",
        ),
    ],
)
def test_slices_keep_together(nodes, pods, expected):
    outcome = found(tree_of(nodes), workload(pods), [flavor()])
    assert outcome == (expected if isinstance(expected, str) else {"main": expected})


def group(level, workers, leader, how=required, slices=(), count=1):
    """Return workers and their leader."""
    number, asks = workers
    return (
        podset(count, how(level) if level else how(), "leader", together="lws", **leader),
        podset(number, how(level, *slices) if level else how(), "workers", together="lws", **asks),
    )


def racks_of(levels, **nodes):
    """Return nodes of one rack (or of none) that have other resources than CPUs: `h1={"cpu": 2}`."""
    values = {"block": "{}", "rack": "r/{}"}
    return [node(values.get(levels[0], "{}").format(name), levels, **has) for name, has in nodes.items()]


@pytest.mark.parametrize(
    ("levels", "nodes", "pods", "expected"),
    [
        pytest.param(
            ("block",),
            {"b1": {"cpu": 2, "gpu": 2}, "b2": {"cpu": 5, "gpu": 4}, "b3": {"cpu": 2, "gpu": 2}},
            group("block", (4, {"cpu": 1, "gpu": 1}), {"cpu": 1}),
            {"leader": {"b2": 1}, "workers": {"b2": 4}},
            id="one block takes both",
        ),
        pytest.param(
            ("rack", HOST),
            {"h1": {"cpu": 2}, "h2": {"cpu": 4}, "h3": {"cpu": 3}},
            group("rack", (4, {"cpu": 2}), {"cpu": 1}),
            {"leader": {"h3": 1}, "workers": {"h1": 1, "h2": 2, "h3": 1}},
            id="the leader goes where it costs the workers nothing",
        ),
        pytest.param(
            ("rack", HOST),
            {"h1": {"cpu": 2}, "h2": {"cpu": 4}, "h3": {"cpu": 3}},
            group("rack", (8, {"cpu": 1}), {"cpu": 1}, slices=((HOST, 2),)),
            {"leader": {"h3": 1}, "workers": {"h1": 2, "h2": 4, "h3": 2}},
            id="nor their slices",
        ),
        pytest.param(
            (HOST,),
            {"h1": {"cpu": 8}, "h2": {"cpu": 3}},
            group(HOST, (5, {"cpu": 2}), {"cpu": 1}, how=preferred),
            {"leader": {"h2": 1}, "workers": {"h1": 4, "h2": 1}},
            id="over several domains",
        ),
        pytest.param(
            (HOST,),
            {"h1": {"cpu": 1}, "h2": {"gpu": 1}},
            group("", (1, {"gpu": 1}), {"cpu": 1}, how=anywhere),
            {"leader": {"h1": 1}, "workers": {"h2": 1}},
            id="anywhere, apart from each other",
        ),
        pytest.param(
            ("rack", HOST),
            {"h1": {"cpu": 1}, "h2": {"gpu": 1}},
            group("rack", (1, {"gpu": 1}), {"cpu": 1}),
            {"leader": {"h1": 1}, "workers": {"h2": 1}},
            id="one rack, two hosts",
        ),
        pytest.param(
            ("block",),
            {"b1": {"cpu": 4}, "b2": {"cpu": 4}},
            group("block", (4, {"cpu": 1}), {"cpu": 1}),
            'topology "default" allows to fit only 4 out of 4 pod(s)',
            id="no block takes the leader too",
        ),
        pytest.param(
            ("block",),
            {"b1": {"cpu": 4}},
            group("block", (4, {"cpu": 1}), {"cpu": 1}, count=2),
            "of two podsets that are placed together one has a single pod",
            id="two leaders",
        ),
    ],
)
def test_a_leader_is_placed_with_its_workers(levels, nodes, pods, expected):
    assert found(tree_of(racks_of(levels, **nodes)), workload(*pods), [flavor(levels)]) == expected


def test_podsets_share_what_there_is():
    pods = [podset(3, preferred("block"), name) for name in ("one", "two")]
    outcome = found(tree_of(hall(b1=2, b2=2, b3=2)), workload(*pods), [flavor(("block",))])
    assert outcome == {"one": {"b1": 2, "b2": 1}, "two": {"b2": 1, "b3": 2}}


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("more", "spec", "expected"),
    [
        pytest.param({}, {}, {"x1": 1}, id="a node as it should be"),
        pytest.param({"ready": False}, {}, "no topology domains at level", id="not ready"),
        pytest.param({"unschedulable": True}, {}, "no topology domains at level", id="cordoned"),
        pytest.param({"taints": [TAINT]}, {}, 'Total nodes: 1; excluded: taint "k=v:NoSchedule": 1', id="a taint"),
        pytest.param({"labels": {"pool": "b"}}, {"labels": {"pool": "a"}}, "no topology domains at level", id="labels"),
        pytest.param({"pods": 0}, {}, 'excluded: resource "pods": 1', id="no room for pods"),
        pytest.param({"gpu": 1}, {"asks": {"cpu": 1, "gpu": 2}}, 'excluded: resource "gpu": 1', id="too few GPUs"),
        pytest.param({}, {"selector": {"disk": "ssd"}}, "excluded: nodeSelector: 1", id="selector"),
        pytest.param({"labels": {"disk": "ssd"}}, {"selector": {"disk": "ssd"}}, {"x1": 1}, id="selector met"),
    ],
)
def test_only_nodes_that_would_take_the_pods_count(more, spec, expected):
    pods = podset(1, anywhere(), **spec.get("asks", {"cpu": 1}))
    pods = replace(pods, selector=spec.get("selector", {}))
    one = node("b1/r1/x1", cpu=4, **more)
    outcome = found(tree_of([one]), workload(pods), [flavor(labels=spec.get("labels", {}))])
    if isinstance(expected, str):
        assert expected in outcome
    else:
        assert outcome == {"main": expected}


def test_other_pods_on_a_node_count_until_they_are_gone():
    tree, pods = tree_of(hall(b1_r1_x1=2, b1_r1_x2=2)), workload(podset(3, required("rack")))
    tree.ledger.occupy("other", "b1-r1-x1", (("cpu", 1000), ("pods", 1)))
    assert found(tree, pods, [flavor()]) == {"main": {"x1": 1, "x2": 2}}
    tree.ledger.occupy("more", "b1-r1-x1", (("cpu", 1000), ("pods", 1)))
    assert found(tree, pods, [flavor()]) == (
        'topology "default" allows to fit only 2 out of 3 pod(s). Total nodes: 2; excluded: resource "cpu": 1'
    )
    assert tree.ledger.leave("more")
    assert not tree.ledger.leave("more")
    assert found(tree, pods, [flavor()]) == {"main": {"x1": 1, "x2": 2}}


@pytest.mark.parametrize("levels", [HOSTS, RACKS])
def test_what_others_hold_counts_until_they_give_it_back(levels):
    tree = tree_of(hall(b1_r1_x1=2, b1_r2_x2=3))
    mine = workload(podset(2, required("rack")), name="mine")
    result = nominated(tree, mine, [flavor(levels)]).assignment
    holder = replace(mine, usage=result.usage, places=result.places)
    version = tree.ledger.version
    tree.hold(holder)
    assert tree.ledger.version != version
    assert found(tree, workload(podset(2, required("rack"))), [flavor(levels)]) == {
        "main": {"x2" if levels == HOSTS else "b1/r2": 2}
    }
    tree.release(holder)
    assert tree.ledger.version == version, "no trace is left"
    assert found(tree, workload(podset(2, required("rack"))), [flavor(levels)]) == {
        "main": {"x1" if levels == HOSTS else "b1/r1": 2}
    }


def test_absurd_amounts_are_counted_and_given_back():
    tree = tree_of(hall(b1_r1_x1=2, b1_r1_x2=2))
    absurd = Places("main", ("tas",), (HOST,), (("cpu", 10**18), ("pods", 1)), ((("x1",), 10**9),))
    for _ in range(2):  # before and after the amounts on nodes have been looked at
        tree.ledger.take([absurd, absurd])
        assert found(tree, workload(podset(2, required("rack"))), [flavor()]) == {"main": {"x2": 2}}
        tree.ledger.give([absurd, absurd])
        assert found(tree, workload(podset(4, required("rack"))), [flavor()]) == {"main": {"x1": 2, "x2": 2}}


def test_a_host_is_shared_between_flavors_and_a_rack_is_not():
    for levels, taken in ((HOSTS, True), (RACKS, False)):
        one, other = flavor(levels, "one"), flavor(levels, "other")
        tree = tree_of(hall(b1_r1_x1=2), [one, other])
        mine = workload(podset(2, required("rack")))
        result = nominated(tree, mine, [one, other]).assignment
        tree.hold(replace(mine, key="ns/holder", usage=result.usage, places=result.places))
        again = nominated(tree, mine, [one, other])
        assert again.fits is not taken


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param((3, 1), {"a": {"x1": 3}, "b": {"x1": 1}}, id="workers and their leader"),
        pytest.param((1, 1), {"a": {"x1": 1}, "b": {"x1": 1}}, id="one worker and its leader"),
        pytest.param((3, 2), "of two podsets that are placed together one has a single pod", id="no leader"),
        pytest.param((2, 1, 1), "at most two podsets can be placed together", id="three"),
    ],
)
def test_podsets_of_one_group_are_placed_together(counts, expected):
    podsets = [podset(count, required("rack"), name, together="g") for name, count in zip("abc", counts, strict=False)]
    assert found(tree_of(hall(b1_r1_x1=9)), workload(*podsets), [flavor()]) == expected


@pytest.mark.parametrize("request_", [preferred("rack"), anywhere()], ids=["preferred", "anywhere"])
def test_where_no_host_takes_the_leader_its_workers_get_no_place_either(request_):
    podsets = [podset(2, request_, "a", together="g"), podset(1, request_, "b", together="g", cpu=5)]
    outcome = found(tree_of(hall(b1_r1_x1=4, b1_r2_x2=4)), workload(*podsets), [flavor()])
    assert outcome == 'topology "default" doesn\'t allow to fit any of 2 pod(s)'


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(3, {"a": {"x1": 1, "x2": 2}, "b": {"x1": 1}}), (4, 'topology "default" allows to fit only 3 out of 4 pod(s)')],
)
def test_the_room_beside_the_leader_counts_once(workers, expected):
    request_ = preferred("rack")
    podsets = [podset(workers, request_, "a", together="g"), podset(1, request_, "b", together="g")]
    assert found(tree_of(hall(b1_r1_x1=2, b2_r1_x2=2)), workload(*podsets), [flavor()]) == expected


def test_the_podset_without_a_place_says_so_and_the_other_does_not():
    podsets = [podset(1, required("rack"), "a"), podset(9, required("rack"), "b")]
    outcome = nominated(tree_of(hall(b1_r1_x1=2)), workload(*podsets), [flavor()])
    assert not outcome.fits
    assert {one.name: one.unplaced for one in outcome.assignment.podsets} == {
        "a": "",
        "b": 'topology "default" allows to fit only 1 out of 9 pod(s)',
    }


def test_a_node_that_is_gone_takes_no_pods():
    tree, pods = tree_of(hall(b1_r1_x1=1, b1_r1_x2=2)), workload(podset(1, required("rack")))
    assert found(tree, pods, [flavor()]) == {"main": {"x1": 1}}
    tree.ledger.remove_node("b1-r1-x1")
    assert found(tree, pods, [flavor()]) == {"main": {"x2": 1}}


def test_while_there_is_no_topology_of_the_name_nothing_is_placed():
    outcome = found(tree_of(hall(b1_r1_x1=9)), workload(podset(1, anywhere())), [flavor(())])
    assert outcome == 'Flavor "tas" information missing in TAS cache'


@pytest.mark.parametrize(
    ("topology", "request_", "problem"),
    [
        pytest.param("default", None, "", id="implied: all flavors have one"),
        pytest.param("", required("rack"), 'Flavor "tas" does not support TopologyAwareScheduling', id="none"),
        pytest.param("default", required("rack"), "", id="both"),
        pytest.param("", None, "", id="neither"),
    ],
)
def test_a_request_and_a_flavor_suit_each_other(topology, request_, problem):
    tas = FlavorSpec("tas", topology=topology, levels=HOSTS if topology else ())
    outcome = nominated(tree_of(hall(b1_r1_x1=2)), workload(podset(1, request_)), [tas])
    assert "; ".join(outcome.assignment.podsets[0].reasons) == problem
    assert outcome.fits is not bool(problem)


def test_who_asks_for_no_topology_gets_a_flavor_without_one():
    flavors = [flavor(name="tas"), FlavorSpec("plain")]
    tree = tree_of(hall(b1_r1_x1=2), flavors)
    (result,) = nominated(tree, workload(podset(1)), flavors).assignment.podsets
    assert {choice.flavor for choice in result.flavors.values()} == {"plain"}
    assert result.places is None
    assert result.attempts[-1].reasons == ('Flavor "tas" supports only TopologyAwareScheduling',)


@pytest.mark.parametrize(
    ("asks", "fits"),
    [
        pytest.param({"cpu": 1000}, True, id="what transformations made needs no place"),
        pytest.param({"cpu": 1000, "credits": 5}, False, id="what the pods ask for themselves does"),
    ],
)
def test_a_flavor_without_a_topology_may_give_what_pods_do_not_ask_for(asks, fits):
    tree, flavors = tree_of(hall(b1_r1_x1=2)), {"tas": flavor(), "plain": FlavorSpec("plain")}
    groups = (ResourceGroup(("cpu",), ("tas",)), ResourceGroup(("credits",), ("plain",)))
    quotas = {FlavorResource("tas", "cpu"): Quota(9000), FlavorResource("plain", "credits"): Quota(9)}
    tree.set_queue(QueueSpec("cq", groups=groups, quotas=quotas))
    pods = replace(podset(1, required(HOST)), requests={"cpu": 1000, "credits": 5}, asks=asks)
    outcome = nominated(tree, workload(pods), flavors.values())
    assert outcome.fits is fits
    (result,) = outcome.assignment.podsets
    if fits:
        assert {name: choice.flavor for name, choice in result.flavors.items()} == {"cpu": "tas", "credits": "plain"}
        assert result.places is not None
    else:
        assert result.reasons == ('Flavor "plain" does not support TopologyAwareScheduling',)


def test_a_flavor_with_no_place_is_passed_over_for_the_next():
    flavors = [flavor(name="full", labels={"pool": "a"}), flavor(name="free", labels={"pool": "b"})]
    nodes = [node("b1/r1/x1", cpu=1, labels={"pool": "a"}), node("b1/r2/x2", cpu=2, labels={"pool": "b"})]
    assert found(tree_of(nodes, flavors), workload(podset(2, required("rack"))), flavors) == {"main": {"x2": 2}}


def test_fewer_pods_go_where_all_do_not():
    pods = replace(podset(5, required("rack")), least=1)
    assert found(tree_of(hall(b1_r1_x1=2, b1_r2_x2=3)), workload(pods), [flavor()]) == {"main": {"x2": 3}}


def test_where_nodes_are_not_looked_at_any_place_will_do():
    unseen = flavor(None)
    assert found(tree_of([]), workload(podset(2, required("rack"))), [unseen]) == {"main": None}
