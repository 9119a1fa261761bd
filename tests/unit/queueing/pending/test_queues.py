"""Tests of the queues: which workloads wait, which are tried, and which events wake which.

The pitfalls of queueing have tests by name, and laws hold over random histories.
"""

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.worlds import START

from muster.queueing.model import FlavorResource, PendingReason, Usage, WorkloadInfo
from muster.queueing.moments import NEVER
from muster.queueing.pending.ordering import place
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.cycle import AdmissionSettings, CycleOutcome, run

NOTE = PendingReason("WaitingForQuota", "there is not enough")
GPU = FlavorResource("default", "gpu")


class Two:
    """The ClusterQueues `best` and `strict` in a cohort, and the workloads that wait there."""

    def __init__(self, **waiting: str) -> None:
        self.tree = aw.tree({"queues": {"best": "in=both gpu=5 tpu=5 for=team:red", "strict": "in=both gpu=5 strict"}})
        self.specs = {name: node.policy for name, node in self.tree.queues.items()}
        self.queues = aw.queues(self.specs.values(), {})
        self.queues.set_namespace("ns", {"team": "red"})
        for name, text in waiting.items():
            self.queues.add(aw.workload(name, text))

    def active(self, queue: str = "best") -> list[str]:
        """Return the workloads to be tried, in order, by taking one after the other away."""
        names = []
        while (head := self.queues.head(queue)) is not None:
            names.append(head.uid)
            self.queues.remove(head.key)
        return names

    def order(self, queue: str = "best") -> list[str]:
        return [one.workload.uid for one in self.queues.yield_pending(queue)]

    def aside(self, *names: str) -> None:
        for name in names:
            one = self.queues.position(f"ns/{name}")
            assert one is not None
            self.queues.set_aside(one.workload, NOTE)

    def flush(self, *freed: FlavorResource) -> None:
        self.queues.flush(self.tree.queues["best"], freed or None)


def cycle(two: Two, seconds: int = 0) -> CycleOutcome:
    return run(two.tree, two.queues, aw.FLAVORS, AdmissionSettings(), START + timedelta(seconds=seconds))


# What comes, changes and goes.


@pytest.mark.parametrize(
    ("newcomer", "is_behind"),
    [
        ("best at=2 | gpu=1", True),
        ("best at=2 | gpu=2", False),  # it may pass
        ("best at=2 p=1 | gpu=1", False),
        ("best at=0 | gpu=1", False),
        ("strict at=2 | gpu=2", True),
        ("strict at=2 p=1 | gpu=2", False),
        ("strict at=0 | gpu=1", False),
    ],
)
def test_a_newcomer_is_behind_its_class_and_in_a_strict_queue_behind_all(newcomer: str, is_behind: bool) -> None:
    first = {queue: aw.workload(f"first-{queue}", f"{queue} at=1 | gpu=1") for queue in ("best", "strict")}
    two, new = Two(), aw.workload("new", newcomer)
    assert not two.queues.is_behind(new)
    for one in first.values():
        two.queues.add(one)
    assert two.queues.is_behind(new) == is_behind
    assert two.queues.is_after(new, first[new.queue]) == is_behind
    assert not two.queues.is_after(new, first["strict" if new.queue == "best" else "best"])


def test_rules_differ_once_a_local_queue_stops_or_a_queue_changes() -> None:
    two = Two()
    before = two.queues.list_rules(["best"])
    two.queues.stop_local("ns/lq")
    assert two.queues.list_rules(["best"]) != before
    two.queues.stop_local("ns/lq", stopped=False)
    two.queues.set_queue(replace(two.specs["strict"], strict=False))
    assert two.queues.list_rules(["best"]) == before
    two.queues.set_queue(two.specs["best"], active=False)
    assert two.queues.list_rules(["best"]) != before


def test_the_first_is_the_head() -> None:
    two = Two(b="best at=2 | gpu=1", a="best at=1 | gpu=1", c="best p=1 at=3 | gpu=1")
    assert two.queues.untried == ["best"]
    assert two.active() == ["c", "a", "b"]
    assert two.queues.untried == []


def test_a_change_of_place_moves_it() -> None:
    two = Two(a="best at=1 | gpu=1", b="best at=2 | gpu=1")
    two.queues.add(aw.workload("b", "best p=1 at=2 | gpu=1"))
    assert two.order() == ["b", "a"] == two.active()


def test_a_workload_may_change_its_queue() -> None:
    two = Two(a="best | gpu=1")
    two.queues.add(aw.workload("a", "strict | gpu=1"))
    assert (two.order("best"), two.order("strict")) == ([], ["a"])


def test_what_is_removed_is_gone_whether_it_was_aside_or_not() -> None:
    two = Two(a="best | gpu=1", b="best | gpu=2")
    two.aside("a")
    for name in ("a", "b", "nobody"):
        two.queues.remove(f"ns/{name}")
    assert two.order() == []
    assert len(two.queues) == 0
    assert two.queues.counts("best") == (0, 0)


def test_what_is_aside_stays_there_if_nothing_changes() -> None:
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.queues.add(replace(aw.workload("a", "best | gpu=9"), created=START - timedelta(days=1)))
    assert two.queues.counts("best") == (0, 1)
    assert two.queues.why("ns/a") == NOTE


@pytest.mark.parametrize("line", ["best | gpu=8", "best | gpu=9 x=2", "best p=1 | gpu=9", "best | gpu=9 least=0"])
def test_what_is_aside_is_tried_again_when_it_changes(line: str) -> None:
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.queues.add(aw.workload("a", line))
    assert two.active() == ["a"]


def test_workloads_of_a_queue_that_comes_later_wait_for_it() -> None:
    queues = Queues()
    queues.add(aw.workload("a", "later | gpu=1"))
    assert queues.why("ns/a") == ("Misconfigured", "ClusterQueue later doesn't exist")
    assert queues.untried == []
    queues.set_queue(aw.queue("later", "gpu=1"))
    assert queues.untried == ["later"]
    queues.remove_queue("later")
    assert queues.untried == []
    assert [one.workload.uid for one in queues.yield_pending("later")] == ["a"]
    queues.remove("ns/a")
    assert not list(queues.yield_pending("later"))


# What is in the way.


def test_a_stopped_queue_is_not_tried_and_keeps_its_order() -> None:
    two = Two(a="best | gpu=1", b="best at=1 | gpu=1")
    two.queues.set_queue(replace(two.specs["best"], stop="Hold"))
    assert two.queues.untried == []
    assert two.order() == ["a", "b"]
    assert two.queues.counts("best") == (0, 2)
    assert two.queues.why("ns/a") == ("Suspended", "ClusterQueue best is inactive")
    two.queues.set_queue(two.specs["best"])
    assert two.active() == ["a", "b"]


def test_a_queue_that_is_told_again_is_not_tried_again() -> None:
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.queues.set_queue(two.specs["best"])
    assert two.queues.untried == []
    two.queues.set_queue(replace(two.specs["best"], strict=True))
    assert two.queues.untried == ["best"]


def test_an_inactive_queue_is_not_tried() -> None:
    two = Two(a="best | gpu=1")
    two.queues.set_queue(two.specs["best"], active=False)
    assert two.queues.why("ns/a") == ("Suspended", "ClusterQueue best is inactive")
    assert two.queues.untried == []


def test_a_stopped_local_queue_holds_only_its_own() -> None:
    two = Two(a="best lq=one | gpu=1", b="best lq=two | gpu=1")
    two.queues.stop_local("ns/one")
    assert two.queues.why("ns/a") == ("Suspended", "LocalQueue one is inactive")
    two.queues.add(aw.workload("c", "best lq=one | gpu=1"))
    # None of its own counts as pending.
    assert two.queues.sum_requests("best") == {"gpu": 1, "tpu": 0}
    assert two.queues.counts("best") == (1, 0)
    assert two.queues.counts_by_local("best") == {"ns/two": (1, 0)}
    assert [two.queues.waiting_local(f"ns/{name}", "best") for name in ("one", "two")] == [0, 1]
    assert (two.order(), two.queues.position("ns/a")) == (["b"], None)
    assert [(one.workload.uid, one.in_queue, one.in_local) for one in two.queues.yield_pending("best")] == [("b", 0, 0)]
    assert list(two.queues.pending_local("ns/one", "best")) == []
    assert sorted(two.queues.list_waiting("best")) == ["ns/a", "ns/b", "ns/c"]
    two.queues.remove("ns/c")
    two.queues.add(aw.workload("c", "best lq=one | gpu=1"))
    two.queues.stop_local("ns/one", stopped=False)
    assert two.order() == ["a", "b", "c"]
    assert (two.queues.counts("best"), two.queues.waiting_local("ns/one", "best")) == ((3, 0), 2)
    assert two.active() == ["a", "b", "c"]


def test_a_namespace_counts_as_it_is_now() -> None:
    two = Two(a="best | gpu=1", b="best namespace=other | gpu=1")
    assert two.queues.why("other/b") == ("Misconfigured", "workload namespace doesn't match ClusterQueue selector")
    assert two.queues.counts("best") == (1, 1)
    two.queues.set_namespace("other", {"team": "red"})
    assert two.queues.counts("best") == (2, 0)
    two.queues.set_namespace("ns", {})
    assert two.active() == ["b"]


def test_no_selector_is_no_namespace() -> None:  # pitfall 43
    two = Two(a="best | gpu=1")
    two.queues.set_queue(replace(two.specs["best"], namespaces=None))
    assert two.queues.counts("best") == (0, 1)


def test_held_back_until_the_moment_itself() -> None:  # pitfall 6: at the second, not after it
    two = Two()
    then = START + timedelta(seconds=60)
    two.queues.add(aw.workload("a", "best | gpu=1"), until=then)
    assert two.queues.next_wake == then
    assert two.queues.counts("best") == (0, 1)
    assert not cycle(two, 59).admitted
    assert [one.workload.uid for one in cycle(two, 60).admitted] == ["a"]
    assert two.queues.next_wake is None


def test_a_flush_wakes_nobody_who_is_held_back() -> None:  # pitfall 6
    two = Two()
    two.queues.add(aw.workload("a", "best | gpu=1"), until=START + timedelta(seconds=60))
    two.queues.add(aw.workload("b", "best | gpu=1"), until=NEVER)
    two.flush()
    assert two.queues.untried == []
    assert two.queues.why("ns/a") == two.queues.why("ns/b")
    two.queues.advance(START + timedelta(days=36500))
    assert two.active() == ["a"]


def test_the_last_word_counts_on_when_it_is_held_back() -> None:
    two = Two()
    for seconds in (10, 99, 50):
        two.queues.add(aw.workload("a", "best | gpu=1"), until=START + timedelta(seconds=seconds))
    assert two.queues.next_wake == START + timedelta(seconds=50)
    two.queues.add(aw.workload("a", "best | gpu=1"))
    assert two.active() == ["a"]
    assert two.queues.next_wake is None


def test_what_is_removed_does_not_wake() -> None:
    two = Two()
    two.queues.add(aw.workload("a", "best | gpu=1"), until=START)
    two.queues.remove("ns/a")
    assert two.queues.next_wake is None
    two.queues.advance(START)
    assert two.queues.untried == []


# Aside and awake.


def test_who_waits_for_its_victims_is_not_set_aside_with_others_like_it() -> None:
    two = Two(a="best | gpu=9")
    two.queues.add(replace(aw.workload("b", "best at=1 | gpu=9"), preempting=True))
    two.aside("a")
    assert two.active() == ["b"]


def test_classes_count_as_tried_until_they_are_to_be_tried_again() -> None:
    two = Two(a="best | gpu=9", b="best | gpu=8", c="best | tpu=9")
    two.aside("a", "c")
    assert two.queues.classes("best") == (1, 2)
    two.flush(GPU)
    assert two.queues.classes("best") == (2, 1)
    two.queues.set_queue(two.specs["best"], active=False)
    assert two.queues.classes("best") == (0, 3)
    assert two.queues.classes("nothing") == (0, 0)


def test_all_alike_are_set_aside_at_once() -> None:
    lines = {"a": "best | gpu=9", "b": "best at=1 | gpu=9", "c": "best p=1 | gpu=9", "d": "best at=2 | gpu=8"}
    two = Two(**lines)
    two.aside("a")
    assert two.queues.counts("best") == (2, 2)
    assert two.queues.classes("best")[1] == 1
    assert two.queues.why("ns/b") == NOTE
    assert two.queues.why("ns/c") is None
    assert two.active() == ["c", "d"]


def test_a_newcomer_is_where_those_like_it_are() -> None:
    two = Two(a="best at=1 | gpu=9")
    two.aside("a")
    two.queues.add(aw.workload("b", "best at=2 | gpu=9"))
    assert two.queues.untried == []
    assert two.queues.why("ns/b") == NOTE


def test_a_newcomer_that_is_before_those_like_it_is_tried() -> None:  # it may displace whom they may not
    two = Two(a="best at=1 | gpu=9")
    two.aside("a")
    two.queues.add(aw.workload("b", "best at=0 | gpu=9"))
    assert two.active() == ["b", "a"]


def test_a_flush_is_for_the_whole_tree() -> None:  # pitfall 12
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.queues.flush(two.tree.queues["strict"])
    assert two.active() == ["a"]


def test_a_flush_of_another_tree_wakes_nobody() -> None:
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.queues.flush(two.tree.set_queue(aw.queue("far", "gpu=1")))
    assert two.queues.untried == []


def test_a_flush_wakes_who_might_take_what_is_free() -> None:
    two = Two(a="best | gpu=9", b="best at=1 | tpu=9", c="best at=2 | gpu=9 | tpu=9")
    two.aside("a", "b", "c")
    two.flush(FlavorResource("default", "tpu"))
    assert two.active() == ["b", "c"]


def test_the_numbers_of_local_queues_include_a_flush() -> None:
    two = Two(a="best | gpu=9")
    two.aside("a")
    two.flush(GPU)
    assert two.queues.counts_by_local("best") == {"ns/best": (1, 0)}


def test_several_flushes_are_one() -> None:
    two = Two(a="best | gpu=9", b="best at=1 | tpu=9")
    two.aside("a", "b")
    two.flush(FlavorResource("default", "tpu"))
    two.flush(FlavorResource("other", "gpu"))
    two.queues.flush(two.tree.queues["strict"], [GPU])
    assert two.queues.untried == ["best"]
    assert two.queues.counts("best") == (2, 0)


def test_the_head_of_a_strict_queue_stays_and_others_wait() -> None:  # pitfall 13
    two = Two(a="strict at=1 | gpu=9", b="strict at=2 | gpu=1", c="best | gpu=1")
    head = two.queues.head("strict")
    assert head is not None
    two.queues.park(head, NOTE, {})
    assert two.queues.untried == ["best"]
    assert two.queues.head("strict") is head
    two.queues.add(aw.workload("d", "strict at=3 | gpu=1"))
    assert two.queues.untried == ["best"]
    two.queues.add(aw.workload("e", "strict p=1 at=3 | gpu=1"))
    assert set(two.queues.untried) == {"best", "strict"}
    assert two.active("strict") == ["e", "a", "b", "d"]  # by order, not where it was put back


def test_a_sticky_head_stays_the_head() -> None:  # pitfall 14
    two = Two(a="best | gpu=1")
    head = two.queues.head("best")
    assert head is not None
    two.queues.park(head, NOTE, {GPU: 1}, sticky=True)
    two.queues.add(aw.workload("b", "best p=9 | gpu=1"))
    assert two.queues.untried == []
    assert two.order() == ["a", "b"]
    two.aside("a")
    assert two.order() == ["b", "a"]
    assert two.queues.head("best") is not head


def test_a_strict_queue_has_no_sticky_head() -> None:
    two = Two(a="strict | gpu=1")
    head = two.queues.head("strict")
    assert head is not None
    two.queues.park(head, NOTE, {GPU: 1}, sticky=True)
    two.queues.add(aw.workload("b", "strict p=9 | gpu=1"))
    assert two.active("strict") == ["b", "a"]


def test_who_waited_for_its_victims_before_a_restart_is_the_head_after_it() -> None:
    two = Two(a="best p=9 | gpu=1")
    two.queues.add(replace(aw.workload("b", "best | gpu=1"), preempting=True))
    assert two.order() == ["b", "a"]
    two.aside("b")
    assert two.order() == ["a", "b"]
    two.queues.add(replace(aw.workload("b", "best p=1 | gpu=1"), preempting=True))
    assert two.order() == ["a", "b"], "what was written about it is about another one"


def test_who_displaced_whom_counts_until_something_ends_or_changes() -> None:
    two = Two()
    high, low = aw.workload("high", "strict p=1 | gpu=1"), aw.workload("low", "best | gpu=1")
    node = two.tree.queues["best"]

    def displace() -> None:
        two.queues.displace(high, [low])
        two.queues.forget(low.key)
        assert not two.queues.protected_from(high.key), "it ended instead"
        two.queues.displace(high, [low])
        two.queues.add(low)
        assert two.queues.protected_from(high.key) == {low.key}

    displace()
    two.queues.flush(node, [GPU])
    two.queues.remove(low.key, usage={GPU: 1})
    assert two.queues.protected_from(high.key) == {low.key}, "it is admitted again"
    two.queues.forgive(node)
    assert not two.queues.protected_from(high.key)
    displace()
    two.queues.flush(node)
    assert not two.queues.protected_from(high.key)
    displace()
    two.queues.add(replace(low, priority=5))
    assert not two.queues.protected_from(high.key), "it is another one now"


def test_an_event_between_a_decision_and_the_next_is_not_missed() -> None:  # pitfalls 10, 11
    two = Two(a="best | gpu=9", b="best at=1 | gpu=10")
    big = replace(aw.workload("x", "best | gpu=5"), usage={GPU: 5})
    two.tree.hold(big)
    assert not cycle(two).admitted
    assert two.queues.untried == []
    two.tree.release(big)
    two.flush(GPU)
    two.queues.add(aw.workload("a", "best | gpu=9"))  # an update that changes nothing makes no second one
    assert two.order() == ["a", "b"]
    assert [one.workload.uid for one in cycle(two).admitted] == ["a"]


def test_an_admission_that_could_not_be_written_is_taken_back() -> None:  # pitfall 17
    two = Two(a="best | gpu=9", b="strict at=1 | gpu=9")
    [admission] = cycle(two).admitted
    two.tree.release(admission.workload)
    two.queues.add(replace(admission.workload, usage=None, reserved=None), until=START + timedelta(seconds=1))
    two.flush(GPU)
    assert [one.workload.uid for one in cycle(two).admitted] == ["b"]


def test_usage_of_local_queues_moves_them_as_a_whole() -> None:  # pitfall 15
    two = Two(a="best at=1 lq=x p=9 | gpu=1", b="best at=2 lq=y | gpu=1", c="best at=3 lq=x | gpu=2")
    two.queues.set_queue(replace(two.specs["best"], by_usage=True))
    assert two.order() == ["a", "b", "c"]
    two.queues.set_usage("ns/x", 2.5)
    assert two.order() == ["b", "a", "c"]
    two.queues.set_usage("ns/y", float("inf"))
    assert two.order() == ["a", "c", "b"]
    assert [two.queues.position(f"ns/{name}").in_queue for name in "abc"] == [0, 2, 1]
    assert two.active() == ["a", "c", "b"]


@pytest.mark.parametrize(("by_usage", "admitted"), [(True, ["a", "c", "b", "d"]), (False, ["a", "b", "c", "d"])])
def test_an_admission_is_charged_before_the_next_decision_of_its_queue(by_usage: bool, admitted: list[str]) -> None:
    lines = {name: f"best at={at} lq={lq} | gpu=1" for at, (name, lq) in enumerate(zip("abcd", "xxyy", strict=True))}
    two = Two(**lines)
    two.queues.set_queue(replace(two.specs["best"], by_usage=by_usage))
    two.tree.set_queue(replace(two.specs["best"], by_usage=by_usage))
    charged = []

    def charge(workload: WorkloadInfo, taken: Usage) -> None:
        charged.append((workload.uid, sum(taken.values())))
        two.queues.set_usage(workload.local_queue, two.queues.usage.get(workload.local_queue, 0.0) + 1)

    two.queues.on_charge(charge)
    assert [one.workload.uid for one in cycle(two).admitted] == admitted
    assert charged == ([(name, 1) for name in admitted] if by_usage else [])


def test_a_charge_that_fails_leaves_nobody_half_removed() -> None:
    two = Two(a="best lq=x | gpu=1", b="best at=1 lq=y | gpu=1")
    two.queues.set_queue(replace(two.specs["best"], by_usage=True))

    def charge(workload: WorkloadInfo, taken: Usage) -> None:
        raise OverflowError

    two.queues.on_charge(charge)
    with pytest.raises(OverflowError):
        two.queues.remove("ns/a", usage={GPU: 1})
    assert (two.order(), two.queues.untried, two.active()) == (["b"], ["best"], ["b"])


# What is gone is forgotten.


def size(queues: Queues) -> int:
    return sum(len(kept) for kept in vars(queues).values() if isinstance(kept, dict | set | list))


@pytest.mark.parametrize("queue_first", [True, False])
def test_nothing_is_kept_of_what_is_gone(queue_first: bool) -> None:
    two = Two()
    queues, before = two.queues, size(two.queues)
    queues.set_namespace("new", {"team": "red"})
    queues.set_queue(replace(two.specs["strict"], name="new"))
    queues.stop_local("new/x")
    queues.set_usage("new/x", 3.0)
    queues.add(aw.workload("w", "new namespace=new lq=x | gpu=1"))
    assert size(queues) > before
    steps = [lambda: queues.remove_queue("new"), lambda: queues.remove("new/w")]
    for step in steps if queue_first else reversed(steps):
        step()
    queues.stop_local("new/x", stopped=False)
    queues.set_usage("new/x", 0.0)
    queues.set_namespace("new", {})
    queues.take_lifted()
    assert size(queues) == before


def test_a_queue_that_never_was_can_be_removed() -> None:
    two = Two()
    before = size(two.queues)
    two.queues.remove_queue("ghost")
    assert size(two.queues) == before


# Positions.


def test_who_is_pending_and_who_of_them_is_to_be_tried() -> None:
    two = Two(a="best | gpu=9", b="best at=1 | gpu=8", c="best lq=stopped | gpu=1")
    two.queues.stop_local("ns/stopped")
    two.aside("a")
    assert dict(two.queues.keys_of_pending("best")) == {"ns/a": False, "ns/b": True}
    two.queues.set_queue(two.specs["best"], active=False)
    assert dict(two.queues.keys_of_pending("best")) == {"ns/a": False, "ns/b": False}
    assert two.queues.counts_by_local("best") == {"ns/best": (0, 2)}
    assert (dict(two.queues.keys_of_pending("nothing")), two.queues.counts_by_local("nothing")) == ({}, {})
    assert two.queues.sum_requests("nothing") == {}


def test_positions() -> None:
    two = Two()
    for number, (lq, priority) in enumerate(product(("x", "y"), (0, 1, 2))):
        two.queues.add(aw.workload(f"w{number}", f"best p={priority} lq={lq} | gpu={number + 1}"))
    two.aside("w2", "w3")
    listed = list(two.queues.yield_pending("best"))
    assert [one.workload.uid for one in listed] == ["w2", "w5", "w1", "w4", "w0", "w3"]
    assert [one.in_queue for one in listed] == [0, 1, 2, 3, 4, 5]
    assert [one.in_local for one in listed] == [0, 0, 1, 1, 2, 2]
    assert listed == [two.queues.position(one.workload.key) for one in listed]
    assert list(two.queues.yield_pending("best", offset=2, limit=3)) == listed[2:5]
    local = list(two.queues.pending_local("ns/y", "best", offset=1, limit=1))
    assert [(one.workload.uid, one.in_queue, one.in_local) for one in local] == [("w4", 3, 1)]
    assert two.queues.waiting_local("ns/y", "best") == 3
    assert two.queues.waiting_local("ns/z", "best") == 0


def test_a_page_of_the_line_has_a_thousand_unless_another_size_is_asked_for() -> None:
    two = Two(**{f"w{number}": "best | gpu=1" for number in range(1001)})
    sizes = [
        len(list(page)) for page in (two.queues.yield_pending("best"), two.queues.pending_local("ns/best", "best"))
    ]
    assert sizes == [1000, 1000]


def test_what_does_not_wait_has_no_position() -> None:
    two = Two()
    assert two.queues.position("ns/a") is None
    assert two.queues.why("ns/a") is None
    assert "ns/a" not in two.queues
    assert list(two.queues.yield_pending("nothing")) == []
    assert two.queues.counts("nothing") == (0, 0)
    assert list(two.queues.pending_local("ns/x", "nothing")) == []
    assert two.queues.head("nothing") is None


# Laws.

LINES = [
    f"{queue} p={priority} at={at} lq={lq} namespace={namespace} | {resource}={amount}"
    for queue, priority, at, lq, namespace, resource, amount in product(
        ("best", "strict"), (0, 1), (0, 1), ("x", "y"), ("ns", "other"), ("gpu", "tpu"), (2, 6)
    )
]


class Histories(RuleBasedStateMachine):
    """Random histories, after which the queues equal rebuilt ones, and the tree is respected."""

    @initialize(by_usage=st.booleans())
    def begin(self, by_usage: bool) -> None:
        self.two = Two()
        spec = replace(self.two.specs["best"], by_usage=by_usage)
        self.two.tree.set_queue(spec)
        self.two.queues.set_queue(spec)
        self.waiting: dict[str, tuple[WorkloadInfo, Any]] = {}
        self.admitted: dict[str, WorkloadInfo] = {}
        self.usage: dict[str, float] = {}
        self.labels = {"ns": {"team": "red"}}
        self.stopped: set[str] = set()
        self.now = START

    @rule(name=st.sampled_from("abcdefgh"), line=st.sampled_from(LINES), wait=st.sampled_from([None, None, None, 3, 9]))
    def come(self, name: str, line: str, wait: int | None) -> None:
        workload = aw.workload(name, line)
        if workload.key in self.admitted:
            return
        until = None if wait is None else self.now + timedelta(seconds=wait)
        self.waiting[workload.key] = workload, until
        self.two.queues.add(workload, until=until)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.waiting)))
        del self.waiting[key]
        self.two.queues.remove(key)

    @precondition(lambda self: self.admitted)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        workload = self.admitted.pop(data.draw(st.sampled_from(sorted(self.admitted))))
        self.two.tree.release(workload)
        self.two.queues.flush(self.two.tree.queues[workload.queue], workload.usage)

    @rule(local_queue=st.sampled_from(["ns/x", "ns/y"]), usage=st.sampled_from([0.0, 0.5, 2.0]))
    def use(self, local_queue: str, usage: float) -> None:
        self.usage[local_queue] = usage
        self.two.queues.set_usage(local_queue, usage)

    @rule(local_queue=st.sampled_from(["ns/x", "ns/y"]), stopped=st.booleans())
    def stop(self, local_queue: str, stopped: bool) -> None:
        (self.stopped.add if stopped else self.stopped.discard)(local_queue)
        self.two.queues.stop_local(local_queue, stopped=stopped)

    @rule(name=st.sampled_from(["ns", "other"]), team=st.sampled_from(["red", "blue"]))
    def label(self, name: str, team: str) -> None:
        self.labels[name] = {"team": team}
        self.two.queues.set_namespace(name, {"team": team})

    @rule(seconds=st.integers(0, 5))
    def decide(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        for _ in range(9):
            outcome = run(self.two.tree, self.two.queues, aw.FLAVORS, AdmissionSettings(past=self.usage), self.now)
            for one in outcome.admitted:
                self.admitted[one.workload.key] = one.workload
                del self.waiting[one.workload.key]
            if not self.two.queues.untried:
                break
        assert not self.two.queues.untried
        self.nobody_was_forgotten()

    def nobody_was_forgotten(self) -> None:
        """Rebuilt queues with every workload to be tried admit no workload either."""
        anew = self.anew()
        assert not run(self.two.tree, anew, aw.FLAVORS, AdmissionSettings(past=self.usage), self.now).admitted
        for queue in ("best", "strict"):
            assert anew.counts(queue) == self.two.queues.counts(queue)
            assert anew.head(queue) is self.two.queues.head(queue)

    def anew(self) -> Queues:
        queues = Queues()
        for name, usage in self.usage.items():
            queues.set_usage(name, usage)
        for name in self.stopped:
            queues.stop_local(name)
        for workload, until in self.waiting.values():
            queues.add(workload, until=None if until is not None and until <= self.now else until)
        for name, labels in self.labels.items():
            queues.set_namespace(name, labels)
        for node in self.two.tree.queues.values():
            queues.set_queue(node.policy)
        return queues

    @invariant()
    def the_order_is_as_made_anew(self) -> None:
        if not hasattr(self, "two"):
            return
        anew = self.anew()
        for queue in ("best", "strict"):
            assert (
                list(anew.yield_pending(queue))
                == list(self.two.queues.yield_pending(queue))
                == list(self.expected(queue))
            )
        wake = self.two.queues.next_wake
        assert anew.next_wake == wake or (wake is not None and wake <= self.now)

    def expected(self, queue: str) -> Iterator[Any]:
        def key(workload: WorkloadInfo) -> Any:
            usage = self.usage.get(workload.local_queue, 0.0) if self.two.tree.queues[queue].policy.by_usage else 0.0
            return usage, place(workload)

        waiting = [one for one, _ in self.waiting.values() if one.queue == queue]
        mine = sorted((one for one in waiting if one.local_queue not in self.stopped), key=key)
        assert not any(self.two.queues.position(one.key) for one in waiting if one.local_queue in self.stopped)
        for workload in mine:
            position = self.two.queues.position(workload.key)
            assert position.in_queue == mine.index(workload)
            assert position.in_local == [one for one in mine if one.local_queue == workload.local_queue].index(workload)
            yield position

    @invariant()
    def no_more_is_used_than_there_is(self) -> None:
        if hasattr(self, "two"):
            check_within(self.two.tree)


def check_within(tree: Tree) -> None:
    for node in tree.queues.values():
        held: dict[FlavorResource, int] = {}
        for workload in node.workloads.values():
            usage: Usage = workload.usage or {}
            for fr, amount in usage.items():
                held[fr] = held.get(fr, 0) + amount
        assert {fr: amount for fr, amount in node.usage.items() if amount} == held
        assert all(node.available(fr) >= 0 for fr in held)


Histories.TestCase.settings = settings(
    max_examples=max(100, settings.default.max_examples // 10), stateful_step_count=25, deadline=None
)
TestHistories = Histories.TestCase


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=8), st.integers(0, 9))
def test_a_strict_queue_starves_nobody(lines: list[str], late: int) -> None:
    """As long as what is admitted ends, the head is admitted next, however many come after it that would fit."""
    two = Two(first="strict p=2 | gpu=10")
    for number, line in enumerate(lines):
        two.queues.add(aw.workload(f"early-{number}", line.replace("best", "strict").replace("tpu", "gpu")))
    running = replace(aw.workload("x", "strict | gpu=1"), usage={GPU: 1})
    two.tree.hold(running)
    for number in range(late):
        two.queues.add(aw.workload(f"late-{number}", f"strict at={number + 2} | gpu=1"))
        assert not cycle(two).admitted
    two.tree.release(running)
    two.flush(GPU)
    assert [one.workload.uid for one in cycle(two).admitted] == ["first"]
