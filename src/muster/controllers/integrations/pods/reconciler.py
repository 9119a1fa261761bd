"""Reconcile plain pods, single and in groups, with their Workloads (Kueue KEP-976).

Pods are not suspended and resumed like jobs: a scheduling gate holds them, and a pod that must stop is deleted. If a
pod of a group was stopped or has failed, a finalizer keeps it until another pod replaces it, so that its end can be
read. All other decisions are the same as for jobs, by the same `jobframework.pairing`. Every reconcile decides again
from the server's state, so it may be interrupted between any two writes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from muster.api.conditions import find_true, is_true
from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.groups.scheduling import PriorityClass
from muster.api.kueue import RESOURCE_FLAVOR, WORKLOAD, Workload, WorkloadPriorityClass
from muster.api.kueue.names import (
    ADMITTED,
    ERR_WORKLOAD_COMPOSE,
    EVICTED,
    EVICTED_DUE_TO,
    FINISHED,
    IS_GROUP_WORKLOAD,
    PRIORITY_CLASS_LABEL,
)
from muster.api.managed.jobs import prebuilt_name
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import is_held, is_managed, role_of, waits_for_place
from muster.api.meta import controller_of
from muster.api.pods import is_active, is_deleting, is_finished
from muster.api.values.quantity import QuantityError
from muster.controllers.customlabels import labels_of_queues
from muster.controllers.integrations.injection import InjectionError, list_injected_values
from muster.controllers.integrations.observation import Observer
from muster.controllers.integrations.pods.abandonment import give_back_quota, gives_back_at
from muster.controllers.integrations.pods.groups import (
    GroupMembership,
    PodGroup,
    PodGroups,
    membership_of,
    occupied_until,
    with_replacements,
)
from muster.controllers.integrations.pods.writer import PodWriter, gates_left
from muster.controllers.integrations.priorities import Priorities, has_appeared
from muster.controllers.integrations.rules import follow_rules
from muster.controllers.integrations.serving.groups import is_of_set
from muster.controllers.integrations.topologyplacement import selectors_of
from muster.controllers.integrations.workloads import WorkloadRefusedError, Workloads, copied_labels
from muster.controllers.waits import CreationWaits, GateWaits
from muster.queueing.jobframework.names import workload_name
from muster.queueing.jobframework.observedjob import ObservedJob, PodSetInfo
from muster.queueing.jobframework.pairing import WORKLOAD_DELETED, PairingPlan, decide
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, key_of, make_reference, split_key

WORKERS = 16

# The indexes of managed pods and of Workloads, by the key under which they are reconciled.
_BY_TIE = "pod-queueing-tie"
_BY_POD = "pod-queueing-pod"


class PodReconciler(Reconciler):
    """The reconciler of plain pods that queue. A key is `pod/namespace/name` or `group/namespace/name`."""

    name = "pod-queueing"

    def __init__(self, manager: Manager, recorder: Recorder, configuration: Configuration) -> None:
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        self._queue_labels = configuration.features.is_enabled("AssignQueueLabelsForPods")
        self._rules = follow_rules(manager, configuration)
        wait = configuration.wait_for_pods_ready
        self._queues_recover = wait is not None and bool(wait.recovery_timeout)
        self._recovery_timeout = timedelta(microseconds=configuration.muster.scheduling.recovery_timeout // 1000)
        priorities = Priorities(manager)
        self._observer = Observer(PodGroups(), priorities, configuration)
        self._labels_to_copy = configuration.labels_to_copy
        labels = labels_of_queues(manager, configuration)
        self._writer = Workloads(
            manager.client,
            manager.clock,
            recorder,
            POD,
            self._labels_to_copy,
            CreationWaits(manager.registry, POD.kind, configuration.features, labels),
        )
        self._pod_writer = PodWriter(manager.client, manager.clock, recorder, GateWaits(manager, labels))
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._pods = manager.informer(POD, indexes={_BY_TIE: _index_by_ties})
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_POD: _list_keys_of_workload})
        self._controller.watch(self._pods, _list_keys_of_pod)
        self._controller.watch(self._workloads, self._list_concerned)
        self._controller.watch(priorities.own, self._of_class, when=has_appeared)
        self._controller.watch(priorities.of_pods, self._of_class, when=has_appeared)

    # Events to keys.

    def _list_concerned(self, workload: Workload) -> Iterable[str]:
        return [*_list_keys_of_workload(workload), *self._list_tied(f"workload/{key_of(workload)}")]

    def _of_class(self, priority_class: WorkloadPriorityClass | PriorityClass) -> Iterable[str]:
        return self._list_tied(f"class/{priority_class.metadata.name}")

    def _list_tied(self, tie: str) -> list[str]:
        return [_make_key(pod) for pod in self._pods.by(_BY_TIE, tie)]

    # One reconcile of a pod or a group.

    async def _reconcile(self, key: str) -> Result:
        kind, _, where = key.partition("/")
        pods, (namespace, name) = self._pods.by(_BY_TIE, key), split_key(where)
        uids = {pod.metadata.uid for pod in pods}
        for workload in self._workloads.by(_BY_POD, key):
            if _is_abandoned(workload, uids):
                await self._writer.remove_finalizer(workload)  # its pods are deleted, so its quota is free
        if not pods:
            return None
        group = name if kind == "group" else ""
        own = self._workloads.get(f"{namespace}/{_make_workload_name(group, pods[0])}")
        try:
            if own is not None and not _may_own(group, pods[0], own):
                await self._leave_workload(pods, own)
                return None
            return await self._reconcile_with_workload(group, pods, own)
        except (QuantityError, WorkloadRefusedError) as error:
            self._writer.record_refusal(pods[0], error)
            return None

    async def _leave_workload(self, pods: Sequence[Pod], workload: Workload) -> None:
        """Report that a Workload with the group's name belongs to another owner; the pods wait.

        Deleted pods lose their finalizer, so that the server can remove them.
        """
        message = (
            f'A Workload named "{workload.metadata.name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        self._writer.record_event(pods[0], "Warning", "WorkloadNameConflict", message)
        await self._pod_writer.remove_finalizers([pod for pod in pods if is_deleting(pod)])

    async def _reconcile_with_workload(self, name: str, pods: Sequence[Pod], workload: Workload | None) -> Result:
        """Carry out the decision about a pod or a group and its Workload; return the seconds until the next decision.

        Return None if only a change of an object can require one.
        """
        now = self._clock.now()
        membership = membership_of(name, pods, workload, now)
        group = membership.group
        if not name and is_deleting(group.first):
            await self._pod_writer.remove_finalizers(membership.released)
            return None
        await self._pod_writer.delete_excess(_select_unwanted(membership.excess, workload))
        facts = self._observe_group(group)
        wake_at = occupied_until(group)
        if workload is not None and workload.metadata.deletion_timestamp is not None:
            await self._pod_writer.stop_pods([pod for pod in group.members if not is_deleting(pod)], WORKLOAD_DELETED)
            if not facts.active:
                await self._writer.remove_finalizer(workload)
        else:
            plan = decide(facts, [workload] if workload is not None else [], now, self._rules)
            if workload is not None and plan.workload is not None:
                plan = self._plan_replacements(membership, plan, workload)
            await self._carry_out(membership, facts, plan, now)
            wake_at = min((moment for moment in (wake_at, plan.wake_at) if moment is not None), default=None)
        await self._pod_writer.remove_finalizers(membership.released)
        return None if wake_at is None else max((wake_at - now).total_seconds(), 0.0) + 1.0

    def _observe_group(self, group: PodGroup) -> ObservedJob:
        facts = replace(self._observer.facts(group), elastic=False)
        if not group.name:
            return facts
        return replace(facts, annotations={**facts.annotations, IS_GROUP_WORKLOAD: "true"})

    # Writing.

    async def _carry_out(
        self, membership: GroupMembership, facts: ObservedJob, plan: PairingPlan, now: datetime
    ) -> None:
        group = membership.group
        if plan.stop is not None:
            ending = [pod for pod in group.members if is_active(pod) and not is_held(pod)]
            await self._pod_writer.stop_pods(ending, plan.stop, _find_eviction_reason(plan.workload, plan.stop))
        for unfit in plan.delete:
            await self._writer.delete(group.first, unfit)
        if plan.lacks_priority:
            self._writer.record_missing_class(group.first, facts)
        if plan.create:
            await self._create(membership, facts)
        if plan.workload is not None:
            workload = await self._carry_out_workload(membership, facts, plan, plan.workload)
            if _runs(workload) and facts.end is None:
                await self._start(group, workload, now)
        if plan.end_job:
            await self._pod_writer.stop_pods([pod for pod in group.members if not is_deleting(pod)], WORKLOAD_DELETED)
            await self._pod_writer.remove_finalizers(group.members)

    async def _carry_out_workload(
        self, membership: GroupMembership, facts: ObservedJob, plan: PairingPlan, workload: Workload
    ) -> Workload:
        group, status = membership.group, plan.status or workload.status
        if group.name and not is_true(status.conditions, FINISHED):
            workload = await self._join(group, workload)
        elif not group.name and controller_of(workload.metadata) is None:
            workload = await self._writer.adopt(workload, group.metadata)
        plan = replace(plan, status=status if status != workload.status else None)
        stored = await self._writer.carry_out(group.first, facts, plan, workload)
        evicted = find_true(stored.status.conditions, EVICTED)
        if evicted is not None and not is_true(workload.status.conditions, EVICTED):
            about = make_reference(WORKLOAD, stored)
            self._recorder.event(about, "Normal", f"{EVICTED_DUE_TO}{evicted.reason}", evicted.message)
        return stored

    def _plan_replacements(self, membership: GroupMembership, plan: PairingPlan, workload: Workload) -> PairingPlan:
        """Return the plan that also reports missing pods, and evicts a group that was without running pods too long."""
        group, status = membership.group, plan.status or workload.status
        if not group.name or is_true(status.conditions, FINISHED):
            return plan
        absent = 0 if is_of_set(workload) else membership.absent  # the controller of a set creates its pods one by one
        status = with_replacements(status, absent, group.now)
        if not (self._queues_recover and self._rules.watched(workload)):  # otherwise waitForPodsReady decides
            at = gives_back_at(group, status, self._recovery_timeout)
            if at is not None and group.now < at:
                wake_at = min(at, plan.wake_at) if plan.wake_at is not None else at
                return replace(plan, status=status, wake_at=wake_at)
            if at is not None:
                status = give_back_quota(status, absent, self._recovery_timeout, group.now)
        return replace(plan, status=status)

    async def _create(self, membership: GroupMembership, facts: ObservedJob) -> None:
        group = membership.group
        members = [pod.metadata for pod in group.pods]
        complaint = membership.complaint
        if not complaint and copied_labels(members, self._labels_to_copy) is None:
            complaint = "constructing workload: pods have different label values"
        if complaint:
            self._writer.record_event(group.first, "Warning", ERR_WORKLOAD_COMPOSE, complaint)
            return
        if not await self._is_there(group.first):
            return  # the cache is stale; the Workload of deleted pods would be garbage-collected, and created again
        await self._writer.create(group.first, facts, group.name, members)

    async def _is_there(self, pod: Pod) -> bool:
        current = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
        return current is not None and current.metadata.uid == pod.metadata.uid

    async def _join(self, group: PodGroup, workload: Workload) -> Workload:
        """Make every pod of the group an owner of the Workload, so that the Workload is deleted with the last pod.

        The Workload of a StatefulSet or LeaderWorkerSet has the StatefulSet or LeaderWorkerSet as its owner instead.
        """
        if is_of_set(workload):
            return workload
        owner_uids = {owner.uid for owner in workload.metadata.owner_references}
        new = [pod.metadata for pod in group.pods if pod.metadata.uid not in owner_uids]
        if new:
            workload = await self._writer.join(workload, new)
            message = f"Added {len(new)} owner reference(s)"
            self._recorder.event(make_reference(WORKLOAD, workload), "Normal", "OwnerReferencesAdded", message)
        return workload

    def _select_domains(self, group: PodGroup, workload: Workload) -> dict[str, dict[str, str]]:
        """Return, by UID, the node selectors that place the waiting pods of a group in their topology domains.

        The selectors of gated pods are written when this controller removes the gates. The ungater writes the other
        selectors.
        """
        (only, *_) = workload.spec.pod_sets
        unfinished = [pod for pod in group.pods if not is_finished(pod)]
        return selectors_of(workload, unfinished, lambda pod: role_of(pod) if group.name else only.name, _waits)

    async def _start(self, group: PodGroup, workload: Workload, now: datetime) -> None:
        """Inject the values of admission into the waiting pods and remove their scheduling gates.

        If the values contradict the pods' own fields, mark the Workload as failed to start instead.
        """
        waiting = [pod for pod in group.pods if _waits(pod) and is_active(pod)]
        admission = workload.status.admission
        if not waiting or admission is None:
            return
        try:
            podset_infos = list_injected_values(
                workload, workload.spec.pod_sets, self._flavors.get, queue_labels=self._queue_labels
            )
        except InjectionError as error:
            await self._writer.fail_to_start(workload, error, now)
            return
        roles = {info.name: info for info in podset_infos}
        places = self._select_domains(group, workload)
        gets = {}
        for pod in waiting:
            info = roles[role_of(pod)] if group.name else podset_infos[0]
            place = places.get(pod.metadata.uid) if is_held(pod) else None
            gets[pod.metadata.uid] = _make_placed_info(info, place) if place else info
        starting = [pod for pod in waiting if gates_left(pod, gets[pod.metadata.uid]) != pod.spec.scheduling_gates]
        await self._pod_writer.start_pods(
            starting, workload, gets, f"Admitted by clusterQueue {admission.cluster_queue}"
        )


def _waits(pod: Pod) -> bool:
    """Return whether a gate of the queue holds the pod until it is admitted, or until its topology domain is known."""
    return is_held(pod) or waits_for_place(pod)


def _is_abandoned(workload: Workload, uids: Collection[str]) -> bool:
    """Return whether to remove the Workload, because none of the pods with these UIDs owns it.

    The Workload of a StatefulSet or LeaderWorkerSet stays without pods, unless it is being deleted.
    """
    if is_of_set(workload):
        return not uids and workload.metadata.deletion_timestamp is not None
    return all(owner.uid not in uids for owner in workload.metadata.owner_references)


def _select_unwanted(excess: Iterable[Pod], workload: Workload | None) -> list[Pod]:
    """Return the pods to delete among the pods without a place in their group.

    Gated pods of a StatefulSet or LeaderWorkerSet stay, because their controller would create them again at once.
    """
    stays = workload is not None and is_of_set(workload)
    return [pod for pod in excess if not (stays and is_held(pod))]


def _make_placed_info(info: PodSetInfo, selector: Mapping[str, str]) -> PodSetInfo:
    """Return the values to inject into a pod whose topology domain is known, without the topology gate."""
    return replace(info, node_selector={**info.node_selector, **selector}, gates=())


def _find_eviction_reason(workload: Workload | None, why: str) -> str:
    """Return the reason of the Workload's eviction if its message is `why`; otherwise ""."""
    evicted = find_true(workload.status.conditions, EVICTED) if workload is not None else None
    return evicted.reason if evicted is not None and evicted.message == why else ""


def _runs(workload: Workload) -> bool:
    """Return whether the Workload's pods may run in this cluster."""
    conditions = workload.status.conditions
    if workload.status.cluster_name:
        return False
    return is_true(conditions, ADMITTED) and not is_true(conditions, EVICTED) and not is_true(conditions, FINISHED)


def _may_own(group: str, pod: Pod, workload: Workload) -> bool:
    """Return whether a Workload with the name that the pods use is theirs, or has no owner and may become theirs.

    group: the name of the pods' group; "" for a single pod.
    """
    owner = controller_of(workload.metadata)
    if not group:
        return owner is None or owner.uid == pod.metadata.uid
    return _is_of_group(workload) or (owner is None and prebuilt_name(pod.metadata) == group)


def _is_of_group(workload: Workload) -> bool:
    return workload.metadata.annotations.get(IS_GROUP_WORKLOAD) == "true"


def _make_workload_name(group: str, pod: Pod) -> str:
    meta = pod.metadata
    return prebuilt_name(meta) or group or workload_name(POD.kind, POD.group, meta.name, meta.uid)


def _make_key(pod: Pod) -> str:
    meta = pod.metadata
    group = group_name(meta)
    return f"group/{meta.namespace}/{group}" if group else f"pod/{meta.namespace}/{meta.name}"


def _list_keys_of_pod(pod: Pod) -> Iterable[str]:
    return [_make_key(pod)] if is_managed(pod.metadata) else []


@ignores_status
def _index_by_ties(pod: Pod) -> Iterable[str]:
    meta = pod.metadata
    if not is_managed(meta):
        return set()
    names = {_make_key(pod), f"workload/{meta.namespace}/{_make_workload_name(group_name(meta), pod)}"}
    classes = (meta.labels.get(PRIORITY_CLASS_LABEL, ""), pod.spec.priority_class_name)
    return names | {f"class/{name}" for name in classes if name}


@ignores_status
def _list_keys_of_workload(workload: Workload) -> Iterable[str]:
    """Return the keys under which the Workload's pod or group is reconciled."""
    meta, owner = workload.metadata, controller_of(workload.metadata)
    if owner is not None:
        return [f"pod/{meta.namespace}/{owner.name}"] if POD.is_of(owner) else []
    return [f"group/{key_of(workload)}"] if _is_of_group(workload) and meta.owner_references else []
