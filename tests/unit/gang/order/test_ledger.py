"""What runs, kept change by change, is what it would be if it was read anew."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.order import ledger as ledgers
from muster.gang.order.ends import EndTime
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.shapes import guest_of

NODES = ("a", "b", "c")
GUESTS = [guest_of(make_pod(cpu=str(cpu))) for cpu in range(1, 6)]
ENDS = [None, EndTime(inf), EndTime(7.0), EndTime(9.0, is_enforced=True)]

steps = st.lists(
    st.tuples(
        st.sampled_from("vwxyz"),
        st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 4)), max_size=4),
        st.sampled_from(ENDS),
    ),
    max_size=30,
)


@pytest.fixture(autouse=True, scope="module")
def _few_may_be_gone():
    """So that what is gone is forgotten every few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledgers, "_GONE", 2)
        yield


@given(steps=steps, gone=st.sampled_from((*NODES, "")))
def test_it_is_as_if_it_was_read_anew(steps, gone):
    """Gangs come, change and go (those without pods), nodes go."""
    capacity, kept, running = Capacity(), GangLedger(), dict[str, RunningGang]()
    for name in NODES:
        capacity.set_node(make_node(name, resources={"cpu": "99"}))
    for number, (key, pods, end) in enumerate(steps):
        for uid in running.pop(key).pods if key in running else ():
            capacity.release(uid)
        for at, (node, cpu) in enumerate(pods):
            capacity.assign(f"{number}-{at}", node, GUESTS[cpu])
        if pods:
            running[key] = RunningGang(tuple(f"{number}-{at}" for at in range(len(pods))), float(number), end)
            kept.set(key, running[key], capacity)
        else:
            kept.drop(key)
    if gone:
        capacity.remove_node(gone)
    mortal = {key: one for key, one in running.items() if one.end is None or one.end.at != inf}
    terms = kept.terms()
    assert sorted(terms.started.tolist()) == sorted(one.started for one in mortal.values())
    order = np.argsort(terms.started)
    found = kept.holdings(capacity, terms.numbers[order])
    ordered = sorted(mortal.values(), key=lambda one: one.started)
    plain = Holdings.of(capacity, [one.pods for one in ordered])
    for first in range(len(ordered) + 1):
        assert (found.freed(first) == plain.freed(first)).all()
    ends = [terms.ends[order].tolist(), terms.enforced[order].tolist()]
    assert ends[1] == [one.end is not None and one.end.is_enforced for one in ordered]
    assert [None if np.isnan(at) else at for at in ends[0]] == [one.end and one.end.at for one in ordered]


def test_gangs_that_come_and_go_leave_nothing_behind():
    capacity, kept = Capacity(), GangLedger()
    for number in range(200):
        name = f"n{number}"
        capacity.set_node(make_node(name))
        capacity.assign(f"{number}", name, guest_of(make_pod(cpu=str(number + 1))))
        kept.set(f"{number}", RunningGang((f"{number}",), 0.0), capacity)
        kept.drop(f"{number - 2}")
    assert kept._pods.shape[1] < 20
    assert len(kept._nodes) < 10
    assert len(kept._amounts) < 10
    assert kept._terms.shape[1] < 10
