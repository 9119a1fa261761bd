"""Tests of the quota that nodes give."""

import msgspec
import pytest

from muster.api.core import Node
from muster.api.kueue import ClusterQueue, ResourceFlavor, ResourceGroup
from muster.api.ours.teams import FOLLOWS_NODES, QUOTA_OF
from muster.queueing.quota.nodes import cover_same, follow_nodes, quota_from_nodes

READY = [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}]
FLAVORS = {
    "any": {},
    "gpu": {"nodeLabels": {"kind": "gpu"}},
    "tainted": {"nodeTaints": [{"key": "own", "value": "us", "effect": "NoSchedule"}]},
    "tolerant": {"tolerations": [{"key": "own", "operator": "Exists"}]},
}


def node(cpu="4", labels=None, conditions=READY, taints=(), unschedulable=False, **resources):
    return msgspec.convert(
        {
            "metadata": {"name": "n", "labels": labels or {}},
            "spec": {"unschedulable": unschedulable, "taints": list(taints)},
            "status": {"allocatable": {"cpu": cpu} | resources, "conditions": conditions},
        },
        Node,
    )


def group(flavors, resources=("cpu",), **limits):
    quotas = [{"name": resource, "nominalQuota": "0"} | limits for resource in resources]
    flavors = [{"name": name, "resources": quotas} for name in flavors]
    return msgspec.convert({"coveredResources": list(resources), "flavors": flavors}, ResourceGroup)


def quotas(nodes, flavors=("any",), **about):
    known = {
        name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceFlavor)
        for name, spec in FLAVORS.items()
    }
    (queue,) = quota_from_nodes((group(flavors, **about),), known, nodes)
    assert all(tuple(quota.name for quota in flavor.resources) == queue.covered_resources for flavor in queue.flavors)
    return {flavor.name: {quota.name: quota.nominal_quota for quota in flavor.resources} for flavor in queue.flavors}


TAINT = {"key": "own", "value": "us", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([], {"cpu": "0"}, id="none"),
        pytest.param([node("4"), node("500m")], {"cpu": "4500m"}, id="together"),
        pytest.param([node(), node(conditions=[])], {"cpu": "4"}, id="not ready yet"),
        pytest.param([node(), node(unschedulable=True)], {"cpu": "4"}, id="cordoned"),
        pytest.param([node(), node(taints=[TAINT])], {"cpu": "4"}, id="tainted"),
        pytest.param([node(taints=[TAINT | {"effect": "PreferNoSchedule"}])], {"cpu": "4"}, id="advice only"),
        pytest.param(
            [node(), node("2", **{"nvidia.com/gpu": "8", "memory": "33554432Ki"})],
            {"cpu": "6", "memory": "32Gi", "nvidia.com/gpu": "8"},
            id="one has GPUs",
        ),
    ],
)
def test_one_flavor(nodes, expected):
    assert quotas(nodes) == {"any": expected}


def test_a_node_counts_for_the_first_flavor_that_it_belongs_to():
    nodes = [node("1"), node("2", labels={"kind": "gpu"}), node("4", taints=[TAINT])]
    assert quotas(nodes, ("gpu", "any", "tainted")) == {
        "gpu": {"cpu": "2"},
        "any": {"cpu": "1"},
        "tainted": {"cpu": "4"},
    }
    assert quotas(nodes, ("any", "gpu", "tolerant")) == {
        "any": {"cpu": "3"},
        "gpu": {"cpu": "0"},
        "tolerant": {"cpu": "4"},
    }


def test_a_flavor_that_does_not_exist_has_nothing():
    assert quotas([node()], ("missing", "any")) == {"missing": {"cpu": "0"}, "any": {"cpu": "4"}}


def test_a_resource_that_is_gone_stays_with_nothing():
    assert quotas([node()], resources=("cpu", "nvidia.com/gpu")) == {"any": {"cpu": "4", "nvidia.com/gpu": "0"}}


def test_limits_are_kept():
    (result,) = quota_from_nodes((group(("any",), borrowingLimit="1", lendingLimit="2"),), {}, [])
    (quota,) = result.flavors[0].resources
    assert (quota.borrowing_limit, quota.lending_limit) == ("1", "2")


@pytest.mark.parametrize(
    ("annotations", "cpu"), [({FOLLOWS_NODES: "true"}, "4"), ({FOLLOWS_NODES: "false"}, "0"), ({}, "0")]
)
def test_a_queue_that_follows_nodes_has_what_they_have(annotations, cpu):
    body = {"metadata": {"name": "q", "annotations": annotations}}
    queue = msgspec.convert(body | {"spec": {"resourceGroups": [msgspec.to_builtins(group(("any",)))]}}, ClusterQueue)
    flavor = msgspec.convert({"metadata": {"name": "any"}}, ResourceFlavor)
    (given,) = follow_nodes(queue, {"any": flavor}, [node()]).spec.resource_groups
    assert [quota.nominal_quota for quota in given.flavors[0].resources] == [cpu]


def part(name="vision", of="q", flavor="any", **resources):
    quotas = [{"name": resource, "nominalQuota": amount} for resource, amount in resources.items()]
    group = {"coveredResources": list(resources), "flavors": [{"name": flavor, "resources": quotas}]}
    meta = {"name": name, "annotations": {QUOTA_OF: of} if of else {}}
    return msgspec.convert({"metadata": meta, "spec": {"resourceGroups": [group]}}, ClusterQueue)


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ([part(cpu="3")], "5"),
        ([part(cpu="3"), part("speech", cpu="500m")], "4500m"),
        ([part(cpu="9")], "0"),
        ([part(cpu="3", of="another"), part("own", of="", cpu="1")], "8"),
        ([part(cpu="3", flavor="gpu")], "8"),
    ],
)
def test_a_queue_gives_up_what_its_parts_were_given(parts, left):
    meta = {"name": "q", "annotations": {FOLLOWS_NODES: "true"}}
    spec = {"resourceGroups": [msgspec.to_builtins(group(["any"]))]}
    queue = msgspec.convert({"metadata": meta, "spec": spec}, ClusterQueue)
    flavors = {"any": msgspec.convert({"metadata": {"name": "any"}}, ResourceFlavor)}
    ((after,),) = (follow_nodes(queue, flavors, [node("8")], [queue, *parts]).spec.resource_groups,)
    assert after.flavors[0].resources[0].nominal_quota == left


def test_a_part_covers_what_the_whole_has():
    (after,) = cover_same(part(cpu="3").spec.resource_groups, (group(["any"], ["cpu", "memory", "nvidia.com/gpu"]),))
    assert after.covered_resources == ("cpu", "memory", "nvidia.com/gpu")
    assert [quota.nominal_quota for quota in after.flavors[0].resources] == ["3", "0", "0"]
