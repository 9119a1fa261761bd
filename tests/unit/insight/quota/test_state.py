"""Where a Workload stands, in a word and a sentence."""

from datetime import datetime

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.api.managed.dispatch import describe_barred
from muster.insight.quota.state import display_name, find_quota_state, index_by_owner, owner_uids, say_once

MINUTE = "2026-01-01T00:01:00Z"
NO_ROOM = "insufficient unused quota for cpu in flavor f, 2 more needed"


def condition(type, status="True", reason="R", message="m"):
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": MINUTE}


def at(type, time, status="True"):
    return condition(type, status) | {"lastTransitionTime": f"2026-01-01T{time}:00Z"}


def workload(*conditions, name="w", active=True, owners=(), labels=None, **status):
    owners = [{"apiVersion": "v1", "kind": "K", "name": f"job-{uid}", "uid": uid} for uid in owners]
    meta = {
        "name": name,
        "namespace": "ns",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": owners,
        "labels": labels or {},
    }
    spec = {"queueName": "q", "priority": 7, "active": active}
    document = {"metadata": meta, "spec": spec, "status": {"conditions": list(conditions), **status}}
    return msgspec.convert(document, Workload)


RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")
BARRED = {"name": "multikueue", "state": "Pending", "lastTransitionTime": MINUTE, "message": describe_barred(["b"])}
HOLDS = {"admission": {"clusterQueue": "c", "podSetAssignments": []}}


def pending(message, reason="WaitingForQuota"):
    return condition("QuotaReserved", "False", reason, message)


@pytest.mark.parametrize(
    ("subject", "word", "sentence"),
    [
        pytest.param(workload(), "Queued", "waiting in queue q, position 3", id="not looked at yet"),
        pytest.param(
            workload(pending(f"couldn't assign flavors to pod set main: {NO_ROOM}")),
            "Queued",
            f"waiting in queue q, position 3: {NO_ROOM}",
            id="no room",
        ),
        pytest.param(
            workload(
                pending(
                    f"couldn't assign flavors to pod set main: {NO_ROOM}; "
                    "couldn't assign flavors to pod set b: too much"
                )
            ),
            "Queued",
            f"waiting in queue q, position 3: couldn't assign flavors to pod set main: {NO_ROOM}; "
            "couldn't assign flavors to pod set b: too much",
            id="several podsets keep their names",
        ),
        pytest.param(
            workload(pending("Admission is gated by: muster.dev/deferral", "AdmissionGated")),
            "Queued",
            "waiting in queue q, position 3",
            id="what it waited for has come",
        ),
        pytest.param(
            workload(pending("LocalQueue q is inactive", "Suspended")),
            "Queued",
            "waiting in queue q, position 3: LocalQueue q is inactive",
            id="stopped",
        ),
        pytest.param(
            workload(RESERVED, condition("Evicted", reason="Preempted", message="for another"), ADMITTED, **HOLDS),
            "Evicting",
            "evicting: for another",
            id="has to go",
        ),
        pytest.param(
            workload(pending(NO_ROOM), condition("Evicted", message="for another")),
            "Queued",
            f"waiting in queue q, position 3: {NO_ROOM}",
            id="has gone",
        ),
        pytest.param(workload(active=False), "Held", "held: until it is released", id="held from the beginning"),
        pytest.param(
            workload(condition("Evicted", message="The workload is deactivated"), active=False),
            "Held",
            "held: until it is released",
            id="held while it ran",
        ),
        pytest.param(
            workload(condition("Evicted", message="The workload has no time left"), active=False),
            "Held",
            "held: The workload has no time left",
            id="stopped for another reason",
        ),
        pytest.param(
            workload(
                RESERVED, condition("Evicted", message="The workload is deactivated"), ADMITTED, active=False, **HOLDS
            ),
            "Evicting",
            "evicting: it is held",
            id="about to be held",
        ),
        pytest.param(
            workload(RESERVED, ADMITTED, active=False, **HOLDS),
            "Evicting",
            "evicting: it is held",
            id="held before the engine evicts it",
        ),
        pytest.param(
            workload(
                pending("The workload is deactivated", "Inactive"),
                condition("Evicted", message="The workload is deactivated"),
            ),
            "Queued",
            "waiting in queue q, position 3",
            id="just released",
        ),
        pytest.param(
            workload(
                RESERVED,
                admissionChecks=[
                    {"name": "a", "state": "Ready", "lastTransitionTime": MINUTE, "message": ""},
                    {"name": "b", "state": "Pending", "lastTransitionTime": MINUTE, "message": "soon"},
                    {"name": "c", "state": "Retry", "lastTransitionTime": MINUTE, "message": ""},
                ],
                **HOLDS,
            ),
            "Checking",
            "checking: waiting for admission checks: b (Pending: soon), c (Retry)",
            id="checks",
        ),
        pytest.param(
            workload(RESERVED, nominatedClusterNames=["a", "b"], **HOLDS),
            "Checking",
            "checking: waiting for quota in one of the clusters a, b",
            id="clusters",
        ),
        pytest.param(
            workload(RESERVED, nominatedClusterNames=["a"], **HOLDS),
            "Checking",
            "checking: waiting for quota in cluster a",
            id="a cluster",
        ),
        pytest.param(
            workload(RESERVED, nominatedClusterNames=["a", "b"], admissionChecks=[BARRED], **HOLDS),
            "Checking",
            f"checking: waiting for quota in cluster a; {BARRED['message']}",
            id="barred in one cluster",
        ),
        pytest.param(
            workload(RESERVED, nominatedClusterNames=["b"], admissionChecks=[BARRED], **HOLDS),
            "Checking",
            f"checking: {BARRED['message']}",
            id="barred in all clusters",
        ),
        pytest.param(workload(RESERVED, ADMITTED, **HOLDS), "Admitted", "admitted: ", id="admitted"),
        pytest.param(
            workload(RESERVED, ADMITTED, condition("Finished", reason="Succeeded"), **HOLDS),
            "Completed",
            "completed: ",
            id="succeeded",
        ),
        pytest.param(
            workload(condition("Finished", reason="Failed", message="too bad")),
            "Failed",
            "failed: too bad",
            id="failed",
        ),
    ],
)
def test_standing(subject, word, sentence):
    found = find_quota_state(subject, 3)
    assert (found.word, found.sentence) == (word, sentence)
    assert (found.queue, found.priority) == ("q", 7)
    assert found.cluster_queue == ("c" if subject.status.admission else "")
    assert found.position == (3 if word == "Queued" else None)
    assert found.since is not None


def test_without_a_position_none_is_said():
    assert find_quota_state(workload(pending(NO_ROOM))).sentence == f"waiting in queue q: {NO_ROOM}"


def test_a_job_has_the_workload_that_is_not_finished_and_of_those_the_youngest():
    old = workload(condition("Finished"), name="a", owners=["1"])
    new, other = workload(name="b", owners=["1"]), workload(name="c", labels={"kueue.x-k8s.io/job-uid": "2"})
    assert index_by_owner([new, old, other]) == {"1": new, "2": other}
    assert owner_uids(other) == {"2"}


@pytest.mark.parametrize(
    ("owners", "namespace", "name"),
    [([], "ns", "w"), (["1"], "ns", "job-1"), (["1", "2"], "ns", "w"), (["1"], "elsewhere", "ns/job-1")],
)
def test_people_call_a_workload_by_its_job(owners, namespace, name):
    assert display_name(workload(owners=owners).metadata, namespace) == name


def test_what_is_said_of_many_podsets_alike_is_said_once():
    said = "; ".join(f"couldn't assign flavors to pod set r{n}: no cpu{'' if n else '; none'}" for n in range(8))
    assert say_once(said) == (
        "couldn't assign flavors to pod sets r0: no cpu; none; "
        "couldn't assign flavors to pod sets r1, r2, r3, r4, r5 and 2 more: no cpu"
    )
    assert (
        say_once("couldn't assign flavors to pod set a: x; couldn't assign flavors to pod set b: y").count("pod set ")
        == 2
    )
    assert say_once("anything else") == "anything else"


SKIPS = "skipping flavor {} due to WorkloadAllowedResourceFlavorAnnotation annotation"
PREAMBLE = "couldn't assign flavors to pod set main: "


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"best: {PREAMBLE}too much, {SKIPS.format('a-b')}, {SKIPS.format('c')}; a-b: {PREAMBLE}{NO_ROOM}",
            f"best: too much; a-b: {NO_ROOM}",
        ),
        (f"best: {PREAMBLE}{SKIPS.format('a')}, untolerated taint x", "best: untolerated taint x"),
        (f"best: {PREAMBLE}{SKIPS.format('a')}, too much, {SKIPS.format('c')}; c: no", "best: too much; c: no"),
    ],
)
def test_of_each_variant_it_is_said_why_it_waits_and_not_that_it_skips_the_flavors_of_others(message, reason):
    parent = workload(pending(message), labels={"kueue.x-k8s.io/concurrent-admission-parent": "true"})
    assert find_quota_state(parent).reason == reason


MOVED = "m: Evicted to accommodate a workload (UID: u) due to migration to more favorable resource flavor"


@pytest.mark.parametrize(
    ("reasons", "message", "status", "told"),
    [
        ({"Preempted": 2}, "Previously: for w", "False", (2, "for w")),
        ({"Preempted": 2}, "for w", "True", (2, "")),
        ({"VariantEvicted": 1}, f"Previously: {MOVED}", "False", (1, "it moved to a better flavor, and started over")),
        ({"Deactivated": 1, "DeactivatedDueToX": 1}, "Previously: m", "False", (0, "m")),
        ({"Preempted": 1, "Deactivated": 1}, "Previously: The workload is deactivated", "False", (1, "it was held")),
    ],
    ids=["has quota again", "waits", "moved", "was held", "was preempted, then held"],
)  # fmt: skip
def test_how_often_a_job_lost_its_quota_before_and_why(reasons, message, status, told):
    evictions = [{"reason": reason, "underlyingCause": "", "count": count} for reason, count in reasons.items()]
    conditions = [RESERVED, ADMITTED, condition("Evicted", status, message=message)]
    stands = find_quota_state(workload(*conditions, schedulingStats={"evictions": evictions}, **HOLDS))
    assert (stands.evictions, stands.last_eviction) == told


@pytest.mark.parametrize(
    ("conditions", "begin"),
    [
        ([pending(NO_ROOM)], "00:00"),
        ([pending(NO_ROOM), at("Evicted", "00:05")], "00:05"),
        ([pending(NO_ROOM), at("Evicted", "00:05"), at("Requeued", "00:09")], "00:09"),
        ([pending(NO_ROOM), at("Evicted", "00:12"), at("Requeued", "00:09")], "00:12"),
        ([pending(NO_ROOM), at("Evicted", "00:05"), at("Requeued", "00:06", "False")], "00:05"),
    ],
    ids=["submitted", "evicted", "requeued", "evicted again", "in its pause"],
)
def test_a_wait_begins_with_the_last_eviction_or_requeue(conditions, begin):
    found = find_quota_state(workload(*conditions))
    assert found.word == "Queued"
    assert found.since == found.waits_since == datetime.fromisoformat(f"2026-01-01T{begin}:00Z")


def test_the_wait_of_a_workload_with_quota_began_before_it():
    found = find_quota_state(workload(at("Requeued", "00:09"), at("QuotaReserved", "00:10"), **HOLDS))
    assert found.word == "Checking"
    assert found.since == datetime.fromisoformat("2026-01-01T00:10:00Z")
    assert found.waits_since == datetime.fromisoformat("2026-01-01T00:09:00Z")
