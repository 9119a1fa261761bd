"""Volcano's Jobs on a control plane in virtual time: the test plays the nodes."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.apiserver.harness import PODS, Api
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, alone, running, virtual

from muster.api.core import POD
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.engine import Part
from muster.controllers.volcano import VolcanoJobController
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager

Json = dict[str, Any]

DOCS = Path(__file__).parents[3] / "docs"

VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


def task(name: str = "w", replicas: int = 2, cpu: str = "1", **more: Any) -> Json:
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def volcano_job(*tasks: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": list(tasks), **spec},
    }


class Nodes(World):
    """A world whose pods do what the test says."""

    @property
    def api(self) -> Api:
        return Api(self.plane)

    async def submit(self, *tasks: Json, **spec: Any) -> Any:
        answer = await self.api.post(VOLCANO_JOBS, volcano_job(*tasks, **spec))
        assert answer.status == 201, answer.json
        return answer

    async def status(self) -> Json:
        found: Json = (await self.api.get(f"{VOLCANO_JOBS}/j")).json.get("status", {})
        return found

    async def phase(self) -> str:
        return str((await self.status()).get("state", {}).get("phase", ""))

    async def there(self) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in (await self.api.get(PODS)).json["items"]}

    async def play(self, seconds: int = 3) -> None:
        """Pods that have a node run, and those that are to go are gone."""
        for _ in range(seconds):
            await self.settle(1)
            for name, pod in (await self.there()).items():
                if "deletionTimestamp" in pod["metadata"]:
                    await self.api.delete(f"{PODS}/{name}", gracePeriodSeconds=0)
                elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    await self.set_phase(name, "Running")

    async def set_phase(self, name: str, phase: str, code: int | None = None) -> None:
        status: Json = {"phase": phase}
        if code is not None:
            ended = {"terminated": {"exitCode": code, "finishedAt": None, "startedAt": None}}
            said = {"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": ended}
            status["containerStatuses"] = [said]
        await self.api.merge(f"{PODS}/{name}/status", {"status": status})


def nodes(world: World) -> Nodes:
    return Nodes(world.plane)


@virtual
async def test_a_job_starts_whole_and_completes(world: World) -> None:
    it = nodes(world)
    await it.node("a", cpu="2")
    await it.submit(task(replicas=2), task("m", 1))
    await it.play()
    assert await it.phase() == "Pending"
    assert not any(pod["spec"].get("nodeName") for pod in (await it.there()).values())
    await it.node("b", cpu="2")
    await it.play(10)
    assert await it.phase() == "Running"
    (group,) = (await it.api.get(GROUPS)).json["items"]
    assert (group["spec"]["minMember"], group["status"]["phase"]) == (3, "Running")
    for name in await it.there():
        await it.set_phase(name, "Succeeded")
    await it.play()
    status = await it.status()
    assert (status["state"]["phase"], status["succeeded"]) == ("Completed", 3)
    assert (await it.api.get(GROUPS)).json["items"] == []  # nothing is left to place
    assert status["taskStatusCount"] == {"m": {"phase": {"Succeeded": 1}}, "w": {"phase": {"Succeeded": 2}}}


def test_a_pod_of_another_namespace_is_none_of_a_jobs() -> None:
    async def scenario() -> None:
        async with alone(VolcanoJobController) as world:
            it = nodes(world)
            await it.submit(task(replicas=1), policies=[{"event": "PodFailed", "action": "AbortJob"}])
            await it.settle()
            [pod] = await it.pods()
            await it.set_phase(pod.metadata.name, "Running")
            await it.copy_elsewhere(pod)
            await it.client.patch(POD, "stranger", {"status": {"phase": "Failed"}}, "other", subresource="status")
            await it.settle()
            assert (await it.phase(), (await it.status()).get("failed", 0)) == ("Running", 0)
            await it.set_phase(pod.metadata.name, "Succeeded")
            await it.settle()
            assert (await it.phase(), (await it.status())["succeeded"]) == ("Completed", 1)
            assert (await it.client.get(POD, "stranger", "other")).metadata.deletion_timestamp is None

    run_virtual(scenario())


@virtual
async def test_the_manifest_of_the_docs_runs_as_written(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    text = (DOCS / "volcano.md").read_text()
    (manifest,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    answer = await it.api.post(VOLCANO_JOBS, yaml.safe_load(manifest))
    assert (answer.status, answer.headers.get("warning")) == (201, None)
    await it.play()
    assert sorted(await it.there()) == ["train-main-0", "train-worker-0", "train-worker-1"]
    await it.set_phase("train-main-0", "Succeeded")
    await it.play()
    assert list(await it.there()) == ["train-main-0"]
    state = (await it.api.get(f"{VOLCANO_JOBS}/train")).json["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Completed", "TaskCompleted")


@virtual
async def test_pods_of_a_job_know_each_other(world: World) -> None:
    it = nodes(world)
    await it.submit(task("w-0", 2), task("m", 1), plugins={"env": [], "svc": []})
    await it.play()
    data = (await it.api.get("/api/v1/namespaces/default/configmaps/j-svc")).json["data"]
    assert data["VC_W_0_HOSTS"] == "j-w-0-0.j,j-w-0-1.j"
    assert (data["VC_W_0_NUM"], data["w_0.host"]) == ("2", "j-w-0-0.j\nj-w-0-1.j")
    service = (await it.api.get("/api/v1/namespaces/default/services/j")).json
    assert service["spec"]["clusterIP"] == "None"
    pod = (await it.there())["j-w-0-1"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-w-0-1", "j")
    variables = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
    assert variables["VC_TASK_INDEX"]["value"] == variables["VK_TASK_INDEX"]["value"] == "1"
    assert variables["VC_M_HOSTS"]["valueFrom"]["configMapKeyRef"] == {"name": "j-svc", "key": "VC_M_HOSTS"}


@virtual
async def test_a_job_that_is_deleted_takes_all_with_it(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    await it.submit(task(), plugins={"svc": []})
    await it.play()
    await it.api.delete(f"{VOLCANO_JOBS}/j")
    await it.play()
    assert await it.there() == {}
    for path in (GROUPS, "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/services"):
        left = [one["metadata"]["name"] for one in (await it.api.get(path)).json["items"]]
        assert not any(name.startswith("j") for name in left)


@virtual
async def test_a_finished_job_goes_after_its_time(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    await it.submit(task(replicas=1), ttlSecondsAfterFinished=60)
    await it.play()
    await it.set_phase("j-w-0", "Succeeded")
    await it.play()
    assert await it.phase() == "Completed"
    await it.elapse(65)
    assert (await it.api.get(f"{VOLCANO_JOBS}/j")).status == 404


@virtual
async def test_a_job_grows_with_its_group_and_its_hosts(world: World) -> None:
    it = nodes(world)
    await it.node("a", cpu="8")
    await it.submit(task(replicas=2), plugins={"svc": []})
    await it.play()
    spec = volcano_job(task(replicas=4, minAvailable=4, maxRetry=3))["spec"]
    answer = await it.api.merge(f"{VOLCANO_JOBS}/j", {"spec": {"tasks": spec["tasks"], "minAvailable": 4}})
    assert answer.status == 200, answer.json
    await it.play(5)
    assert sorted(await it.there()) == ["j-w-0", "j-w-1", "j-w-2", "j-w-3"]
    (group,) = (await it.api.get(GROUPS)).json["items"]
    assert group["spec"]["minMember"] == 4
    assert (await it.api.get("/api/v1/namespaces/default/configmaps/j-svc")).json["data"]["VC_W_NUM"] == "4"


@virtual
async def test_what_others_have_by_the_name_of_a_jobs_object_is_left_alone(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    maps = "/api/v1/namespaces/default/configmaps"
    theirs = {"metadata": {"name": "j-svc"}, "data": {"key": "theirs"}}
    await it.api.made(maps, {"apiVersion": "v1", "kind": "ConfigMap", **theirs})
    await it.submit(task(), plugins={"svc": []})
    await it.play()
    assert (await it.api.get(f"{maps}/j-svc")).json["data"] == {"key": "theirs"}
    assert await it.there() == {}
    events = (await it.api.get("/api/v1/namespaces/default/events")).json["items"]
    assert any('"j-svc" already exists' in event["message"] for event in events)
    await it.api.delete(f"{maps}/j-svc")
    await it.play(60)
    assert await it.phase() == "Running"


@virtual
async def test_a_job_that_is_made_again_at_once_has_objects_of_its_own(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    await it.submit(task(), plugins={"svc": []})
    await it.play()
    old = (await it.api.get(f"{VOLCANO_JOBS}/j")).json["metadata"]["uid"]
    await it.api.delete(f"{VOLCANO_JOBS}/j")
    await it.submit(task(), plugins={"svc": []})
    await it.play(60)
    assert await it.phase() == "Running"
    for path in (PODS, GROUPS, "/api/v1/namespaces/default/configmaps/j-svc", "/api/v1/namespaces/default/services/j"):
        found = (await it.api.get(path)).json
        for one in found.get("items", [found]):
            (owner,) = one["metadata"]["ownerReferences"]
            assert owner["uid"] != old


@virtual
async def test_an_evicted_pod_is_made_again(world: World) -> None:
    it = nodes(world)
    await it.node("a")
    await it.submit(task())
    await it.play()
    old = (await it.there())["j-w-0"]["metadata"]["uid"]
    await it.api.delete(f"{PODS}/j-w-0", gracePeriodSeconds=0)
    await it.play()
    assert (await it.there())["j-w-0"]["metadata"]["uid"] != old
    assert await it.phase() == "Running"
    assert "retryCount" not in await it.status()


@virtual
async def test_people_who_edit_a_namespace_may_make_jobs(world: World) -> None:
    it = nodes(world)
    await it.settle(1)
    for role, verb, allowed in (("edit", "create", True), ("view", "create", False), ("view", "list", True)):
        rules = (await it.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")).json["rules"]
        verbs = {each for rule in rules if "batch.volcano.sh" in rule["apiGroups"] for each in rule["verbs"]}
        assert (verb in verbs) is allowed, (role, verb)


@virtual
async def test_the_server_says_what_of_a_job_does_nothing(world: World) -> None:
    answer = await nodes(world).submit(task(), plugins={"ssh": []}, queue="training")
    (warning,) = [value for name, value in answer.headers.items() if name.lower() == "warning"]
    assert "no keys for ssh" in warning
    assert "no queues of Volcano's" in warning


@virtual
async def test_templates_are_looked_at_as_those_of_other_kinds(world: World) -> None:
    spec = task()["template"]["spec"]
    (container,) = spec["containers"]
    many = {**spec, "containers": [container | {"name": f"c{number}"} for number in range(65)]}
    answer = await nodes(world).api.post(VOLCANO_JOBS, volcano_job(task(template={"spec": many})))
    assert answer.status == 403
    assert "spec.tasks[0].template.spec: a pod may have at most 64 containers" in answer.json["message"]
    answer = await nodes(world).submit(task(template={"spec": {**spec, "schedulerName": "mine"}}))
    (warning,) = [value for name, value in answer.headers.items() if name.lower() == "warning"]
    assert "spec.tasks[0].template.spec.schedulerName: no scheduler here is called 'mine'" in warning


async def _lives(world: Nodes, policies: list[Json], writes: int | None) -> Json:
    """A controller that dies after so many writes, and another; a pod fails meanwhile."""
    plane = world.plane

    def start(wire: Wire) -> tuple[Manager, asyncio.Task[None]]:
        manager = Manager(Client(wire), plane.inputs.clock, plane.inputs.random)
        manager.add(VolcanoJobController(manager, plane.events.recorder("test")))
        return manager, asyncio.create_task(manager.run())

    await world.node("a")
    await world.submit(task(replicas=3), policies=policies, maxRetry=5, plugins={"svc": []})
    wire = Wire(InProcessTransport(plane.server))
    wire.writes_left = writes
    _, first = start(wire)
    await world.play(5)
    if len(await world.there()) == 3:
        await world.set_phase("j-w-1", "Failed", 7)
        failed = True
    else:
        failed = False
    await world.play(5)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    manager, second = start(Wire(InProcessTransport(plane.server)))
    await world.play(10)
    if not failed:
        await world.set_phase("j-w-1", "Failed", 7)
        await world.play(10)
    status = await world.status()
    await manager.stop()
    await second
    return status


@pytest.mark.parametrize("action", ["RestartJob", "RestartPod", "RestartTask"])
def test_a_failure_is_one_retry_wherever_the_controller_is_killed(action: str, long: bool) -> None:
    async def body(writes: int) -> None:
        async with running(engine=(Part.SCHEDULING,)) as plane:
            status = await _lives(Nodes(plane), [{"exitCode": 7, "action": action}], writes)
        where = f"{action} after {writes} writes"
        assert (status["state"]["phase"], status["running"]) == ("Running", 3), where
        assert status["retryCount"] == 1, where
        assert status.get("version", 0) == (action == "RestartJob"), where

    for writes in range(1, 24, 1 if long else 3):
        run_virtual(body(writes))
