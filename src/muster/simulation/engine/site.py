"""Build the cluster of a scenario: an embedded server stores the scenario's manifests, as any cluster would.

The server's defaults therefore apply, its webhooks and validation refuse invalid objects with their usual messages, and
a Job gets its usual queue. The server runs in memory, only while the cluster is built.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api import kueue
from muster.api.config import Configuration
from muster.api.core import NAMESPACE, NODE, POD, Namespace, Node, Pod, PodTemplateSpec
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.kinds import Kind
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.api.managed.pods import group_size
from muster.api.meta import Condition, ObjectMeta
from muster.api.nodes import HOSTNAME_LABEL, is_ready
from muster.api.ours.elastic import Bounds
from muster.api.pods import get_priority as priority_of
from muster.api.status import ApiError
from muster.api.validation.names import dns_subdomain
from muster.api.validation.resources import LIMIT_NEEDED
from muster.api.values.manifests import Manifest
from muster.api.values.quantity import format_amount
from muster.cluster.apiserver.schema import DecodeError
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.integrations.framework import Integration, UnreadableJobError
from muster.controllers.integrations.pods.groups import describe_alike_pods
from muster.controllers.integrations.priorities import find_class
from muster.controllers.integrations.table import INTEGRATIONS
from muster.gang.order.ends import EndTime
from muster.gang.topology import TopologyConstraint
from muster.insight.forecasts.nodestate import node_at_best
from muster.jobs.podgroup.record import KINDS as PODGROUP_KINDS
from muster.jobs.podgroup.record import PodGroup, read
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.objects import key_of
from muster.runtime.transport import Request
from muster.simulation.engine.changing.redefinitions import Redefinition, write_redefinitions
from muster.simulation.engine.gangterms import (
    GangTermsError,
    complete_group,
    find_bounds,
    find_constraint,
    find_end,
    restarts_whole,
)
from muster.simulation.scenario.arrivals import translate_queue
from muster.simulation.scenario.changes import find_largest_size, name_nodes, require_changes, require_nodes
from muster.simulation.scenario.model import Work
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError, suggest
from muster.simulation.scenario.state import ClusterState, name_object

_STRICT = {"fieldValidation": "Strict"}
_DRY_RUN = _STRICT | {"dryRun": "All"}
_INDEX = re.compile(r"\[\d+\]")
_PODS = "pods"
_LIMIT_HINT = ": write an amount such as that of nvidia.com/gpu as a limit, and the request is the same"
# The job of a trace for which the trace defines the requests of pods.
_PLAIN_JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}},
}
# Kinds of work, which must not be in the manifests, because the simulation creates all work itself.
_WORK = frozenset((POD, kueue.WORKLOAD, *(one.kind for one in INTEGRATIONS)))


class JobTemplate(Struct, frozen=True):
    """A job of a source of work, as the server would store it.

    workload: what the job requests from its queue.
    local_queue: the LocalQueue as `namespace/name`; "" for none.
    pods: a pod of each of its podsets, as the server would admit it.
    end: when it ends by its own limits or its user's expectation, in seconds from its start; None if unknown.
    restarts_whole: whether all its pods restart when one is interrupted; otherwise, the others keep their nodes.
    bounds: the minimum and maximum size, if it is elastic; else None.
    near: how close together its pods must be, from its PodGroup; None if they may be anywhere.
    """

    workload: kueue.Workload
    local_queue: str
    end: EndTime | None
    pods: tuple[Pod, ...] = ()
    restarts_whole: bool = True
    bounds: Bounds | None = None
    near: TopologyConstraint | None = None

    @property
    def pod_priority(self) -> int:
        """The priority of the job's gang for the scheduler: the highest priority of its pods."""
        return max((priority_of(pod) for pod in self.pods), default=0)


class Site(Struct, frozen=True):
    """The objects of a simulated cluster that decisions read.

    templates: the template of the jobs of each source of work, by the source's name.
    pod_classes: the PriorityClasses by name.
    later_nodes: the nodes that are added when pools grow.
    pools: the names of all nodes of each pool.
    redefinitions: the changed queues and Cohorts, in order of the changes.
    """

    cluster_queues: Sequence[kueue.ClusterQueue]
    local_queues: Sequence[kueue.LocalQueue]
    cohorts: Sequence[kueue.Cohort]
    flavors: Sequence[kueue.ResourceFlavor]
    topologies: Sequence[kueue.Topology]
    namespaces: Sequence[Namespace]
    nodes: Sequence[Node]
    templates: Mapping[str, JobTemplate]
    checks: Sequence[kueue.AdmissionCheck] = ()
    configs: Sequence[kueue.MultiKueueConfig] = ()
    connections: Sequence[kueue.MultiKueueCluster] = ()
    pod_classes: Mapping[str, PriorityClass] = {}
    later_nodes: Sequence[Node] = ()
    pools: Mapping[str, Sequence[str]] = {}
    redefinitions: Sequence[Redefinition] = ()


class _Classes(Struct, frozen=True):
    """The priority classes of workloads (`own`) and of pods, by name."""

    own: Mapping[str, kueue.WorkloadPriorityClass]
    of_pods: Mapping[str, PriorityClass]


def build_site(reading: Reading, configuration: Configuration) -> Site:
    """Store the manifests of a scenario on a server in virtual time; return the objects that decisions read.

    Raises `ScenarioError` if the server refuses an object.
    """
    return run_virtual(_build(reading, configuration))


async def _build(reading: Reading, configuration: Configuration) -> Site:
    """Return the cluster of a scenario, as a server stores its manifests.

    Raises `ScenarioError` if the server refuses a manifest, or if the scenario names an object that does not exist.
    """
    spec = reading.scenario.spec
    require_changes(reading)
    inputs = ExternalInputs(VirtualClock(spec.start), Ids(spec.seed), Random(spec.seed))
    async with control_plane(MemoryJournal(), inputs, configuration, roles=False) as plane:  # no decision reads them
        client = plane.client()
        if reading.state is not None:
            await _store_state(plane, client, reading.state)
        await store_manifests(plane, client, reading.manifests)
        nodes = [_complete(one) for one in (await client.list(NODE)).items]
        nodes += await _make_nodes(plane, client, reading, {one.metadata.name: one for one in nodes})
        pools = {pool.name: name_nodes(pool, find_largest_size(spec, pool)) for pool in spec.nodes}
        later = {name for pool in spec.nodes for name in pools[pool.name][pool.count :]}
        require_nodes(reading, {one.metadata.name: one for one in nodes}, pools)
        classes = _Classes(
            {one.metadata.name: one for one in (await client.list(kueue.WORKLOAD_PRIORITY_CLASS)).items},
            {one.metadata.name: one for one in (await client.list(PRIORITY_CLASS)).items},
        )
        local_queues = (await client.list(kueue.LOCAL_QUEUE)).items
        templates = {}
        for number, work in enumerate(spec.work):
            template = await _read_template(plane, client, reading, number, classes)
            _require_queues(reading, number, work, template, {key_of(one) for one in local_queues})
            templates[work.name] = template
        return Site(
            (await client.list(kueue.CLUSTER_QUEUE)).items,
            local_queues,
            (await client.list(kueue.COHORT)).items,
            (await client.list(kueue.RESOURCE_FLAVOR)).items,
            (await client.list(kueue.TOPOLOGY)).items,
            (await client.list(NAMESPACE)).items,
            [one for one in nodes if one.metadata.name not in later],
            templates,
            (await client.list(kueue.ADMISSION_CHECK)).items,
            (await client.list(kueue.MULTI_KUEUE_CONFIG)).items,
            (await client.list(kueue.MULTI_KUEUE_CLUSTER)).items,
            classes.of_pods,
            [one for one in nodes if one.metadata.name in later],
            pools,
            await write_redefinitions(client, reading),  # written after the state at the start has been read
        )


def _require_queues(reading: Reading, number: int, work: Work, template: JobTemplate, known: AbstractSet[str]) -> None:
    """Raise `ScenarioError` if a source of work names a LocalQueue that no manifest defines.

    Its jobs would run without any quota.
    """
    path, namespace = f"spec.work[{number}]", template.workload.metadata.namespace
    named = {f"{path}.{'queue' if work.queue else 'template'}": template.local_queue} if template.local_queue else {}
    if work.trace is not None:
        for queue, local in work.trace.queues.items():
            named[f"{path}.trace.queues.{queue}"] = local if "/" in local else f"{namespace}/{local}"
        for queue in sorted(reading.logs[work.name].queues - work.trace.queues.keys()):
            if (local := translate_queue(work, work.trace, queue)) and local not in known:  # it is of a history
                hint = _suggest_queue(local, known)
                what_to_do = "define it, or set `queue` of the work to one LocalQueue for all its jobs"
                raise reading.source.error(path, f"no manifest defines the LocalQueue {local}{hint}; {what_to_do}")
    for field, queue in named.items():
        if queue not in known:
            hint = _suggest_queue(queue, known)
            raise reading.source.error(field, f"no manifest defines the LocalQueue {queue}{hint}")


def _suggest_queue(queue: str, known: Iterable[str]) -> str:
    """Return the end of the error about an unknown LocalQueue, with similar names. Namespaces are not compared."""
    namespace, _, name = queue.rpartition("/")
    return suggest(name, sorted(one.removeprefix(f"{namespace}/") for one in known))


async def store_manifests(plane: ControlPlane, client: Client, manifests: Iterable[Manifest]) -> None:
    """Store the manifests of a scenario, and create missing namespaces.

    Raises `ScenarioError` if the server refuses an object, or if an object is a Job or another kind of work.
    """
    known = {one.metadata.name for one in (await client.list(NAMESPACE)).items}
    for one in sorted(manifests, key=lambda one: one.document["kind"] != NAMESPACE.kind):
        kind = _find_kind(plane, one.document, partial(_refuse_manifest, one))
        if kind in _WORK:
            raise ScenarioError(f"{one.title_with_line}: would have no effect: jobs are the templates of spec.work")
        namespace = (one.document["metadata"].get("namespace") or "default") if kind.namespaced else ""
        if namespace and namespace not in known:
            await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=namespace)))
            known.add(namespace)
        try:
            await client.raw(Request("POST", kind.path(namespace), _STRICT, msgspec.json.encode(one.document)))
        except ApiError as error:
            raise ScenarioError(f"{one.title_with_line}: {error}") from None
        if kind == NAMESPACE:
            known.add(one.document["metadata"]["name"])


async def _store_state(plane: ControlPlane, client: Client, state: ClusterState) -> None:
    """Create the objects of another cluster's state, or replace those that every cluster starts with.

    The server drops unknown fields, which a newer cluster may have. Raises `ScenarioError` if the server refuses an
    object, or if a variant adds an unknown field.
    """
    for one in state.objects:
        kind = _find_kind(plane, one.document, partial(_refuse_manifest, one))
        if (original := state.originals.get(name_object(one.document))) is not None:
            _refuse_new_fields(plane, kind, one, original)
        meta = one.document["metadata"]
        namespace = meta.get("namespace", "") if kind.namespaced else ""
        body = msgspec.json.encode(one.document)
        try:
            if await client.find(kind, meta["name"], namespace) is not None:
                await client.raw(Request("PUT", kind.path(namespace, meta["name"]), {}, body))
            else:
                await client.raw(Request("POST", kind.path(namespace), {}, body))
        except ApiError as error:
            raise ScenarioError(f"{one.title_with_line}: {error}") from None


def _refuse_new_fields(plane: ControlPlane, kind: Kind[Any], changed: Manifest, original: Mapping[str, Any]) -> None:
    """Raise `ScenarioError` if a changed object has an unknown field that the original does not have."""
    resource = plane.server.registry.of_kind(kind.api_version, kind.kind)
    assert resource is not None, "the kind is served"
    try:
        # a variant may delete items of lists, so indexes of lists are not compared
        after, before = (
            {_INDEX.sub("[]", path): path for path in resource.view.checker(document).unknown}
            for document in (changed.document, original)
        )
    except DecodeError as error:
        raise ScenarioError(f"{changed.title_with_line}: {error}") from None
    if new := next((path for place, path in after.items() if place not in before), None):
        raise ScenarioError(f'{changed.title_with_line}: unknown field "{new}"')


def _find_kind(plane: ControlPlane, document: Mapping[str, Any], refuse: Callable[[str], ScenarioError]) -> Kind[Any]:
    """Return the kind of a document. refuse: makes the error about an unknown kind, which is raised."""
    resource = plane.server.registry.of_kind(str(document.get("apiVersion")), str(document.get("kind")))
    if resource is None:
        raise refuse(f"no kind {document.get('kind')} in {document.get('apiVersion')} is served")
    return resource.kind


def _refuse_manifest(manifest: Manifest, why: str) -> ScenarioError:
    return ScenarioError(f"{manifest.title_with_line}: {why}")


async def _make_nodes(plane: ControlPlane, client: Client, reading: Reading, others: Mapping[str, Node]) -> list[Node]:
    """Return all nodes that the pools ever have, as the server would store them.

    others: all other nodes, by name.
    Raises `ScenarioError` if a template or a table is invalid.
    """
    nodes: list[Node] = []
    for number, pool in enumerate(reading.scenario.spec.nodes):
        if pool.file:
            nodes += await _make_listed_nodes(
                plane, client, reading, number, others.keys() | {one.metadata.name for one in nodes}
            )
            continue
        node = _make_like(reading, number, others) if pool.like else await _make_model(plane, client, reading, number)
        for name in name_nodes(pool, find_largest_size(reading.scenario.spec, pool)):
            if name in others:
                raise reading.source.error(f"spec.nodes[{number}].name", f"{name} is the name of a Node, too")
            labels = node.metadata.labels | {HOSTNAME_LABEL: name}
            nodes.append(replace(node, metadata=replace(node.metadata, name=name, labels=labels)))
    return nodes


async def _make_model(plane: ControlPlane, client: Client, reading: Reading, number: int) -> Node:
    """Return the first node of a pool, of which the others are copies.

    Raises `ScenarioError` for an invalid template.
    """
    pool, path = reading.scenario.spec.nodes[number], f"spec.nodes[{number}].template"
    document = {"apiVersion": NODE.api_version, "kind": NODE.kind} | pool.template
    document["metadata"] = _read_metadata(pool.template, reading, path) | {"name": f"{pool.name}-0"}
    stored = await _try_out(plane, client, reading, path, document, Node)
    try:
        status = msgspec.convert(document, Node).status
    except msgspec.ValidationError as error:
        raise reading.source.error(path, str(error)) from None
    if not status.allocatable and not status.capacity:
        raise reading.source.error(path, "status.allocatable is needed: what a node of the pool has")
    return _complete(replace(stored, status=status))


def _make_like(reading: Reading, number: int, others: Mapping[str, Node]) -> Node:
    """Return the Node on which a pool's nodes are modelled, in its state without any failure or cordon.

    others: the Nodes of the manifests and of the state, by name.
    Raises `ScenarioError` if there is no such Node.
    """
    name = reading.scenario.spec.nodes[number].like
    if name not in others:
        raise reading.source.error(f"spec.nodes[{number}].like", f"there is no Node {name}{suggest(name, others)}")
    return _complete(node_at_best(others[name]))


async def _make_listed_nodes(
    plane: ControlPlane, client: Client, reading: Reading, number: int, others: AbstractSet[str]
) -> list[Node]:
    """Return the nodes of a pool's table. Of several equal nodes, the server validates only one.

    number: the index of the pool.
    others: the names of all other nodes.
    Raises `ScenarioError` if a name is invalid or taken.
    """
    pool = reading.scenario.spec.nodes[number]
    nodes: list[Node] = []
    known: dict[tuple[Any, Any], Node] = {}
    for row in reading.tables[number]:
        name = f"{pool.name}-{row.name}" if pool.name else row.name
        where = f"{pool.file}:{row.line}"
        if wrong := dns_subdomain(name):
            raise ScenarioError(f"{where}: {name!r} is no name of a node: {wrong[0]}")
        if name in others:
            raise ScenarioError(f"{where}: {name} is the name of another Node, too")
        alike = known.get((row.allocatable, row.labels))
        if alike is None:
            path = f"spec.nodes[{number}].template"
            meta = _read_metadata(pool.template, reading, path)
            labels = (meta.get("labels") or {}) | dict(row.labels)
            document = {"apiVersion": NODE.api_version, "kind": NODE.kind} | pool.template
            document["metadata"] = meta | {"name": name, "labels": labels}
            try:
                stored = await _try_out(plane, client, reading, path, document, Node)
            except ScenarioError as error:
                raise ScenarioError(f"{where}: {error}") from None
            allocatable: dict[str, Any] = {
                resource: format_amount(resource, amount) for resource, amount in row.allocatable
            }
            alike = _complete(replace(stored, status=replace(stored.status, allocatable=allocatable)))
            known[row.allocatable, row.labels] = alike
        labels = alike.metadata.labels | {HOSTNAME_LABEL: name}
        nodes.append(replace(alike, metadata=replace(alike.metadata, name=name, labels=labels)))
    return nodes


def _complete(node: Node) -> Node:
    """Return a node as a kubelet would report it: ready, and with room for 110 pods if it does not set that."""
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


def complete_template(reading: Reading, path: str, work: Work) -> dict[str, Any]:
    """Return the manifest of the jobs of a source of work, with name and LocalQueue; a Job if it has no template."""
    namespace, _, local = work.queue.rpartition("/")
    meta = _read_metadata(work.template, reading, path) | {"name": work.name}
    if namespace:
        meta["namespace"] = namespace
    if local:
        meta["labels"] = (meta.get("labels") or {}) | {QUEUE_NAME_LABEL: local}
    return (work.template or _PLAIN_JOB) | {"metadata": meta}


async def _read_template(
    plane: ControlPlane,
    client: Client,
    reading: Reading,
    number: int,
    classes: _Classes,
) -> JobTemplate:
    """Return the template of a work, as the server completes it. Raises `ScenarioError`.

    number: the position of the work in the scenario.
    """
    path = f"spec.work[{number}].template"
    document = complete_template(reading, path, reading.scenario.spec.work[number])
    kind = _find_kind(plane, document, partial(reading.source.error, path))
    integration: Integration[Any] | None = next((one for one in INTEGRATIONS if one.kind == kind), None)
    if integration is None and kind != POD:
        hint = ": name it as podGroup, with a Pod as template" if kind in PODGROUP_KINDS else ""
        raise reading.source.error(path, f"a {kind.kind} cannot be simulated{hint}")
    job = await _try_out(plane, client, reading, path, document, kind.type)
    meta: ObjectMeta = job.metadata
    try:
        podsets = integration.podsets(job) if integration is not None else (_describe_group(job),)
    except UnreadableJobError as error:
        raise reading.source.error(f"{path}.{error.path}", error.why) from None
    pod_class = integration.priority_class(job) if integration is not None else job.spec.priority_class_name
    label = meta.labels.get(PRIORITY_CLASS_LABEL, "")
    _, priority = find_class(label, pod_class, classes.own.get, classes.of_pods.get, classes.of_pods.values())
    if priority is None:
        raise reading.source.error(path, "names a priority class that no manifest defines")
    group = await _read_group(plane, client, reading, number, meta)
    if group is not None and kind == POD and not group_size(meta):
        podsets = (replace(podsets[0], count=max(group.min_members, 1)),)
    try:
        near = find_constraint(group, sum(podset.count for podset in podsets)) if group is not None else None
    except GangTermsError as error:
        raise reading.source.error(f"spec.work[{number}].podGroup.{error.path}", error.why) from None
    queue = meta.labels.get(QUEUE_NAME_LABEL, "")
    spec = kueue.WorkloadSpec(pod_sets=podsets, queue_name=queue, priority=priority)
    copied = {key: meta.annotations[key] for key in (READY_ANNOTATION,) if key in meta.annotations}
    try:
        bounds = find_bounds(job)
    except GangTermsError as error:
        raise reading.source.error(f"{path}.{error.path}", error.why) from None
    own = ObjectMeta(name=meta.name, namespace=meta.namespace, annotations=copied)
    workload = kueue.Workload(metadata=own, spec=spec)
    pods = tuple(admit_pod(podset.template, classes.of_pods) for podset in podsets)
    local = f"{meta.namespace}/{queue}" if queue else ""
    return JobTemplate(workload, local, find_end(job), pods, restarts_whole(job), bounds, near)


def _describe_group(pod: Pod) -> kueue.PodSet:
    """Return the podset of a group of pods like this one, whose rules of placement may select their labels."""
    podset = describe_alike_pods(pod)
    labelled = replace(podset.template, metadata=ObjectMeta(labels=pod.metadata.labels))
    return replace(podset, template=labelled)


async def _read_group(
    plane: ControlPlane, client: Client, reading: Reading, number: int, job: ObjectMeta
) -> PodGroup | None:
    """Return the PodGroup of the jobs of a source of work, as the server completes it; None without one.

    job: the metadata of the job.
    Raises `ScenarioError` if the PodGroup is invalid.
    """
    work, path = reading.scenario.spec.work[number], f"spec.work[{number}].podGroup"
    if not work.pod_group:
        return None
    try:
        document = complete_group(work.pod_group, job.name, job.namespace)
        kind = _find_kind(plane, document, partial(reading.source.error, path))
    except GangTermsError as error:
        raise reading.source.error(f"{path}.{error.path}", error.why) from None
    return read(await _try_out(plane, client, reading, path, document, kind.type))


def admit_pod(template: PodTemplateSpec, classes: Mapping[str, PriorityClass]) -> Pod:
    """Return a pod of a template, with the priority and the preemption policy of its PriorityClass.

    classes: the PriorityClasses by name.
    """
    spec = template.spec
    if spec.priority is None:
        chosen, priority = find_class("", spec.priority_class_name, lambda _: None, classes.get, classes.values())
        its_class = classes.get(chosen.name) if chosen is not None else None
        policy = its_class.preemption_policy if its_class is not None else None
        spec = replace(spec, priority=priority or 0, preemption_policy=spec.preemption_policy or policy)
    return Pod(metadata=template.metadata, spec=spec)


async def _try_out(
    plane: ControlPlane, client: Client, reading: Reading, path: str, document: dict[str, Any], type: type[Any]
) -> Any:
    """Return the object that the server would store for a document, by a dry run.

    Raises `ScenarioError` if the server refuses the document.
    """
    kind = _find_kind(plane, document, partial(reading.source.error, path))
    namespace = (document["metadata"].get("namespace") or "default") if kind.namespaced else ""
    try:
        answer = await client.raw(Request("POST", kind.path(namespace), _DRY_RUN, msgspec.json.encode(document)))
    except ApiError as error:
        raise _explain_refusal(reading, path, error) from None
    return msgspec.json.decode(answer.body, type=type)


def _explain_refusal(reading: Reading, path: str, refusal: ApiError) -> ScenarioError:
    """Return the error for a refused template, with the line and path of its field if a single field is invalid."""
    causes = refusal.status.details.causes if refusal.status.details is not None else ()
    if (of_name := next((one for one in causes if one.field == "metadata.name"), None)) is not None:
        return reading.source.error(f"{path.rpartition('.')[0]}.name", of_name.message)
    if len(causes) != 1 or not causes[0].field:
        return reading.source.error(path, str(refusal))
    hint = _LIMIT_HINT if causes[0].message.endswith(LIMIT_NEEDED) else ""
    return reading.source.error(f"{path}.{causes[0].field}", causes[0].message + hint)
