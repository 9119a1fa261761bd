"""What Kueue's manager has left of Deployments and their like, and of other projects' jobs, stays as it is."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.integrations.external_kinds import Json, make, serve
from tests.system.integrations.queued_jobs import noded
from tests.system.operator.operator_site import Site, configured
from tests.system.takeover.left_by_kueue import CLUSTER_QUEUE, Kueue, podset, reference, template

from muster.api.config import DEFAULT
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.integrations.external.kinds import PYTORCH_JOB, RAY_CLUSTER
from muster.controllers.integrations.serving.kinds import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET
from muster.insight.takeover import make_report
from muster.operator.takeover import sort_kinds, survey_cluster
from muster.queueing.jobframework.names import workload_name

NAMED = (
    "batch/job", "pod", "deployment", "statefulset", LEADER_WORKER_SET.name, PYTORCH_JOB.name, RAY_CLUSTER.name,
)  # fmt: skip
SETTINGS = replace(DEFAULT, integrations=replace(DEFAULT.integrations, frameworks=NAMED))
FOLLOWED = (PYTORCH_JOB.kind, RAY_CLUSTER.kind, DEPLOYMENT.kind, STATEFUL_SET.kind, LEADER_WORKER_SET.kind)
GROUP = {"kueue.x-k8s.io/is-group-workload": "true"}
LWS = "leaderworkerset.sigs.k8s.io"

Scene = Callable[[Site, Kueue], Awaitable[None]]


def started(name: str) -> Json:
    """A pod template with what Kueue injects."""
    return template() | {
        "metadata": {"labels": {"kueue.x-k8s.io/podset": name}},
        "spec": template()["spec"] | {"nodeSelector": {"zone": "a"}},
    }


async def running_pytorchjob(s: Site, k: Kueue) -> None:
    roles = {"Master": 1, "Worker": 2}
    specs = {role: {"replicas": count, "template": started(role.lower())} for role, count in roles.items()}
    spec = {"runPolicy": {"suspend": False}, "pytorchReplicaSpecs": specs}
    made = await make(s.world, PYTORCH_JOB.kind, "train", spec, queue=k.queue)
    status = {"replicaStatuses": {"Worker": {"active": 2}}, "conditions": [{"type": "Running", "status": "True"}]}
    plain = PYTORCH_JOB.kind.seen_as(dict)
    await s.client.patch(plain, "train", {"spec": spec}, "default")  # the embedded server has suspended it
    await s.client.patch(plain, "train", {"status": status}, "default", subresource="status")
    sizes = {role.lower(): count for role, count in roles.items()}
    podsets = [podset(count, role) | {"template": template()} for role, count in sizes.items()]
    name = await k.workload(PYTORCH_JOB.kind.typed(made), PYTORCH_JOB.kind, podsets)
    await k.admit(name, sizes)


async def running_raycluster(s: Site, k: Kueue) -> None:
    group = {"groupName": "Small", "replicas": 2, "template": started("small")}
    spec = {"suspend": False, "headGroupSpec": {"template": started("head")}, "workerGroupSpecs": [group]}
    made = await make(s.world, RAY_CLUSTER.kind, "ray", spec, queue=k.queue)
    plain = RAY_CLUSTER.kind.seen_as(dict)
    await s.client.patch(plain, "ray", {"spec": {"suspend": False}}, "default")
    await s.client.patch(plain, "ray", {"status": {"state": "ready"}}, "default", subresource="status")
    podsets = [podset(count, name) | {"template": template()} for name, count in (("head", 1), ("small", 2))]
    name = await k.workload(RAY_CLUSTER.kind.typed(made), RAY_CLUSTER.kind, podsets)
    await k.admit(name, {"head": 1, "small": 2})


async def pod_of(k: Kueue, name: str, kind: Kind[Any], owner: Json, metadata: Json, role: str) -> Pod:
    """A pod of an object that serves, which Kueue has let go."""
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    labels = metadata["labels"] | {"kueue.x-k8s.io/queue-name": k.queue, "kueue.x-k8s.io/managed": "true"}
    annotations = metadata["annotations"] | {"kueue.x-k8s.io/role-hash": role}
    made = {"name": name, "ownerReferences": [reference], "labels": labels, "annotations": annotations}
    created = await k.client.create(POD, msgspec.convert({"metadata": made, **template()}, Pod), "default")
    own = {"kueue.x-k8s.io/podset": role, "kueue.x-k8s.io/cluster-queue-name": CLUSTER_QUEUE}
    opened = {"schedulingGates": None, "nodeSelector": {"zone": "a"}}
    await k.client.patch(POD, name, {"metadata": {"labels": own}, "spec": opened}, "default")
    return created


async def running_deployment(s: Site, k: Kueue) -> None:
    labelled = template() | {"metadata": {"labels": {"app": "web"}}}
    labelled["spec"] = labelled["spec"] | {"restartPolicy": "Always"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": labelled}
    made = await make(s.world, DEPLOYMENT.kind, "web", spec, queue=k.queue)
    replicas = Kind("apps", "v1", "ReplicaSet", "replicasets", dict)
    for number in range(2):
        metadata = made["spec"]["template"]["metadata"]
        pod = await pod_of(k, f"web-{number}", replicas, made, metadata, "main")
        name = await k.workload(pod, POD, [podset()])
        await k.admit(name, {"main": 1})


def grouped(name: str, size: int, framework: str, **more: str) -> Json:
    """What Kueue's controllers write on the pods of a group."""
    labels = {"kueue.x-k8s.io/pod-group-name": name, "kueue.x-k8s.io/prebuilt-workload-name": name}
    annotations = {
        "kueue.x-k8s.io/pod-suspending-parent": framework,
        "kueue.x-k8s.io/pod-group-total-count": str(size),
        "kueue.x-k8s.io/pod-group-serving": "true",
    }
    return {"labels": labels, "annotations": annotations | more}


async def running_statefulset(s: Site, k: Kueue) -> None:
    labelled = template() | {"metadata": {"labels": {"app": "web"}}}
    labelled["spec"] = labelled["spec"] | {"restartPolicy": "Always"}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 3, "selector": selector, "serviceName": "web", "template": labelled}
    made = await make(s.world, STATEFUL_SET.kind, "web", spec, queue=k.queue)
    name = workload_name("StatefulSet", "apps", "web", made["metadata"]["uid"])
    meta = STATEFUL_SET.kind.typed(made).metadata
    labels = {"kueue.x-k8s.io/job-uid": meta.uid}
    await k.named(name, [podset(3)], [reference(STATEFUL_SET.kind, meta)], annotations=GROUP, labels=labels)
    await k.admit(name, {"main": 3})
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    for number in range(3):
        metadata = grouped(name, 3, "statefulset", **fast)
        await pod_of(k, f"web-{number}", STATEFUL_SET.kind, made, metadata, "main")


async def running_leaderworkerset(s: Site, k: Kueue) -> None:
    groups = {"size": 2, "leaderTemplate": template(), "workerTemplate": template()}
    made = await make(
        s.world, LEADER_WORKER_SET.kind, "llm", {"replicas": 1, "leaderWorkerTemplate": groups}, queue=k.queue
    )
    meta: ObjectMeta = LEADER_WORKER_SET.kind.typed(made).metadata
    name = workload_name("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "llm-0", meta.uid)
    podsets = [podset(1, "leader"), podset(1, "worker")]
    labels = {"kueue.x-k8s.io/job-uid": meta.uid}
    await k.named(name, podsets, [reference(LEADER_WORKER_SET.kind, meta)], annotations=GROUP, labels=labels)
    await k.admit(name, {"leader": 1, "worker": 1})
    for pod, role in (("llm-0", "leader"), ("llm-0-1", "worker")):
        metadata = grouped(name, 2, LEADER_WORKER_SET.name)
        metadata["labels"] |= {f"{LWS}/name": "llm", f"{LWS}/group-index": "0"}
        metadata["annotations"] |= {f"{LWS}/leader-name": "llm-0"} if role == "worker" else {}
        await pod_of(k, pod, STATEFUL_SET.kind, made, metadata, role)


SCENES = (
    running_pytorchjob, running_raycluster, running_deployment, running_statefulset, running_leaderworkerset,
)  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_kueue_left_of_these_kinds_is_left_as_it_is(scene: Scene) -> None:
    async def story(s: Site) -> None:
        async with noded(s.queued):
            await serve(s.world, PYTORCH_JOB.kind, RAY_CLUSTER.kind, LEADER_WORKER_SET.kind)
            k = Kueue(InProcessTransport(s.world.plane.server), s.world.settle)
            await scene(s, k)
            await s.world.settle()
            await k.bind("n")
            await s.world.settle()
            told = make_report(await survey_cluster(s.client, SETTINGS, s.world.clock, print), *sort_kinds(SETTINGS))
            assert [one for one in told.findings if "do not name" in one.what] == []
            assert all(row.handled for row in told.rows)
            left = {kind.plural: await k.documents(kind) for kind in (*FOLLOWED, POD, WORKLOAD)}
            await s.start("muster")
            await s.world.settle(60)
            assert s.replicas["muster"].began.is_set()
            parts = ("/pods", "/workloads", *(f"/{kind.plural}" for kind in FOLLOWED))
            assert [one for one in s.cables["muster"].wrote if any(part in one for part in parts)] == []
            assert {kind.plural: await k.documents(kind) for kind in (*FOLLOWED, POD, WORKLOAD)} == left

    configured(SETTINGS)(story)()
