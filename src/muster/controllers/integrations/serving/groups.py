"""Keep a Workload for each group of a StatefulSet or a LeaderWorkerSet, while the group's pods come and go.

`pods.reconciler` reconciles the pods with their Workload, as for any group. Every reconcile decides again from the
server's state, so it may be interrupted between any two writes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.config import Configuration
from muster.api.core import NAMESPACE, POD, Pod
from muster.api.groups.scheduling import PriorityClass
from muster.api.kinds import Kind
from muster.api.kueue import MAIN_POD_SET, WORKLOAD, PodSet, Workload, WorkloadPriorityClass
from muster.api.kueue.names import (
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    MULTI_KUEUE_ORIGIN_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.surroundings import Settings
from muster.api.managed.topology import topology_request
from muster.api.members import mapping_at, value_at
from muster.api.meta import OwnerReference
from muster.api.values.selectors import label_matcher
from muster.controllers.customlabels import labels_of_queues
from muster.controllers.integrations.external.documents import ExternalJob, Json, Path, count_at, number_at, template_at
from muster.controllers.integrations.framework import UnreadableJobError
from muster.controllers.integrations.priorities import Priorities, has_appeared
from muster.controllers.integrations.serving.kinds import LEADER_WORKER_SET, STATEFUL_SET, Serving
from muster.controllers.integrations.serving.pods import (
    LEADER,
    STATEFUL_INDEX,
    WORKER,
    WORKER_INDEX,
    group_of_leader_worker_set,
    group_of_stateful_set,
    join_group,
    set_to_join,
    uid_of,
)
from muster.controllers.integrations.workloads import WorkloadRefusedError, Workloads
from muster.controllers.waits import CreationWaits
from muster.queueing.jobframework.equivalence import remove_repeated_variables
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, key_of, own_key, owner_key
from muster.runtime.refusals import ignoring

_BY_OWNER = "serving-owner"
_TO_JOIN = "serving-pods-to-join"
_LWS = "leaderworkerset.sigs.k8s.io/"

T = TypeVar("T")

# Returns whether a Workload of that name exists in the namespace of the object.
HasWorkload = Callable[[str], bool]


class Groups(Struct, frozen=True):
    """The way in which a serving kind groups its pods.

    names: returns the names of an object's groups.
    podsets: returns the podsets of each group. Both raise `UnreadableJobError`.
    """

    serving: Serving
    names: Callable[[ExternalJob, HasWorkload], list[str]]
    podsets: Callable[[ExternalJob], tuple[PodSet, ...]]


def _list_stateful_groups(job: ExternalJob, has: HasWorkload) -> list[str]:
    """Return the name of the one group; none if the set is scaled to 0."""
    if count_at({"spec": job.spec}, "spec", "replicas") == 0:
        return []
    return [group_of_stateful_set(job.metadata.name, uid_of(job.metadata), has)]


def _make_stateful_podsets(job: ExternalJob) -> tuple[PodSet, ...]:
    document = {"spec": job.spec}
    count = count_at(document, "spec", "replicas")
    return (_make_podset(MAIN_POD_SET, count, document, ("spec", "template"), STATEFUL_INDEX),)


def _list_leader_worker_groups(job: ExternalJob, has: HasWorkload) -> list[str]:  # noqa: ARG001  (all have one name)
    """Return a name for each replica; during a rolling update with a surge, also for the surge's replicas."""
    meta, replicas = job.metadata, count_at({"spec": job.spec}, "spec", "replicas")
    surge = value_at(job.spec, ("rolloutStrategy", "rollingUpdateConfiguration", "maxSurge"))
    if surge not in (None, 0, "0%") and number_at(job.status, "updatedReplicas") < replicas:
        replicas = max(replicas, number_at(job.status, "replicas"))
    return [group_of_leader_worker_set(meta.name, uid_of(meta), index) for index in range(replicas)]


def _make_leader_worker_podsets(job: ExternalJob) -> tuple[PodSet, ...]:
    document, at = {"spec": job.spec}, ("spec", "leaderWorkerTemplate")
    size = count_at(document, *at, "size")
    worker = (*at, "workerTemplate")
    if not mapping_at(document, *at, "leaderTemplate"):
        return (_make_podset(MAIN_POD_SET, size, document, worker, WORKER_INDEX),)
    leader = _make_podset(LEADER, 1, document, (*at, "leaderTemplate"), None)
    return (leader, _make_podset(WORKER, max(0, size - 1), document, worker, WORKER_INDEX))


def _make_podset(name: str, count: int, document: object, path: Path, ranked_by: str | None) -> PodSet:
    template = template_at(document, path)
    request = topology_request(template.metadata.annotations, ranked_by)
    labels, annotations = (
        {key: text for key, text in part.items() if not key.startswith(_LWS) or key == f"{_LWS}name"}
        for part in (template.metadata.labels, template.metadata.annotations)
    )
    metadata = replace(template.metadata, labels=labels, annotations=annotations)
    podset = PodSet(name=name, template=replace(template, metadata=metadata), count=count, topology_request=request)
    return remove_repeated_variables(podset)


STATEFUL_SETS: Final = Groups(STATEFUL_SET, _list_stateful_groups, _make_stateful_podsets)
LEADER_WORKER_SETS: Final = Groups(LEADER_WORKER_SET, _list_leader_worker_groups, _make_leader_worker_podsets)
GROUPS: Final = (LEADER_WORKER_SETS, STATEFUL_SETS)


class GroupsPlan(Struct, frozen=True):
    """The changes to the Workloads of one object.

    create: the names of Workloads to create.
    join: the object's Workloads that do not name it as owner.
    delete: Workloads of groups that no longer exist, and pending Workloads whose size differs from their group's.
    """

    create: tuple[str, ...] = ()
    join: tuple[Workload, ...] = ()
    delete: tuple[Workload, ...] = ()


def plan_groups(names: Sequence[str], mine: Sequence[Workload], others: Sequence[Workload], size: int) -> GroupsPlan:
    """Return the changes to the Workloads of an object that queues.

    names: the names of the object's groups.
    mine: the Workloads that the object owns.
    others: the Workloads with names of its groups that the object does not own.
    size: the number of pods of each group.
    """
    have = {one.metadata.name for one in (*mine, *others)}
    return GroupsPlan(
        create=tuple(name for name in names if name not in have),
        join=tuple(others),
        delete=tuple(one for one in mine if one.metadata.name not in names or _waits_in_another_size(one, size)),
    )


def _waits_in_another_size(workload: Workload, size: int) -> bool:
    """Return whether the Workload waits for quota in another size than its group has now.

    A Workload with quota keeps its size: pods beyond that size wait.
    """
    return _sum_sizes(workload.spec.pod_sets) != size and not is_true(workload.status.conditions, QUOTA_RESERVED)


def _sum_sizes(podsets: Iterable[PodSet]) -> int:
    return sum(podset.count for podset in podsets)


class GroupsReconciler(Reconciler):
    """The reconciler of the Workloads of one serving kind: StatefulSet or LeaderWorkerSet."""

    def __init__(self, manager: Manager, groups: Groups, recorder: Recorder, configuration: Configuration) -> None:
        kind = groups.serving.kind
        self.name = f"{kind.kind.lower()}-queueing"
        super().__init__(manager, workers=4)
        self._groups = groups
        self._kind = kind
        self._without_queue = configuration.manage_jobs_without_queue_name
        selector = configuration.managed_jobs_namespace_selector
        self._selects = label_matcher(selector) if selector is not None else None
        self._objects = manager.informer(kind, optional=groups.serving.optional)
        self._namespaces = manager.informer(NAMESPACE)
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_OWNER: _index_by_owner})
        self._pods = manager.informer(POD, indexes={f"{_TO_JOIN}-{kind.plural}": self._set_of})
        self._annotations_to_copy = configuration.annotations_to_copy
        self._priorities = Priorities(manager)
        labels = labels_of_queues(manager, configuration)
        self._writer = Workloads(
            manager.client,
            manager.clock,
            recorder,
            kind,
            configuration.labels_to_copy,
            CreationWaits(manager.registry, kind.kind, configuration.features, labels),
        )
        self._controller.watch(self._objects)
        self._controller.watch(self._workloads, self._list_owning_sets)
        self._controller.watch(self._pods, self._set_of)
        self._controller.watch(self._priorities.own, self._of_class, when=has_appeared)
        self._controller.watch(self._priorities.of_pods, self._of_class, when=has_appeared)

    def _list_owning_sets(self, workload: Workload) -> Iterable[str]:
        owners = (owner for owner in workload.metadata.owner_references if self._kind.is_of(owner))
        return [f"{workload.metadata.namespace}/{owner.name}" for owner in owners]

    @ignores_status
    def _set_of(self, pod: Pod) -> Iterable[str]:
        """Return the key of the object whose group the pod should join; empty if it should join none of this kind."""
        set_name = set_to_join(pod)
        return (
            [f"{pod.metadata.namespace}/{set_name[1]}"]
            if set_name is not None and set_name[0] is self._groups.serving
            else []
        )

    def _of_class(self, priority_class: WorkloadPriorityClass | PriorityClass) -> Iterable[str]:  # noqa: ARG002
        return [key_of(one) for one in self._objects.all() if self._is_queued(one)]  # a new class is rare

    async def _reconcile(self, key: str) -> Result:
        job = self._objects.get(key)
        # The garbage collector deletes the dependents of a deleted object.
        if job is None or job.metadata.deletion_timestamp is not None or not self._is_queued(job):
            return None
        try:
            await self._sync_workloads(job)
        except (UnreadableJobError, WorkloadRefusedError) as error:
            self._writer.record_refusal(job, error)
        return None

    def _is_queued(self, job: ExternalJob) -> bool:
        """Return whether the object's pods wait for quota in this cluster.

        They wait if the object names a queue (unless none is needed), its namespace is managed, and admission annotated
        its pod template for this integration.
        """
        namespace = self._namespaces.get(job.metadata.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        named = bool(job.metadata.labels.get(QUEUE_NAME_LABEL)) or self._without_queue
        managed = self._selects is None or self._selects.matches(labels)
        return named and managed and self._groups.serving.holds_pods(job)

    async def _sync_workloads(self, job: ExternalJob) -> None:
        meta = job.metadata
        names = self._groups.names(job, partial(self._has, meta.namespace))
        mine = self._workloads.by(_BY_OWNER, own_key(meta))
        there = (self._workloads.get(f"{meta.namespace}/{name}") for name in names)
        others = [one for one in there if one is not None and one not in mine]
        facts = self._observe_set(job)
        plan = plan_groups(names, mine, [one for one in others if is_group(one)], _sum_sizes(facts.podsets))
        for workload in plan.delete:
            await self._writer.retire(job, workload)
        for workload in plan.join:
            await self._writer.join(workload, [meta])
        if plan.create and facts.priority is None:
            self._writer.record_missing_class(job, facts)
            return
        for name in () if MULTI_KUEUE_ORIGIN_LABEL in meta.labels else plan.create:  # the manager creates its own
            await self._writer.create(job, facts, name, [meta])
        for pod in self._pods.by(f"{_TO_JOIN}-{self._kind.plural}", key_of(job)):
            await self._join(pod, job)

    async def _join(self, pod: Pod, job: ExternalJob) -> None:
        """Write on a waiting pod to which group it belongs."""

        def find(kind: Kind[T], namespace: str, name: str) -> T | None:
            owner = job if kind == self._kind else self._workloads.get(f"{namespace}/{name}")
            return cast("T | None", owner)

        document: Json = msgspec.to_builtins(pod)
        join_group(document, pod, pod.metadata.namespace, find, Settings(without_queue=self._without_queue))
        said = {part: document["metadata"].get(part, {}) for part in ("labels", "annotations")}
        if MANAGED_LABEL in said["labels"]:
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, {"metadata": said})

    def _has(self, namespace: str, name: str) -> bool:
        return self._workloads.get(f"{namespace}/{name}") is not None

    def _observe_set(self, job: ExternalJob) -> ObservedJob:
        labels, annotations = job.metadata.labels, job.metadata.annotations
        podsets = self._groups.podsets(job)
        pod_class = next(filter(None, (one.template.spec.priority_class_name for one in podsets)), "")
        ref, priority = self._priorities.find(labels.get(PRIORITY_CLASS_LABEL, ""), pod_class)
        return ObservedJob(
            suspended=True,
            active=False,
            ready=False,
            podsets=podsets,
            queue=labels.get(QUEUE_NAME_LABEL, ""),
            priority_class=ref,
            priority=priority,
            annotations={key: annotations[key] for key in self._annotations_to_copy if key in annotations}
            | {IS_GROUP_WORKLOAD: "true"},
        )


def is_group(workload: Workload) -> bool:
    """Return whether the Workload belongs to a group of pods."""
    return workload.metadata.annotations.get(IS_GROUP_WORKLOAD) == "true"


def is_of_set(workload: Workload) -> bool:
    """Return whether a StatefulSet or LeaderWorkerSet owns the Workload, so that it stays without pods."""
    return any(_is_set(owner) for owner in workload.metadata.owner_references)


def _is_set(owner: OwnerReference) -> bool:
    return any(groups.serving.kind.is_of(owner) for groups in GROUPS)


@ignores_status
def _index_by_owner(workload: Workload) -> Iterable[str]:
    meta = workload.metadata
    return [owner_key(meta.namespace, owner.uid) for owner in meta.owner_references if _is_set(owner)]
