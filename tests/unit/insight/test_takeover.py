"""What is reported before Muster takes the place of Kueue's manager."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.kueue import ClusterQueue, Workload
from muster.api.kueue.names import TOPOLOGY_GATE
from muster.insight.takeover import Row, Survey, format_finding, make_document, make_report

HANDLED = {("batch", "Job")}
KNOWN = HANDLED | {("jobset.x-k8s.io", "JobSet")}
WHEN_PLACED = "Muster takes it off once the pod's place is known, or at once where none is given"
SLICE = "kueue.x-k8s.io/workload-slice-replacement-for"


def workload(name: str = "w", kind: str = "Job", group: str = "batch/v1", *, true: Any = (), **more: Any) -> Workload:
    owner = {"apiVersion": group, "kind": kind, "name": "j", "uid": "u", "controller": True}
    conditions = [{"type": one, "status": "True", "reason": "r"} for one in true]
    annotations = more.pop("annotations", {})
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner], "annotations": annotations}
    status = {"conditions": conditions} | more.pop("status", {})
    return msgspec.convert({"metadata": metadata, "spec": more, "status": status}, Workload)


def job(labels: dict[str, str]) -> Job:
    document = {"metadata": {"name": "old", "namespace": "a"}, "spec": {"template": {"metadata": {"labels": labels}}}}
    return msgspec.convert(document, Job)


FLAVORS = {"migration": {"mode": "TryPreferredFlavors"}}
CONCURRENT = msgspec.convert({"metadata": {"name": "q"}, "spec": {"concurrentAdmissionPolicy": FLAVORS}}, ClusterQueue)


VARIANT_GATES = [{"name": "kueue.x-k8s.io/concurrent-admission"}]


def gated() -> Workload:
    return workload(preemptionGates=[{"name": "g"}])


@pytest.mark.parametrize(
    ("seen", "what", "objects"),
    [
        pytest.param(Survey(manager="kueue-1"), "Kueue's manager runs", ("kueue-1",), id="manager"),
        pytest.param(Survey(old=[CONCURRENT]), "kinds of Kueue's whose objects may still", ("q",), id="old versions"),
        pytest.param(Survey(webhooks=["kueue-x"]), "Kueue's webhooks are asked", ("kueue-x",), id="webhooks"),
        pytest.param(
            Survey([workload("r", "RayJob", "ray.io/v1")]), "workloads of RayJob.ray.io", ("default/r",), id="a kind"
        ),
        pytest.param(
            Survey([workload("s", "JobSet", "jobset.x-k8s.io/v1alpha2")]), "workloads of JobSet", ("default/s",),
            id="a kind that is not named",
        ),
        pytest.param(Survey(jobs=[job({})]), "Jobs that run without the label", ("a/old",), id="an old Job"),
        pytest.param(
            Survey([workload("b"), workload("a", "RayCluster", "ray.io/v1", annotations={SLICE: "default/b"})]),
            "slices that wait", ("default/a",), id="a slice",
        ),
        pytest.param(Survey([gated()]), "workloads with gates", ("default/w",), id="gate"),
        pytest.param(
            Survey(idle={"example.com/job": "Muster has no integration for it"}),
            "frameworks that the settings name and Muster does not act on (Muster has no integration for it)",
            ("example.com/job",), id="framework",
        ),
        pytest.param(Survey(queues=[CONCURRENT]), "ClusterQueues that try several flavors", ("q",), id="flavors"),
    ],
)  # fmt: skip
def test_what_is_named(seen: Survey, what: str, objects: tuple[str, ...]) -> None:
    (found,) = make_report(seen, HANDLED | {("ray.io", "RayCluster")}, KNOWN).findings
    assert found.what.startswith(what)
    assert found.objects == objects
    assert format_finding(found) == f"{found.what}: {objects[0]}\n  {found.advice}"


@pytest.mark.parametrize(
    "seen",
    [
        Survey(),
        Survey([workload(true=["QuotaReserved", "Admitted"]), workload()]),
        Survey([workload("r", "RayJob", "ray.io/v1", true=["Finished"])]),
        Survey([workload("b"), workload("a", annotations={SLICE: "default/b"})]),
        Survey([workload("v", "Workload", "kueue.x-k8s.io/v1beta2", preemptionGates=VARIANT_GATES)], variants=True),
        Survey(queues=[CONCURRENT], variants=True),
        Survey(jobs=[job({"kueue.x-k8s.io/podset": "main"})]),
    ],
)
def test_nothing_is_in_the_way(seen: Survey) -> None:
    assert make_report(seen, HANDLED, KNOWN).findings == ()


def test_a_kind_that_could_be_named_is_to_be_named() -> None:
    (found,) = make_report(Survey([workload("s", "JobSet", "jobset.x-k8s.io/v1alpha2")]), HANDLED, KNOWN).findings
    assert "integrations.frameworks" in found.advice


def test_a_kind_that_the_settings_name_and_nothing_here_acts_on_is_not_to_be_named() -> None:
    owned = Survey([workload("s", "StatefulSet", "apps/v1")])
    (found,) = make_report(owned, HANDLED, KNOWN, {("apps", "StatefulSet")}).findings
    assert found.what == "workloads of StatefulSet.apps, which the settings name and Muster does not act on"
    assert "only Kueue starts, stops or ends them" in found.advice


def test_workloads_are_counted_by_kind_and_state() -> None:
    seen = Survey(
        [
            workload(), workload(active=False), workload(true=["QuotaReserved"]),
            workload(true=["QuotaReserved", "Admitted"]), workload(true=["Finished", "Admitted"]),
            workload("r", "RayJob", "ray.io/v1"),
        ]
    )  # fmt: skip
    found = make_report(seen, HANDLED)
    each = {"admitted": 1, "reserved": 1, "pending": 1, "inactive": 1, "finished": 1}
    alone = dict.fromkeys(each, 0) | {"pending": 1}
    assert found.rows == (Row("Job.batch", True, each), Row("RayJob.ray.io", False, alone))
    assert make_document(found)["workloads"][0] == {"kind": "Job.batch", "handled": True, "counts": each}


def test_pods_are_counted_by_the_gates_that_hold_them() -> None:
    """Kueue's webhook sets two on every pod that queues; the second is no reason not to begin."""
    both = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    pods = [msgspec.convert({"spec": {"schedulingGates": gates}}, Pod) for gates in (both, both[:1])]
    found = make_report(Survey(pods=pods), HANDLED)
    assert found.findings == ()
    assert [str(gate) for gate in found.gates] == [
        "gate kueue.x-k8s.io/admission holds 2 pods: Muster takes it off once the workload is admitted",
        f"gate {TOPOLOGY_GATE} holds 1 pod: {WHEN_PLACED}",
    ]
    assert [gate["pods"] for gate in make_document(found)["gates"]] == [2, 1]


def test_of_many_objects_some_are_named() -> None:
    (found,) = make_report(Survey(webhooks=[str(each) for each in range(7)]), HANDLED).findings
    assert "0, 1, 2, 3, 4 and 2 more" in format_finding(found)
