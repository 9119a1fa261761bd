"""PodGroups on a cluster: rows 3.2 to 3.21 of KEP-34's checklist, for every dialect."""

import random
from typing import Any

import msgspec
import pytest
from tests.system.plane import World, running, virtual

from muster.api.config import EMBEDDED
from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster import controlplane
from muster.cluster.apiserver.registry.builtin import make_builtin_resources
from muster.cluster.apiserver.registry.resources import Resource
from muster.jobs.podgroup.record import NATIVE
from muster.runtime.clock import run_virtual
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

KEP, LABEL = "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"
ANNOTATED = (kep.POD_GROUP, volcano.POD_GROUP, sigs.POD_GROUP, kubebatch.POD_GROUP)


async def group(
    world: World, name: str = "g", minimum: int = 3, *, kind: Kind[Any] = kep.POD_GROUP, **spec: Any
) -> Any:
    field = "minMembers" if kind is kep.POD_GROUP else "minMember"
    document = {"metadata": {"name": name}, "spec": {field: minimum, **spec}}
    return await world.client.create(kind, kind.typed(document), "default")


async def member(world: World, name: str, group: str = "g", *, meta: Any = None, cpu: str = "1", **spec: Any) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = meta if meta is not None else {"annotations": {KEP: group}}
    document = {
        "metadata": {"name": name} | metadata,
        "spec": {"restartPolicy": "Never", "containers": [container], "schedulerName": "muster", **spec},
    }
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def members(world: World, names: str, group: str = "g", **more: Any) -> None:
    for name in names:
        await member(world, f"{group}-{name}", group, **more)


async def bound(world: World, group: str = "g") -> str:
    """The last letters of the names of those of its pods that have a node."""
    pods = [pod for pod in await world.pods() if pod.metadata.name.startswith(f"{group}-")]
    return "".join(sorted(pod.metadata.name[-1] for pod in pods if pod.spec.node_name))


async def said(world: World, name: str) -> list[tuple[str, str]]:
    events = (await world.client.list(EVENT, "default")).items
    return [(event.reason, event.message) for event in events if event.involved_object.name == name]


@pytest.mark.parametrize("kind", ANNOTATED, ids=lambda kind: kind.group)
def test_3_12_the_group_first_or_the_pods_first(kind: Kind[Any]) -> None:
    @virtual
    async def run(world: World) -> None:
        await world.node("a", cpu="8")
        await group(world, "early", kind=kind)
        await members(world, "xyz", "early")
        await members(world, "xyz", "late")
        await world.settle()
        assert (await bound(world, "early"), await bound(world, "late")) == ("xyz", "")
        await group(world, "late", kind=kind)
        await world.settle()
        assert await bound(world, "late") == "xyz"

    run()


@virtual
async def test_the_label_of_the_coscheduling_plugin(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, kind=coscheduling.POD_GROUP)
    await members(world, "xy", meta={"labels": {LABEL: "g"}})
    await world.settle()
    assert await bound(world) == ""
    await member(world, "g-z", meta={"labels": {LABEL: "g"}})
    await world.settle()
    assert await bound(world) == "xyz"


@virtual
async def test_3_11_without_the_group_no_pod_is_bound_and_an_event_says_so(world: World) -> None:
    await world.node("a", cpu="8")
    await members(world, "xyz")
    await world.settle(30)
    assert await bound(world) == ""
    told = [message for name in ("g-x", "g-y", "g-z") for _, message in await said(world, name)]
    assert any('PodGroup "g" not found' in message for message in told)


@virtual
async def test_3_13_too_few_pods_wait_with_an_event(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    await members(world, "xy")
    await world.settle(30)
    assert await bound(world) == ""
    told = [one for name in ("g-x", "g-y") for one in await said(world, name)]
    assert ("Unschedulable", 'PodGroup "g" needs 3 pods: 2 are there') in told


@virtual
async def test_19_pods_that_trickle_in_are_not_counted_aloud(world: World) -> None:
    await world.node("a", cpu="64")
    await group(world, minimum=40)
    for number in range(30):
        await member(world, f"g-{number:02}")
        await world.clock.sleep(0.4)
    await world.settle(10)
    assert await said(world, "g") == [("Unschedulable", 'PodGroup "g" needs 40 pods: 30 are there')]


@virtual
async def test_a_name_that_no_group_can_have_is_waited_for_like_any_other(world: World) -> None:
    await world.node("a", cpu="8")
    for number, name in enumerate(("a/b", "g/group-name", "x" * 300, " g", "%2f", "ß")):
        await member(world, f"g-{number}", name)
    await world.settle(10)
    assert await bound(world) == ""
    assert await said(world, "g-0") == [("Unschedulable", 'PodGroup "a/b" not found')]


@virtual
async def test_3_10_an_empty_annotation_is_not_scheduled_and_asks_for_another_pod(world: World) -> None:
    await world.node("a", cpu="8")
    await member(world, "g-x", meta={"annotations": {KEP: ""}})
    await world.settle(30)
    assert await bound(world) == ""
    ((reason, message),) = await said(world, "g-x")
    assert (reason, message) == (
        "Unschedulable",
        f"annotation {KEP} is empty: name a PodGroup in it and submit the pod again",
    )


@virtual
async def test_contradictory_references_are_refused_with_an_event(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, "g", 1)
    await member(world, "g-x", meta={"annotations": {KEP: "g"}, "labels": {LABEL: "other"}})
    await world.settle(30)
    assert await bound(world) == ""
    ((_, message),) = await said(world, "g-x")
    assert message.startswith("the pod names two PodGroups")


@virtual
async def test_3_18_what_does_not_fit_whole_stays_pending(world: World) -> None:
    await world.node("a", cpu="2")
    await group(world)
    await members(world, "xyz")
    await world.settle()
    assert await bound(world) == ""
    await world.node("b", cpu="1")
    await world.settle()
    assert await bound(world) == "xyz"


@virtual
async def test_3_20_the_minimum_together_and_the_others_as_there_is_room(world: World) -> None:
    await world.node("a", cpu="4")
    await group(world)
    await members(world, "vwxyz")
    await world.settle()
    assert len(await bound(world)) == 4
    await world.node("b", cpu="1")
    await world.settle()
    assert await bound(world) == "vwxyz"


@virtual
async def test_3_4_pods_of_several_owners_and_shapes_are_one_gang(world: World) -> None:
    await world.node("a", cpu="2")
    await world.node("b", cpu="3")
    owners = [{"apiVersion": "example.com/v1", "kind": "Driver", "name": "d", "uid": "1", "controller": True}, None]
    await group(world)
    for name, cpu, owner in (("g-x", "2", owners[0]), ("g-y", "1", owners[1]), ("g-z", "2", owners[1])):
        meta = {"annotations": {KEP: "g"}} | ({"ownerReferences": [owner]} if owner else {})
        await member(world, name, meta=meta, cpu=cpu)
    await world.settle()
    assert await bound(world) == "xyz"


@virtual
async def test_3_2_a_group_of_another_namespace_is_another(world: World) -> None:
    await world.node("a", cpu="8")
    document = {"metadata": {"name": "g"}, "spec": {"minMembers": 1}}
    await world.client.create(kep.POD_GROUP, kep.POD_GROUP.typed(document), "kube-system")
    await members(world, "x")
    await world.settle()
    assert await bound(world) == ""


@virtual
async def test_3_7_without_its_group_pods_run_on_and_new_ones_wait(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, minimum=2)
    await members(world, "xy")
    await world.settle()
    await world.client.delete(kep.POD_GROUP, "g", "default")
    await members(world, "z")
    await world.settle()
    assert await bound(world) == "xy"
    await group(world, minimum=2)
    await world.settle()
    assert await bound(world) == "xyz"


@virtual
async def test_3_9_others_schedulers_pods_are_members_and_left_to_them(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    await members(world, "xy")
    await member(world, "g-z", schedulerName="other")
    await world.settle()
    assert await bound(world) == ""
    target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    await world.client.post(POD, "g-z", "default", "binding", {"metadata": {"name": "g-z"}, "target": target})
    await world.settle()
    assert await bound(world) == "xyz"


@virtual
async def test_3_16_a_member_that_has_succeeded_counts_once_too_few_can_live(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    await members(world, "yz")
    await member(world, "g-x", schedulerName="other")
    await world.settle()
    await world.finish(await world.client.get(POD, "g-x", "default"))
    await world.settle()
    assert await bound(world) == "yz"


@virtual
async def test_tasks_of_volcano(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, kind=volcano.POD_GROUP, minimum=2, minTaskMember={"ps": 1, "worker": 1})
    for name in ("g-v", "g-w"):
        await member(world, name, meta={"annotations": {KEP: "g", "volcano.sh/task-spec": "worker"}})
    await world.settle()
    assert await bound(world) == ""
    await member(world, "g-p", meta={"annotations": {KEP: "g", "volcano.sh/task-spec": "ps"}})
    await world.settle()
    assert await bound(world) == "pvw"


async def running_pod(world: World, name: str) -> None:
    """Play the node: the pod runs."""
    patch = {"status": {"phase": "Running"}}
    await world.client.patch(POD, name, patch, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


@pytest.mark.parametrize(
    ("kind", "marks", "running", "lost"),
    [
        (kep.POD_GROUP, {"annotations": {KEP: "g"}}, {"admitted": 3, "running": 3}, {"admitted": 2, "running": 2}),
        (
            volcano.POD_GROUP,
            {"annotations": {"scheduling.volcano.sh/group-name": "g"}},
            {"phase": "Running", "running": 3},
            {"phase": "Unknown", "running": 2},
        ),
        (
            sigs.POD_GROUP,
            {"annotations": {KEP: "g"}},
            {"phase": "Running", "running": 3},
            {"phase": "Unknown", "running": 2},
        ),
        (
            coscheduling.POD_GROUP,
            {"labels": {LABEL: "g"}},
            {"phase": "Running", "running": 3},
            {"phase": "Failed", "running": 2},
        ),
    ],
    ids=lambda value: value.group if isinstance(value, Kind) else "",
)
def test_3_22_the_status_is_kept_and_3_14_lost_members_are_told(
    kind: Kind[Any], marks: Any, running: dict[str, Any], lost: dict[str, Any]
) -> None:
    @virtual
    async def run(world: World) -> None:
        await world.node("a", cpu="8")
        await group(world, kind=kind)
        await members(world, "xyz", meta=marks)
        await world.settle()
        for name in "xyz":
            await running_pod(world, f"g-{name}")
        await world.settle()
        assert shown(await world.client.get(kind, "g", "default"), running) == running
        assert await said(world, "g") == [one for one in await said(world, "g") if one[0] == "Scheduled"]
        await world.finish(await world.client.get(POD, "g-x", "default"), "Failed")
        await world.settle()
        seen = await world.client.get(kind, "g", "default")
        assert shown(seen, lost | {"failed": 1}) == lost | {"failed": 1}
        sentence = "2 running, 0 pending and 0 succeeded pods are fewer than the 3 that must run"
        assert [message for reason, message in await said(world, "g") if reason == "Unschedulable"] == [sentence]
        # Pitfall 19: what is said is not said again.
        await world.settle(600)
        assert (await world.client.get(kind, "g", "default")).metadata == seen.metadata

    run()


def shown(group: Any, of: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(group.status, name) for name in of}


@virtual
async def test_3_21_a_burst_of_pods_is_one_write(world: World) -> None:
    await world.node("a", cpu="64")
    statuses = []
    follow = world.plane.manager.informer(kep.POD_GROUP).on_change
    follow(lambda _, new: statuses.append(new.status) if new is not None else None)
    await group(world, minimum=40)
    for number in range(40):
        await member(world, f"g-{number:02}")
    await world.settle()
    assert [status.admitted for status in dict.fromkeys(statuses)] == [0, 40]


@virtual
async def test_why_it_waits_is_in_the_status(world: World) -> None:
    await world.node("a", cpu="2")
    await group(world)
    await members(world, "xyz")
    await world.settle()
    (condition,) = (await world.client.get(kep.POD_GROUP, "g", "default")).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert "2 of 3" in condition.message
    await world.node("b", cpu="2")
    await world.settle()
    (condition,) = (await world.client.get(kep.POD_GROUP, "g", "default")).status.conditions
    assert (condition.status, condition.reason) == ("False", "Scheduled")


@virtual
async def test_a_group_of_another_scheduler_is_left_alone(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, kind=volcano.POD_GROUP)
    await members(world, "xyz", schedulerName="elsewhere")
    await world.settle()
    seen = (await world.client.get(volcano.POD_GROUP, "g", "default")).status
    assert seen.conditions == ()


NATIVE_ON = msgspec.structs.replace(
    EMBEDDED, muster=msgspec.structs.replace(EMBEDDED.muster, apis=(NATIVE.api_version,))
)


def test_kubernetes_own_group_if_it_is_asked_for() -> None:
    async def run() -> None:
        async with running(configuration=NATIVE_ON) as plane:
            await scenario(World(plane))

    async def scenario(world: World) -> None:
        await world.node("a", cpu="8")
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await world.client.create(NATIVE, NATIVE.typed({"metadata": {"name": "g"}, "spec": spec}), "default")
        named: Any = {"schedulingGroup": {"podGroupName": "g"}}
        await member(world, "g-x", meta={}, **named)
        await world.settle()
        assert await bound(world) == ""
        await member(world, "g-y", meta={}, **named)
        await world.settle()
        assert await bound(world) == "xy"

    run_virtual(run())


@pytest.mark.parametrize(
    ("kind", "marks"),
    [(volcano.POD_GROUP, {"annotations": {KEP: "g"}}), (coscheduling.POD_GROUP, {"labels": {LABEL: "g"}})],
    ids=["volcano", "coscheduling"],
)
def test_16_a_minimum_that_is_changed_counts_from_then_on(kind: Kind[Any], marks: Any) -> None:
    @virtual
    async def run(world: World) -> None:
        await world.node("a", cpu="8")
        await group(world, minimum=3, kind=kind)
        await members(world, "xy", meta=marks)
        await world.settle()
        assert await bound(world) == ""
        await world.client.patch(kind, "g", {"spec": {"minMember": 2}}, "default")
        await world.settle()
        assert await bound(world) == "xy"

    run()


@virtual
async def test_16_a_group_that_is_deleted_and_made_again_is_the_new_one(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, minimum=3)
    await members(world, "xy")
    await world.settle()
    await world.client.delete(kep.POD_GROUP, "g", "default")
    await group(world, minimum=2)
    await world.settle()
    assert await bound(world) == "xy"


@virtual
async def test_7_a_pod_made_again_under_its_name_is_another_pod(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, minimum=3)
    await members(world, "xy")
    for _ in range(3):  # the same two names, again and again
        await world.client.delete(POD, "g-y", "default", grace_period_seconds=0)
        await world.settle(1)
        await members(world, "y")
        await world.settle(1)
    assert await bound(world) == ""


@virtual
async def test_15_a_gated_member_is_waited_for(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    await members(world, "xy")
    await member(world, "g-z", schedulingGates=[{"name": "example.com/hold"}])
    await world.settle()
    assert await bound(world) == ""
    await world.client.patch(POD, "g-z", {"spec": {"schedulingGates": None}}, "default")
    await world.settle()
    assert await bound(world) == "xyz"


def test_a_kind_that_a_definition_brings_later_is_followed_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a cluster where the plugin's definition is not installed yet.
    def without(*asked: Any) -> tuple[Resource, ...]:
        return tuple(one for one in make_builtin_resources(*asked) if one.kind != coscheduling.POD_GROUP)

    monkeypatch.setattr(controlplane, "make_builtin_resources", without)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
        "spec": {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": "PodGroup"},
            "versions": [
                {
                    "name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}},
                }
            ],
        },
    }  # fmt: skip

    @virtual
    async def run(world: World) -> None:
        await world.node("a", cpu="8")
        await group(world, "early", minimum=1)
        await members(world, "x", "early")
        await members(world, "xyz", meta={"labels": {LABEL: "g"}})
        await world.settle()
        assert (await bound(world, "early"), await bound(world)) == ("x", "")
        await world.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), definition)
        await world.settle(1)
        await group(world, kind=coscheduling.POD_GROUP)
        await world.settle(60)
        assert await bound(world) == "xyz"
        assert (await world.client.get(coscheduling.POD_GROUP, "g", "default")).status.phase == "Scheduling"

    run()


RACK = "example.com/rack"


async def racks(world: World) -> None:
    """Two racks: r with two nodes of two CPUs, s with two of one."""
    for name, cpu in (("r-1", "2"), ("r-2", "2"), ("s-1", "1"), ("s-2", "1")):
        await world.node(name, cpu=cpu)
        await world.client.patch(NODE, name, {"metadata": {"labels": {RACK: name[0]}}})


async def nodes_of(world: World, group: str) -> list[str]:
    return sorted(pod.spec.node_name for pod in await world.pods() if pod.metadata.name.startswith(f"{group}-"))


@pytest.mark.parametrize(
    ("level", "size", "expected"),
    [
        pytest.param("required", 4, ["r-1", "r-1", "r-2", "r-2"], id="the rack that has room for all"),
        pytest.param("required", 5, [""] * 5, id="no rack has"),
        pytest.param("required", 2, ["s-1", "s-2"], id="the tightest that has"),
        pytest.param("preferred", 5, ["r-1", "r-1", "r-2", "r-2", "s-1"], id="preferred, and no rack has"),
    ],
)
def test_a_group_keeps_to_a_rack(level: str, size: int, expected: list[str]) -> None:
    @virtual
    async def run(world: World) -> None:
        await racks(world)
        annotations = {f"kueue.x-k8s.io/podset-{level}-topology": RACK}
        document = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMembers": size}}
        await world.client.create(kep.POD_GROUP, kep.POD_GROUP.typed(document), "default")
        await members(world, "abcdefgh"[:size])
        await world.settle()
        assert await nodes_of(world, "g") == expected

    run()


def test_kubernetes_own_group_keeps_to_a_place() -> None:
    async def run() -> None:
        async with running(configuration=NATIVE_ON) as plane:
            await scenario(World(plane))

    async def scenario(world: World) -> None:
        await racks(world)
        constraints = {"topology": [{"key": RACK}]}
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "schedulingConstraints": constraints}
        await world.client.create(NATIVE, NATIVE.typed({"metadata": {"name": "g"}, "spec": spec}), "default")
        for name in "abc":
            await member(world, f"g-{name}", meta={}, schedulingGroup={"podGroupName": "g"})
        await world.settle()
        assert {node[0] for node in await nodes_of(world, "g")} == {"r"}

    run_virtual(run())


@virtual
async def test_surplus_of_a_group_that_keeps_to_a_rack_goes_there_too(world: World) -> None:
    await racks(world)
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK}
    document = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMembers": 3}}
    await world.client.create(kep.POD_GROUP, kep.POD_GROUP.typed(document), "default")
    await members(world, "abc")
    await world.settle()
    await members(world, "de")
    await world.settle()
    assert await nodes_of(world, "g") == ["", "r-1", "r-1", "r-2", "r-2"]


@virtual
async def test_3_8_owners_of_kinds_that_are_not_served_are_never_asked_for(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    owner = {"apiVersion": "nowhere.io/v1", "kind": "Thing", "name": "t", "uid": "1", "controller": True}
    annotations = {"annotations": {KEP: "g"}, "ownerReferences": [owner]}
    await members(world, "xyz", meta=annotations)
    await world.settle(3)
    assert await bound(world) == "xyz"


@virtual
async def test_3_15_node_affinity_holds_for_each_pod(world: World) -> None:
    await world.node("a", cpu="8")
    await world.node("b", cpu="2")
    await world.client.patch(NODE, "b", {"metadata": {"labels": {"disk": "ssd"}}})
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    only_b = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    await group(world, "big")
    await members(world, "xyz", "big", affinity=only_b)
    await group(world, "mixed")
    await members(world, "xy", "mixed", affinity=only_b)
    await members(world, "z", "mixed")
    await world.settle()
    assert (await nodes_of(world, "big"), await nodes_of(world, "mixed")) == ([""] * 3, ["a", "b", "b"])


@virtual
async def test_3_23_members_that_fail_are_their_controllers_business(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world)
    await members(world, "xyz")
    await world.settle()
    await world.finish(await world.client.get(POD, "g-x", "default"), "Failed")
    await world.settle(600)
    phases = {pod.metadata.name: pod.status.phase for pod in await world.pods()}
    assert phases == {"g-x": "Failed", "g-y": "Pending", "g-z": "Pending"}
    assert await bound(world) == "xyz"


@virtual
async def test_8_one_name_in_many_namespaces_is_many_groups(world: World) -> None:
    await world.node("a", cpu="8")
    document = {"metadata": {"name": "g"}, "spec": {"minMembers": 2}}
    for namespace in ("default", "kube-public"):
        await world.client.create(kep.POD_GROUP, kep.POD_GROUP.typed(document), namespace)
    await members(world, "x")
    pod = (await world.pods())[0]
    other = {"metadata": {"name": "g-y", "annotations": {KEP: "g"}}, "spec": msgspec.to_builtins(pod.spec)}
    await world.client.create(POD, msgspec.convert(other, Pod), "kube-public")
    await world.settle()
    assert await bound(world) == "", "one pod here and one there are no two"
    for namespace in ("default", "kube-public"):
        group = await world.client.get(kep.POD_GROUP, "g", namespace)
        assert [condition.message for condition in group.status.conditions] == ["1 of 2 pods exist"]


@virtual
async def test_an_elastic_job_in_a_group_is_left_at_its_size(world: World) -> None:
    await world.node("a", cpu="8")
    await group(world, minimum=2)
    template = {
        "metadata": {"annotations": {KEP: "g"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    bounds = {"muster.dev/elastic": "1:8"}
    await world.job("j", 2, annotations=bounds, template=template)
    await world.settle(30)
    assert await world.nodes_of("j") == ["a", "a"]


MARKS: dict[Kind[Any], Any] = {
    kep.POD_GROUP: {"annotations": {KEP: "{}"}},
    volcano.POD_GROUP: {"annotations": {"scheduling.volcano.sh/group-name": "{}"}},
    sigs.POD_GROUP: {"annotations": {KEP: "{}"}},
    coscheduling.POD_GROUP: {"labels": {LABEL: "{}"}},
}


@pytest.mark.parametrize("seed", range(6))
def test_in_whatever_order_things_come_no_group_is_half_placed(seed: int) -> None:
    chance = random.Random(seed)
    groups = {f"g{n}": (chance.choice([*MARKS]), chance.randint(1, 5), chance.randint(1, 6)) for n in range(6)}
    steps = [("node", f"n{n}", chance.randint(1, 4)) for n in range(5)]
    steps += [("group", name, 0) for name in groups if chance.random() < 0.9]
    steps += [("pod", name, n) for name, (_, _, size) in groups.items() for n in range(size)]
    chance.shuffle(steps)

    async def half(world: World) -> list[str]:
        """Groups of which some pods are bound, and too few."""
        numbers = {name: len(await bound(world, name)) for name in groups}
        return [name for name, number in numbers.items() if 0 < number < groups[name][1]]

    @virtual
    async def run(world: World) -> None:
        for what, name, number in steps:
            if what == "node":
                await world.node(name, cpu=str(number))
            elif what == "group":
                await group(world, name, groups[name][1], kind=groups[name][0])
            else:
                marks = {part: dict.fromkeys(said, name) for part, said in MARKS[groups[name][0]].items()}
                await member(world, f"{name}-{number}", meta=marks)
            if pause := chance.choice([0, 0, 0.1, 3]):
                await world.settle(pause)
            assert pause < 3 or await half(world) == []
        await world.settle(30)
        assert await half(world) == []
        there = {name for what, name, _ in steps if what == "group"}
        assert [name for name in groups if name not in there and await bound(world, name)] == []
        await world.node("large", cpu="64")
        await world.settle(30)
        for name, (_, least, size) in groups.items():
            whole = size if name in there and size >= least else 0
            assert len(await bound(world, name)) == whole, (name, groups[name])

    run()
