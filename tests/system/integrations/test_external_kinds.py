"""Jobs of other projects' kinds queue: each is suspended, admitted whole, started with what is injected, and ends.

Nothing here runs these kinds: the tests play their operators.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.system.integrations.external_kinds import Json, make, report, see, serve, template, workload_of
from tests.system.plane import World, running, settings
from tests.system.queueing.queueing_world import admitted, flavor, get, is_, queue, why

from muster.api.core import EVENT
from muster.api.jobset import JOB_SET
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import POD_SET_LABEL
from muster.api.members import value_at
from muster.api.status import ApiError
from muster.api.values.quantity import parse
from muster.controllers.integrations.external import kinds
from muster.controllers.integrations.external.appwrapper import APP_WRAPPER
from muster.controllers.integrations.external.integration import ExternalIntegration
from muster.controllers.integrations.external.kinds import SHAPES
from muster.controllers.integrations.external.shape import Shape
from muster.controllers.integrations.external.trainjob import TRAIN_JOB
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.reconciler import JobReconciler
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.why import describe_levels
from muster.insight.why.answer import render_lines
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager

RUNTIME = ("trainingRuntimeSpec", "template", "spec")


def roles(field: str, **counts: int) -> Json:
    return {field: {role: {"replicas": count, "template": template()} for role, count in counts.items()}}


def cluster(workers: int) -> Json:
    group = {"groupName": "Small", "replicas": workers, "template": template()}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}


def condition(type: str, message: str = "") -> Json:
    return {"conditions": [{"type": type, "status": "True", "message": message}]}


class Case:
    """A job of three pods of one CPU, the podsets that it has, and what its operator says of it.

    ended: None for kinds that do not end.
    """

    def __init__(
        self, shape: Shape, spec: Json, podsets: dict[str, int], running: Json, stopped: Json, ended: Json | None
    ) -> None:
        self.shape, self.spec, self.podsets = shape, spec, podsets
        self.running, self.stopped, self.ended = running, stopped, ended


def kubeflow(shape: Shape, field: str, **counts: int) -> Case:
    return Case(
        shape,
        roles(field, **counts),
        {role.lower(): count for role, count in counts.items()},
        {"replicaStatuses": {role: {"active": count} for role, count in counts.items()}, **condition("Running")},
        {"replicaStatuses": {role: {"active": 0} for role in counts}, **condition("Suspended")},
        {"replicaStatuses": {role: {"active": 0} for role in counts}, **condition("Succeeded", "all is done")},
    )


CASES = [
    kubeflow(kinds.PYTORCH_JOB, "pytorchReplicaSpecs", Master=1, Worker=2),
    kubeflow(kinds.TF_JOB, "tfReplicaSpecs", Chief=1, PS=1, Worker=1),
    kubeflow(kinds.XGBOOST_JOB, "xgbReplicaSpecs", Master=1, Worker=2),
    kubeflow(kinds.PADDLE_JOB, "paddleReplicaSpecs", Master=1, Worker=2),
    kubeflow(kinds.JAX_JOB, "jaxReplicaSpecs", Worker=3),
    kubeflow(kinds.MPI_JOB, "mpiReplicaSpecs", Launcher=1, Worker=2),
    Case(
        kinds.RAY_CLUSTER,
        cluster(2),
        {"head": 1, "small": 2},
        {"state": "ready", "availableWorkerReplicas": 2},
        {"state": "suspended", "availableWorkerReplicas": 0},
        None,
    ),
    Case(
        kinds.RAY_SERVICE,
        {"rayClusterConfig": cluster(2)},
        {"head": 1, "small": 2},
        condition("Ready"),
        {"conditions": [{"type": "Ready", "status": "False"}]},
        None,
    ),
    Case(
        kinds.RAY_JOB,
        {"rayClusterSpec": cluster(1), "submitterPodTemplate": template(), "shutdownAfterJobFinishes": True},
        {"head": 1, "small": 1, "submitter": 1},
        {"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}},
        {"jobDeploymentStatus": "Suspended", "rayClusterStatus": {"state": "suspended"}},
        {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "all is done"},
    ),
]


def with_kinds(*shapes: Shape, wait: str = "") -> str:
    names = ", ".join(shape.name for shape in shapes)
    return f"integrations: {{frameworks: [batch/job, pod, {names}]}}\n{wait}"


def play(text: str, scenario: Any, served: Sequence[Shape] = ()) -> None:
    """Run a scenario under these settings, with a queue of four CPUs on a flavor that has a label."""

    async def body() -> None:
        async with running(configuration=settings(text)) as plane:
            world = World(plane)
            await serve(world, *(shape.kind for shape in served))
            await flavor(world, nodeLabels={"disk": "ssd"})
            await queue(world, "team", cpu=4)
            await scenario(world)

    run_virtual(body())


async def row_of(world: World, name: str) -> Json:
    rows = await job_rows(world.client, "default", world.clock.now(), pytest.fail)
    return next(row for row in rows if row["name"] == name)


async def explanation_of(world: World, name: str) -> str:
    readings = await investigate(world.client, "default", name, world.clock.now())
    assert readings is not None
    return "\n".join(render_lines(readings, describe_levels(readings)))


def templates_of(case: Case, job: Json) -> list[Json]:
    """The pod templates of the job, as it is stored."""
    places = case.shape.places(case.shape.kind.typed(job))
    return [value_at(job, place.path) for place in places]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shape.kind.kind)
def test_a_job_waits_starts_whole_is_evicted_and_ends(case: Case) -> None:
    kind = case.shape.kind

    async def suspended(world: World, name: str) -> bool:
        return bool(value_at(await see(world, kind, name), case.shape.suspend))

    async def scenario(world: World) -> None:
        await make(world, kind, "first", case.spec)
        await make(world, kind, "second", case.spec)
        assert await suspended(world, "first"), "it is suspended on its way in"
        await world.settle()
        first, second = await workload_of(world, "first"), await workload_of(world, "second")
        assert first.startswith(f"{kind.kind.lower()}-first-")
        assert {one.name: one.count for one in (await get(world, first)).spec.pod_sets} == case.podsets
        assert await admitted(world) == [first]
        assert (await suspended(world, "first"), await suspended(world, "second")) == (False, True)
        missing = f"no program has reported on this {kind.kind}: does its operator ({case.shape.controller}) run"
        assert (await row_of(world, "first"))["reason"] == "", "an operator may take a moment"
        await world.settle(15)
        assert (await row_of(world, "first"))["reason"].startswith(missing)
        assert missing not in (await row_of(world, "second"))["reason"]
        assert f">> placement  {missing}" in await explanation_of(world, "first")
        for found, name in zip(templates_of(case, await see(world, kind, "first")), case.podsets, strict=True):
            assert found["metadata"]["labels"][POD_SET_LABEL] == name
            assert found["spec"]["nodeSelector"] == {"disk": "ssd"}
            assert found["spec"]["containers"] == template()["spec"]["containers"]
        await report(world, kind, "first", **case.running)
        await world.settle()
        assert await is_(world, first, "PodsReady")
        assert (await row_of(world, "first"))["reason"] == ""

        await world.client.patch(WORKLOAD, first, {"spec": {"active": False}}, "default")
        await world.settle()
        assert await suspended(world, "first")
        assert await admitted(world) == [first], "its pods have not ended"
        await report(world, kind, "first", **case.stopped)
        await world.settle()
        assert await admitted(world) == [second]
        left = templates_of(case, await see(world, kind, "first"))
        assert all(POD_SET_LABEL not in one["metadata"].get("labels", {}) for one in left)
        assert all("nodeSelector" not in one["spec"] for one in left)
        if case.ended is None:
            return
        await report(world, kind, "second", **case.running)
        await world.settle()
        await report(world, kind, "second", **case.ended)
        await world.settle()
        assert await why(world, second, "Finished") == ("Succeeded", "all is done")

    play(with_kinds(case.shape, wait="waitForPodsReady: {timeout: 60m}\n"), scenario, [case.shape])


# What is particular to some kinds.


def wrapped(replicas: int) -> Json:
    """An AppWrapper of a Deployment, whose pods its controller knows, and of a kind that says where its pods are."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    unknown = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "fleet"}}
    return {
        "components": [
            {"template": deployment | {"spec": {"replicas": replicas, "template": template()}}},
            {
                "podSets": [{"replicas": 2, "path": "template.spec.groups[0].template"}],
                "template": unknown | {"spec": {"groups": [{"template": template()}]}},
            },
        ]
    }


def test_an_appwrapper_is_told_beside_its_objects_what_is_injected() -> None:
    kind = APP_WRAPPER.kind

    async def beside(world: World) -> list[Any]:
        return [one.get("podSetInfos") for one in (await see(world, kind, "one"))["spec"]["components"]]

    async def scenario(world: World) -> None:
        await make(world, kind, "one", wrapped(2))
        await world.settle()
        name = await workload_of(world, "one")
        assert {one.name: one.count for one in (await get(world, name)).spec.pod_sets} == {"one-0": 2, "one-1": 2}
        assert await admitted(world) == [name]
        assert not (await see(world, kind, "one"))["spec"]["suspend"]
        (first,), (second,) = await beside(world)
        assert first["nodeSelector"] == second["nodeSelector"] == {"disk": "ssd"}
        assert (first["labels"][POD_SET_LABEL], second["labels"][POD_SET_LABEL]) == ("one-0", "one-1")
        await report(world, kind, "one", phase="Running", **condition("QuotaReserved"))
        await world.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
        await world.settle()
        assert (await see(world, kind, "one"))["spec"]["suspend"]
        assert await admitted(world) == [name]
        await report(world, kind, "one", phase="Suspended", conditions=[])
        await world.settle()
        assert await admitted(world) == []
        assert await beside(world) == [None, None]
        await world.client.patch(WORKLOAD, name, {"spec": {"active": True}}, "default")
        await world.settle()
        await report(world, kind, "one", phase="Failed", **condition("ResourcesDeployed"))
        await world.settle()
        assert not await is_(world, name, "Finished"), "its resources are not gone"
        await report(world, kind, "one", phase="Failed", conditions=[])
        await world.settle()
        assert await why(world, name, "Finished") == ("Failed", "AppWrapper failed")

    play(with_kinds(APP_WRAPPER), scenario, [APP_WRAPPER])


MODES = [("", 3, "2500m"), ("SidecarMode", 2, "2500m"), ("HTTPMode", 2, "2")]


@pytest.mark.parametrize(("mode", "podsets", "cpus"), MODES)
def test_a_rayjob_counts_the_pod_that_submits_it(mode: str, podsets: int, cpus: str) -> None:
    kind = kinds.RAY_JOB.kind

    async def scenario(world: World) -> None:
        resources = [{"name": "cpu", "nominalQuota": 4}, {"name": "memory", "nominalQuota": "4Gi"}]
        flavors = [{"name": "default", "resources": resources}]
        groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
        await queue(world, "wide", cpu=4, resourceGroups=groups)
        spec = {"rayClusterSpec": cluster(1), "shutdownAfterJobFinishes": True}
        await make(world, kind, "one", spec | ({"submissionMode": mode} if mode else {}), queue="wide")
        await world.settle()
        found = await get(world, await workload_of(world, "one"))
        assigned = found.status.admission.pod_set_assignments
        assert len(assigned) == podsets
        assert sum(parse(one.resource_usage["cpu"]) for one in assigned) == parse(cpus)
        started = (await see(world, kind, "one"))["spec"]
        assert not started["suspend"]
        assert ("submitterPodTemplate" in started) == (podsets == 3)
        if podsets == 3:
            assert started["submitterPodTemplate"]["spec"]["nodeSelector"] == {"disk": "ssd"}

    play(with_kinds(kinds.RAY_JOB), scenario, [kinds.RAY_JOB])


def test_what_a_job_makes_does_not_queue_by_itself() -> None:
    async def scenario(world: World) -> None:
        spec = {"rayClusterSpec": cluster(1), "shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}
        made = await make(world, kinds.RAY_JOB.kind, "one", spec)
        owner = {key: made[key] for key in ("apiVersion", "kind")} | {"controller": True, "name": "one"}
        owners = [owner | {"uid": made["metadata"]["uid"]}]
        await world.settle()
        await make(world, kinds.RAY_CLUSTER.kind, "part", cluster(1), queue="", ownerReferences=owners)
        await world.settle()
        assert "suspend" not in (await see(world, kinds.RAY_CLUSTER.kind, "part"))["spec"]
        assert len((await world.client.list(WORKLOAD, "default")).items) == 1

    shapes = [kinds.RAY_JOB, kinds.RAY_CLUSTER]
    play(with_kinds(*shapes), scenario, shapes)


def test_one_that_another_program_lets_run_starts_anew_on_what_it_was_admitted_with() -> None:
    kind = kinds.PYTORCH_JOB.kind

    async def scenario(world: World) -> None:
        await make(world, kind, "one", roles("pytorchReplicaSpecs", Master=1) | {"runPolicy": {"suspend": True}})
        await world.client.patch(kind.seen_as(dict), "one", {"spec": {"runPolicy": {"suspend": False}}}, "default")
        await world.settle()
        stored = (await see(world, kind, "one"))["spec"]
        assert stored["runPolicy"] == {"suspend": False}
        assert stored["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}

    play(with_kinds(kinds.PYTORCH_JOB), scenario, [kinds.PYTORCH_JOB])


def test_one_that_changes_its_size_stops_and_queues_anew() -> None:
    kind = kinds.PYTORCH_JOB.kind

    async def scenario(world: World) -> None:
        await make(world, kind, "one", roles("pytorchReplicaSpecs", Worker=2))
        await world.settle()
        old = await workload_of(world, "one")
        await report(world, kind, "one", replicaStatuses={"Worker": {"active": 2}})
        more = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}}
        await world.client.patch(kind.seen_as(dict), "one", more, "default")
        await world.settle()
        assert (await see(world, kind, "one"))["spec"]["runPolicy"] == {"suspend": True}
        assert await admitted(world) == [old], "its pods have not ended"
        await report(world, kind, "one", replicaStatuses={"Worker": {"active": 0}})
        await world.settle()
        found = await get(world, await workload_of(world, "one"))
        assert [one.count for one in found.spec.pod_sets] == [3]
        assert (await see(world, kind, "one"))["spec"]["runPolicy"] == {"suspend": False}

    play(with_kinds(kinds.PYTORCH_JOB), scenario, [kinds.PYTORCH_JOB])


def test_a_manifest_can_be_put_again_while_its_job_runs() -> None:
    kind = kinds.RAY_CLUSTER.kind

    async def scenario(world: World) -> None:
        await make(world, kind, "one", cluster(1))
        await world.settle()
        again = {"spec": {"workerGroupSpecs": cluster(1)["workerGroupSpecs"]}}
        await world.client.patch(kind.seen_as(dict), "one", again, "default")
        await world.settle()
        stored = (await see(world, kind, "one"))["spec"]
        assert not stored["suspend"]
        assert stored["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}

    play(with_kinds(kinds.RAY_CLUSTER), scenario, [kinds.RAY_CLUSTER])


def test_kinds_need_not_be_served_and_may_come_later() -> None:
    kind = kinds.PYTORCH_JOB.kind

    async def scenario(world: World) -> None:
        await world.job("plain", 1)
        await world.settle()
        assert len(await world.pods("plain")) == 1
        await serve(world, kind)
        await make(world, kind, "one", roles("pytorchReplicaSpecs", Master=1))
        await world.settle()
        assert await admitted(world) == [await workload_of(world, "one")]

    play(with_kinds(*SHAPES, APP_WRAPPER), scenario)


def test_a_job_that_is_not_of_its_own_controller_or_names_no_queue_is_left_alone() -> None:
    kind = kinds.PYTORCH_JOB.kind
    spec = roles("pytorchReplicaSpecs", Master=1)

    async def scenario(world: World) -> None:
        await make(world, kind, "free", spec, queue="")
        await make(world, kind, "other", spec | {"runPolicy": {"managedBy": "example.com/operator"}})
        await world.settle()
        for name in ("free", "other"):
            assert not (await see(world, kind, name))["spec"].get("runPolicy", {}).get("suspend")
        assert (await world.client.list(WORKLOAD, "default")).items == []

    play(with_kinds(kinds.PYTORCH_JOB), scenario, [kinds.PYTORCH_JOB])


FLEET = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "fleet"}}
BAD: list[tuple[Shape, Json, str]] = [
    (kinds.PYTORCH_JOB, {"pytorchReplicaSpecs": {"Master": {}}}, "Master.template: .* must be a pod template"),
    (kinds.PYTORCH_JOB, {"pytorchReplicaSpecs": {"Master": {"template": {"spec": None}}}}, "must be a pod template"),
    (
        kinds.PYTORCH_JOB,
        {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"containers": "none"}}}}},
        "Expected `array`, got `str`",
    ),
    (kinds.PYTORCH_JOB, {"pytorchReplicaSpecs": {"Master": {"template": template(), "replicas": -1}}}, "not negative"),
    (kinds.RAY_JOB, {"rayClusterSpec": cluster(1)}, "should delete the cluster after finishing"),
    (kinds.RAY_JOB, {"shutdownAfterJobFinishes": True}, "rayClusterSpec is required"),
    (kinds.RAY_CLUSTER, cluster(1) | {"enableInTreeAutoscaling": True}, "should not use autoscaling"),
    (kinds.RAY_CLUSTER, cluster(1) | {"workerGroupSpecs": [{"groupName": "head", "template": template()}]}, "reserved"),
    (
        APP_WRAPPER,
        {"components": [{"podSets": [{"path": "spec.x"}], "template": FLEET}]},
        "must be a path like template",
    ),
    (APP_WRAPPER, {"components": 10 * wrapped(1)["components"]}, "spec.components: Too many: 20: must have at most 18"),
    (APP_WRAPPER, {"components": [{"podSets": [{"path": "template.x"}], "template": FLEET}]}, "must be a pod template"),
]


@pytest.mark.parametrize(("shape", "spec", "said"), BAD)
def test_what_makes_no_workload_is_refused_with_its_field(shape: Shape, spec: Json, said: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ApiError, match=said) as refusal:
            await make(world, shape.kind, "one", spec)
        assert refusal.value.code == 403
        await make(world, shape.kind, "free", spec, queue="")

    play(with_kinds(shape), scenario, [shape])


@asynccontextmanager
async def unseen(world: World) -> AsyncIterator[None]:
    """Keep PyTorchJobs in step, with no webhook that sees what is written."""
    manager = Manager(world.client, world.clock, world.random)
    integration = ExternalIntegration(kinds.PYTORCH_JOB)
    owners = Owners(manager, [integration], without_queue=False)
    recorder = world.plane.events.recorder("test")
    manager.add(JobReconciler(manager, integration, owners, recorder, world.plane.configuration))
    run = asyncio.create_task(manager.run())
    yield
    await manager.stop()
    await run


def test_one_that_came_unseen_and_cannot_be_read_is_told_so_and_harms_no_other() -> None:
    kind = kinds.PYTORCH_JOB.kind

    async def scenario(world: World) -> None:
        async with unseen(world):
            await make(world, kind, "bad", {"pytorchReplicaSpecs": {"Master": {}}})
            await make(world, kind, "good", roles("pytorchReplicaSpecs", Master=1))
            await world.settle()
            assert await admitted(world) == [await workload_of(world, "good")]
            events = (await world.client.list(EVENT, "default")).items
            said = {one.reason: one.message for one in events if one.involved_object.name == "bad"}
            path = "spec.pytorchReplicaSpecs.Master.template"
            assert said == {"ErrWorkloadCompose": f"{path}: must be a pod template with a spec"}

    play("", scenario, [kinds.PYTORCH_JOB])


def test_one_that_cannot_be_read_any_more_ends_and_is_evicted() -> None:
    kind = kinds.PYTORCH_JOB.kind
    broken = {"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": -1}}}}

    async def is_suspended(world: World, name: str) -> bool:
        return bool((await see(world, kind, name))["spec"]["runPolicy"]["suspend"])

    async def scenario(world: World) -> None:
        async with unseen(world):
            for name in ("ends", "goes"):
                suspended = {"runPolicy": {"suspend": True}}
                await make(world, kind, name, roles("pytorchReplicaSpecs", Master=1) | suspended)
            await world.settle()
            ends, goes = await workload_of(world, "ends"), await workload_of(world, "goes")
            for name in ("ends", "goes"):
                await report(world, kind, name, replicaStatuses={"Master": {"active": 1}})
                await world.client.patch(kind.seen_as(dict), name, broken, "default")
            await world.settle()
            assert await admitted(world) == sorted((ends, goes)), "what runs goes on"
            assert not await is_suspended(world, "goes")

            done = {"replicaStatuses": {"Master": {"active": 0}}}
            await report(world, kind, "ends", **done, **condition("Succeeded", "all is done"))
            await world.client.patch(WORKLOAD, goes, {"spec": {"active": False}}, "default")
            await world.settle()
            assert await why(world, ends, "Finished") == ("Succeeded", "all is done")
            assert await is_suspended(world, "goes")
            assert await admitted(world) == [goes], "its pods have not ended"
            await report(world, kind, "goes", **done, **condition("Suspended"))
            await world.settle()
            assert await admitted(world) == []

            await world.client.patch(WORKLOAD, goes, {"spec": {"active": True}}, "default")
            await world.settle()
            assert await is_suspended(world, "goes"), "nobody knows how many pods it would start"

    play("", scenario, [kinds.PYTORCH_JOB])


# TrainJobs, which consist of what their controller makes of them.


async def play_trainer(world: World, name: str, parallelism: int) -> None:
    """Play the controller of TrainJobs: the JobSet is as the TrainJob and its runtime are, once it is suspended."""
    train = await see(world, TRAIN_JOB.kind, name)
    patches = value_at(train, ("spec", "runtimePatches", 0, *RUNTIME, "replicatedJobs")) or [{}]
    patch = value_at(patches[0], ("template", "spec", "template")) or {}
    pods = {"metadata": patch.get("metadata", {}), "spec": template()["spec"] | patch.get("spec", {})}
    job = {"spec": {"parallelism": parallelism, "completions": parallelism, "template": pods}}
    spec = {"suspend": train["spec"]["suspend"], "replicatedJobs": [{"name": "node", "template": job}]}
    found = await world.client.find(JOB_SET.seen_as(dict), name, "default")
    if found is None:
        owner = {"apiVersion": TRAIN_JOB.kind.api_version, "kind": "TrainJob", "name": name, "controller": True}
        metadata = {"name": name, "ownerReferences": [owner | {"uid": train["metadata"]["uid"]}]}
        await world.client.create(JOB_SET.seen_as(dict), {"metadata": metadata, "spec": spec}, "default")
    else:
        await world.client.patch(JOB_SET.seen_as(dict), name, {"spec": spec}, "default")
    await world.settle()


def test_a_trainjob_queues_as_what_its_controller_makes_of_it() -> None:
    kind = TRAIN_JOB.kind

    async def scenario(world: World) -> None:
        theirs = {"manager": "example.com/other", "trainingRuntimeSpec": {}}
        await make(world, kind, "one", {"runtimeRef": {"name": "torch"}, "runtimePatches": []})
        await make(world, kind, "two", {"runtimeRef": {"name": "torch"}, "runtimePatches": [theirs]})
        await world.settle()
        assert (await world.client.list(WORKLOAD, "default")).items == [], "nothing says what it consists of"
        await play_trainer(world, "one", 3)
        name = await workload_of(world, "one")
        assert name.startswith("trainjob-one-")
        assert [(one.name, one.count) for one in (await get(world, name)).spec.pod_sets] == [("node", 3)]
        assert await admitted(world) == [name]
        started = (await see(world, kind, "one"))["spec"]
        assert not started["suspend"]
        (patch,) = started["runtimePatches"]
        assert patch["manager"] == "kueue.x-k8s.io/manager"
        (injected,) = value_at(patch, (*RUNTIME, "replicatedJobs"))
        assert injected["name"] == "node"
        assert value_at(injected, ("template", "spec", "template", "spec")) == {"nodeSelector": {"disk": "ssd"}}
        await play_trainer(world, "one", 3)
        await report(world, kind, "one", jobsStatus=[{"name": "node", "ready": 1, "active": 1}])
        await world.settle()
        assert await is_(world, name, "PodsReady")
        assert await admitted(world) == [name]
        assert len((await world.client.list(WORKLOAD, "default")).items) == 1, "its JobSet has none"

        await world.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
        await world.settle()
        assert (await see(world, kind, "one"))["spec"]["suspend"]
        assert await admitted(world) == [name], "its pods have not ended"
        await play_trainer(world, "one", 3)
        await report(world, kind, "one", jobsStatus=[{"name": "node", "ready": 0, "active": 0}])
        await world.settle()
        assert await admitted(world) == []
        (patch,) = (await see(world, kind, "one"))["spec"]["runtimePatches"]
        assert value_at(patch, RUNTIME) == {}
        await play_trainer(world, "one", 3)
        await world.client.patch(WORKLOAD, name, {"spec": {"active": True}}, "default")
        await world.settle()
        assert await admitted(world) == [name]
        assert not (await see(world, kind, "one"))["spec"]["suspend"]
        await play_trainer(world, "one", 3)
        await report(world, kind, "one", **condition("Complete", "all is done"))
        await world.settle()
        assert not await is_(world, name, "Finished"), "its JobSet runs"
        for pod in await world.pods():
            await world.finish(pod)
        await world.settle()
        assert await why(world, name, "Finished") == ("Succeeded", "all is done")

        await play_trainer(world, "two", 1)
        patches = (await see(world, kind, "two"))["spec"]["runtimePatches"]
        assert [one["manager"] for one in patches] == ["example.com/other", "kueue.x-k8s.io/manager"]

    text = "waitForPodsReady: {timeout: 60m}\n"
    names = f"[batch/job, jobset.x-k8s.io/jobset, pod, {TRAIN_JOB.name}]"
    play(f"integrations: {{frameworks: {names}}}\n{text}", scenario, [TRAIN_JOB])


def test_frameworks_that_have_no_effect_are_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    text = "integrations: {frameworks: [batch/job, sparkoperator.k8s.io/sparkapplication]}"

    async def story() -> None:
        async with running(configuration=settings(text)):
            pass

    with caplog.at_level("WARNING", logger="muster.controllers.integrations.setup"):
        run_virtual(story())
    assert "names sparkoperator.k8s.io/sparkapplication: Muster has no integration for it" in caplog.text


def test_nothing_is_written_again_about_what_a_definition_leaves_without_defaults() -> None:
    bare = template()
    bare["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": None}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": 1, "memory": "1e9"}, "requests": {"cpu": "1000m"}},
    }
    bare["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [{"name": "i", "image": "none"}]}
    bare["metadata"] = {"creationTimestamp": None, "labels": {"a": "b"}}
    shapes = [case.shape for case in CASES]

    async def scenario(world: World) -> None:
        resources = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "4Gi"}]
        flavors = [{"name": "default", "resources": resources}]
        groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
        await queue(world, "small", cpu=1, resourceGroups=groups)
        spec = {"pytorchReplicaSpecs": {"Worker": {"template": bare}}}
        for name in ("runs", "waits"):
            await make(world, kinds.PYTORCH_JOB.kind, name, spec, queue="small")
        await world.settle(60)
        assert await admitted(world) == [await workload_of(world, "runs")]
        before = world.plane.store.revision
        await world.settle(600)
        assert world.plane.store.revision == before

    play(with_kinds(*shapes), scenario, shapes)
