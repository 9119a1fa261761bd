"""Tests of the choice of workloads to preempt: situations as data, and laws on random trees."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing import worlds
from tests.unit.queueing.random_worlds import built
from tests.unit.queueing.random_worlds import worlds as random_worlds
from tests.unit.queueing.slow_preemption import SlowClassical, SlowFair
from tests.unit.queueing.worlds import World, state, world

from muster.queueing.model import FlavorResource, Mode
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.preemption.candidates import AssumedAdmission, PreemptionRequest, Reason
from muster.queueing.scheduling.preemption.classical import Preemptor, Victim, explain_preemption

_CASES = Path(__file__).parents[2] / "cases"


def _load(*names: str) -> list[Any]:
    params = []
    for name in names:
        data = yaml.load((_CASES / f"{name}.yaml").read_text(), yaml.CSafeLoader)
        params += [pytest.param(case, data.get("worlds", {}), id=f"{name}: {case['name']}") for case in data["cases"]]
    return params


def _found(found: tuple[Victim, ...]) -> dict[str, str]:
    return {victim.workload.uid: victim.reason for victim in found}


def _victims(here: World, fair: FairSharing | None) -> tuple[Victim, ...]:
    return Preemptor(here.tree, here.incoming, fair=fair).victims(here.assignment)


@pytest.mark.parametrize(("case", "shared"), _load("preemption", "preemption_hierarchical"))
def test_classical(case: dict[str, Any], shared: dict[str, Any]):
    here = world(case, shared)
    before = state(here.tree)
    assert (
        _found(Preemptor(here.tree, here.incoming, past=case.get("past")).victims(here.assignment)) == case["victims"]
    )
    assert state(here.tree) == before


@pytest.mark.parametrize(("case", "shared"), _load("preemption_fair"))
def test_fair(case: dict[str, Any], shared: dict[str, Any]):
    here = world(case, shared)
    fair = FairSharing(
        strategies=tuple(case.get("strategies", FairSharing().strategies)),
        within_nominal=case.get("within-nominal", True),
    )
    before = state(here.tree)
    assert _found(Preemptor(here.tree, here.incoming, fair=fair).victims(here.assignment)) == case["victims"]
    assert state(here.tree) == before


FAIR = (
    None,
    FairSharing(),
    FairSharing(within_nominal=False),
    FairSharing(strategies=("LessThanOrEqualToFinalShare",)),
    FairSharing(strategies=("LessThanInitialShare",)),
)
fairness = st.sampled_from(FAIR)


@given(random_worlds(), fairness)
def test_equals_the_slow_one(case: dict[str, Any], fair: FairSharing | None):
    here, again = built(case), built(case)
    result = [(victim.workload.uid, victim.reason) for victim in _victims(here, fair)]
    if fair is None:
        expected = SlowClassical(again.tree, again.incoming, again.assignment).run()
    else:
        expected = SlowFair(again.tree, again.incoming, again.assignment).run(fair)
    # If the usual order finds nothing, others are tried: see `test_thorough`.
    assert result == expected or not expected


@given(random_worlds(), fairness)
def test_what_was_found_before_changes_no_answer(case: dict[str, Any], fair: FairSharing | None):
    here = built(case)
    once = Preemptor(here.tree, here.incoming, fair=fair)
    for _ in range(2):
        for fr, amount in here.assignment.usage.items():
            assert once.oracle(fr, amount) == Preemptor(here.tree, here.incoming, fair=fair).oracle(fr, amount)
        assert once.victims(here.assignment) == _victims(here, fair)


@given(random_worlds(), fairness)
def test_the_tree_is_unchanged(case: dict[str, Any], fair: FairSharing | None):
    here = built(case)
    before = state(here.tree)
    _victims(here, fair)
    for fr, amount in here.assignment.usage.items():
        Preemptor(here.tree, here.incoming, fair=fair).oracle(fr, amount)
    assert state(here.tree) == before


@given(random_worlds(), fairness)
def test_the_order_of_admission_in_memory_does_not_matter(case: dict[str, Any], fair: FairSharing | None):
    assert _found(_victims(built(case), fair)) == _found(_victims(built(case, backwards=True), fair))


@given(random_worlds(), fairness)
def test_the_workload_fits_without_the_victims_and_not_without_one_less(case: dict[str, Any], fair: FairSharing | None):
    here = built(case)
    result = _victims(here, fair)
    node, usage = here.tree.queues[here.incoming.queue], here.assignment.usage

    def fits() -> bool:
        return node.fits(usage)

    def within_quota() -> bool:
        return not any(node.borrows(fr, amount) for fr, amount in usage.items() if amount)

    for victim in result:
        here.tree.release(victim.workload)
    assert fits() or not result
    at_home = within_quota()
    for victim in reversed(result):
        here.tree.hold(victim.workload)
        # Victims found without borrowing must have left for that, even if borrowing would suffice.
        assert not fits() or (fair is None and at_home and not within_quota())
        here.tree.release(victim.workload)


@given(random_worlds(), fairness)
def test_the_policies_hold(case: dict[str, Any], fair: FairSharing | None):
    here = built(case)
    mine, rules = here.incoming, here.tree.queues[here.incoming.queue].policy.preemption
    for victim in _victims(here, fair):
        other = victim.workload
        own = other.queue == mine.queue
        assert own == (victim.reason == "InClusterQueue")
        policy = rules.within_queue if own else rules.within_cohort
        assert policy != "Never"
        if policy == "LowerPriority":
            assert other.priority < mine.priority
        if policy == "LowerOrNewerEqualPriority":
            assert (other.priority, mine.queued) < (mine.priority, other.queued)
        if victim.reason == "InCohortReclaimWhileBorrowing":
            assert rules.while_borrowing
            assert other.priority < mine.priority
            assert rules.threshold is None or other.priority <= rules.threshold


def test_a_trial_is_undone_when_it_fails():
    here = world({"queues": {"q": "cpu=4 within=lower"}, "admitted": {"w": "q cpu=4"}, "incoming": "q cpu=2 p=1"})
    before = state(here.tree)
    request = PreemptionRequest(here.incoming, here.assignment.usage, frozenset(here.assignment.usage))

    def interrupted() -> None:
        with AssumedAdmission(here.tree, request) as trial:
            trial.take(Victim(here.tree.queues["q"].workloads["ns/w"], "InClusterQueue"))
            assert state(here.tree) != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert state(here.tree) == before


def test_a_workload_does_not_displace_itself():
    here = world({"queues": {"q": "cpu=4 within=any"}, "incoming": "q cpu=4"})
    here.tree.hold(replace(here.incoming, usage=worlds.usage_of("cpu=4"), reserved=worlds.START))
    assert Preemptor(here.tree, here.incoming).victims(here.assignment) == ()


def test_nothing_is_contested():
    here = world({"queues": {"q": "cpu=4 within=any"}, "admitted": {"w": "q cpu=4"}, "incoming": "q cpu=1:fit"})
    assert Preemptor(here.tree, here.incoming).victims(here.assignment) == ()


CPU = FlavorResource("default", "cpu")
_HOUSE = {
    "cohorts": {"town": "", "street": "in=town cpu=4"},
    "queues": {
        "home": "in=street cpu=2 within=lower reclaim=any",
        "next": "in=street cpu=0",
        "away": "in=town cpu=4",
    },
}


@pytest.mark.parametrize("fair", [None, FairSharing()], ids=["classical", "fair"])
@pytest.mark.parametrize(
    ("admitted", "amount", "answer"),
    [
        pytest.param({"a": "away cpu=10"}, 2, (Mode.RECLAIM, 0), id="reclaim what is its own"),
        pytest.param({"a": "away cpu=10"}, 6, (Mode.RECLAIM, 1), id="reclaim what is the street's"),
        pytest.param({"a": "home cpu=10 p=-1"}, 10, (Mode.PREEMPT, 2), id="from its own workloads, up to the town"),
        pytest.param({"a": "home cpu=10"}, 4, (Mode.NO_CANDIDATES, 2), id="nobody"),
    ],
)
def test_oracle(admitted: dict[str, str], amount: int, answer: tuple[Mode, int], fair: FairSharing | None):
    here = world({**_HOUSE, "admitted": admitted, "incoming": "home cpu=1"})
    before = state(here.tree)
    assert Preemptor(here.tree, here.incoming, fair=fair).oracle(CPU, amount) == answer
    assert state(here.tree) == before


_WHY = [
    ("home", "home", "InClusterQueue", "prioritization in the ClusterQueue"),
    ("home", "away", "InCohortReclamation", "reclamation within the cohort"),
    ("home", "next", "InCohortReclaimWhileBorrowing", "reclamation within the cohort while borrowing"),
    ("home", "away", "InCohortFairSharing", "Fair Sharing within the cohort"),
]
_PATHS = {"home": "/town/street/home", "next": "/town/street/next", "away": "/town/away"}


@pytest.mark.parametrize(("queue", "other", "reason", "because"), _WHY, ids=[why[2] for why in _WHY])
def test_message(queue: str, other: str, reason: Reason, because: str):
    here = world({**_HOUSE, "admitted": {"w": f"{other} cpu=1"}, "incoming": f"{queue} cpu=1"})
    victim = Victim(here.tree.queues[other].workloads["ns/w"], reason)
    assert explain_preemption(here.tree, here.incoming, victim, job_uid="job-7") == (
        f"Preempted to accommodate a workload (UID: incoming, JobUID: job-7) due to {because}; "
        f"preemptor path: {_PATHS[queue]}; preemptee path: {_PATHS[other]}"
    )


def test_message_to_a_variant_that_gives_way_to_a_better_one():
    here = world({"queues": {"q": "cpu=1"}, "admitted": {"w": "q cpu=1"}, "incoming": "q cpu=1"})
    victim = Victim(here.tree.queues["q"].workloads["ns/w"], "FlavorMigration")
    changes = explain_preemption(here.tree, here.incoming, victim)
    assert (
        changes
        == "Evicted to accommodate a workload (UID: incoming) due to migration to more favorable resource flavor"
    )


def test_message_without_uids_and_cohort():
    here = world({"queues": {"q": "cpu=1"}, "admitted": {"w": "q cpu=1"}, "incoming": "q cpu=1"})
    victim = Victim(here.tree.queues["q"].workloads["ns/w"], "InClusterQueue")
    assert explain_preemption(here.tree, replace(here.incoming, uid=""), victim) == (
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to prioritization in the "
        "ClusterQueue; preemptor path: /q; preemptee path: /q"
    )


class _Counting(dict[FlavorResource, int]):
    """Usage that counts how often it is read."""

    asked = 0

    def get(self, *key: Any) -> Any:
        _Counting.asked += 1
        return super().get(*key)


@pytest.mark.parametrize("fair", [None, FairSharing()], ids=["classical", "fair"])
@pytest.mark.parametrize(
    "incoming",
    [
        pytest.param("home cpu=30", id="nobody of lower priority"),
        pytest.param("home cpu=30 p=-9", id="all of higher priority"),
        pytest.param("home cpu=9999 p=9", id="not enough if all went"),
    ],
)
def test_a_hopeless_workload_is_refused_without_a_look_at_the_admitted(incoming: str, fair: FairSharing | None):
    here = world(
        {
            "queues": {"home": "in=all cpu=50 within=lower reclaim=lower", "away": "in=all cpu=50"},
            "admitted": {f"w{number}": f"{'home' if number % 4 else 'away'} cpu=1" for number in range(400)},
            "incoming": incoming,
        }
    )
    for node in here.tree.queues.values():
        for held in list(node.workloads.values()):
            here.tree.hold(replace(held, usage=_Counting(held.usage or {})))
    _Counting.asked = 0
    assert Preemptor(here.tree, here.incoming, fair=fair).victims(here.assignment) == ()
    assert _Counting.asked == 0


@pytest.mark.parametrize("fair", [None, FairSharing()], ids=["classical", "fair"])
def test_who_does_not_borrow_is_not_looked_at(fair: FairSharing | None):
    here = world(
        {
            "queues": dict.fromkeys(("home", "away", "far"), "in=all cpu=5 reclaim=any within=any"),
            "admitted": {"a": "away cpu=5", "b": "far cpu=9"},
            "incoming": "home cpu=5",
        }
    )
    away = here.tree.queues["away"]
    away.usage = _Counting(away.usage)
    _Counting.asked = 0
    assert _found(_victims(here, fair)) == {"b": "InCohortReclamation"}
    assert _Counting.asked == 0
