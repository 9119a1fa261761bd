"""The admission cycle: situations as data, and the laws that hold over random worlds and histories."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.naive_admission import Naive
from tests.unit.queueing.worlds import START

from muster.queueing.cycle import Outcome, Settings, run
from muster.queueing.fairness import FairSharing
from muster.queueing.quota import Tree


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
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("end"), st.integers(0, 9)),
                st.tuples(st.just("leave"), st.integers(0, 9)),
                st.tuples(st.just("come"), st.builds(lambda: None)),
            ),
            max_size=6,
        )
    )
    steps = [(kind, _waiting(draw, names) if kind == "come" else value) for kind, value in steps]
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


FAIR = st.sampled_from([None, FairSharing(), FairSharing(("LessThanInitialShare",), within_nominal=False)])


def decisions(outcome: Outcome) -> tuple[Any, Any]:
    return (
        [(one.workload.key, one.assignment.usage) for one in outcome.admitted],
        [(one.workload.key, [victim.workload.key for victim in one.victims]) for one in outcome.preemptions],
    )


class Both:
    """The cycle and its definition, through the same history."""

    def __init__(self, case: dict[str, Any], chosen: Settings) -> None:
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


def check_history(case: dict[str, Any], chosen: Settings) -> None:
    both = Both(case, chosen)
    both.run()
    for kind, value in case["steps"]:
        both.step(kind, value)
        both.run()


@MANY
@given(histories(), FAIR)
def test_one_cycle_is_one_by_one(case: dict[str, Any], fair: FairSharing | None) -> None:
    check_history(case, Settings(fair=fair))
