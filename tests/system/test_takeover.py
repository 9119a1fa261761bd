"""Muster in place of Kueue's manager, and back: what one has left is what the other goes on with."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.left_by_kueue import THEN, Kueue, podset, reference
from tests.system.operator_site import KUEUE, LEASE_NAME, Cable, Site, configured, renewed
from tests.system.queued_jobs import noded

from muster.api.batch import JOB
from muster.api.config import DEFAULT
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, ConfigMap, Container, Namespace, Pod, PodSpec
from muster.api.groups.apps import DEPLOYMENT
from muster.api.groups.coordination import LEASE, Lease
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    OLD_VERSION,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    AdmissionCheck,
    Topology,
)
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.jobset.upstream import LEASE_NAME as JOBSET_LEASE
from muster.insight.takeover import report
from muster.install.deployment import deployment
from muster.install.found import SeveralError, configuration_text
from muster.install.found import running as engine_pods
from muster.install.options import SELECTED, Options, plain
from muster.operator.handback import StillWorksError, hand_back, hand_back_alone
from muster.operator.takeover import kinds, seen
from muster.queueing.jobframework.names import workload_name
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

KINDS = (JOB, JOB_SET, POD, WORKLOAD)
OLD_WORKLOAD: Kind[dict[str, Any]] = Kind(WORKLOAD.group, OLD_VERSION, WORKLOAD.kind, WORKLOAD.plural, dict)
SETTINGS = replace(
    DEFAULT,
    integrations=replace(DEFAULT.integrations, frameworks=("batch/job", "jobset.x-k8s.io/jobset", "pod")),
)
Scene = Callable[[Kueue], Awaitable[None]]


async def running_job(k: Kueue) -> str:
    job = await k.job("runs", 2)
    name = await k.workload(job, JOB, [podset(2)])
    await k.admit(name, {"main": 2})
    await k.start(job, name)
    return name


async def waiting_jobs(k: Kueue) -> None:
    full = await k.job("full", 4)
    name = await k.workload(full, JOB, [podset(4)])
    await k.admit(name, {"main": 4})
    await k.start(full, name)
    for each in ("first", "second"):
        await k.refuse(await k.workload(await k.job(each), JOB, [podset()]))


async def running_group(k: Kueue) -> None:
    pods = [await k.pod(f"g-{each}", "g", 2, running=True) for each in range(2)]
    owners = [reference(POD, pod.metadata) for pod in pods]
    annotations = {"kueue.x-k8s.io/is-group-workload": "true"}
    await k.named("g", [podset(2, "main-role")], owners, annotations=annotations)
    await k.admit("g", {"main-role": 2})


async def incomplete_group(k: Kueue) -> None:
    await k.pod("h-0", "h", 2, running=False)


async def running_jobset(k: Kueue) -> None:
    pods = {"spec": {"template": podset()["template"]}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": pods}], "suspend": True}
    own = {"kueue.x-k8s.io/elastic-job": "false"}  # or the embedded server says that it is
    meta = {"name": "s", "labels": {"kueue.x-k8s.io/queue-name": k.queue}, "annotations": own}
    document = {"metadata": meta, "spec": spec}
    made = await k.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    name = await k.workload(made, JOB_SET, [podset(2, "w")], annotations=own)
    await k.admit(name, {"w": 2})
    injected = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "w"}}, "spec": {"nodeSelector": {"zone": "a"}}}
    job: Any = made.spec.replicated_jobs[0]
    plain = msgspec.to_builtins(job)
    plain["template"]["spec"]["template"] |= injected | {
        "spec": plain["template"]["spec"]["template"]["spec"] | injected["spec"]
    }
    started = {"suspend": False, "replicatedJobs": [plain]}
    await k.client.patch(JOB_SET, "s", {"spec": started}, "default")
    counts = {"name": "w", "ready": 2, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0}
    await k.client.patch(JOB_SET, "s", {"status": {"replicatedJobsStatus": [counts]}}, "default", subresource="status")


async def _sliced(k: Kueue) -> tuple[str, str]:
    """A Job that grew from one pod to three: its old Workload, which holds quota, and the new one."""
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    job = await k.job("grows", 1, completions=6, annotations=elastic)
    old = await k.workload(job, JOB, [podset(1)], extra="1", annotations=elastic)
    await k.admit(old, {"main": 1})
    await k.start(job, old)
    await k.client.patch(JOB, "grows", {"spec": {"parallelism": 3}}, "default")
    link = {
        "kueue.x-k8s.io/workload-slice-replacement-for": f"default/{old}",
        "kueue.x-k8s.io/workload-slice-name": old,
    }
    return old, await k.workload(job, JOB, [podset(3)], extra="2", annotations=elastic | link)


async def replaced_slice(k: Kueue) -> None:
    old, new = await _sliced(k)
    await k.admit(new, {"main": 3})
    await k.settle()
    await k.ungate()
    replaced = k.condition("Finished", True, "WorkloadSliceReplaced", "Replaced to accommodate a workload")
    await k.apply(old, {"conditions": [replaced]})


async def provisioning(k: Kueue) -> None:
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    check = msgspec.convert({"metadata": {"name": "capacity"}, "spec": spec}, AdmissionCheck)
    await k.client.create(ADMISSION_CHECK, check)
    works = {"status": {"conditions": [k.condition("Active", True, "Active", "The admission check is active")]}}
    await k.client.patch(ADMISSION_CHECK, "capacity", works, subresource="status")
    strategy = {"admissionChecks": [{"name": "capacity"}]}
    await k.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"admissionChecksStrategy": strategy}})
    name = await k.workload(await k.job("asks"), JOB, [podset()])
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}
    conditions = [
        k.condition("QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        k.condition("Admitted", False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"),
    ]
    pending = {"name": "capacity", "state": "Pending", "message": "waits", "lastTransitionTime": THEN}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    await k.apply(name, {"admission": admission, "admissionChecks": [pending], "conditions": conditions})


async def old_version(k: Kueue) -> None:
    """A Workload as a Kueue writes it that knows no other version."""
    job = await k.job("old", 2)
    name = workload_name("Job", "batch", "old", job.metadata.uid)
    owner = reference(JOB, job.metadata) | {"controller": True, "blockOwnerDeletion": True}
    meta = {
        "name": name, "namespace": "default", "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [owner], "labels": {"kueue.x-k8s.io/job-uid": job.metadata.uid},
    }  # fmt: skip
    spec = {"active": True, "podSets": [podset(2)], "priority": 0, "priorityClassSource": "", "queueName": "cq"}
    await k.client.create(OLD_WORKLOAD, {"metadata": meta, "spec": spec}, "default")
    assigned = {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}}
    conditions = [
        k.condition("QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        k.condition("Admitted", True, "Admitted", "The workload is admitted"),
        k.condition("PodsReady", True, "Started", "All pods reached readiness and the workload is running"),
    ]
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}, "conditions": conditions}
    patch = {"status": status | {"accumulatedPastExexcutionTimeSeconds": 5}}
    await k.client.patch(OLD_WORKLOAD, name, patch, "default", subresource="status")
    await k.start(job, name)


async def unknown_kind(k: Kueue) -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "uid": "r", "controller": True}
    await k.named("raycluster-r-12345", [podset(2)], [owner], labels={"kueue.x-k8s.io/job-uid": "r"})
    await k.admit("raycluster-r-12345", {"main": 2})


async def finished(k: Kueue) -> None:
    job = await k.job("done")
    name = await k.workload(job, JOB, [podset()])
    await k.admit(name, {"main": 1})
    await k.start(job, name)
    await k.bind("n")


async def deactivated(k: Kueue) -> None:
    name = await k.workload(await k.job("off"), JOB, [podset()])
    await k.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
    conditions = [
        k.condition("QuotaReserved", False, "Deactivated", "The workload is deactivated"),
        k.condition("Admitted", False, "NoReservation", "The workload has no reservation"),
        k.condition("Evicted", True, "Deactivated", "The workload is deactivated"),
    ]
    await k.apply(name, {"conditions": conditions})


async def placed(k: Kueue) -> None:
    levels = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    await k.client.create(TOPOLOGY, msgspec.convert({"metadata": {"name": "t"}, "spec": levels}, Topology))
    spec = {"nodeLabels": {"zone": "a"}, "topologyName": "t"}
    await k.client.patch(RESOURCE_FLAVOR, "f", {"spec": spec})
    job = await k.job("near", 2)
    name = await k.workload(job, JOB, [podset(2)])
    one = {"domainCount": 1, "podCounts": {"universal": 2}, "valuesPerLevel": [{"universal": "n"}]}
    await k.admit(name, {"main": 2}, topologyAssignment={"levels": ["kubernetes.io/hostname"], "slices": [one]})
    await k.start(job, name)


SCENES = (
    running_job, waiting_jobs, running_group, incomplete_group, running_jobset, replaced_slice, provisioning,
    unknown_kind, old_version, finished, deactivated, placed,
)  # fmt: skip


async def left_by(s: Site, scene: Callable[[Kueue], Awaitable[Any]]) -> tuple[Kueue, Any]:
    """The world after a scene, with JobSet's own controller at work; and what the scene returned."""
    holder = {"holderIdentity": "jobset", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000001Z"}
    namespace = DEFAULT.muster.job_set_namespace
    await s.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
    lease = msgspec.convert({"metadata": {"name": JOBSET_LEASE}, "spec": holder}, Lease)
    await s.client.create(LEASE, lease, namespace)
    k = Kueue(InProcessTransport(s.world.plane.server), s.world.settle)
    told = await scene(k)
    await s.world.settle()
    await k.bind("n")
    await s.world.settle()
    return k, told


async def everything(k: Kueue) -> dict[str, Any]:
    return {kind.plural: await k.documents(kind) for kind in KINDS}


def takeover(test: Callable[[Site], Awaitable[None]]) -> Callable[[], None]:
    """A site with a node for everybody's pods."""

    async def noded_test(s: Site) -> None:
        async with noded(s.queued):
            await test(s)

    noded_test.__name__ = test.__name__
    return configured(SETTINGS)(noded_test)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_kueue_left_is_left_as_it_is(scene: Scene) -> None:
    @takeover
    async def story(s: Site) -> None:
        k, _ = await left_by(s, scene)
        left = await everything(k)
        await s.start("muster")
        await s.world.settle(40)
        assert s.replicas["muster"].began.is_set()
        assert await everything(k) == left
        parts = ("/jobs", "/pods", "/jobsets", "/workloads")
        written = [one for one in s.cables["muster"].wrote if any(part in one for part in parts)]
        assert written == []

    story()


@takeover
async def test_those_that_waited_keep_their_places(s: Site) -> None:
    await left_by(s, waiting_jobs)
    await s.start("muster")
    await s.queued.job("third", 1, suspend=True)
    order = []
    await s.client.delete(JOB, "full", "default")
    for _ in range(200):
        await s.world.settle(0.05)
        order += [name for name in ("first", "second", "third") if name not in order and not await s.is_suspended(name)]
    assert order == ["first", "second", "third"]


@takeover
async def test_a_slice_that_waits_is_left_and_the_workload_that_runs_grows_instead(s: Site) -> None:
    async def scene(k: Kueue) -> tuple[str, str]:
        await running_job(k)
        old, new = await _sliced(k)
        await k.refuse(new)
        return old, new

    k, (old, new) = await left_by(s, scene)
    left = await everything(k)
    await s.start("muster")
    await s.world.settle(40)
    now = await everything(k)
    assert now["workloads"][new] == left["workloads"][new]
    assert {name: one["metadata"]["uid"] for name, one in now["pods"].items()} == {
        name: one["metadata"]["uid"] for name, one in left["pods"].items()
    }
    assert now["jobs"] == left["jobs"]
    (was,), (grew,) = (world["workloads"][old]["spec"]["podSets"] for world in (left, now))
    assert grew == was | {"count": 3}
    assert now["workloads"][old]["status"]["admission"] == left["workloads"][old]["status"]["admission"]
    await s.client.delete(JOB, "runs", "default")
    await s.world.settle(40)
    (held,) = (await s.client.get(WORKLOAD, old, "default")).status.admission.pod_set_assignments
    assert held.count == 3
    assert not [pod for pod in await s.world.pods("grows") if pod.spec.scheduling_gates]


@takeover
async def test_what_muster_admitted_kueue_can_take_back(s: Site) -> None:
    k, _ = await left_by(s, waiting_jobs)
    await s.start("muster")
    await s.client.delete(JOB, "full", "default")
    await s.world.settle(40)
    admitted = await s.queued.workload("first")
    name = admitted.metadata.name
    assert admitted.status.admission is not None
    await s.replicas["muster"].stop()
    await s.ended("muster")
    await k.evict(name)
    stuck = await s.client.get(WORKLOAD, name, "default")
    assert stuck.status.admission == admitted.status.admission, "of what Muster has said"
    assert await hand_back(s.client) == 2
    assert await hand_back(s.client) == 0
    back = await s.client.get(WORKLOAD, name, "default")
    assert (back.spec, back.status) == (stuck.spec, stuck.status)
    await k.evict(name)
    assert (await s.client.get(WORKLOAD, name, "default")).status.admission is None


@takeover
async def test_what_muster_does_not_act_on_is_read_from_the_cluster(s: Site) -> None:
    async def scene(k: Kueue) -> None:
        await provisioning(k)
        await unknown_kind(k)
        await running_jobset(k)

    await left_by(s, scene)
    service = {"namespace": "kueue-system", "name": "kueue-webhook-service"}
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["workloads"]}
    webhook = {
        "name": "vworkload.kb.io", "clientConfig": {"service": service}, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    for name in ("kueue-validating-webhook-configuration", "muster-validating-webhook-configuration"):
        document = {"metadata": {"name": name}, "webhooks": [webhook]}
        await s.client.create(VALIDATING_WEBHOOK_CONFIGURATION.seen_as(dict), document)
    said: list[str] = []
    async with renewed(s.client, s.world.clock, "kueue-1_x"):
        found = report(await seen(s.client, DEFAULT, s.world.clock, said.append), *kinds(DEFAULT))
    assert said == [
        "kueue-1_x holds the Lease kueue-system/c1f6bfd2.kueue.x-k8s.io: whether it still works is seen within 15 s"
    ]
    assert {finding.what: finding.objects for finding in found.findings} == {
        "Kueue's manager runs": ("kueue-1_x",),
        "Kueue's webhooks are asked, which end with its manager": ("kueue-validating-webhook-configuration",),
        "workloads of JobSet.jobset.x-k8s.io, which the settings do not name": (
            f"default/{(await s.queued.workload('s')).metadata.name}",
        ),
        "workloads of RayCluster.ray.io, which the settings do not name": ("default/raycluster-r-12345",),
        "workloads that wait for the check capacity": (f"default/{(await s.queued.workload('asks')).metadata.name}",),
    }
    named = report(await seen(s.client, SETTINGS, s.world.clock, said.append), *kinds(SETTINGS))
    assert {row.kind: row.handled for row in named.rows} == {
        "Job.batch": True, "JobSet.jobset.x-k8s.io": True, "RayCluster.ray.io": False,
    }  # fmt: skip


async def configured_in(s: Site, namespace: str, name: str, key: str, text: str) -> None:
    if await s.client.find(NAMESPACE, namespace) is None:
        await s.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
    document = {"metadata": {"name": name}, "data": {key: text}}
    await s.client.create(CONFIG_MAP, msgspec.convert(document, ConfigMap), namespace)


@takeover
async def test_the_settings_of_an_engine_are_found_in_the_cluster(s: Site) -> None:
    assert await configuration_text(s.client) is None
    await configured_in(s, KUEUE, "kueue-manager-config", "controller_manager_config.yaml", "kind: C")
    assert await configuration_text(s.client) == "kind: C"
    await configured_in(s, KUEUE, "muster-manager-config", "config.yaml", "kind: M")
    assert await configuration_text(s.client) == "kind: M"


@takeover
async def test_an_engine_is_found_in_whichever_namespace_it_is(s: Site) -> None:
    for namespace in ("batch", "other"):
        options = Options(plain(namespace), replace(DEFAULT, namespace=namespace))
        await configured_in(s, namespace, "muster-manager-config", "config.yaml", options.text)
        await s.client.create(DEPLOYMENT.seen_as(dict), deployment(options))
        assert await configuration_text(s.client, namespace) == options.text
        if namespace == "batch":
            assert await configuration_text(s.client) == options.text
    with pytest.raises(SeveralError, match=r"^muster-controller-manager is in several namespaces: batch, other$"):
        await configuration_text(s.client)


@takeover
async def test_pods_of_the_engine_that_run_are_found(s: Site) -> None:
    await s.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="batch")))
    container = Container(name="manager", image="muster")
    for name, labels in (("works", SELECTED), ("waits", SELECTED), ("ended", SELECTED), ("web", {"app": "web"})):
        pod = Pod(metadata=ObjectMeta(name=name, labels=labels), spec=PodSpec(containers=(container,)))
        await s.client.create(POD, pod, "batch")
    await s.client.patch(POD, "ended", {"status": {"phase": "Failed"}}, "batch", subresource="status")
    assert await engine_pods(s.client, "batch") == ["waits", "works"]


@takeover
async def test_kinds_of_which_objects_may_be_stored_in_an_old_version_are_found(s: Site) -> None:
    for kind, versions in (("Old", ("v1beta1", "v1beta2")), ("New", ("v1beta2",))):
        names = {"plural": kind.lower(), "kind": kind}
        schema = {"openAPIV3Schema": {"type": "object"}}
        served = [{"name": one, "served": True, "storage": one == versions[0], "schema": schema} for one in versions]
        spec = {"group": "kueue.x-k8s.io", "scope": "Cluster", "names": names, "versions": served}
        document = {"metadata": {"name": f"{kind.lower()}.kueue.x-k8s.io"}, "spec": spec}
        await s.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), document)
    found = await seen(s.client, DEFAULT, s.world.clock, list[str]().append)
    assert [one.metadata.name for one in found.old] == ["old.kueue.x-k8s.io"]


async def given_back(
    s: Site,
    client: Client,
) -> int:
    said = list[str]()
    return await hand_back_alone(client, s.world.plane.surroundings, DEFAULT, "muster_adopt_1", said.append)


@takeover
async def test_nothing_is_given_back_while_an_engine_works(s: Site) -> None:
    await s.start("muster")
    with pytest.raises(StillWorksError, match=r"^muster_muster_uid still works: stop it first, and all"):
        await given_back(s, s.client)


@takeover
async def test_nothing_is_given_back_once_another_replica_gets_the_lease_first(s: Site) -> None:
    """It has waited for the time of the one that was killed as well."""

    class Late(Cable):
        async def request(self, request: Request) -> Response:
            if "/leases" in request.path and request.method != "GET":
                await playing.enter_async_context(renewed(s.client, s.world.clock, "muster_standby_uid"))
            return await super().request(request)

    async with AsyncExitStack() as playing, asyncio.timeout(120):
        with pytest.raises(StillWorksError, match=r"^muster_standby_uid still works"):
            await given_back(s, Client(Late(InProcessTransport(s.world.plane.server))))


@takeover
async def test_who_may_not_see_whether_one_works_gives_nothing_back(s: Site) -> None:
    class Forbidding(Cable):
        async def request(self, request: Request) -> Response:
            if "/leases" in request.path:
                return Response(403, b'{"kind": "Status", "reason": "Forbidden", "code": 403, "message": "not you"}')
            return await super().request(request)

    with pytest.raises(ApiError, match="not you"):
        await given_back(s, Client(Forbidding(InProcessTransport(s.world.plane.server))))


@takeover
async def test_an_engine_that_was_killed_is_waited_for_as_long_as_its_lease_lasts_whatever_its_clock(s: Site) -> None:
    spec = {
        "holderIdentity": "kueue-1_x",
        "leaseDurationSeconds": 15,
        "renewTime": (s.world.clock.now() + timedelta(days=1)).replace(microsecond=1),
    }
    lease = msgspec.convert({"metadata": {"name": LEASE_NAME}, "spec": spec}, Lease)
    await s.client.create(LEASE, lease, KUEUE)
    began = s.world.clock.monotonic()
    assert await given_back(s, s.client) == 0
    assert 15 <= s.world.clock.monotonic() - began < 20
    assert (await s.client.get(LEASE, LEASE_NAME, KUEUE)).spec.holder_identity == ""
