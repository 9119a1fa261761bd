"""Tests of another node for the pods of a lost one."""

import pytest
from tests.unit.queueing.topology.halls import HOST, anywhere, flavor, node, podset, preferred, required, tree_of

from muster.queueing.model import Places
from muster.queueing.topology.replacement import replace_node

FLAVORS = {"tas": flavor()}


def places(**counts):
    requests = (("cpu", 1000), ("pods", 1))
    return Places("main", ("tas",), (HOST,), requests, tuple(((name,), count) for name, count in counts.items()))


# Two racks in one block, one in another, of hosts of 2 CPUs; b1r1h2 is lost.
PATHS = ["b1/r1/b1r1h1", "b1/r1/b1r1h3", "b1/r2/b1r2h1", "b2/r1/b2r1h1"]


def hall(*without):
    return tree_of([node(path, cpu=2) for path in PATHS if path.split("/")[-1] not in without]).ledger


@pytest.mark.parametrize(
    ("request_", "held", "gone", "expected"),
    [
        pytest.param(required("rack"), {"b1r1h1": 2, "b1r1h2": 2}, (), {"b1r1h1": 2, "b1r1h3": 2}, id="the same rack"),
        pytest.param(
            required("rack"),
            {"b1r1h1": 2, "b1r1h2": 2},
            ("b1r1h3",),
            "cannot find replacement assignment for unhealthy node: b1r1h2",
            id="required: not in another rack",
        ),
        pytest.param(
            preferred("rack"), {"b1r1h1": 2, "b1r1h2": 2}, ("b1r1h3",), {"b1r1h1": 2, "b1r2h1": 2}, id="the same block"
        ),
        pytest.param(
            preferred("rack"),
            {"b1r1h1": 2, "b1r1h2": 2},
            ("b1r1h3", "b1r2h1"),
            {"b1r1h1": 2, "b2r1h1": 2},
            id="preferred: anywhere in the end",
        ),
        pytest.param(anywhere(), {"b1r1h1": 1, "b1r1h2": 1}, (), {"b1r1h1": 2}, id="anywhere: what is nearly full"),
        pytest.param(required("rack"), {"b1r1h2": 4}, (), {"b1r1h1": 2, "b1r1h3": 2}, id="no other is left"),
        pytest.param(
            required("block", ("rack", 2)),
            {"b1r1h1": 1, "b1r1h2": 1, "b1r2h1": 2},
            (),
            {"b1r1h1": 2, "b1r2h1": 2},
            id="a slice is completed where it is",
        ),
        pytest.param(
            required("block", ("rack", 2)),
            {"b1r1h2": 2, "b1r1h1": 2},
            (),
            {"b1r1h1": 2, "b1r1h3": 2},
            id="a whole slice",
        ),
        pytest.param(
            required("rack"),
            {"b1r1h1": 1, "b1r1h2": 1, "elsewhere": 1},
            (),
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale"
            " domain elsewhere",
            id="another is gone as well",
        ),
    ],
)
def test_the_pods_of_a_lost_node_go_near_the_others(request_, held, gone, expected):
    ledger, before = hall(*gone), places(**held)
    ledger.take([before])
    version = ledger.version
    outcome = replace_node(before, podset(sum(held.values()), request_), FLAVORS, ledger, "b1r1h2")
    assert ledger.version == version, "nothing is taken"
    if isinstance(expected, str):
        assert outcome == expected
    else:
        assert outcome == places(**expected)


def test_what_others_hold_is_no_replacement():
    ledger, before = hall(), places(b1r1h1=1, b1r1h2=1)
    ledger.take([before, places(b1r1h1=1, b1r1h3=1)])
    outcome = replace_node(before, podset(2, required("rack")), FLAVORS, ledger, "b1r1h2")
    assert outcome == places(b1r1h1=1, b1r1h3=1)


def test_a_node_that_is_there_but_is_not_to_be_used_is_not_chosen_again():
    ledger, before = hall(), places(b1r1h1=2)
    ledger.take([before])
    outcome = replace_node(before, podset(2, required("rack")), FLAVORS, ledger, "b1r1h1")
    assert outcome == places(b1r1h3=2)
