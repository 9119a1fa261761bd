"""A snapshot of a cluster: the fields that scheduling reads, without fields that users would not share.

It is made from the objects that the server returns, reduced to the fields that decisions read. Environment, commands,
arguments, images, volumes, secrets, and annotations of users are left out. `reader.snapshot` reads the objects. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.batch import JOB
from muster.api.core import NAMESPACE, NODE, POD
from muster.api.core.quota import LIMIT_RANGE
from muster.api.groups.runtimeclass import RUNTIME_CLASS
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from muster.api.members import mapping_at, select_members
from muster.api.ours.creation import CREATED_ANNOTATION
from muster.api.ours.decisions import Decision
from muster.api.ours.elastic import ELASTIC_ANNOTATION
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.teams import QUEUE_USERS, USER_LIMITS
from muster.gang.order.ends import EXPECTED_DURATION_ANNOTATION

API_VERSION = "muster.dev/v1alpha1"
KIND = "Snapshot"

# The settings of administrators. The whole spec of these kinds is kept, because none of it comes from a user's program.
_SETTINGS: tuple[Kind[Any], ...] = (
    NAMESPACE,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    LIMIT_RANGE,
    TOPOLOGY,
    RESOURCE_FLAVOR,
    ADMISSION_CHECK,
    COHORT,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    WORKLOAD_PRIORITY_CLASS,
)

# The kinds that scheduling reads; kinds that others refer to come first.
KINDS: tuple[Kind[Any], ...] = (*_SETTINGS, NODE, WORKLOAD, JOB_SET, JOB, POD)

Document = Mapping[str, Any]

_META = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels")
_OWNER = ("apiVersion", "kind", "name", "uid", "controller")
_ANNOTATION_PREFIXES = ("kueue.x-k8s.io/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/")
_ANNOTATIONS = frozenset(
    (
        CREATED_ANNOTATION,
        ELASTIC_ANNOTATION,
        EXPECTED_DURATION_ANNOTATION,
        QUEUE_USERS,
        SUBMITTER_ANNOTATION,
        USER_LIMITS,
    )
)
_POD_SPEC = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "priorityClassName",
    "schedulerName",
    "schedulingGates",
    "activeDeadlineSeconds",
    "overhead",
    "restartPolicy",
    "runtimeClassName",
    "resources",
    "resourceClaims",
)
_JOB_SPEC = (
    "parallelism",
    "completions",
    "completionMode",
    "activeDeadlineSeconds",
    "backoffLimit",
    "suspend",
    "managedBy",
)
_NODE_STATUS = ("allocatable", "capacity")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_POD_STATUS = ("phase", "startTime")
_WORKLOAD_STATUS = ("admission", "requeueState", "reclaimablePods", "accumulatedPastExecutionTimeSeconds")
_WHOLE = frozenset(kind.kind for kind in _SETTINGS)
_FINISHED_PHASES = ("Succeeded", "Failed")


class Snapshot(Struct, frozen=True):
    """The part of a cluster's objects that scheduling reads.

    at: when the objects were read.
    revision: the server's revision.
    missing: the kinds that could not be read, with the reason.
    exact: whether all objects are as of that revision.
    decisions: the recorded decisions, the newest first; None if the snapshot has none.
    """

    at: datetime
    revision: str
    exact: bool
    missing: Mapping[str, str]
    items: tuple[Document, ...]
    decisions: tuple[Decision, ...] | None = None


def write_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as the document of a YAML file, with its decisions if it has any."""
    decisions = {} if snapshot.decisions is None else {"decisions": msgspec.to_builtins(snapshot.decisions)}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "snapshot"},
        "spec": {
            "at": snapshot.at.isoformat(),
            "revision": snapshot.revision,
            "exact": snapshot.exact,
            "missing": dict(snapshot.missing),
            "items": list(snapshot.items),
            **decisions,
        },
    }


def reduce_object(kind: Kind[Any], document: Document) -> Document | None:
    """Return an object with only those fields that scheduling reads; None if the object has finished."""
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _reduce_meta(document.get("metadata") or {})}
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if kind.kind in _WHOLE:
        body = {
            key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata", "status")
        }
        return head | body
    if _is_finished(status):
        return None
    if kind == NODE:
        return head | {
            "spec": select_members(spec, ("taints", "unschedulable")),
            "status": select_members(status, _NODE_STATUS) | {"conditions": _reduce_conditions(status)},
        }
    if kind == POD:
        return head | {"spec": _reduce_pod_spec(spec), "status": select_members(status, _POD_STATUS)}
    if kind == WORKLOAD:
        podsets = [one | {"template": _reduce_template(one.get("template") or {})} for one in spec.get("podSets") or ()]
        reduced_status = select_members(status, _WORKLOAD_STATUS) | {"conditions": _reduce_conditions(status)}
        return head | {"spec": spec | {"podSets": podsets}, "status": reduced_status}
    if kind == JOB_SET:
        roles = [
            select_members(one, ("name", "replicas"))
            | {"template": {"spec": _reduce_job_spec(mapping_at(one, "template", "spec"))}}
            for one in spec.get("replicatedJobs") or ()
        ]
        return head | {"spec": select_members(spec, ("suspend", "managedBy")) | {"replicatedJobs": roles}}
    return head | {"spec": _reduce_job_spec(spec)}


def _is_finished(status: Document) -> bool:
    ends = ("Finished", "Complete", "Completed", "Failed")
    conditions = status.get("conditions") or ()
    return status.get("phase") in _FINISHED_PHASES or any(
        one.get("type") in ends and one.get("status") == "True" for one in conditions
    )


def _reduce_meta(meta: Document) -> dict[str, Any]:
    annotations = {
        name: text
        for name, text in (meta.get("annotations") or {}).items()
        if name in _ANNOTATIONS or name.startswith(_ANNOTATION_PREFIXES)
    }
    owners = [select_members(one, _OWNER) for one in meta.get("ownerReferences") or ()]
    return (
        select_members(meta, _META)
        | ({"annotations": annotations} if annotations else {})
        | ({"ownerReferences": owners} if owners else {})
    )


def _reduce_conditions(status: Document) -> list[dict[str, Any]]:
    return [select_members(one, _CONDITION) for one in status.get("conditions") or ()]


def _reduce_template(template: Document) -> dict[str, Any]:
    return {
        "metadata": _reduce_meta(template.get("metadata") or {}),
        "spec": _reduce_pod_spec(template.get("spec") or {}),
    }


def _reduce_job_spec(spec: Document) -> dict[str, Any]:
    return select_members(spec, _JOB_SPEC) | {"template": _reduce_template(spec.get("template") or {})}


def _reduce_pod_spec(spec: Document) -> dict[str, Any]:
    containers = {
        field: [_reduce_container(one) for one in spec[field]]
        for field in ("initContainers", "containers")
        if field in spec
    }
    return select_members(spec, _POD_SPEC) | containers


def _reduce_container(container: Document) -> dict[str, Any]:
    ports = [
        select_members(one, ("containerPort", "hostPort", "hostIP", "protocol")) for one in container.get("ports") or ()
    ]
    taken = [one for one in ports if one.get("hostPort")]
    return (
        select_members(container, ("name", "resources", "restartPolicy"))
        | {"image": "none"}
        | ({"ports": taken} if taken else {})
    )
