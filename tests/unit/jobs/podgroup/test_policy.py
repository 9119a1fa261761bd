"""What becomes of a group when fewer pods run than must (KEP-34, 3.24 of the checklist), and when it is complete."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.core import Pod, PodCondition
from muster.api.podgroups import kep
from muster.jobs.podgroup.policy import compute_backoff, decide

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


OLD = ago(100)


def pods(text, *, made=OLD, alone=False, first=0):
    """A letter for each: Running, Pending without a node, Succeeded, Failed, or being deleted."""
    return [_pod(f"p{n}", letter, made, alone) for n, letter in enumerate(text, first)]


def _pod(name, letter, made, alone):
    phase = {"R": "Running", "S": "Succeeded", "F": "Failed", "d": "Running"}.get(letter, "Pending")
    meta = {"name": name, "uid": name, "namespace": "n", "creationTimestamp": made}
    if letter == "d":
        meta["deletionTimestamp"] = NOW
    if not alone:
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ReplicationController", "name": "rc", "uid": "rc", "controller": True}
        ]
    node = {} if letter == "P" else {"nodeName": "n1"}
    return msgspec.convert({"metadata": meta, "spec": node, "status": {"phase": phase}}, Pod)


def group(policy="Restart", least=3, *, most=None, wait=None, **status):
    spec = {"minMembers": least}
    if policy is not None:
        spec["policy"] = {"onBelowMin": policy, "maxRestarts": most, "backoffSeconds": wait}
    return msgspec.convert({"metadata": {"name": "g", "generation": 1}, "spec": spec, "status": status}, kep.PodGroup)


STARTED = {"startTime": ago(50)}


@pytest.mark.parametrize(
    ("subject", "members", "changes"),
    [
        pytest.param(group(), pods("RRP"), {}, id="not started yet: nothing"),
        pytest.param(group(), pods("RRR"), {"start_time": NOW}, id="enough run: it has started"),
        pytest.param(group(), pods("RRRR"), {"start_time": NOW}, id="more than enough too"),
        pytest.param(group(), pods("RRS"), {"start_time": NOW}, id="what has succeeded counts"),
        pytest.param(group(**STARTED), pods("RRR"), {}, id="all is well"),
        pytest.param(group(**STARTED), pods("RSS"), {}, id="it comes to its end"),
        pytest.param(group(**STARTED), pods("SSS"), {"completion_time": NOW}, id="complete"),
        pytest.param(group(None, **STARTED), pods("SSS"), {"completion_time": NOW}, id="complete without a policy"),
        pytest.param(group(**STARTED), pods("SSSR"), {}, id="a surplus pod still runs"),
        pytest.param(
            group(**STARTED),
            pods("S"),
            {"restarts": 1, "restarted_until": ago(100), "start_time": None},
            id="one has succeeded, of three",
        ),
        pytest.param(group(least=0), pods("S"), {"completion_time": NOW}, id="nothing is asked, and all is done"),
        pytest.param(group(least=0), pods("F"), {}, id="nothing is asked, and none has succeeded"),
        pytest.param(group(least=0), pods("P"), {}, id="nothing is asked"),
        pytest.param(group(None, **STARTED), pods("RR"), {}, id="no policy: its controller sees to it"),
        pytest.param(group("None", **STARTED), pods("RR"), {}, id="None"),
        pytest.param(
            group(**STARTED),
            pods("RRF"),
            {"restarts": 1, "restarted_until": ago(100), "start_time": None},
            id="Restart: first it is written down",
        ),
        pytest.param(
            group(**STARTED),
            pods("RRP"),
            {"restarts": 1, "restarted_until": ago(100), "start_time": None},
            id="replaced",
        ),
        pytest.param(
            group(**STARTED), pods("RRd"), {"restarts": 1, "restarted_until": ago(100), "start_time": None}, id="going"
        ),
        pytest.param(group(wait=30, **STARTED), pods("RR"), {"below_min_time": NOW}, id="back-off begins"),
        pytest.param(group(wait=30, belowMinTime=ago(29), **STARTED), pods("RR"), {}, id="back-off lasts"),
        pytest.param(
            group(wait=30, belowMinTime=ago(30), **STARTED),
            pods("RR"),
            {"restarts": 1, "restarted_until": ago(100), "start_time": None, "below_min_time": None},
            id="back-off is over",
        ),
        pytest.param(
            group(wait=30, belowMinTime=ago(20), **STARTED),
            pods("RRR"),
            {"below_min_time": None},
            id="replaced in time",
        ),
        pytest.param(group(wait=30, belowMinTime=ago(59), restarts=1, **STARTED), pods("RR"), {}, id="twice as long"),
        pytest.param(
            group(restarts=1, restartedUntil=ago(100)),
            pods("FS") + pods("RRR", made=ago(5), first=2),
            None,
            id="the old ones go first",
        ),
        pytest.param(
            group(restarts=1, restartedUntil=ago(100)),
            pods("ddS") + pods("RR", made=ago(5), first=3),
            {"start_time": NOW},
            id="the new ones start, with what has succeeded",
        ),
        pytest.param(
            group(restarts=1, restartedUntil=ago(100)),
            pods("dd") + pods("RR", made=ago(5)),
            {},
            id="not enough new ones",
        ),
    ],
)
def test_3_24_status(subject, members, changes):
    step = decide(subject, members, NOW)
    if changes is None:
        assert step.end
        changes = {}
    assert step.status == msgspec.structs.replace(subject.status, **changes)


@pytest.mark.parametrize(
    ("subject", "members", "reason"),
    [
        pytest.param(group("Fail", **STARTED), pods("RR"), "BelowMinMembers", id="Fail"),
        pytest.param(group(most=0, **STARTED), pods("RR"), "MaxRestartsExceeded", id="no restart is allowed"),
        pytest.param(group(most=2, restarts=2, **STARTED), pods("RR"), "MaxRestartsExceeded", id="one too many"),
        pytest.param(
            group(restarts=5, **STARTED), pods("RF", alone=True), "NoController", id="nobody would make the pods anew"
        ),
    ],
)
def test_3_24_a_group_that_failed(subject, members, reason):
    step = decide(subject, members, NOW)
    (condition,) = step.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Failed", "True", reason)
    assert (step.status.completion_time, step.status.restarted_until, step.end) == (NOW, ago(100), ())
    assert step.note is not None
    assert step.note.reason == "Failed"
    after = msgspec.structs.replace(subject, status=step.status)
    late = pods("P", made=NOW, first=9)
    ended = decide(after, [*members, *pods("S", first=5), *late], NOW).end
    assert [pod.metadata.name for pod in ended] == [
        pod.metadata.name for pod in members if pod.status.phase == "Running"
    ]


@pytest.mark.parametrize(
    ("first", "restarts", "seconds"),
    [(None, 3, 0), (0, 3, 0), (10, 0, 10), (10, 1, 20), (10, 5, 320), (10, 6, 600), (10, 2**31, 600), (900, 1, 900)],
)
def test_3_24_back_off(first, restarts, seconds):
    policy = kep.PodGroupPolicy(on_below_min="Restart", backoff_seconds=first)
    assert compute_backoff(policy, restarts) == timedelta(seconds=seconds)


@pytest.mark.parametrize("kept", range(5))
def test_3_24_whoever_comes_back_goes_on_with_the_restart_that_was_written_down(kept):
    """Killed after any number of deletions: the rest goes, nothing else, and it is the same restart."""
    before, members = group(**STARTED), pods("RRRF")
    written = msgspec.structs.replace(before, status=decide(before, [*members[:2], *members[3:]], NOW).status)
    left, made = members[len(members) - kept :], pods("P", made=NOW, first=7)
    step = decide(written, left + made, NOW)
    assert (list(step.end), step.status) == (left, written.status)


class Compared(Pod):
    """A pod that counts how often one is compared with another."""

    times = 0

    def __eq__(self, other):
        type(self).times += 1
        return super().__eq__(other)

    __hash__ = Pod.__hash__


def test_pods_of_before_and_after_a_restart_are_told_apart_without_comparing_them():
    gone = [msgspec.convert(msgspec.to_builtins(pod), Compared) for pod in pods("d" * 20)]
    new = [msgspec.convert(msgspec.to_builtins(pod), Compared) for pod in pods("R" * 20, made=NOW, first=20)]
    step = decide(group(restartedUntil=OLD), gone + new, NOW)
    assert (step.status.start_time, step.end, Compared.times) == (NOW, (), 0)


@pytest.mark.parametrize("letter", ["F", "d"])
def test_a_restart_after_an_interruption_does_not_count_and_does_not_wait(letter):
    *others, lost = pods("RR" + letter)
    marks = (PodCondition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI"),)
    lost = replace(lost, status=replace(lost.status, conditions=marks))
    step = decide(group(most=1, wait=30, restarts=1, **STARTED), [*others, lost], NOW)
    assert (step.status.restarts, step.status.restarted_until) == (1, OLD)
    assert step.note.message.startswith("Restart after an interruption: ")
