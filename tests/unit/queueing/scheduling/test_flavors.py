"""Tests of flavor assignment: the cases of `cases/flavors.yaml`, the order of preference, and the messages."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given as sampled
from hypothesis import strategies as st
from tests.unit.queueing import given

from muster.api.core import Taint, Toleration
from muster.queueing.model import FlavorResource, FlavorSpec, Fungibility, Mode, PodSetAssignment
from muster.queueing.scheduling.explain import describe_considered, explain_wait, find_reason
from muster.queueing.scheduling.flavors import assign, is_preferred, level_of
from muster.queueing.topology.nodelabels import NodeLabels

CASES = yaml.load((Path(__file__).parents[1] / "cases" / "flavors.yaml").read_text(), yaml.CSafeLoader)

_SPOT = (Taint(key="instance", value="spot", effect="NoSchedule"),)
_FLAVORS = [
    FlavorSpec("default"),
    FlavorSpec("uno"),
    FlavorSpec("due"),
    FlavorSpec("tre"),
    FlavorSpec("alpha", {"class": "alpha"}),
    FlavorSpec("beta", {"class": "beta"}),
    FlavorSpec("gamma", {"g-class": "gamma"}),
    FlavorSpec("delta", {"g-class": "delta"}),
    FlavorSpec("spot", taints=_SPOT),
    FlavorSpec(
        "spot-open",
        taints=_SPOT,
        tolerations=(Toleration(key="instance", operator="Equal", value="spot", effect="NoSchedule"),),
    ),
    FlavorSpec("rack-a", {"x": "a"}),
    FlavorSpec("rack-b", {"x": "b", "y": "k"}),
    FlavorSpec("rack-a2", {"x": "a"}),
    FlavorSpec("rack-b2", {"x": "b"}),
]
FLAVORS = {flavor.name: flavor for flavor in _FLAVORS}

_MODES = {"NoCandidates": Mode.NO_CANDIDATES, "Preempt": Mode.PREEMPT, "Reclaim": Mode.RECLAIM}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_assign(case: dict[str, Any]) -> None:
    queues = {"queue": case["queue"] | {"used": case.get("used", {})}}
    if "other" in case:
        queues["other"] = case["other"]
    tree = given.tree(queues, case.get("cohorts"))
    simulated = {given.fr(name): (_MODES[mode], level) for name, (mode, level) in case.get("oracle", {}).items()}
    expect = case["expect"]
    before = dict(tree.queues["queue"].usage)

    assignment = assign(
        given.workload(*map(given.podset, case["podsets"])),
        tree.queues["queue"],
        FLAVORS,
        lambda fr, _: simulated.get(fr, (Mode.PREEMPT, 0)),
        counts=case.get("counts"),
        start=_by_index(case, "start"),
        pinned=_by_index(case, "pinned"),
        fair=case.get("fair", False),
        ignore_undeclared=case.get("ignore_undeclared", False),
        nodes=_nodes(case.get("nodes", {})),
    )

    assert _mode(assignment.mode) == expect["mode"]
    assert assignment.level == expect.get("level", 0)
    assert find_reason(assignment) == expect.get("cause", "")
    if "usage" in expect:
        assert assignment.usage == given.usage(expect["usage"])
    assert [_shown(podset) for podset in assignment.podsets] == [
        {"name": "main", "flavors": {}, "reasons": []} | podset for podset in expect["podsets"]
    ]
    if "message" in expect:
        assert explain_wait(assignment) == expect["message"]
    assert tree.queues["queue"].usage == before


def _nodes(written: dict[str, dict[str, str]]) -> NodeLabels:
    nodes = NodeLabels()
    for name, labels in written.items():
        nodes.set_node(name, labels)
    return nodes


def _by_index(case: dict[str, Any], field: str) -> dict[tuple[int, str], Any]:
    parts = ((name.partition("/"), value) for name, value in case.get(field, {}).items())
    return {(int(index), resource): value for (index, _, resource), value in parts}


def _mode(mode: Mode) -> str:
    return {Mode.NO_FIT: "NoFit", Mode.FIT: "Fit"}.get(mode, "Preempt")


def _shown(podset: PodSetAssignment) -> dict[str, Any]:
    flavors = {r: f"{choice.flavor} {_mode(choice.mode)} {choice.tried}" for r, choice in podset.flavors.items()}
    return {"name": podset.name, "flavors": flavors, "reasons": list(podset.reasons)}


_BORROW: Fungibility = Fungibility(preference="BorrowingOverPreemption")
_PREEMPT: Fungibility = Fungibility(preference="PreemptionOverBorrowing")


@pytest.mark.parametrize(
    ("one", "other", "fungibility", "better"),
    [
        pytest.param((Mode.FIT, 0), (Mode.PREEMPT, 0), _BORROW, True, id="free before preempting"),
        pytest.param((Mode.PREEMPT, 1), (Mode.FIT, 2), _BORROW, False, id="borrowing far before preempting"),
        pytest.param((Mode.RECLAIM, 2), (Mode.PREEMPT, 1), _BORROW, True, id="taking back before preempting"),
        pytest.param((Mode.FIT, 1), (Mode.FIT, 2), _BORROW, True, id="near before far"),
        pytest.param((Mode.PREEMPT, 1), (Mode.FIT, 2), _PREEMPT, True, id="preempting before borrowing far"),
        pytest.param((Mode.PREEMPT, 1), (Mode.FIT, 1), _PREEMPT, False, id="free first where both borrow as far"),
        pytest.param((Mode.NO_CANDIDATES, 1), (Mode.FIT, 2), _PREEMPT, False, id="no victims after free"),
        pytest.param((Mode.FIT, 2), (Mode.NO_CANDIDATES, 1), _PREEMPT, True, id="free before no victims"),
        pytest.param((Mode.NO_CANDIDATES, 1), (Mode.NO_FIT, 0), _BORROW, True, id="no victims before never"),
        pytest.param((Mode.NO_FIT, 0), (Mode.NO_CANDIDATES, 1), _BORROW, False, id="never after no victims"),
        pytest.param((Mode.NO_CANDIDATES, 1), (Mode.NO_CANDIDATES, 2), _PREEMPT, True, id="no victims near"),
        pytest.param((Mode.NO_CANDIDATES, 2), (Mode.NO_CANDIDATES, 1), _PREEMPT, False, id="no victims far"),
        pytest.param((Mode.NO_FIT, 0), (Mode.NO_FIT, 3), _PREEMPT, False, id="never is never"),
    ],
)
def test_preferred(one: tuple[Mode, int], other: tuple[Mode, int], fungibility: Fungibility, better: bool) -> None:
    assert is_preferred(one, other, fungibility) is better


@pytest.mark.parametrize(
    ("amount", "level"),
    [(1, (0, True)), (4, (0, True)), (5, (1, True)), (8, (1, True)), (9, (2, False)), (99, (2, False))],
)
def test_level_is_the_height_of_the_subtree_that_has_enough(amount: int, level: tuple[int, bool]) -> None:
    tree = given.tree(
        {"queue": {"cohort": "low", "groups": [{"uno": {"gpu": 4}}]}},
        {"low": {"parent": "top", "groups": [{"uno": {"gpu": 4}}]}, "top": {"groups": [{"uno": {"gpu": 4}}]}},
    )
    assert level_of(tree.queues["queue"], FlavorResource("uno", "gpu"), amount) == level


def test_without_a_cohort_nothing_is_borrowed() -> None:
    tree = given.tree({"queue": {"groups": [{"uno": {"gpu": 4}}]}})
    assert level_of(tree.queues["queue"], FlavorResource("uno", "gpu"), 9) == (0, False)


def test_what_is_said_about_several_podsets() -> None:
    queue = {"groups": [{"spot": {"cpu": 8}, "default": {"cpu": 2}}], "used": {"default/cpu": 1}}
    tree = given.tree({"queue": queue})
    pods = [
        given.podset({"name": "head", "requests": {"cpu": 2}}),
        given.podset({"name": "rest", "requests": {"cpu": 1}}),
    ]
    assignment = assign(given.workload(*pods), tree.queues["queue"], FLAVORS, lambda *_: (Mode.PREEMPT, 0))
    assert explain_wait(assignment) == (
        "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor default, 1 more needed, "
        "untolerated taint {instance spot NoSchedule <nil>} in flavor spot; "
        "couldn't assign flavors to pod set rest: insufficient quota for cpu in flavor default, previously considered "
        "podsets requests (2) + current podset request (1) > maximum capacity (2), "
        "untolerated taint {instance spot NoSchedule <nil>} in flavor spot"
    )
    assert describe_considered(assignment) == (
        "head: default(preemptionMode=Preempt;insufficient unused quota for cpu in flavor default, 1 more needed), "
        "spot(NoFit;untolerated taint {instance spot NoSchedule <nil>} in flavor spot) | "
        "rest: default(NoFit;insufficient quota for cpu in flavor default, previously considered podsets requests (2) "
        "+ current podset request (1) > maximum capacity (2)), "
        "spot(NoFit;untolerated taint {instance spot NoSchedule <nil>} in flavor spot)"
    )


def test_borrowing_is_mentioned_where_there_is_room() -> None:
    tree = given.tree(
        {"queue": {"cohort": "team", "groups": [{"default": {"cpu": 1}}]}},
        {"team": {"groups": [{"default": {"cpu": 8}}]}},
    )
    pods = given.podset({"requests": {"cpu": 2}})
    assignment = assign(given.workload(pods), tree.queues["queue"], FLAVORS, lambda *_: (Mode.PREEMPT, 0))
    assert (explain_wait(assignment), describe_considered(assignment)) == ("", "main: default(Fit;borrow=1)")


def test_a_workload_that_grows_needs_only_the_difference_in_the_flavors_that_it_has() -> None:
    tree = given.tree({"queue": {"groups": [{"uno": {"cpu": 8}, "due": {"cpu": 8}}], "used": {"due/cpu": 3}}})
    grows = given.workload(given.podset({"count": 6, "requests": {"cpu": 1}}))
    pinned = {(0, "cpu"): "due"}
    node = tree.queues["queue"]
    more = assign(grows, node, FLAVORS, lambda *_: (Mode.NO_CANDIDATES, 0), counts=(3,), pinned=pinned)
    assert (more.mode, more.usage) == (Mode.FIT, {FlavorResource("due", "cpu"): 3000})


def test_a_flavor_that_is_simply_free_is_not_worth_a_word() -> None:
    tree = given.tree({"queue": {"groups": [{"default": {"cpu": 2}}]}})
    pods = given.podset({"requests": {"cpu": 2}})
    assignment = assign(given.workload(pods), tree.queues["queue"], FLAVORS, lambda *_: (Mode.PREEMPT, 0))
    assert (explain_wait(assignment), describe_considered(assignment), find_reason(assignment)) == ("", "", "")


# --- Laws.

RESOURCES = ("cpu", "gpu")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=2)
limits = st.none() | st.integers(0, 4)
flavor_quotas = st.fixed_dictionaries(
    {name: st.tuples(st.integers(0, 6), limits, limits).map(list) for name in RESOURCES}
)
queues = st.builds(
    lambda flavors, borrow, preempt, preference: {
        "cohort": "team",
        "groups": [flavors],
        "fungibility": {"whenCanBorrow": borrow, "whenCanPreempt": preempt, "preference": preference},
    },
    st.fixed_dictionaries({"uno": flavor_quotas, "due": flavor_quotas}),
    st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
    st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
    st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
)
podsets = st.lists(
    st.builds(
        lambda count, requests, together: {"count": count, "requests": requests, "together": together},
        st.integers(0, 3),
        amounts,
        st.sampled_from(["", "ranks"]),
    ),
    min_size=1,
    max_size=3,
)
answers = st.tuples(st.sampled_from([Mode.NO_CANDIDATES, Mode.PREEMPT, Mode.RECLAIM]), st.integers(0, 1))


@sampled(queues, queues, podsets, st.lists(st.tuples(st.sampled_from(["uno", "due"]), amounts), max_size=3), answers)
def test_what_fits_can_be_taken_and_is_what_was_asked_for(
    mine: dict[str, Any],
    theirs: dict[str, Any],
    asked: list[dict[str, Any]],
    used: list[tuple[str, dict[str, int]]],
    answer: tuple[Mode, int],
) -> None:
    tree = given.tree({"queue": mine, "other": theirs})
    for flavor, taken in used:
        tree.queues["other"].add(given.usage({f"{flavor}/{resource}": amount for resource, amount in taken.items()}))
    node = tree.queues["queue"]
    sets = [given.podset(podset) for podset in asked]
    assignment = assign(given.workload(*sets), node, FLAVORS, lambda *_: answer)

    taken_from = {podset.name: {choice.flavor for choice in podset.flavors.values()} for podset in assignment.podsets}
    assert all(len(flavors) <= 1 for flavors in taken_from.values())
    if assignment.mode == Mode.FIT:
        assert node.fits(assignment.usage)
        total: Counter[str] = Counter()
        for podset in sets:
            total.update({resource: amount * podset.count for resource, amount in podset.requests.items()})
        result: Counter[str] = Counter()
        for fr, amount in assignment.usage.items():
            result[fr.resource] += amount
        assert +result == +total
        assert (assignment.level > 0) is any(node.borrows(fr, amount) for fr, amount in assignment.usage.items())
        assert not explain_wait(assignment)
    else:
        assert explain_wait(assignment)
