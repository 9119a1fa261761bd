"""Deployments, StatefulSets and LeaderWorkerSets queue by their pods. The tests play their controllers."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.system.integrations.external_kinds import Json, make, report, see, serve, template
from tests.system.plane import World, running, settings
from tests.system.queueing.queueing_world import admitted, flavor, get, is_, local_queue, queue

from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import (
    ADMISSION_GATE,
    MANAGED_LABEL,
    POD_SUSPENDING_PARENT,
    QUEUE_NAME_LABEL,
)
from muster.api.status import ApiError
from muster.controllers.integrations.serving.kinds import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET, Serving
from muster.queueing.jobframework.names import workload_name
from muster.runtime.clock import run_virtual
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

ALL = "integrations: {frameworks: [batch/job, pod, deployment, statefulset, leaderworkerset.x-k8s.io/leaderworkerset]}"
SELECTOR = {"matchLabels": {"app": "web"}}
LWS = "leaderworkerset.sigs.k8s.io"

Scenario = Callable[[World], Awaitable[None]]


def play(scenario: Scenario, text: str = ALL, cpu: int = 4) -> None:
    async def body() -> None:
        async with running(configuration=settings(text)) as plane:
            world = World(plane)
            await flavor(world, nodeLabels={"disk": "ssd"})
            await queue(world, "team", cpu=cpu)
            await scenario(world)

    run_virtual(body())


def labelled(cpu: str = "1") -> Json:
    return {"metadata": {"labels": {"app": "web"}}, **template(cpu)}


def deployment(replicas: int = 2) -> Json:
    return {"replicas": replicas, "selector": SELECTOR, "template": labelled()}


def stateful(replicas: int = 2, cpu: str = "1") -> Json:
    return deployment(replicas) | {"serviceName": "web", "template": labelled(cpu)}


def leaders(replicas: int = 1, size: int = 3, *, leader: bool = True) -> Json:
    groups = {"size": size, "workerTemplate": labelled()} | ({"leaderTemplate": labelled()} if leader else {})
    return {"replicas": replicas, "leaderWorkerTemplate": groups}


async def pod(world: World, name: str, made_by: Json, kind: Kind[Any], of: Json, **labels: str) -> Pod:
    """Play the controller of an object: it makes a pod of its template."""
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "controller": True}
    owner = reference | {key: made_by["metadata"][key] for key in ("name", "uid")}
    given = of.get("metadata", {})
    annotations = {key: text for key, text in labels.items() if key == f"{LWS}/leader-name"}
    rest = {key: text for key, text in labels.items() if key not in annotations}
    metadata = {
        "name": name,
        "ownerReferences": [owner],
        "labels": given.get("labels", {}) | rest,
        "annotations": given.get("annotations", {}) | annotations,
    }
    document = {"metadata": metadata, "spec": of["spec"]}
    return await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def pod_of(world: World, kind: Kind[Any], owner: str, name: str, **labels: str) -> Pod:
    made_by = await see(world, kind, owner)
    return await pod(world, name, made_by, kind, made_by["spec"]["template"], **labels)


async def is_held(world: World, name: str) -> bool:
    found = await world.client.get(POD, name, "default")
    return any(gate.name == ADMISSION_GATE for gate in found.spec.scheduling_gates)


async def held(world: World) -> dict[str, bool]:
    return {one.metadata.name: await is_held(world, one.metadata.name) for one in await world.pods()}


async def runs(world: World, name: str) -> None:
    """Play the node: the pod runs there and is ready."""
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": world.clock.now().isoformat()}]
    status = {"status": {"phase": "Running", "conditions": ready}}
    await world.client.patch(POD, name, status, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


# Deployments.


def test_pods_of_a_deployment_queue_each_alone() -> None:
    async def scenario(world: World) -> None:
        made = await make(world, DEPLOYMENT.kind, "web", deployment(6))
        given = made["spec"]["template"]["metadata"]
        assert given["labels"] == {"app": "web", QUEUE_NAME_LABEL: "team", MANAGED_LABEL: "true"}
        assert given["annotations"] == {POD_SUSPENDING_PARENT: "deployment"}
        replicas = Kind("apps", "v1", "ReplicaSet", "replicasets", dict)
        for number in range(6):
            await pod(world, f"web-{number}", made, replicas, made["spec"]["template"])
        await world.settle()
        assert sorted((await held(world)).values()) == [False] * 4 + [True] * 2, "there is room for four"
        first = await world.client.get(POD, "web-0", "default")
        assert first.spec.node_selector == {"disk": "ssd"}
        await world.client.delete(POD, "web-0", "default")
        await world.settle()
        assert sorted((await held(world)).values()) == [False] * 4 + [True]

    play(scenario)


def test_what_a_deployment_says_again_keeps_its_pods_in_the_queue() -> None:
    async def scenario(world: World) -> None:
        plain = DEPLOYMENT.kind.seen_as(dict)
        await make(world, DEPLOYMENT.kind, "web", deployment())
        stored = await see(world, DEPLOYMENT.kind, "web")
        again = stored | {"spec": deployment(3)}
        kept = (await world.client.update(plain, again))["spec"]["template"]["metadata"]
        assert kept["labels"][QUEUE_NAME_LABEL] == "team"
        assert kept["annotations"][POD_SUSPENDING_PARENT] == "deployment"
        await report(world, DEPLOYMENT.kind, "web", replicas=2, readyReplicas=1)
        for queue_name, said in (("other", "field is immutable"), (None, "field is immutable")):
            label = {"metadata": {"labels": {QUEUE_NAME_LABEL: queue_name}}}
            with pytest.raises(ApiError, match=said):
                await world.client.patch(plain, "web", label, "default")

    play(scenario)


@pytest.mark.parametrize("serving", [DEPLOYMENT, STATEFUL_SET], ids=lambda one: one.name)
def test_the_queue_default_draws_new_objects_and_none_that_runs(serving: Serving) -> None:
    async def scenario(world: World) -> None:
        await make(world, serving.kind, "old", stateful(), queue="")
        await local_queue(world, "default", "team")
        await make(world, serving.kind, "new", stateful(), queue="")
        change = {"metadata": {"labels": {"a": "b"}}}
        await world.client.patch(serving.kind.seen_as(dict), "old", change, "default")
        old, new = await see(world, serving.kind, "old"), await see(world, serving.kind, "new")
        assert "annotations" not in old["spec"]["template"]["metadata"]
        assert new["metadata"]["labels"] == {QUEUE_NAME_LABEL: "default"}
        assert new["spec"]["template"]["metadata"]["annotations"] == {POD_SUSPENDING_PARENT: serving.name}

    play(scenario)


# StatefulSets.


def group_of(made: Json) -> str:
    return workload_name("StatefulSet", "apps", made["metadata"]["name"], made["metadata"]["uid"])


def test_pods_of_a_statefulset_queue_as_one_group() -> None:
    async def scenario(world: World) -> None:
        first = await make(world, STATEFUL_SET.kind, "first", stateful(3))
        second = await make(world, STATEFUL_SET.kind, "second", stateful(2))
        assert first["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
        for name in ("first", "second"):
            await pod_of(world, STATEFUL_SET.kind, name, f"{name}-0")
        await world.settle()
        assert await admitted(world) == [group_of(first)], "quota is for all three of them at once"
        assert [one.count for one in (await get(world, group_of(first))).spec.pod_sets] == [3]
        await pod_of(world, STATEFUL_SET.kind, "first", "first-1")
        await pod_of(world, STATEFUL_SET.kind, "first", "first-2")
        await world.settle()
        assert await held(world) == {"first-0": False, "first-1": False, "first-2": False, "second-0": True}
        await world.client.delete(POD, "first-1", "default")
        await world.settle()
        replaced = await pod_of(world, STATEFUL_SET.kind, "first", "first-1")
        await world.settle()
        assert await admitted(world) == [group_of(first)]
        assert not await is_held(world, replaced.metadata.name)
        await world.client.patch(STATEFUL_SET.kind.seen_as(dict), "first", {"spec": {"replicas": 0}}, "default")
        await world.settle()
        assert group_of(first) not in await admitted(world)
        assert await admitted(world) == [group_of(second)]
        assert await held(world) == {"second-0": False}

    play(scenario)


def test_a_statefulset_that_is_evicted_gives_back_and_queues_again() -> None:
    async def scenario(world: World) -> None:
        made = await make(world, STATEFUL_SET.kind, "web", stateful(1))
        await pod_of(world, STATEFUL_SET.kind, "web", "web-0")
        await world.settle()
        await world.client.patch(WORKLOAD, group_of(made), {"spec": {"active": False}}, "default")
        await world.settle()
        assert await world.pods() == []
        await pod_of(world, STATEFUL_SET.kind, "web", "web-0")
        await world.settle()
        assert await held(world) == {"web-0": True}
        assert await admitted(world) == []
        assert not await is_(world, group_of(made), "QuotaReserved")
        await world.client.patch(WORKLOAD, group_of(made), {"spec": {"active": True}}, "default")
        await world.settle()
        assert await held(world) == {"web-0": False}

    play(scenario)


def test_a_group_that_an_older_kueue_has_named_is_joined() -> None:
    async def scenario(world: World) -> None:
        legacy = workload_name("StatefulSet", "apps", "web", "")
        podset = {"name": "main", "count": 2, "template": template()}
        metadata = {"name": legacy, "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
        document = {"metadata": metadata, "spec": {"queueName": "team", "podSets": [podset]}}
        await world.client.create(WORKLOAD.seen_as(dict), document, "default")
        await make(world, STATEFUL_SET.kind, "web", stateful(2))
        made = await pod_of(world, STATEFUL_SET.kind, "web", "web-0")
        assert made.metadata.labels["kueue.x-k8s.io/pod-group-name"] == legacy
        await world.settle()
        assert await admitted(world) == [legacy]

    play(scenario)


def test_a_group_has_the_size_and_the_shape_that_it_has_quota_for() -> None:
    async def scenario(world: World) -> None:
        plain = STATEFUL_SET.kind.seen_as(dict)
        await make(world, STATEFUL_SET.kind, "web", stateful(2))

        async def change(**spec: Any) -> None:
            await world.client.patch(plain, "web", {"spec": spec}, "default")

        with pytest.raises(ApiError, match=r"spec\.replicas: Invalid value: 3: field is immutable"):
            await change(replicas=3)
        with pytest.raises(ApiError, match=r"spec\.template\.spec: .*field is immutable"):
            await change(template=labelled("2"))
        newer = labelled()
        newer["spec"]["containers"][0]["image"] = "newer"
        await change(template=newer)
        await change(replicas=0)
        await report(world, STATEFUL_SET.kind, "web", replicas=1)
        with pytest.raises(ApiError, match="scaling down is still in progress"):
            await change(replicas=3)
        await report(world, STATEFUL_SET.kind, "web", replicas=0)
        await change(replicas=3)

    play(scenario)


def test_pods_beyond_the_size_that_has_quota_wait_and_are_not_made_anew() -> None:
    async def scenario(world: World) -> None:
        await make(world, STATEFUL_SET.kind, "web", stateful(1))
        await pod_of(world, STATEFUL_SET.kind, "web", "web-0")
        await world.settle()
        scaled = {"spec": {"replicas": 2}}
        await world.client.patch(STATEFUL_SET.kind.seen_as(dict), "web", scaled, "default", subresource="scale")
        await pod_of(world, STATEFUL_SET.kind, "web", "web-1")
        await world.settle()
        assert await held(world) == {"web-0": False, "web-1": True}

    play(scenario)


# LeaderWorkerSets.


async def group(world: World, name: str, number: int, size: int, *, labelled_leader: bool = True) -> None:
    """Play the controllers: the pods of one group come; the labels are those of LeaderWorkerSet's webhook."""
    made = await see(world, LEADER_WORKER_SET.kind, name)
    templates = made["spec"]["leaderWorkerTemplate"]
    marks = {f"{LWS}/name": name, f"{LWS}/group-index": str(number)}
    leader = {f"{LWS}/name": name, f"{LWS}/worker-index": "0"} | (marks if labelled_leader else {})
    first = templates.get("leaderTemplate", templates["workerTemplate"])
    await pod(world, f"{name}-{number}", made, STATEFUL_SET.kind, first, **leader)
    for index in range(1, size):
        labels = marks | {f"{LWS}/worker-index": str(index), f"{LWS}/leader-name": f"{name}-{number}"}
        await pod(world, f"{name}-{number}-{index}", made, STATEFUL_SET.kind, templates["workerTemplate"], **labels)


def group_name(made: Json, number: int) -> str:
    meta = made["metadata"]
    return workload_name("LeaderWorkerSet", "leaderworkerset.x-k8s.io", f"{meta['name']}-{number}", meta["uid"])


@pytest.mark.parametrize("leader", [True, False])
def test_each_group_of_a_leaderworkerset_queues_by_itself_before_its_pods_are_there(leader: bool) -> None:
    async def scenario(world: World) -> None:
        await serve(world, LEADER_WORKER_SET.kind)
        made = await make(world, LEADER_WORKER_SET.kind, "web", leaders(2, leader=leader))
        await world.settle()
        names = [group_name(made, 0), group_name(made, 1)]
        podsets = {"leader": 1, "worker": 2} if leader else {"main": 3}
        for name in names:
            assert {one.name: one.count for one in (await get(world, name)).spec.pod_sets} == podsets
        (first,) = await admitted(world)
        number = names.index(first)
        await group(world, "web", number, 1)
        await world.settle()
        assert await held(world) == {f"web-{number}": False}, "its workers come once it is ready"
        assert not await is_(world, first, "WaitingForReplacementPods")
        await world.client.delete(POD, f"web-{number}", "default")
        await group(world, "web", number, 3)
        await group(world, "web", 1 - number, 3, labelled_leader=False)
        await world.settle()
        others = [name for name, waits in (await held(world)).items() if waits]
        assert sorted(others) == [f"web-{1 - number}{end}" for end in ("", "-1", "-2")]
        await world.client.patch(LEADER_WORKER_SET.kind.seen_as(dict), "web", {"spec": {"replicas": 1}}, "default")
        await world.settle()
        assert [one.metadata.name for one in (await world.client.list(WORKLOAD, "default")).items] == names[:1]

    play(scenario)


def test_a_pod_whose_group_is_known_only_later_joins_it() -> None:
    async def scenario(world: World) -> None:
        await serve(world, LEADER_WORKER_SET.kind)
        made = await make(world, LEADER_WORKER_SET.kind, "web", leaders(size=1, leader=False))
        worker = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        early = await pod(world, "odd", made, LEADER_WORKER_SET.kind, worker, **{f"{LWS}/name": "web"})
        assert MANAGED_LABEL not in early.metadata.labels
        await world.settle()
        assert await held(world) == {"odd": True}
        await world.client.patch(POD, "odd", {"metadata": {"labels": {f"{LWS}/group-index": "0"}}}, "default")
        await world.settle()
        assert await held(world) == {"odd": False}

    play(scenario)


def test_workers_are_numbered_after_their_leader_if_there_is_one() -> None:
    async def scenario(world: World) -> None:
        await serve(world, LEADER_WORKER_SET.kind)
        offset = "kueue.x-k8s.io/pod-index-offset"
        for name, leader in (("led", True), ("alone", False)):
            made = await make(world, LEADER_WORKER_SET.kind, name, leaders(leader=leader))
            templates = made["spec"]["leaderWorkerTemplate"]
            assert (offset in templates["workerTemplate"]["metadata"]["annotations"]) == leader
            assert offset not in templates.get("leaderTemplate", {}).get("metadata", {}).get("annotations", {})

    play(scenario)


def test_a_leaderworkerset_that_is_deleted_leaves_no_workload() -> None:
    async def scenario(world: World) -> None:
        await serve(world, LEADER_WORKER_SET.kind)
        await make(world, LEADER_WORKER_SET.kind, "web", leaders())
        await world.settle()
        assert len(await admitted(world)) == 1
        await world.client.delete(LEADER_WORKER_SET.kind.seen_as(dict), "web", "default")
        await world.settle()
        assert (await world.client.list(WORKLOAD, "default")).items == []

    play(scenario)


def test_a_statefulset_that_a_leaderworkerset_makes_is_left_to_it() -> None:
    async def scenario(world: World) -> None:
        await serve(world, LEADER_WORKER_SET.kind)
        made = await make(world, LEADER_WORKER_SET.kind, "web", leaders(size=1, leader=False))
        spec = stateful(1) | {"template": made["spec"]["leaderWorkerTemplate"]["workerTemplate"]}
        part = await make(world, STATEFUL_SET.kind, "web", spec)
        annotations = part["spec"]["template"]["metadata"]["annotations"]
        assert annotations[POD_SUSPENDING_PARENT] == LEADER_WORKER_SET.name

    play(scenario)


COPIED = (
    ALL
    + """
featureGates: {CustomMetricLabels: true}
metrics:
  customLabels:
  - {name: owner, sourceKind: Workload, trackedValues: [ann]}
  - {name: tier, sourceKind: Workload, sourceAnnotationKey: example.com/tier, trackedValues: [tin]}
"""
)


@pytest.mark.parametrize(("serving", "spec"), [(STATEFUL_SET, stateful()), (LEADER_WORKER_SET, leaders())])
def test_what_metrics_read_of_a_workload_is_copied_from_its_set(serving: Serving, spec: Json) -> None:
    async def scenario(world: World) -> None:
        if serving.optional:
            await serve(world, serving.kind)
        said = {"example.com/tier": "tin", "other": "x"}
        await make(world, serving.kind, "web", spec, more={"owner": "ann", "other": "x"}, annotations=said)
        await world.settle()
        (found,) = (await world.client.list(WORKLOAD, "default")).items
        assert (found.metadata.labels, found.metadata.annotations.get("example.com/tier")) == ({"owner": "ann"}, "tin")
        assert "other" not in found.metadata.annotations

    play(scenario, COPIED)


def test_nothing_of_this_is_done_where_pods_do_not_queue() -> None:
    async def scenario(world: World) -> None:
        made = await make(world, DEPLOYMENT.kind, "web", deployment())
        assert "annotations" not in made["spec"]["template"]["metadata"]

    play(scenario, "integrations: {frameworks: [batch/job, deployment]}")
