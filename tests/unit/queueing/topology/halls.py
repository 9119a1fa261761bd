"""Build halls of machines for tests: nodes in blocks and racks, a ClusterQueue over them, and assignments."""

from datetime import UTC, datetime

import msgspec

from muster.api.core import Node
from muster.api.meta import LabelSelector
from muster.api.values.selectors import label_matcher
from muster.queueing.model import (
    FlavorResource,
    FlavorSpec,
    PodSet,
    QueueSpec,
    Quota,
    ResourceGroup,
    TopologyRequest,
    WorkloadInfo,
)
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.nomination import AdmissionSettings, nominate

HOST = "kubernetes.io/hostname"
HOSTS = ("block", "rack", HOST)
RACKS = ("block", "rack")
EVERY_NAMESPACE = label_matcher(LabelSelector())
START = datetime(2026, 1, 1, tzinfo=UTC)


def node(path, levels=HOSTS, *, ready=True, labels=None, **more):
    """Return a node that is named by its place, `b1/r1/x1`, with resources such as `cpu=4`."""
    values = dict(zip(levels, path.split("/"), strict=False))
    spec = {key: more.pop(key) for key in ("taints", "unschedulable") if key in more}
    return msgspec.convert(
        {
            "metadata": {"name": path.replace("/", "-"), "labels": values | (labels or {})},
            "spec": spec,
            "status": {
                "allocatable": {"pods": "40"} | {key: str(amount) for key, amount in more.items()},
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        },
        Node,
    )


def flavor(levels=HOSTS, name="tas", **more):
    return FlavorSpec(name, topology="default", levels=levels, **more)


def tree_of(nodes, flavors=(), queues=("cq",), nominal=10**9, **policy):
    """Return a tree with these nodes, and ClusterQueues with the nominal quota for each flavor."""
    tree = Tree()
    tree.ledger.in_use = True
    names = tuple(one.name for one in flavors) or ("tas",)
    resources = ("cpu", "memory", "gpu")
    quotas = {FlavorResource(name, resource): Quota(nominal) for name in names for resource in resources}
    for queue in queues:
        groups = (ResourceGroup(resources, names),)
        tree.set_queue(QueueSpec(queue, groups=groups, quotas=quotas, namespaces=EVERY_NAMESPACE, **policy))
    for one in nodes:
        tree.ledger.set_node(one)
    return tree


def podset(count, topology=None, name="main", *, together="", **asks):
    """Return pods with requests such as `cpu=1`, in whole units."""
    asks = asks or {"cpu": 1}
    requests = {resource: amount * 1000 if resource == "cpu" else amount for resource, amount in asks.items()}
    return PodSet(name, count, requests, topology=topology, together=together)


def workload(*podsets, name="wl", queue="cq", priority=0):
    return WorkloadInfo(f"ns/{name}", name, queue, "ns/lq", priority, START, START, podsets)


def required(level, *slices):
    return TopologyRequest("required", level, slices)


def preferred(level, *slices):
    return TopologyRequest("preferred", level, slices)


def anywhere(*slices):
    return TopologyRequest("unconstrained", "", slices)


def nominated(tree, wanted, flavors):
    return nominate(tree, wanted, {one.name: one for one in flavors}, AdmissionSettings())


def found(tree, wanted, flavors):
    """Return the places by podset, `{"b1/r1": 3}`, or why there are none."""
    outcome = nominated(tree, wanted, flavors)
    if not outcome.fits:
        return next(one.unplaced or "; ".join(one.reasons) for one in outcome.assignment.podsets if one.reasons)
    return {
        one.name: {"/".join(values): count for values, count in one.places.domains} if one.places else None
        for one in outcome.assignment.podsets
    }
