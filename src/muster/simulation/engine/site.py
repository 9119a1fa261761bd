"""Build the cluster of a scenario: its manifests are stored by the embedded server, as any cluster would store them.

So the server's defaults apply, its webhooks and validation refuse what is wrong in its own words, and a Job gets the
queue that it would get. The server lives in memory and for that time alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api import kueue
from muster.api.batch import Job
from muster.api.config import Configuration
from muster.api.core import NAMESPACE, NODE, POD, Namespace, Node
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.jobset import JobSet
from muster.api.kinds import Kind
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.meta import Condition, ObjectMeta
from muster.api.nodes import is_ready
from muster.api.status import ApiError
from muster.api.values.manifests import Manifest
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.integrations.framework import Integration, UnreadableJobError
from muster.controllers.integrations.priorities import find_class
from muster.controllers.integrations.table import INTEGRATIONS
from muster.gang.order.ends import End, end_of
from muster.insight.record.build import record_of
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.objects import key_of
from muster.runtime.transport import Request
from muster.simulation.scenario.model import Work
from muster.simulation.scenario.reading import Reading, ScenarioError

_STRICT = {"fieldValidation": "Strict"}
_DRY_RUN = _STRICT | {"dryRun": "All"}
_PODS = "pods"
# Kinds of work: the simulation makes all work itself.
_WORK = frozenset((POD, kueue.WORKLOAD, *(one.kind for one in INTEGRATIONS)))


class JobTemplate(Struct, frozen=True):
    """A job as the server would store it.

    workload: what it asks of its queue. local_queue: `namespace/name`, or "". pod_priority: the priority of its pods.
    end: when it ends by its own limits, or as its user expects, in seconds from its start; None if that is unknown.
    """

    workload: kueue.Workload
    local_queue: str
    pod_priority: int
    end: End | None


class Site(Struct, frozen=True):
    """The objects of a cluster that decisions read. templates: the jobs of each work, by its name."""

    cluster_queues: Sequence[kueue.ClusterQueue]
    local_queues: Sequence[kueue.LocalQueue]
    cohorts: Sequence[kueue.Cohort]
    flavors: Sequence[kueue.ResourceFlavor]
    namespaces: Sequence[Namespace]
    nodes: Sequence[Node]
    templates: Mapping[str, JobTemplate]


class _Classes(Struct, frozen=True):
    """The priority classes, by name."""

    own: Mapping[str, kueue.WorkloadPriorityClass]
    of_pods: Mapping[str, PriorityClass]


def build_site(reading: Reading, configuration: Configuration) -> Site:
    """Store the manifests of a scenario, and return what decisions read.

    Raises:
        ScenarioError: the server refuses an object.
    """
    return run_virtual(_build(reading, configuration))


async def _build(reading: Reading, configuration: Configuration) -> Site:
    spec = reading.scenario.spec
    inputs = ExternalInputs(VirtualClock(spec.start), Ids(spec.seed), Random(spec.seed))
    async with control_plane(MemoryJournal(), inputs, configuration) as plane:
        client = plane.client()
        await store_manifests(plane, client, reading.manifests)
        nodes = [_complete(one) for one in (await client.list(NODE)).items]
        nodes += await _make_nodes(plane, client, reading, {one.metadata.name for one in nodes})
        classes = _Classes(
            {one.metadata.name: one for one in (await client.list(kueue.WORKLOAD_PRIORITY_CLASS)).items},
            {one.metadata.name: one for one in (await client.list(PRIORITY_CLASS)).items},
        )
        local_queues = (await client.list(kueue.LOCAL_QUEUE)).items
        templates = {}
        for number, work in enumerate(spec.work):
            path = f"spec.work[{number}].template"
            document = name_queue(reading, path, work)
            template = await _read_template(plane, client, reading, path, document, classes)
            _require_queues(reading, number, work, template, {key_of(one) for one in local_queues})
            templates[work.name] = template
        return Site(
            (await client.list(kueue.CLUSTER_QUEUE)).items,
            local_queues,
            (await client.list(kueue.COHORT)).items,
            (await client.list(kueue.RESOURCE_FLAVOR)).items,
            (await client.list(NAMESPACE)).items,
            nodes,
            templates,
        )


def _require_queues(reading: Reading, number: int, work: Work, template: JobTemplate, known: AbstractSet[str]) -> None:
    """Refuse a LocalQueue that no manifest defines: its jobs would run without any quota."""
    path, namespace = f"spec.work[{number}]", template.workload.metadata.namespace
    named = {f"{path}.{'queue' if work.queue else 'template'}": template.local_queue} if template.local_queue else {}
    queues = work.trace.queues if work.trace is not None else {}
    named |= {f"{path}.trace.queues.{log}": f"{namespace}/{queue}" for log, queue in queues.items()}
    for field, queue in named.items():
        if queue not in known:
            raise reading.source.error(field, f"no manifest defines the LocalQueue {queue}")


async def store_manifests(plane: ControlPlane, client: Client, manifests: Iterable[Manifest]) -> None:
    """Store the manifests of a scenario, and their namespaces.

    Raises:
        ScenarioError: the server refuses an object, or the object is work.
    """
    known = {one.metadata.name for one in (await client.list(NAMESPACE)).items}
    for one in sorted(manifests, key=lambda one: one.document["kind"] != NAMESPACE.kind):
        kind = _find_kind(plane, one.document, one.title)
        if kind in _WORK:
            raise ScenarioError(f"{one.title}: would have no effect: jobs are the templates of spec.work")
        namespace = (one.document["metadata"].get("namespace") or "default") if kind.namespaced else ""
        if namespace and namespace not in known:
            await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
            known.add(namespace)
        try:
            await client.raw(Request("POST", kind.path(namespace), _STRICT, msgspec.json.encode(one.document)))
        except ApiError as error:
            raise ScenarioError(f"{one.title}: {error}") from None
        if kind == NAMESPACE:
            known.add(one.document["metadata"]["name"])


def _find_kind(plane: ControlPlane, document: Mapping[str, Any], where: str) -> Kind[Any]:
    resource = plane.server.registry.of_kind(str(document.get("apiVersion")), str(document.get("kind")))
    if resource is None:
        raise ScenarioError(f"{where}: no kind {document.get('kind')} in {document.get('apiVersion')} is served")
    return resource.kind


async def _make_nodes(plane: ControlPlane, client: Client, reading: Reading, others: AbstractSet[str]) -> list[Node]:
    """Return the nodes of the pools. others: the names of the other nodes."""
    nodes = []
    for number, pool in enumerate(reading.scenario.spec.nodes):
        path = f"spec.nodes[{number}].template"
        document = {"apiVersion": NODE.api_version, "kind": NODE.kind} | pool.template
        document["metadata"] = _read_metadata(pool.template, reading, path) | {"name": f"{pool.name}-0"}
        stored = await _try_out(plane, client, reading, path, document, Node)
        try:
            status = msgspec.convert(document, Node).status
        except msgspec.ValidationError as error:
            raise reading.source.error(path, str(error)) from None
        if not status.allocatable and not status.capacity:
            raise reading.source.error(path, "status.allocatable is needed: what a node of the pool has")
        node = _complete(replace(stored, status=status))
        for index in range(pool.count):
            name = f"{pool.name}-{index}"
            if name in others:
                raise reading.source.error(f"spec.nodes[{number}].name", f"{name} is the name of a Node, too")
            labels = node.metadata.labels | {"kubernetes.io/hostname": name}
            nodes.append(replace(node, metadata=replace(node.metadata, name=name, labels=labels)))
    return nodes


def _complete(node: Node) -> Node:
    """Return a node with what a kubelet adds: it is ready, and takes 110 pods if nothing else is said."""
    status = node.status
    ready = () if is_ready(node) else (Condition(type="Ready", status="True"),)
    allocatable = {_PODS: "110"} | (status.allocatable or status.capacity)
    return replace(node, status=replace(status, allocatable=allocatable, conditions=(*status.conditions, *ready)))


def _read_metadata(template: Mapping[str, Any], reading: Reading, path: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    if not isinstance(meta, dict):
        raise reading.source.error(f"{path}.metadata", "must be a map")
    if not isinstance(meta.get("labels") or {}, dict):
        raise reading.source.error(f"{path}.metadata.labels", "must be a map of strings")
    return meta


def name_queue(reading: Reading, path: str, work: Work) -> dict[str, Any]:
    """Return the manifest of the jobs of a work, with their name and their LocalQueue."""
    namespace, _, local = work.queue.rpartition("/")
    meta = _read_metadata(work.template, reading, path) | {"name": work.name}
    if namespace:
        meta["namespace"] = namespace
    if local:
        meta["labels"] = (meta.get("labels") or {}) | {QUEUE_NAME_LABEL: local}
    return work.template | {"metadata": meta}


async def _read_template(
    plane: ControlPlane,
    client: Client,
    reading: Reading,
    path: str,
    document: dict[str, Any],
    classes: _Classes,
) -> JobTemplate:
    kind = _find_kind(plane, document, f"{reading.source.file}: {path}")
    integration: Integration[Any] | None = next((one for one in INTEGRATIONS if one.kind == kind), None)
    if integration is None:
        raise reading.source.error(path, f"a {kind.kind} cannot be simulated")
    job = await _try_out(plane, client, reading, path, document, kind.type)
    meta: ObjectMeta = job.metadata
    try:
        podsets = integration.podsets(job)
    except UnreadableJobError as error:
        raise reading.source.error(f"{path}.{error.path}", error.why) from None
    label, pod_class = meta.labels.get(PRIORITY_CLASS_LABEL, ""), integration.priority_class(job)
    _, priority = find_class(label, pod_class, classes.own.get, classes.of_pods.get, classes.of_pods.values())
    if priority is None:
        raise reading.source.error(path, "names a priority class that no manifest defines")
    queue = meta.labels.get(QUEUE_NAME_LABEL, "")
    spec = kueue.WorkloadSpec(pod_sets=podsets, queue_name=queue, priority=priority)
    workload = kueue.Workload(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace), spec=spec)
    _, pod_priority = find_class("", pod_class, classes.own.get, classes.of_pods.get, classes.of_pods.values())
    deadline = record_of(job).deadline if isinstance(job, Job | JobSet) else None
    end = end_of(meta, deadline, started=0.0)
    return JobTemplate(workload, f"{meta.namespace}/{queue}" if queue else "", pod_priority or 0, end)


async def _try_out(
    plane: ControlPlane, client: Client, reading: Reading, path: str, document: dict[str, Any], type: type[Any]
) -> Any:
    """Return the object that the server would store for a document."""
    kind = _find_kind(plane, document, f"{reading.source.file}: {path}")
    namespace = (document["metadata"].get("namespace") or "default") if kind.namespaced else ""
    try:
        answer = await client.raw(Request("POST", kind.path(namespace), _DRY_RUN, msgspec.json.encode(document)))
    except ApiError as error:
        raise reading.source.error(path, str(error)) from None
    return msgspec.json.decode(answer.body, type=type)
