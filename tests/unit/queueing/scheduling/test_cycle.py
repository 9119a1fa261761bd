"""Tests of the admission cycle: situations as data, and the laws that hold over random worlds and histories."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.naive_admission import Naive
from tests.unit.queueing.worlds import START, state, usage_of

from muster.queueing.model import CohortSpec, WorkloadInfo
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.scheduling.cycle import AdmissionSettings, CycleOutcome, CyclePreemption, run
from muster.queueing.scheduling.fairness import FairSharing

DOCUMENT = yaml.load((Path(__file__).parents[1] / "cases" / "cycle.yaml").read_text(), yaml.CSafeLoader)


class Played:
    """A case that is played from cycle to cycle."""

    def __init__(self, case: dict[str, Any]) -> None:
        world = DOCUMENT["worlds"].get(case.get("world"), {})
        case = {**world, **case}
        self.tree = aw.tree(case)
        self.queues = aw.queues((node.policy for node in self.tree.queues.values()), case["waiting"])
        fair = FairSharing() if case.get("fair") else None
        blocking = Blocking(**case["blocking"]) if "blocking" in case else None
        self.settings = AdmissionSettings(fair, blocking)
        self.outcome = self.cycle()

    def cycle(self) -> CycleOutcome:
        before = state(self.tree)
        self.outcome = run(self.tree, self.queues, aw.FLAVORS, self.settings, START)
        if not self.outcome.admitted:
            assert state(self.tree) == before
        return self.outcome

    def happen(self, step: dict[str, Any]) -> None:
        for name in step.get("evict", []):
            self.tree.hold(replace(self._holder(name), evicted=True))
        for name in step.get("end", []):
            holder = self._holder(name)
            self.tree.release(holder)
            self.queues.flush(self.tree.queues[holder.queue], holder.usage)
        for name in step.get("flush", []):
            self.queues.flush(self.tree.queues[name])
        for name in step.get("ready", []):
            self.tree.hold(replace(self._holder(name), ready=True))
        for name in step.get("leave", []):
            self.queues.remove(f"ns/{name}")
        for name, text in step.get("come", {}).items():
            self.queues.add(aw.workload(name, text))
        self.cycle()

    def _holder(self, name: str) -> WorkloadInfo:
        return next(
            node.workloads[f"ns/{name}"] for node in self.tree.queues.values() if f"ns/{name}" in node.workloads
        )

    def check(self, expect: dict[str, Any]) -> None:
        for what, wanted in expect.items():
            check: Callable[[Any], None] = getattr(self, f"check_{what}")
            check(wanted)
        for what in ("admitted", "preempted"):
            if what not in expect and "order" not in expect:
                getattr(self, f"check_{what}")({})

    def check_admitted(self, wanted: dict[str, str]) -> None:
        result = {_name(one.workload): one.assignment.usage for one in self.outcome.admitted}
        assert set(result) == set(wanted)
        assert {name: result[name] for name, text in wanted.items() if text} == {
            name: usage_of(text) for name, text in wanted.items() if text
        }
        for one in self.outcome.admitted:
            assert self.tree.queues[one.workload.queue].workloads[one.workload.key] is one.workload
            assert one.workload.key not in self.queues

    def check_order(self, wanted: list[str]) -> None:
        assert [_name(one.workload) for one in self.outcome.admitted] == wanted

    def check_preempted(self, wanted: dict[str, str]) -> None:
        result = {
            _name(victim.workload): _name(one.workload) for one in self.outcome.preemptions for victim in one.victims
        }
        assert result == wanted

    def check_pending(self, wanted: dict[str, Any]) -> None:
        result = {_name(one.workload): [one.reason, one.message] for one in self.outcome.pending}
        for name, text in wanted.items():
            assert result[name][: 2 if isinstance(text, list) else 1] == (text if isinstance(text, list) else [text])
            assert self.queues.why(f"ns/{name}") == tuple(result[name])

    def check_why(self, wanted: dict[str, list[str]]) -> None:
        for name, note in wanted.items():
            assert self.queues.why(f"ns/{name}") == tuple(note)

    def check_aside(self, wanted: list[str]) -> None:
        aside = sum(self.queues.counts(queue)[1] for queue in self.tree.queues)
        assert aside == len(wanted)
        assert all(f"ns/{name}" in self.queues for name in wanted)

    def check_heads(self, wanted: dict[str, str]) -> None:
        heads = {queue: self.queues.head(queue) for queue in self.tree.queues}
        assert {queue: _name(head) for queue, head in heads.items() if head is not None} == wanted

    def check_sticky(self, wanted: list[str]) -> None:
        waiting = [_name(one.workload) for queue in self.tree.queues for one in self.queues.yield_pending(queue)]
        assert [name for name in waiting if self.queues.sticky(f"ns/{name}")] == wanted

    def check_skips(self, wanted: dict[str, int]) -> None:
        assert self.outcome.skips == wanted

    def check_recomputed(self, wanted: dict[str, str]) -> None:
        assert self.outcome.recomputed == list(wanted.items())

    def check_looks(self, wanted: int) -> None:
        assert self.outcome.nominations == wanted


def _name(workload: WorkloadInfo) -> str:
    return workload.key.removeprefix("ns/")


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=lambda case: case["name"])
def test_situation(case: dict[str, Any]) -> None:
    played = Played(case)
    played.check(case["expect"])
    for step in case.get("then", []):
        played.happen(step)
        played.check(step["expect"])


def test_where_elastic_workloads_shrink_instead_none_is_evicted_and_the_head_keeps_what_it_will_get() -> None:
    case = {"queues": {"q": "cpu=4 within=lower"}, "admitted": {"low": "q cpu=4 p=0"}}
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), {"high": "q p=1 | cpu=2"})
    held: list[int] = []

    def spare(decision: CyclePreemption) -> bool:
        held.append(sum(tree.queues["q"].usage.values()))
        return [_name(victim.workload) for victim in decision.victims] == ["low"]

    before = usage(tree)
    outcome = run(tree, queues, aw.FLAVORS, AdmissionSettings(), START, spare=spare)
    assert (outcome.admitted, outcome.preemptions, held) == ([], [], [4])
    assert [_name(one.workload) for one in outcome.spared] == ["high"]
    assert usage(tree) == before
    [parked] = queues.parked.values()
    assert parked.claim == outcome.spared[0].assignment.usage
    assert (queues.sticky("ns/high"), parked.note.reason) == (True, "WaitingForPreemptedWorkloads")


def test_what_is_free_for_a_head_while_others_shrink_for_it_is_not_there_for_the_next() -> None:
    case = {
        "queues": {"q": "in=all cpu=4 within=lower", "next": "in=all cpu=0"},
        "admitted": {"low": "q cpu=2 p=0"},
    }
    waiting = {"high": "q p=1 | cpu=4", "small": "next | cpu=1"}
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), waiting)
    outcome = run(tree, queues, aw.FLAVORS, AdmissionSettings(), START, spare=lambda _: True)
    assert [_name(one.workload) for one in outcome.spared] == ["high"]
    assert outcome.admitted == []


def test_a_head_says_that_the_search_for_victims_gave_up() -> None:
    case = {
        "cohorts": {"all": "cpu=86"},
        "queues": {"ann": "in=all cpu=0 within=lower reclaim=any", "bob": "in=all cpu=0"},
        "admitted": {f"a{size}": f"ann cpu={size} p=-1" for size in range(1, 9)} | {"b": "bob cpu=50"},
    }
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), {"x": "ann | cpu=40"})
    (waiting,) = run(tree, queues, aw.FLAVORS, AdmissionSettings(FairSharing()), START).pending
    assert waiting.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 40m more "
        "needed. The search for workloads to preempt ended after 400 steps without a result"
    )


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    flavors = draw(st.sampled_from([["default"], ["spot", "solid"]]))
    cohorts = {
        f"c{number}": (f"in=c{draw(st.integers(0, number - 1))} " if number else "") + _quota(draw, flavors, 3)
        for number in range(draw(st.integers(1, 3)))
    }
    policies = st.sampled_from(["lower", "newer", "any", "never"])
    queues = {}
    for number in range(draw(st.integers(1, 4))):
        cohort = f"in=c{draw(st.integers(0, len(cohorts) - 1))} " if draw(st.integers(0, 5)) else ""
        words = [word for word in ("strict", "try-borrow", "stop-preempt") if draw(st.integers(0, 2)) == 0]
        if draw(st.booleans()):
            words += [f"within={draw(policies)}", f"reclaim={draw(policies)}"]
            words += draw(st.sampled_from([[], [], ["borrow=lower"], ["borrow=0"]]))
        if draw(st.integers(0, 3)) == 0:
            words.append("prefer=preemption")
        queues[f"q{number}"] = f"{cohort}{_quota(draw, flavors, 5)} {' '.join(words)}"
    names = st.sampled_from(sorted(queues))
    admitted = {
        f"a{number}": f"{draw(names)} {draw(st.sampled_from(flavors))}/cpu={draw(st.integers(1, 4))}"
        f" p={draw(st.integers(-1, 1))} since={number}"
        for number in range(draw(st.integers(0, 4)))
    }
    waiting = {f"w{number}": _waiting(draw, names) for number in range(draw(st.integers(1, 9)))}
    kinds = [draw(st.sampled_from(["end", "leave", "come"])) for _ in range(draw(st.integers(0, 6)))]
    steps = [(kind, _waiting(draw, names) if kind == "come" else draw(st.integers(0, 9))) for kind in kinds]
    return {"cohorts": cohorts, "queues": queues, "admitted": admitted, "waiting": waiting, "steps": steps}


def _quota(draw: st.DrawFn, flavors: list[str], most: int) -> str:
    def limits() -> str:
        return "".join(f",{kind}{draw(st.integers(0, 4))}" for kind in "bl" if draw(st.integers(0, 4)) == 0)

    return " ".join(f"{flavor}/cpu={draw(st.integers(0, most))}{limits()}" for flavor in flavors)


def _waiting(draw: st.DrawFn, names: st.SearchStrategy[str]) -> str:
    podset = f"cpu={draw(st.integers(1, 3))} x={draw(st.integers(1, 3))}"
    least = " least=1" if draw(st.integers(0, 5)) == 0 else ""
    more = f" | cpu={draw(st.integers(1, 2))}" if draw(st.integers(0, 4)) == 0 else ""
    return f"{draw(names)} p={draw(st.integers(-1, 2))} at={draw(st.integers(0, 5))} | {podset}{least}{more}"


WITH = (aw.FLAVORS, AdmissionSettings())
FAIR = st.sampled_from([None, FairSharing(), FairSharing(("LessThanInitialShare",), within_nominal=False)])


def decisions(outcome: CycleOutcome) -> tuple[Any, Any]:
    return (
        [(one.workload.key, one.assignment.usage) for one in outcome.admitted],
        [(one.workload.key, [victim.workload.key for victim in one.victims]) for one in outcome.preemptions],
    )


class Both:
    """The cycle and its definition, which play the same history."""

    def __init__(self, case: dict[str, Any], chosen: AdmissionSettings) -> None:
        self.settings = chosen
        self.tree, naive_tree = aw.tree(case), aw.tree(case)
        self.queues = aw.queues((node.policy for node in self.tree.queues.values()), case["waiting"])
        self.naive = Naive(naive_tree, chosen)
        for name, text in case["waiting"].items():
            self.naive.add(aw.workload(name, text))
        self.number = 0

    def run(self) -> None:
        for _ in range(20):
            before = set(self.queues.untried)
            assert before == set(self.naive.untried())
            outcome, expected = run(self.tree, self.queues, aw.FLAVORS, self.settings, START), self.naive.run()
            assert decisions(outcome) == (expected.admitted, expected.preemptions)
            assert usage(self.tree) == usage(self.naive.tree)
            if not self.queues.untried:
                return
        raise AssertionError("it never comes to rest")

    def step(self, kind: str, value: Any) -> None:
        if kind == "end":
            holders = [holder for node in self.tree.queues.values() for holder in node.workloads.values()]
            if holders:
                holder = sorted(holders, key=lambda one: one.key)[value % len(holders)]
                for tree in (self.tree, self.naive.tree):
                    tree.release(holder)
                self.queues.flush(self.tree.queues[holder.queue])
                self.naive.wake(self.naive.tree.queues[holder.queue])
        elif kind == "leave":
            if self.naive.waiting:
                key = sorted(self.naive.waiting)[value % len(self.naive.waiting)]
                self.queues.remove(key)
                self.naive.remove(key)
        else:
            self.number += 1
            workload = aw.workload(f"n{self.number}", value)
            self.queues.add(workload)
            self.naive.add(workload)


def usage(tree: Tree) -> dict[str, Any]:
    return {name: {fr: amount for fr, amount in node.usage.items() if amount} for name, node in tree.queues.items()}


MANY = settings(max_examples=max(401, settings.default.max_examples))


def check_history(case: dict[str, Any], chosen: AdmissionSettings) -> None:
    both = Both(case, chosen)
    both.run()
    for kind, value in case["steps"]:
        both.step(kind, value)
        both.run()


@MANY
@given(histories(), FAIR)
def test_one_cycle_is_one_by_one(case: dict[str, Any], fair: FairSharing | None) -> None:
    check_history(case, AdmissionSettings(fair=fair))


@given(histories())
def test_a_cycle_in_pieces_admits_the_same_in_the_same_order(case: dict[str, Any]) -> None:
    case["queues"] = {
        name: " ".join(word for word in text.split() if not word.startswith(("within", "reclaim", "borrow=")))
        for name, text in case["queues"].items()
    }
    whole, pieces = aw.tree(case), aw.tree(case)
    specs = [node.policy for node in whole.queues.values()]
    expected = [one.workload.uid for one in run(whole, aw.queues(specs, case["waiting"]), *WITH, START).admitted]
    queues = aw.queues(specs, case["waiting"])
    result: list[str] = []
    while queues.untried:
        result += [one.workload.uid for one in run(pieces, queues, *WITH, START, limit=1).admitted]
    assert result == expected


def looks_in_pieces(queues: dict[str, str], waiting: dict[str, str], limit: int) -> list[int]:
    """Return the nominations of each call until nothing is left to decide."""
    tree = aw.tree({"queues": queues})
    lines = aw.queues((node.policy for node in tree.queues.values()), waiting)
    looks: list[int] = []
    while lines.untried:
        looks.append(run(tree, lines, *WITH, START, limit=limit).nominations)
    assert len(lines) == sum(lines.counts(name)[1] for name in queues)
    return looks


def test_heads_that_are_nominated_anew_by_each_call_cost_no_more_than_what_is_decided() -> None:
    queues = {f"q{number}": "in=all cpu=9" for number in range(40)}
    waiting = {f"w{number}": f"q{number % 40} | cpu=1" for number in range(160)}
    looks = looks_in_pieces(queues, waiting, limit=3)
    assert sum(looks) <= 2 * 160
    assert max(looks) <= 2 * 40


def test_no_call_sets_more_aside_than_was_asked_for() -> None:
    waiting = {f"w{number}": f"q | cpu={number + 2}" for number in range(50)}
    looks = looks_in_pieces({"q": "cpu=1"}, waiting, limit=5)
    assert sum(looks) <= 50 + len(looks)
    assert max(looks) <= 5 + 1


def test_nobody_is_served_before_all_heads_are_known() -> None:
    waiting = {f"w{number}": f"one p=2 | cpu={number + 3}" for number in range(9)}
    waiting |= {"first": "one p=1 | cpu=2", "second": "two | cpu=2"}
    tree = aw.tree({"queues": {"one": "in=all cpu=1", "two": "in=all cpu=1"}})
    queues = aw.queues((node.policy for node in tree.queues.values()), waiting)
    result: list[str] = []
    while queues.untried:
        result += [one.workload.uid for one in run(tree, queues, *WITH, START, limit=1).admitted]
    assert result == ["first"]


@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_a_chain_of_cohorts_may_be_as_long_as_it_likes(fair: FairSharing | None) -> None:
    depth = 2 * sys.getrecursionlimit()
    tree = Tree()
    for number in reversed(range(depth)):  # each is put over all that are there, which is little work
        tree.set_cohort(CohortSpec(f"c{number}", f"c{number - 1}" if number else ""))
    for name, cohort in (("low", depth - 1), ("lender", 0)):
        tree.set_queue(aw.queue(name, f"in=c{cohort} cpu={'0' if name == 'low' else '4'} reclaim=any"))
    queues = aw.queues((node.policy for node in tree.queues.values()), {"guest": "low | cpu=4"})
    assert [_name(one.workload) for one in run(tree, queues, *WITH, START).admitted] == ["guest"]
    queues.add(aw.workload("owner", "lender | cpu=4"))
    outcome = run(tree, queues, aw.FLAVORS, AdmissionSettings(fair), START)
    assert [_name(victim.workload) for one in outcome.preemptions for victim in one.victims] == ["guest"]


def play(case: dict[str, Any], chosen: AdmissionSettings, check: Callable[[Tree], None]) -> None:
    """Play a history in which victims leave when they are evicted."""
    tree = aw.tree({**case, "admitted": {}})
    queues = aw.queues((node.policy for node in tree.queues.values()), case["waiting"])

    def free(workload: WorkloadInfo) -> None:
        tree.release(workload)
        queues.flush(tree.queues[workload.queue], workload.usage)

    for number, (kind, value) in enumerate([("begin", 0), *case["steps"]]):
        holders = sorted((one for node in tree.queues.values() for one in node.workloads.values()), key=_name)
        if kind == "come":
            queues.add(aw.workload(f"n{number}", value))
        elif kind == "end" and holders:
            free(holders[value % len(holders)])
        elif kind == "leave" and holders:  # here: its pods are ready
            tree.hold(replace(holders[value % len(holders)], ready=True))
        outcome = run(tree, queues, aw.FLAVORS, chosen, START)
        check(tree)
        for victim in (victim for one in outcome.preemptions for victim in one.victims):
            free(victim.workload)
            check(tree)


@given(histories(), FAIR)
def test_no_more_is_used_than_there_is(case: dict[str, Any], fair: FairSharing | None) -> None:
    def check(tree: Tree) -> None:
        for node in tree.queues.values():
            assert all(node.available(fr) >= 0 for fr in node.policy.quotas)

    play(case, AdmissionSettings(fair), check)


@given(histories(), FAIR)
def test_while_one_is_not_ready_nobody_else_is_admitted(case: dict[str, Any], fair: FairSharing | None) -> None:
    def check(tree: Tree) -> None:
        assert len(tree.unready) <= 1

    play(case, AdmissionSettings(fair, Blocking(everything=True)), check)


@given(histories())
def test_of_each_queue_one_at_a_time(case: dict[str, Any]) -> None:
    def check(tree: Tree) -> None:
        for node in tree.queues.values():
            assert sum(not one.ready for one in node.workloads.values()) <= 1

    play(case, AdmissionSettings(blocking=Blocking(queues=dict.fromkeys(case["queues"], True))), check)
