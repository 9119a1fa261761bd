"""The clone of a workload, and when one that is there is of another."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.multicluster.dispatch.manager import NOW, clone, workload

from muster.api.kueue import Admission, PodSetAssignment, Workload, WorkloadSpec
from muster.api.kueue.names import ELASTIC_JOB, JOB_UID_LABEL, MULTI_KUEUE_ORIGIN_LABEL, QUOTA_RESERVED
from muster.api.managed.dispatch import HOME_ANNOTATION
from muster.api.meta import ObjectMeta, OwnerReference
from muster.multicluster.dispatch import clone as clones
from muster.multicluster.dispatch.clone import (
    count_lacking,
    has_changed,
    is_another,
    make_priority_patch,
    make_resize_patch,
    needs_growth,
)
from muster.queueing.conditions import put


def test_a_clone_has_a_name_labels_and_a_spec_and_nothing_that_binds_it_here() -> None:
    given = workload()
    meta = ObjectMeta(
        name="w",
        namespace="default",
        uid="1",
        resource_version="7",
        labels={JOB_UID_LABEL: "u", "team": "vision"},
        annotations={HOME_ANNOTATION: "a", "note": "n"},
        finalizers=("kueue.x-k8s.io/resource-in-use",),
        owner_references=(OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="u", controller=True),),
    )
    made = clone(replace(given, metadata=meta), "here")
    assert made.metadata == ObjectMeta(
        name="w",
        namespace="default",
        labels={"team": "vision", MULTI_KUEUE_ORIGIN_LABEL: "here"},
        annotations={"note": "n"},
    )
    assert made.spec == given.spec


def changed(**fields: Any) -> WorkloadSpec:
    """The workload's spec with other fields."""
    return msgspec.convert(msgspec.to_builtins(workload().spec) | fields, WorkloadSpec)


def podsets(count: int = 4, image: str = "i", spec: Any = None, **resources: str) -> list[dict[str, Any]]:
    container = {"name": "c", "image": image, "resources": {"requests": resources}}
    return [{"name": "main", "count": count, "template": {"spec": {"containers": [container]} | (spec or {})}}]


@pytest.mark.parametrize(
    ("there", "reserved", "another"),
    [
        pytest.param(workload().spec, True, False, id="the same"),
        pytest.param(changed(priority=5), True, False, id="another priority"),
        pytest.param(changed(active=False), True, False, id="deactivated there"),
        pytest.param(changed(podSets=podsets(5)), True, False, id="shrunk here"),
        pytest.param(changed(podSets=podsets(3)), False, False, id="grown here while it waits there"),
        pytest.param(changed(podSets=podsets(3)), True, True, id="grown here while it has quota there"),
        pytest.param(changed(podSets=podsets(image="other")), True, True, id="another container"),
        pytest.param(
            changed(podSets=podsets(spec={"tolerations": [{"key": "k"}]})), True, False, id="what an admission adds"
        ),
        pytest.param(changed(podSets=podsets(cpu="nonsense")), True, True, id="no quantity"),
        pytest.param(changed(podSets=[]), True, True, id="no podsets"),
        pytest.param(changed(queueName="other"), True, True, id="another queue"),
        pytest.param(changed(maximumExecutionTimeSeconds=5), True, True, id="another limit"),
    ],
)
def test_a_clone_of_another_workload(there: WorkloadSpec, reserved: bool, another: bool) -> None:
    status = workload().status
    if reserved:
        status = replace(status, conditions=put((), QUOTA_RESERVED, True, "R", "", NOW))
    given = workload()
    assert is_another(given, Workload(metadata=given.metadata, spec=there, status=status)) is another


def test_a_priority_is_brought_there() -> None:
    assert make_priority_patch(changed(priority=5), workload().spec) == [
        {"op": "add", "path": "/spec/priority", "value": 5}
    ]
    assert make_priority_patch(changed(priority=5), changed(priority=5)) == []


def sized(count: int, quota: int | None = None, *, elastic: bool = True) -> Workload:
    """One that asks for so many pods and has quota for so many."""
    given, status = workload(), workload().status
    if quota is not None:
        conditions = put((), QUOTA_RESERVED, True, "R", "", NOW)
        assignment = PodSetAssignment(name="main", count=quota)
        admission = Admission(cluster_queue="q", pod_set_assignments=(assignment,))
        status = replace(status, conditions=conditions, admission=admission)
    meta = replace(given.metadata, annotations={ELASTIC_JOB: "true"} if elastic else {})
    return Workload(metadata=meta, spec=changed(podSets=podsets(count)), status=status)


@pytest.mark.parametrize(
    ("here", "there", "size", "growing", "lacks"),
    [
        pytest.param(sized(4, 4), sized(4, 4), None, False, 0, id="the same"),
        pytest.param(sized(3, 3), sized(4, 4), 3, False, 0, id="shrunk here"),
        pytest.param(sized(6, 6), sized(4, 4), 6, True, 2, id="grown here"),
        pytest.param(sized(6, 4), sized(4, 4), None, False, 0, id="to grow, and without quota for that here"),
        pytest.param(sized(6, 4), sized(2, 2), 4, True, 2, id="as far as there is quota here"),
        pytest.param(sized(6, 6), sized(6, 4), None, False, 2, id="grown, and without quota for that there"),
        pytest.param(sized(6, 6), sized(4), 6, False, 2, id="grown here while it waits there"),
        pytest.param(sized(4, 2, elastic=False), sized(4, elastic=False), None, False, 0, id="admitted in part"),
    ],
)
def test_the_size_there_is_what_has_quota_here(
    here: Workload, there: Workload, size: int | None, growing: bool, lacks: int
) -> None:
    patch = [] if size is None else [{"op": "add", "path": "/spec/podSets/0/count", "value": size}]
    assert (make_resize_patch(here, there), has_changed(here, there), needs_growth(here, there)) == (
        patch,
        bool(patch),
        growing,
    )
    assert count_lacking(here, there) == lacks
    assert not is_another(here, there)


def test_a_clone_keeps_fields_that_this_manager_does_not_know() -> None:
    document = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"podSets": [], "later": {"than": "us"}}}
    assert clones.make_clone(document, "here")["spec"] == document["spec"]
