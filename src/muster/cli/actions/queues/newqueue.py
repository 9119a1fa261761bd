"""Make the manifests of `muster queue create`: a ClusterQueue with its quota, and a LocalQueue for it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.api.kueue import (
    ANY,
    BEST_EFFORT_FIFO,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    STRICT_FIFO,
    USAGE_BASED_ADMISSION,
)
from muster.api.ours.creation import CREATED_ANNOTATION
from muster.api.ours.teams import QUEUE_USERS, QUOTA_OF, USER_LIMITS, write_users

# The flavor in Kueue's own examples.
USUAL_FLAVOR = "default-flavor"


@dataclass(frozen=True, slots=True)
class NewQueue:
    """A ClusterQueue to create, and a LocalQueue of the same name. Quantities have Kubernetes' notation.

    namespace: the namespace of the LocalQueue; "" for no LocalQueue.
    quotas: the quota by resource.
    borrowing, lending: the limits by resource; they apply only in a cohort.
    within, reclaim: which workloads its workloads may preempt: in the queue, and among those that borrow its quota.
    users: the only users who may use the queue; None for all users.
    limits: the limits of each user, by the name of the limit.
    part_of: the ClusterQueue of whose quota it gets a part; "" for none.
    by_usage: whether past usage orders its LocalQueues.
    created: when it is created. This time decides which of a user's teams is the oldest, because the server's own
    timestamp has whole seconds.
    """

    name: str
    quotas: Mapping[str, str]
    namespace: str = "default"
    flavor: str = USUAL_FLAVOR
    cohort: str = ""
    borrowing: Mapping[str, str] = field(default_factory=dict)
    lending: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    within: str = "LowerPriority"
    reclaim: str = ANY
    weight: str = ""
    users: frozenset[str] | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    part_of: str = ""
    by_usage: bool = False
    created: datetime | None = None


def make_documents(queue: NewQueue) -> list[dict[str, Any]]:
    """Return the manifests to create, in order. The ResourceFlavor among them may exist already."""
    made = [
        _make_document(RESOURCE_FLAVOR, queue.flavor, {}),
        _make_document(CLUSTER_QUEUE, queue.name, _make_spec(queue)),
    ]
    if annotations := _make_annotations(queue):
        made[1]["metadata"]["annotations"] = annotations
    if queue.namespace:
        made.append(_make_document(LOCAL_QUEUE, queue.name, {"clusterQueue": queue.name}, queue.namespace))
    return made


def _make_document(kind: Any, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return head | ({"spec": spec} if spec else {})


def _make_annotations(queue: NewQueue) -> dict[str, str]:
    annotations = {QUOTA_OF: queue.part_of} if queue.part_of else {}
    if queue.users is not None:
        annotations[QUEUE_USERS] = write_users(queue.users)
        annotations |= {CREATED_ANNOTATION: queue.created.isoformat()} if queue.created is not None else {}
    if queue.limits:
        annotations[USER_LIMITS] = ",".join(f"{name}={most}" for name, most in queue.limits.items())
    return annotations


def _make_spec(queue: NewQueue) -> dict[str, Any]:
    flavor = {"name": queue.flavor, "resources": [_make_quota(queue, resource) for resource in queue.quotas]}
    spec: dict[str, Any] = {"cohortName": queue.cohort} if queue.cohort else {}
    if queue.weight:
        spec["fairSharing"] = {"weight": queue.weight}
    if queue.by_usage:
        spec["admissionScope"] = {"admissionMode": USAGE_BASED_ADMISSION}
    preemption = {"withinClusterQueue": queue.within} | ({"reclaimWithinCohort": queue.reclaim} if queue.cohort else {})
    return spec | {
        "resourceGroups": [{"coveredResources": list(queue.quotas), "flavors": [flavor]}],
        "queueingStrategy": STRICT_FIFO if queue.strict else BEST_EFFORT_FIFO,
        "namespaceSelector": {},
        "preemption": preemption,
    }


def _make_quota(queue: NewQueue, resource: str) -> dict[str, str]:
    quota = {"name": resource, "nominalQuota": queue.quotas[resource]}
    for limit, limits in (("borrowingLimit", queue.borrowing), ("lendingLimit", queue.lending)):
        if resource in limits:
            quota[limit] = limits[resource]
    return quota
