"""Words to play Kueue's manager: the objects of jobs as it leaves them, written in its ways and under its names."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.queueing.jobframework.names import workload_name
from muster.runtime.client import Client
from muster.runtime.objects import meta_of
from muster.runtime.transport import APPLY_PATCH, Request, Transport

DOCUMENTS: Kind[dict[str, Any]] = WORKLOAD.seen_as(dict)
FLAVOR, CLUSTER_QUEUE = "f", "cq"
THEN = "2026-01-01T00:00:00Z"
# What its webhook holds pods that queue by: topology-aware scheduling is on by default.
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")


class Kueue:
    """What Kueue's manager writes, in namespace default; queue: the LocalQueue."""

    def __init__(
        self, transport: Transport, settle: Callable[[], Awaitable[None]], queue: str = "cq", then: str = THEN
    ) -> None:
        """settle: lets the others do what they have to do. then: when what it says came to be."""
        self.settle, self.queue, self.then = settle, queue, then
        self.client = Client(transport, field_manager="kueue")
        self._admission = Client(transport, field_manager="kueue-admission")
        self._jobs = Client(transport, field_manager="kueue-job-controller")

    # Workloads.

    async def workload(
        self, job: Any, kind: Kind[Any], podsets: Sequence[dict[str, Any]], *, extra: str = "", **more: Any
    ) -> str:
        """Make the one of a job; its name. extra: of a slice. more: of its metadata."""
        meta = meta_of(job)
        name = workload_name(kind.kind, kind.group, meta.name, meta.uid, extra)
        owner = reference(kind, meta) | {"controller": True, "blockOwnerDeletion": True}
        await self.named(name, podsets, [owner], labels={"kueue.x-k8s.io/job-uid": meta.uid}, **more)
        return name

    async def named(
        self, name: str, podsets: Sequence[dict[str, Any]], owners: Sequence[Any] = (), **more: Any
    ) -> None:
        """Make one."""
        metadata = {
            "name": name, "namespace": "default", "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": list(owners), **more,
        }  # fmt: skip
        spec = {"active": True, "podSets": list(podsets), "priority": 0, "queueName": self.queue}
        await self.client.create(DOCUMENTS, {"metadata": metadata, "spec": spec}, "default")

    async def admit(self, name: str, counts: Mapping[str, int], *, ready: bool = True, **assignment: Any) -> None:
        """Give it quota, of one CPU for each pod. ready: its pods are."""
        assignments = [
            {"name": podset, "count": count, "flavors": {"cpu": FLAVOR}, "resourceUsage": {"cpu": str(count)}}
            | assignment
            for podset, count in counts.items()
        ]
        given = {"clusterQueue": CLUSTER_QUEUE, "podSetAssignments": assignments}
        conditions = [
            self.condition("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {CLUSTER_QUEUE}"),
            self.condition("Admitted", True, "Admitted", "The workload is admitted"),
        ]
        await self.apply(name, {"admission": given, "conditions": conditions})
        if ready:
            text = "All pods reached readiness and the workload is running"
            await self.apply(name, {"conditions": [self.condition("PodsReady", True, "Started", text)]}, by=self._jobs)

    async def refuse(self, name: str, pods: int = 1) -> None:
        """Say why it waits, as each attempt does."""
        lack = f"insufficient unused quota for cpu in flavor f, {pods} more needed"
        text = f"couldn't assign flavors to pod set main: {lack}"
        waits = self.condition("QuotaReserved", False, "WaitingForQuota", text)
        lacks = self.condition("Admitted", False, "NoReservation", "The workload has no reservation")
        requests = [{"name": "main", "resources": {"cpu": str(pods)}}]
        await self.apply(name, {"conditions": [waits, lacks], "resourceRequests": requests})

    async def apply(self, name: str, status: dict[str, Any], by: Client | None = None) -> None:
        """Say a part of a status, and take it over."""
        document = {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": name, "namespace": "default"}, "status": status,
        }  # fmt: skip
        await (by or self._admission).patch(
            DOCUMENTS, name, document, "default", type=APPLY_PATCH, subresource="status", force=True
        )

    async def evict(self, name: str) -> None:
        """Take the quota back once nothing runs: by no longer saying what was admitted."""
        conditions = [
            self.condition("QuotaReserved", False, "Pending", "Preempted to accommodate a workload"),
            self.condition("Admitted", False, "NoReservation", "The workload has no reservation"),
            self.condition("Evicted", True, "Preempted", "Preempted to accommodate a workload"),
            self.condition("Requeued", True, "Preempted", "Preempted to accommodate a workload"),
        ]
        await self.apply(name, {"conditions": conditions})

    # Jobs and pods.

    async def job(self, name: str, workers: int = 1, *, annotations: Any = None, completions: int = 0) -> Job:
        """A Job that waits, as Kueue's webhook lets it in."""
        meta = {
            "name": name, "labels": {"kueue.x-k8s.io/queue-name": self.queue},
            "annotations": annotations or {},
        }  # fmt: skip
        spec = {"suspend": True, "parallelism": workers, "completions": completions or workers, "template": template()}
        document = {"metadata": meta, "spec": spec}
        return await self.client.create(JOB, msgspec.convert(document, Job), "default")

    async def start(self, job: Job, workload: str) -> None:
        """Resume it where it has quota."""
        labels = {
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/cluster-queue-name": CLUSTER_QUEUE,
            "kueue.x-k8s.io/local-queue-name": self.queue,
        }
        annotations = {"kueue.x-k8s.io/workload": workload, "kueue.x-k8s.io/workload-slice-name": workload}
        pods = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"nodeSelector": {"zone": "a"}}}
        await self.client.patch(JOB, job.metadata.name, {"spec": {"suspend": False, "template": pods}}, "default")

    async def pod(self, name: str, group: str, total: int, *, running: bool, left: Sequence[str] = ()) -> Pod:
        """One of a group: behind both gates, as the webhook makes it, or on its way. left: gates that it has then.

        group: "" of a pod alone.
        """
        meta = {
            "name": name, "finalizers": ["kueue.x-k8s.io/managed"],
            "labels": {"kueue.x-k8s.io/queue-name": self.queue, "kueue.x-k8s.io/managed": "true"}
            | ({"kueue.x-k8s.io/pod-group-name": group} if group else {}),
            "annotations": {"kueue.x-k8s.io/role-hash": "main-role"}
            | ({"kueue.x-k8s.io/pod-group-total-count": str(total)} if group else {}),
        }  # fmt: skip
        spec = template()["spec"] | {"schedulingGates": [{"name": gate} for gate in GATES]}
        made = await self.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")
        if running:
            own = {"kueue.x-k8s.io/podset": "main-role", "kueue.x-k8s.io/cluster-queue-name": CLUSTER_QUEUE}
            gates = [{"name": gate} for gate in left]
            opened = {"schedulingGates": gates or None, "nodeSelector": {"zone": "a"}}
            await self.client.patch(POD, name, {"metadata": {"labels": own}, "spec": opened}, "default")
        return made

    async def served_pod(self, name: str, parent: str, **more: Any) -> Pod:
        """One of a Deployment or StatefulSet, behind both gates. more: labels and annotations, by these names."""
        meta = {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": self.queue, "kueue.x-k8s.io/managed": "true"}
            | more.get("labels", {}),
            "annotations": {"kueue.x-k8s.io/pod-suspending-parent": parent, "kueue.x-k8s.io/role-hash": "main"}
            | more.get("annotations", {}),
        }  # fmt: skip
        spec = template()["spec"] | {"schedulingGates": [{"name": gate} for gate in GATES]}
        return await self.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")

    async def ungate(self) -> None:
        """Let the pods of elastic Jobs go, as many as there is quota for: all of them."""
        for pod in (await self.client.list(POD, "default")).items:
            if any(gate.name == "kueue.x-k8s.io/elastic-job" for gate in pod.spec.scheduling_gates):
                await self.client.patch(POD, pod.metadata.name, {"spec": {"schedulingGates": None}}, "default")

    async def bind(self, node: str) -> None:
        """Play kube-scheduler: every pod that has no gate goes there."""
        for pod in (await self.client.list(POD, "default")).items:
            if not pod.spec.node_name and not pod.spec.scheduling_gates:
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                path = f"/api/v1/namespaces/default/pods/{pod.metadata.name}/binding"
                document = {"metadata": {"name": pod.metadata.name}, "target": target}
                body = msgspec.json.encode(document)
                await self.client.raw(Request("POST", path, body=body, content_type="application/json"))

    async def documents(self, kind: Kind[Any]) -> dict[str, Any]:
        """All objects of a kind as the server has them, by name."""
        found = await self.client.list(kind.seen_as(dict), "default")
        return {one["metadata"]["name"]: one for one in found.items}

    def condition(self, type_: str, value: bool, reason: str, message: str) -> dict[str, Any]:
        """As Kueue writes them."""
        return {
            "type": type_, "status": "True" if value else "False", "reason": reason, "message": message,
            "lastTransitionTime": self.then, "observedGeneration": 1,
        }  # fmt: skip


def template() -> dict[str, Any]:
    """A pod of one CPU, as a Job says it."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def podset(count: int = 1, name: str = "main", *, groups: int = 0) -> dict[str, Any]:
    """One of a Workload, as the API server's defaults make a template.

    Where no topology is asked for the request holds the labels of ranks alone. groups: of a JobSet, how many Jobs.
    """
    pods = template()
    (container,) = pods["spec"]["containers"]
    container |= {
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    pods["spec"] |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {}}
    pods["spec"] |= {"terminationGracePeriodSeconds": 30}
    request: dict[str, Any] = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    if groups:
        request |= {"subGroupIndexLabel": "jobset.sigs.k8s.io/job-index", "subGroupCount": groups}
    return {"name": name, "count": count, "template": {"metadata": {}, **pods}, "topologyRequest": request}


def reference(kind: Kind[Any], meta: ObjectMeta) -> dict[str, Any]:
    """To an object, as one of the owners of a Workload."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta.name, "uid": meta.uid}
