"""From API objects to an estimate, and to what is missing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.core import Namespace, PodResourceClaim
from muster.api.kueue import WORKLOAD, ClusterQueue, LocalQueue, ResourceFlavor, Workload
from muster.api.meta import OwnerReference
from muster.insight.forecasts.forecast import Forecasts, Holder, Need, Outlook, Snapshot, find_run_times
from muster.queueing.scheduling.estimate import Certainty
from muster.queueing.scheduling.runtimes import RECENT

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: int) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat()


def queue(name: str, cpu: str, cohort: str = "", **spec: Any) -> ClusterQueue:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
    spec = {"resourceGroups": groups, "cohortName": cohort, "namespaceSelector": {}} | spec
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterQueue)


def workload(name: str, queue: str = "a", cpu: str = "1", count: int = 1, **about: Any) -> Workload:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    podset = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    conditions, status = [], {}
    if (since := about.get("since")) is not None:
        usage = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": about["usage"]}, "count": count}
        status = {"admission": {"clusterQueue": queue, "podSetAssignments": [usage]}}
        conditions = [_true("QuotaReserved", since), _true("Admitted", since)]
    if (end := about.get("end")) is not None:
        conditions.append(_true("Finished", end))
    conditions += about.get("conditions", [])
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": about.get("namespace", "ns"),
                "uid": name,
                "creationTimestamp": at(about.get("created", -1000)),
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{name}", "uid": f"u-{name}"}
                ],
                "annotations": about.get("annotations", {}),
            },
            "spec": {"podSets": [podset], "queueName": queue, "active": about.get("active", True)}
            | ({"maximumExecutionTimeSeconds": about["most"]} if "most" in about else {}),
            "status": status | {"conditions": conditions} | about.get("status", {}),
        },
        Workload,
    )


def _true(type: str, seconds: int, status: str = "True") -> dict[str, str]:
    return {"type": type, "status": status, "reason": "R", "message": "m", "lastTransitionTime": at(seconds)}


def snapshot(*workloads: Workload, queues: Any = (), stop: str = "None", **deadlines: int) -> Snapshot:
    queues = queues or (queue("a", "4"),)
    local = [
        {"metadata": {"name": one.metadata.name, "namespace": "ns"}, "spec": {"clusterQueue": one.metadata.name}}
        for one in queues
    ]
    local[0]["spec"]["stopPolicy"] = stop
    return Snapshot(
        cluster_queues=queues,
        local_queues=msgspec.convert(local, list[LocalQueue]),
        cohorts=[],
        flavors=[msgspec.convert({"metadata": {"name": "f"}}, ResourceFlavor)],
        namespaces=[msgspec.convert({"metadata": {"name": "ns"}}, Namespace)],
        workloads=workloads,
        deadlines={f"u-{name}": timedelta(seconds=seconds) for name, seconds in deadlines.items()},
    )


def estimated(found: Snapshot, key: str = "ns/me") -> tuple[int | None, str, str]:
    estimate = Outlook(found, "a", "ns", NOON).estimate(key)
    seconds = None if estimate.at is None else int((estimate.at - NOON).total_seconds())
    return seconds, str(estimate.certainty), estimate.because


ON_HOLD = {"type": "QuotaReserved", "status": "False", "reason": "OnHold"}
ME = workload("me", cpu="2", created=-10)
HOLDER = workload("one", since=-30, usage="4")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(snapshot(ME), (0, "sure", "there is room for it"), id="room"),
        pytest.param(snapshot(ME, HOLDER), (None, "cannot say", "nothing says when job-one ends"), id="unknown"),
        pytest.param(
            snapshot(ME, HOLDER, one=60), (30, "sure", "job-one ends then, by its time limit"), id="deadline of the job"
        ),
        pytest.param(
            replace(snapshot(ME, HOLDER, one=60), expectations={"u-one": timedelta(seconds=40)}),
            (10, "likely", "job-one ends then, as its user expects"),
            id="what its user expects",
        ),
        pytest.param(
            snapshot(ME, workload("one", since=-30, usage="4", most=50)),
            (20, "sure", "job-one ends then, by its time limit"),
            id="maximum execution time",
        ),
        pytest.param(
            snapshot(
                ME,
                workload("one", since=-30, usage="4", most=50, status={"accumulatedPastExecutionTimeSeconds": 15}),
            ),
            (5, "sure", "job-one ends then, by its time limit"),
            id="it ran before",
        ),
        pytest.param(
            snapshot(ME, HOLDER, *(workload(f"old{n}", since=-900, end=-850, usage="1") for n in range(3))),
            (20, "likely", "job-one ends then, as those before it"),
            id="as before",
        ),
        pytest.param(
            snapshot(ME, workload("other", created=-20, cpu="3", most=100)),
            (100, "likely", "job-other ends then, by its time limit"),
            id="somebody is ahead",
        ),
        pytest.param(
            snapshot(ME, workload("other", created=-20, cpu="3", active=False)),
            (0, "sure", "there is room for it"),
            id="who is held is not ahead",
        ),
        pytest.param(
            snapshot(
                ME, workload("other", created=-20, cpu="3", annotations={"kueue.x-k8s.io/admission-gated-by": "x"})
            ),
            (0, "sure", "there is room for it"),
            id="who is gated is not ahead",
        ),
        pytest.param(
            snapshot(
                workload(
                    "me",
                    conditions=[_true("Requeued", -5, "False")],
                    status={"requeueState": {"count": 1, "requeueAt": at(40)}},
                )
            ),
            (40, "sure", "there is room for it"),
            id="held back after an eviction",
        ),
        pytest.param(snapshot(ME, stop="Hold"), (None, "cannot say", "LocalQueue a is inactive"), id="stopped"),
        pytest.param(
            snapshot(ME, workload("bad", cpu="x", created=-20)), (0, "sure", "there is room for it"), id="nonsense"
        ),
        pytest.param(
            snapshot(
                ME,
                workload("b", queue="b", since=-5, usage="6", most=65),
                queues=(queue("a", "4", "all"), queue("b", "4", "all")),
            ),
            (0, "sure", "there is room for it"),
            id="the cohort has room",
        ),
        pytest.param(
            snapshot(ME, workload("first", cpu="4", created=-20, status={"conditions": [ON_HOLD]})),
            (0, "sure", "there is room for it"),
            id="one on hold is not ahead of it",
        ),
        pytest.param(
            snapshot(
                workload("me", cpu="4"),
                workload("b", queue="b", since=-5, usage="6", most=65),
                queues=(queue("a", "4", "all"), queue("b", "4", "all")),
            ),
            (60, "sure", "job-b ends then, by its time limit"),
            id="the cohort has lent too much",
        ),
    ],
)
def test_estimate(found, expected):
    assert estimated(found) == expected


def test_who_waits_for_a_place_is_not_promised_one():
    waits = {"type": "QuotaReserved", "status": "False", "reason": "TopologyPlacementFailed"}
    found = estimated(snapshot(workload("me", conditions=[waits])))
    assert found == (None, "cannot say", "it waits for a place in its topology, and you may not see the nodes")


def test_other_trees_are_not_looked_at():
    elsewhere = workload("c", queue="c", since=-5, usage="4")
    outlook = Outlook(snapshot(ME, elsewhere, queues=(queue("a", "4"), queue("c", "4"))), "a", "ns", NOON)
    assert set(outlook.tree.queues) == {"a"}
    assert not Outlook(snapshot(ME), "nowhere", "ns", NOON).exists


def test_what_is_missing_and_who_has_it():
    mine = workload("me", cpu="3", count=2)
    one, two = workload("one", since=-30, usage="1"), workload("two", since=-20, usage="2", namespace="ns")
    outlook = Outlook(snapshot(mine, one, two), "a", "ns", NOON)
    (need,) = needs = outlook.find_needs(mine, "a")
    assert need == Need("f", "cpu", asked=6000, nominal=4000, used=3000, available=1000, most=4000)
    assert need.missing == 5000
    since = [NOON - timedelta(seconds=seconds) for seconds in (20, 30)]
    assert outlook.find_holders(needs, mine) == [
        Holder("job-two", "a", since[0], {"cpu": 2000}),
        Holder("job-one", "a", since[1], {"cpu": 1000}),
    ]


def test_a_job_is_not_told_that_it_uses_what_it_lacks_itself():
    mine, other = workload("me", cpu="3"), workload("other", since=-30, usage="1")
    variant = workload("variant", since=-20, usage="2")
    parent = {"apiVersion": WORKLOAD.api_version, "kind": WORKLOAD.kind, "name": "me", "uid": "me", "controller": True}
    owners = msgspec.convert([parent], tuple[OwnerReference, ...])
    variant = msgspec.structs.replace(
        variant, metadata=msgspec.structs.replace(variant.metadata, owner_references=owners)
    )
    outlook = Outlook(snapshot(mine, variant, other), "a", "ns", NOON)
    assert [one.name for one in outlook.find_holders(outlook.find_needs(mine, "a"), mine)] == ["job-other"]


def test_devices_are_missing_as_admission_says_they_are_asked_for():
    devices = {"name": "gpus", "nominalQuota": "4"}
    groups = [{"coveredResources": ["cpu", "gpus"], "flavors": [{"name": "f", "resources": [
        {"name": "cpu", "nominalQuota": "4"}, devices]}]}]  # fmt: skip
    has_devices = msgspec.convert({"metadata": {"name": "a"}, "spec": {"resourceGroups": groups}}, ClusterQueue)
    said = [{"name": "main", "resources": {"cpu": "2", "gpus": "6"}}]
    waits = workload("w", count=2, status={"resourceRequests": said})
    (podset,) = waits.spec.pod_sets
    claim = msgspec.convert([{"name": "g", "resourceClaimTemplateName": "t"}], tuple[PodResourceClaim, ...])
    spec = msgspec.structs.replace(podset.template.spec, resource_claims=claim)
    podset = msgspec.structs.replace(podset, template=msgspec.structs.replace(podset.template, spec=spec))
    waits = msgspec.structs.replace(waits, spec=msgspec.structs.replace(waits.spec, pod_sets=(podset,)))
    outlook = Outlook(snapshot(waits, queues=(has_devices,)), "a", "ns", NOON)
    needs = {need.resource: (need.asked, need.missing) for need in outlook.find_needs(waits, "a")}
    assert needs == {"cpu": (2000, 0), "gpus": (6, 2)}
    assert outlook.estimate("ns/w").certainty is Certainty.NONE


def test_only_the_last_run_times_count_and_only_those_of_the_queue():
    old = [workload(f"o{n}", since=-5000, end=-4999 + n, usage="1") for n in range(RECENT + 10)]
    other = workload("other", queue="b", since=-100, end=-1, usage="1")
    recent = find_run_times(snapshot(ME, *old, other), [ME])["ns/me"].recent
    assert [time.total_seconds() for time in recent] == [n + 1 for n in range(10, RECENT + 10)]


def test_one_simulation_answers_for_all_jobs_of_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    workloads = [workload("runs", cpu="4", usage="4", since=-10), *(workload(f"w{number}") for number in range(6))]
    queues = [queue("a", "4", "all"), queue("b", "0", "all"), queue("c", "4")]
    taken = snapshot(*workloads, workload("other", "b"), workload("apart", "c"), queues=queues, runs=60)
    built: list[str] = []
    begin = Outlook.__init__

    def count(self: Outlook, snapshot: Snapshot, cluster_queue: str, *rest: Any) -> None:
        built.append(cluster_queue)
        begin(self, snapshot, cluster_queue, *rest)

    monkeypatch.setattr(Outlook, "__init__", count)
    forecasts = Forecasts(taken, "ns", NOON)
    asked = [("a", "ns/w0"), ("b", "ns/other"), ("a", "ns/w3"), ("c", "ns/apart"), ("a", "ns/w5")]
    answers = []
    for name, key in asked:
        outlook = forecasts.find_outlook(name)
        needs = outlook.find_needs(taken.by_key[key], name)
        answers.append((needs, outlook.find_holders(needs, taken.by_key[key]), forecasts.estimate(name, key)))
    assert built == ["a", "b", "c"], "the second is the tree before the simulation"
    for (name, key), answer in zip(asked, answers, strict=True):
        fresh = Outlook(taken, name, "ns", NOON)
        needs = fresh.find_needs(taken.by_key[key], name)
        assert answer == (needs, fresh.find_holders(needs, taken.by_key[key]), fresh.estimate(key)), key
