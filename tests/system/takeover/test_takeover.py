"""Muster in place of Kueue's manager, and back: what one has left is what the other goes on with."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.kueue_certificates import AUTHORITY_KEY, left_by_kueue, pkcs8
from tests.system.integrations.queued_jobs import noded
from tests.system.operator.operator_site import KUEUE, LEASE_NAME, Cable, Site, configured, renewed
from tests.system.queueing.test_provisioning import served
from tests.system.takeover.left_by_kueue import GATES, THEN, Kueue, podset, reference

from muster.api.batch import JOB
from muster.api.config import DEFAULT
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, SECRET, ConfigMap, Container, Namespace, Pod, PodSpec, Secret
from muster.api.groups.apps import DEPLOYMENT, STATEFUL_SET, StatefulSet
from muster.api.groups.coordination import LEASE, Lease
from muster.api.groups.provisioning import PROVISIONING_REQUEST, ProvisioningRequest
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    OLD_VERSION,
    PROVISIONING_REQUEST_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    AdmissionCheck,
    ProvisioningRequestConfig,
    Topology,
)
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.jobset.upstream import LEASE_NAME as JOBSET_LEASE
from muster.insight.reader.jobs.job import investigate
from muster.insight.takeover import make_report
from muster.insight.why import describe_levels
from muster.install.deployment import make_deployment
from muster.install.engines import SeveralError, read_engine_configuration
from muster.install.engines import list_running_engines as engine_pods
from muster.install.options import SELECTED, Options, make_default_configuration
from muster.operator.handback import StillWorksError, hand_back, hand_back_alone
from muster.operator.takeover import sort_kinds, survey_cluster
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


async def waiting_pod(k: Kueue) -> None:
    full = await k.job("full", 4)
    name = await k.workload(full, JOB, [podset(4)])
    await k.admit(name, {"main": 4})
    await k.start(full, name)
    alone = await k.pod("alone", "", 0, running=False)
    spec = (await k.documents(POD))["alone"]["spec"]
    asked = {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}
    await k.refuse(await k.workload(alone, POD, [podset() | {"template": {"spec": spec}, "topologyRequest": asked}]))


async def running_group(k: Kueue) -> None:
    pods = [await k.pod(f"g-{each}", "g", 2, running=True) for each in range(2)]
    owners = [reference(POD, pod.metadata) for pod in pods]
    annotations = {"kueue.x-k8s.io/is-group-workload": "true"}
    await k.named("g", [podset(2, "main-role")], owners, annotations=annotations)
    await k.admit("g", {"main-role": 2})


async def waiting_group(k: Kueue) -> None:
    """Behind both gates, and admitted by nobody yet."""
    pods = [await k.pod(f"w-{each}", "w", 2, running=False) for each in range(2)]
    owners = [reference(POD, pod.metadata) for pod in pods]
    await k.named("w", [podset(2, "main-role")], owners, annotations={"kueue.x-k8s.io/is-group-workload": "true"})
    await k.refuse("w", 2)


async def waiting_stateful_set(k: Kueue) -> None:
    """Its pods are a group with a Workload that Kueue has made before them."""
    marks = {
        "kueue.x-k8s.io/pod-group-total-count": "2", "kueue.x-k8s.io/pod-group-fast-admission": "true",
        "kueue.x-k8s.io/pod-group-serving": "true",
        "kueue.x-k8s.io/pod-group-pod-index-label": "apps.kubernetes.io/pod-index",
    }  # fmt: skip
    group = {"kueue.x-k8s.io/pod-group-name": "w", "kueue.x-k8s.io/prebuilt-workload-name": "w"}
    for each in range(2):
        await k.served_pod(f"w-{each}", "statefulset", labels=group, annotations=marks)
    spec = {"selector": {"matchLabels": {"app": "s"}}, "serviceName": "s", "replicas": 2}
    pods = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    document = {"metadata": {"name": "s"}, "spec": spec | {"template": pods}}
    made = await k.client.create(STATEFUL_SET, msgspec.convert(document, StatefulSet), "default")
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": made.metadata.uid}
    await k.named("w", [podset(2)], [owner], annotations={"kueue.x-k8s.io/is-group-workload": "true"})
    await k.refuse("w", 2)


async def waiting_deployment(k: Kueue) -> None:
    """Its pods queue each for itself."""
    for each in range(2):
        pod = await k.served_pod(f"w-{each}", "deployment")
        spec = (await k.documents(POD))[f"w-{each}"]["spec"]
        asked = {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}
        await k.refuse(await k.workload(pod, POD, [podset() | {"template": {"spec": spec}, "topologyRequest": asked}]))


async def half_open_group(k: Kueue) -> None:
    """An engine has opened the first gate only, and no topology assignment is pending."""
    pods = [await k.pod(f"w-{each}", "w", 2, running=True, left=GATES[1:]) for each in range(2)]
    owners = [reference(POD, pod.metadata) for pod in pods]
    await k.named("w", [podset(2, "main-role")], owners, annotations={"kueue.x-k8s.io/is-group-workload": "true"})
    await k.admit("w", {"main-role": 2}, ready=False)


async def incomplete_group(k: Kueue) -> None:
    await k.pod("h-0", "h", 2, running=False)


async def running_jobset(k: Kueue) -> None:
    pods = {"spec": {"template": podset()["template"]}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": pods}], "suspend": True}
    own = {"kueue.x-k8s.io/elastic-job": "false"}  # or the embedded server says that it is
    meta = {"name": "s", "labels": {"kueue.x-k8s.io/queue-name": k.queue}, "annotations": own}
    document = {"metadata": meta, "spec": spec}
    made = await k.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    name = await k.workload(made, JOB_SET, [podset(2, "w", groups=2)], annotations=own)
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


async def sliced(k: Kueue) -> tuple[str, str]:
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
    old, new = await sliced(k)
    await k.admit(new, {"main": 3})
    await k.settle()
    await k.ungate()
    replaced = k.condition("Finished", True, "WorkloadSliceReplaced", "Replaced to accommodate a workload")
    await k.apply(old, {"conditions": [replaced]})


async def provisioning(k: Kueue) -> None:
    """A request that the autoscaler has accepted, and says of when there will be room."""
    await k.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), served())
    config = {"metadata": {"name": "best"}, "spec": {"provisioningClassName": "best"}}
    await k.client.create(PROVISIONING_REQUEST_CONFIG, msgspec.convert(config, ProvisioningRequestConfig))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "best"}
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
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
    owner = reference(WORKLOAD, (await k.client.get(WORKLOAD, name, "default")).metadata)
    owner |= {"apiVersion": "kueue.x-k8s.io/v1beta1", "controller": True, "blockOwnerDeletion": True}
    meta = {"name": f"{name}-capacity-1", "labels": {"kueue.x-k8s.io/managed": "true"}, "ownerReferences": [owner]}
    asked = {"podTemplateRef": {"name": f"ppt-{name}-capacity-1-main"}, "count": 1}
    request = {"metadata": meta, "spec": {"provisioningClassName": "best", "podSets": [asked]}}
    await k.client.create(PROVISIONING_REQUEST, msgspec.convert(request, ProvisioningRequest), "default")
    told = [k.condition("Accepted", True, "A", "yes"), k.condition("Provisioned", False, "P", "waits")]
    status = {"status": {"conditions": told}}
    await k.client.patch(PROVISIONING_REQUEST, f"{name}-capacity-1", status, "default", subresource="status")


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
    running_job, waiting_jobs, waiting_pod, running_group, incomplete_group, running_jobset, replaced_slice,
    provisioning, unknown_kind, old_version, finished, deactivated, placed,
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


@pytest.mark.parametrize(
    "scene",
    [waiting_group, half_open_group, waiting_stateful_set, waiting_deployment],
    ids=lambda scene: scene.__name__,
)
def test_pods_with_kueues_second_gate_start(scene: Scene) -> None:
    @takeover
    async def story(s: Site) -> None:
        k, _ = await left_by(s, scene)
        assert all(pod.spec.scheduling_gates for pod in await s.world.pods())
        await s.start("muster")
        await s.world.settle(40)
        pods = await s.world.pods()
        assert [(pod.metadata.name, pod.spec.scheduling_gates) for pod in pods] == [("w-0", ()), ("w-1", ())]
        await k.bind("n")
        await s.world.settle(40)
        assert {pod.status.phase for pod in await s.world.pods()} == {"Running"}
        assert all(one.status.admission is not None for one in (await s.client.list(WORKLOAD, "default")).items)

    story()


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
        found = make_report(await survey_cluster(s.client, DEFAULT, s.world.clock, said.append), *sort_kinds(DEFAULT))
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
    }
    named = make_report(await survey_cluster(s.client, SETTINGS, s.world.clock, said.append), *sort_kinds(SETTINGS))
    assert {row.kind: row.handled for row in named.rows} == {
        "Job.batch": True, "JobSet.jobset.x-k8s.io": True, "RayCluster.ray.io": False,
    }  # fmt: skip


@takeover
async def test_pods_behind_kueues_gates_are_counted_and_why_names_the_gates(s: Site) -> None:
    await left_by(s, half_open_group)
    found = make_report(
        await survey_cluster(s.client, SETTINGS, s.world.clock, list[str]().append), *sort_kinds(SETTINGS)
    )
    assert [(gate.name, gate.pods) for gate in found.gates] == [(GATES[1], 2)]
    facts = await investigate(s.client, "default", "w", s.world.clock.now())
    assert facts is not None
    (placement,) = [level for level in describe_levels(facts) if level.name == "placement"]
    assert (placement.state, placement.text) == ("here", "2 of 2 pods have no node")
    assert placement.details[1].startswith(f"gate {GATES[1]} holds 2 pods: Muster takes it off")


def test_a_kind_that_the_settings_name_is_known_as_named() -> None:
    """Kueue's default Configuration names StatefulSets, say."""
    frameworks = ("batch/job", "statefulset", "ray.io/rayservice")
    handled, _, named = sort_kinds(replace(DEFAULT, integrations=replace(DEFAULT.integrations, frameworks=frameworks)))
    assert ("batch", "Job") in handled
    assert {("batch", "Job"), ("apps", "StatefulSet"), ("ray.io", "RayService")} <= named


async def configured_in(s: Site, namespace: str, name: str, key: str, text: str) -> None:
    if await s.client.find(NAMESPACE, namespace) is None:
        await s.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
    document = {"metadata": {"name": name}, "data": {key: text}}
    await s.client.create(CONFIG_MAP, msgspec.convert(document, ConfigMap), namespace)


@takeover
async def test_the_settings_of_an_engine_are_found_in_the_cluster(s: Site) -> None:
    assert await read_engine_configuration(s.client) is None
    await configured_in(s, KUEUE, "kueue-manager-config", "controller_manager_config.yaml", "kind: C")
    assert await read_engine_configuration(s.client) == "kind: C"
    await configured_in(s, KUEUE, "muster-manager-config", "config.yaml", "kind: M")
    assert await read_engine_configuration(s.client) == "kind: M"


@takeover
async def test_an_engine_is_found_in_whichever_namespace_it_is(s: Site) -> None:
    for namespace in ("batch", "other"):
        options = Options(make_default_configuration(namespace), replace(DEFAULT, namespace=namespace))
        await configured_in(s, namespace, "muster-manager-config", "config.yaml", options.text)
        await s.client.create(DEPLOYMENT.seen_as(dict), make_deployment(options))
        assert await read_engine_configuration(s.client, namespace) == options.text
        if namespace == "batch":
            assert await read_engine_configuration(s.client) == options.text
    with pytest.raises(SeveralError, match=r"^muster-controller-manager is in several namespaces: batch, other$"):
        await read_engine_configuration(s.client)


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
    found = await survey_cluster(s.client, DEFAULT, s.world.clock, list[str]().append)
    assert [one.metadata.name for one in found.old] == ["old.kueue.x-k8s.io"]


async def given_back(
    s: Site,
    client: Client,
) -> int:
    said = list[str]()
    return await hand_back_alone(client, s.world.plane.inputs, DEFAULT, "muster_adopt_1", said.append)


@pytest.mark.parametrize(
    ("key", "emptied"),
    [(pkcs8(AUTHORITY_KEY), True), (left_by_kueue()["ca.key"], False)],
    ids=["another form", "Kueue's own"],
)
def test_the_secret_that_kueues_manager_would_hang_on_is_emptied(key: bytes, emptied: bool) -> None:
    @takeover
    async def story(s: Site) -> None:
        name = DEFAULT.internal_cert_management.webhook_secret_name
        secret = Secret(metadata=ObjectMeta(name=name), data=left_by_kueue() | {"ca.key": key})
        await s.client.create(SECRET, secret, KUEUE)
        said = list[str]()
        await hand_back_alone(s.client, s.world.plane.inputs, DEFAULT, "muster_adopt_1", said.append)
        assert bool((await s.client.get(SECRET, name, KUEUE)).data) != emptied
        told = f"Secret {KUEUE}/{name} is emptied: Kueue's manager cannot read what it held, and fills it again"
        assert (told in said) == emptied

    story()


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
