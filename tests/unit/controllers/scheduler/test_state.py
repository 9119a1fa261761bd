"""What the scheduler keeps of half-bound gangs, of victims, and of what gangs lack."""

from collections import Counter

import pytest
from tests.unit.gang.conftest import make_pod

from muster.controllers.scheduler.agenda import SchedulerAgenda
from muster.controllers.scheduler.carrier import Carriers
from muster.controllers.scheduler.lacking import decide_report
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.state import Displaced, HalfBound, Rules, SchedulerState
from muster.controllers.scheduler.victims import Victims
from muster.gang.nodes.capacity import Strategy
from muster.gang.order.ledger import GangLedger
from muster.runtime.clock import RealClock
from muster.runtime.control.queue import WorkQueue
from muster.runtime.ids import Random

KEY = "/p"


def make_state() -> SchedulerState:
    """Return the state of a scheduler with one pod that waits."""
    roster = Roster([], ("",), Strategy.TIGHT)
    pending = PendingGangs(roster, lambda now: GangLedger())
    carriers = Carriers(lambda source, key: None, lambda key: ())
    agenda = SchedulerAgenda(WorkQueue(RealClock(), Random(1)), roster, pending, lambda: False)
    state = SchedulerState(
        roster, carriers, pending, Victims(roster, carriers.needs), lambda: (), agenda, Rules(0, queues_recover=False)
    )
    roster.pod_changed(None, make_pod("p"))
    return state


def test_a_node_is_closed_to_the_pods_that_it_was_refused_for_a_while() -> None:
    half_bound = HalfBound(closed={"a": {"n1": 10.0, "n2": 20.0}, "b": {"n3": 30.0}})
    pods = [make_pod("a"), make_pod("c")]
    assert half_bound.find_closed(pods, 5.0) == {"n1", "n2"}
    assert half_bound.find_closed(pods, 10.0) == {"n2"}
    half_bound.open_node("n2")
    assert half_bound.find_closed(pods, 5.0) == {"n1"}


@pytest.mark.parametrize(
    ("begun", "spared"),
    [
        pytest.param({}, {"a1", "a2"}, id="no pod of the gang is evicted"),
        pytest.param({"a": 1}, set(), id="half a gang is of no use"),
    ],
)
def test_victims_are_spared_as_whole_gangs(begun: dict[str, int], spared: set[str]) -> None:
    displaced = Displaced(begun=Counter(begun))
    for gang, name, by in (("a", "a1", "x"), ("a", "a2", "x"), ("b", "b1", "y")):
        displaced.choose(gang, make_pod(name), by, "")
    assert displaced.spare_victims_of("x") == bool(spared)
    assert displaced.spared.keys() == spared
    assert displaced.chosen.keys() == {"a1", "a2", "b1"} - spared


def test_a_spared_pod_may_become_a_victim_again() -> None:
    displaced = Displaced()
    displaced.choose("a", make_pod("a1"), "x", "")
    displaced.spare_victims_of("x")
    displaced.choose("a", make_pod("a1"), "y", "")
    assert (displaced.chosen["a1"].by, displaced.spared) == ("y", {})


def test_what_a_gang_lacks_is_told_once_when_it_has_lacked_it_for_a_while() -> None:
    state = make_state()
    pod = state.roster.gangs[KEY].unbound["p"]
    told = [decide_report(state, KEY, sentence, now) for sentence, now in LACKS]
    assert told == [1.0, 0.5, pod, None, 1.0, None, None]


# At each time, the sentence on what the gang lacks.
LACKS = [
    ("two pods are missing", 0.0),
    ("two pods are missing", 0.5),
    ("two pods are missing", 1.0),
    ("two pods are missing", 9.0),
    ("one pod is missing", 10.0),
    ("two pods are missing", 10.5),
    ("", 11.0),
]


def test_a_gang_that_no_longer_waits_leaves_nothing_behind() -> None:
    state = make_state()
    decide_report(state, KEY, "a pod is missing", 0.0)
    state.half_bound.resting[KEY] = state.half_bound.since[KEY] = 1.0
    assert state.find_pause(KEY, 0.5) == 0.5
    state.forget(KEY)
    assert (state.lacking, state.half_bound, state.broken) == ({}, HalfBound(), {})
    assert state.find_pause(KEY, 0.5) == 0.0
