"""Definitions of other projects' kinds, and words to play their operators: with the fields that integrations read."""

from typing import Any

import msgspec
from tests.system.plane import World

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION

Json = dict[str, Any]

# Parts of definitions, with the fields that integrations read and write: all others are pruned.
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer", "format": "int32"}
FLAG: Json = {"type": "boolean"}
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def an_object(**fields: Json) -> Json:
    return {"type": "object", "properties": fields}


def a_list(items: Json) -> Json:
    return {"type": "array", "items": items}


def a_map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


META = an_object(name=TEXT, namespace=TEXT, labels=a_map(TEXT), annotations=a_map(TEXT), finalizers=a_list(TEXT))
TEMPLATE = an_object(metadata=META, spec=ANYTHING)
CONDITIONS = a_list(an_object(type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastTransitionTime=TEXT))
INJECTED = an_object(nodeSelector=a_map(TEXT), tolerations=a_list(ANYTHING), schedulingGates=a_list(ANYTHING))


def kubeflow(field: str) -> Json:
    policy = an_object(suspend=FLAG, managedBy=TEXT, schedulingPolicy=an_object(priorityClass=TEXT))
    roles = a_map(an_object(replicas=NUMBER, restartPolicy=TEXT, template=TEMPLATE))
    counts = a_map(an_object(active=NUMBER, succeeded=NUMBER, failed=NUMBER))
    return an_object(
        spec=an_object(runPolicy=policy, **{field: roles}),
        status=an_object(conditions=CONDITIONS, replicaStatuses=counts, startTime=TEXT),
    )


RAY_GROUP = an_object(groupName=TEXT, replicas=NUMBER, numOfHosts=NUMBER, template=TEMPLATE)
RAY_CLUSTER: Json = {
    "suspend": FLAG,
    "enableInTreeAutoscaling": FLAG,
    "headGroupSpec": an_object(template=TEMPLATE),
    "workerGroupSpecs": a_list(RAY_GROUP),
}
RAY_STATUS = an_object(state=TEXT, availableWorkerReplicas=NUMBER, conditions=CONDITIONS)
COMPONENT = an_object(
    annotations=a_map(TEXT),
    podSets=a_list(an_object(replicas=NUMBER, path=TEXT, annotations=a_map(TEXT))),
    podSetInfos=a_list(
        an_object(labels=a_map(TEXT), annotations=a_map(TEXT), **INJECTED["properties"]),
    ),
    template=ANYTHING | {"x-kubernetes-embedded-resource": True},
)
PATCHED_PODS = an_object(template=an_object(metadata=META, spec=INJECTED))
PATCHED_JOBS = a_list(an_object(name=TEXT, template=an_object(metadata=META, spec=PATCHED_PODS)))
PATCHED_RUNTIME = an_object(template=an_object(metadata=META, spec=an_object(replicatedJobs=PATCHED_JOBS)))
JOBS_STATUS = an_object(name=TEXT, ready=NUMBER, succeeded=NUMBER, failed=NUMBER, active=NUMBER, suspended=NUMBER)
GROUPS = an_object(size=NUMBER, leaderTemplate=TEMPLATE, workerTemplate=TEMPLATE)

SCHEMAS: dict[str, Json] = {
    "mpijobs.kubeflow.org": kubeflow("mpiReplicaSpecs"),
    "pytorchjobs.kubeflow.org": kubeflow("pytorchReplicaSpecs"),
    "tfjobs.kubeflow.org": kubeflow("tfReplicaSpecs"),
    "xgboostjobs.kubeflow.org": kubeflow("xgbReplicaSpecs"),
    "paddlejobs.kubeflow.org": kubeflow("paddleReplicaSpecs"),
    "jaxjobs.kubeflow.org": kubeflow("jaxReplicaSpecs"),
    "rayclusters.ray.io": an_object(spec=an_object(managedBy=TEXT, **RAY_CLUSTER), status=RAY_STATUS),
    "rayservices.ray.io": an_object(
        spec=an_object(managedBy=TEXT, rayClusterConfig=an_object(**RAY_CLUSTER)),
        status=an_object(conditions=CONDITIONS),
    ),
    "rayjobs.ray.io": an_object(
        spec=an_object(
            suspend=FLAG,
            managedBy=TEXT,
            shutdownAfterJobFinishes=FLAG,
            submissionMode=TEXT,
            clusterSelector=a_map(TEXT),
            submitterPodTemplate=TEMPLATE,
            rayClusterSpec=an_object(**RAY_CLUSTER),
        ),
        status=an_object(jobDeploymentStatus=TEXT, jobStatus=TEXT, message=TEXT, rayClusterStatus=RAY_STATUS),
    ),
    "appwrappers.workload.codeflare.dev": an_object(
        spec=an_object(suspend=FLAG, managedBy=TEXT, components=a_list(COMPONENT)),
        status=an_object(phase=TEXT, conditions=CONDITIONS),
    ),
    "trainjobs.trainer.kubeflow.org": an_object(
        spec=an_object(
            suspend=FLAG,
            managedBy=TEXT,
            runtimeRef=an_object(name=TEXT, kind=TEXT, apiGroup=TEXT),
            runtimePatches=a_list(an_object(manager=TEXT, trainingRuntimeSpec=PATCHED_RUNTIME)),
        ),
        status=an_object(conditions=CONDITIONS, jobsStatus=a_list(JOBS_STATUS)),
    ),
    "leaderworkersets.leaderworkerset.x-k8s.io": an_object(
        spec=an_object(replicas=NUMBER, leaderWorkerTemplate=GROUPS, rolloutStrategy=ANYTHING),
        status=an_object(replicas=NUMBER, readyReplicas=NUMBER, updatedReplicas=NUMBER, conditions=CONDITIONS),
    ),
}


def definition(kind: Kind[Any]) -> Json:
    """The kind's group, version, names, subresource and fields, as far as they count here."""
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind, "listKind": f"{kind.kind}List"}
    version = {"name": kind.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [version | {"schema": {"openAPIV3Schema": SCHEMAS[kind.resource]}}],
        },
    }


async def serve(world: World, *kinds: Kind[Any]) -> None:
    """Have the server serve the kinds, and give the engine the time to follow them."""
    for kind in kinds:
        made = msgspec.convert(definition(kind), CUSTOM_RESOURCE_DEFINITION.type)
        await world.client.create(CUSTOM_RESOURCE_DEFINITION, made)
    await world.settle(60)


def template(cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], **spec}}


async def make(
    world: World, kind: Kind[Any], name: str, spec: Json, queue: str = "team", more: Json | None = None, **metadata: Any
) -> Json:
    """Create a job that names a queue, and has more labels."""
    labels = ({QUEUE_NAME_LABEL: queue} if queue else {}) | (more or {})
    document = {"metadata": {"name": name, "labels": labels, **metadata}, "spec": spec}
    return await world.client.create(kind.seen_as(dict), document, "default")


async def see(world: World, kind: Kind[Any], name: str) -> Json:
    return await world.client.get(kind.seen_as(dict), name, "default")


async def report(world: World, kind: Kind[Any], name: str, **status: Any) -> None:
    """Play the kind's operator: it writes the status."""
    await world.client.patch(kind.seen_as(dict), name, {"status": status}, "default", subresource="status")


async def workload_of(world: World, name: str) -> str:
    """The name of the one Workload that an object of this name owns."""
    page = await world.client.list(WORKLOAD, "default")
    (found,) = [one.metadata.name for one in page.items if one.metadata.owner_references[0].name == name]
    return found
