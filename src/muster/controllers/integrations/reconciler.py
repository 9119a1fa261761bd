"""Reconcile the jobs of one kind with their Workloads; `jobframework.pairing` decides.

Every write is made only if the state that the decision read still holds (resourceVersion). Every reconcile decides
again from the server's state, so it may be interrupted anywhere. The plan sets the order of writes: quota is released
only after the job has stopped.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.config import Configuration
from muster.api.core import NAMESPACE
from muster.api.groups.scheduling import PriorityClass
from muster.api.kueue import RESOURCE_FLAVOR, Workload, WorkloadPriorityClass
from muster.api.kueue.names import (
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.ancestry import NestingTooDeepError
from muster.api.managed.jobs import prebuilt_name
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.api.values.quantity import QuantityError
from muster.api.values.selectors import label_matcher
from muster.controllers.customlabels import labels_of_queues
from muster.controllers.integrations.framework import Integration, Step, UnreadableJobError
from muster.controllers.integrations.injection import InjectionError, list_injected_values
from muster.controllers.integrations.observation import Observer
from muster.controllers.integrations.owners import Owners, UnseenOwnerError
from muster.controllers.integrations.priorities import Priorities, has_appeared
from muster.controllers.integrations.rules import follow_rules
from muster.controllers.integrations.workloads import WorkloadRefusedError, Workloads
from muster.controllers.waits import CreationWaits
from muster.queueing.jobframework.matching import has_injected, list_granted_podsets
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.queueing.jobframework.pairing import PairingPlan, decide
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import MutationCache
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import family_of, ignores_status, key_of, meta_of, own_key, owner_key, split_key

T = TypeVar("T")

WORKERS = 16
# The seconds until the retry for a job whose owner exists but is not in the cache yet.
UNSEEN_SECONDS = 1.0

# An index of jobs by the objects that they name or belong to, whose changes trigger a reconcile.
_BY_TIE = "queueing-tie"

# An index of jobs by the UID of the job that created them.
_BY_OWNER = "queueing-owner"


class JobReconciler(Reconciler, Generic[T]):
    """The reconciler of the jobs of one kind that queue."""

    def __init__(
        self,
        manager: Manager,
        integration: Integration[T],
        owners: Owners,
        recorder: Recorder,
        configuration: Configuration,
    ) -> None:
        self.name = f"{integration.name}-queueing"
        super().__init__(manager, workers=WORKERS, lane=lambda key: family_of(key, self._jobs.get(key)))
        self._integration = integration
        self._kind = integration.kind
        self._owners = owners
        self._configuration = configuration
        selector = configuration.managed_jobs_namespace_selector
        self._selects = label_matcher(selector) if selector is not None else None
        self._rules = follow_rules(manager, configuration)
        self._jobs = manager.informer(
            integration.kind, indexes={_BY_TIE: self._index_by_tie}, optional=integration.optional
        )
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._namespaces = manager.informer(NAMESPACE)
        priorities = Priorities(manager)
        self._observer = Observer(integration, priorities, configuration)
        labels = labels_of_queues(manager, configuration)
        self._writer = Workloads(
            manager.client,
            manager.clock,
            recorder,
            integration.kind,
            configuration.labels_to_copy,
            CreationWaits(manager.registry, integration.kind.kind, configuration.features, labels),
        )
        self._parts = [
            (one, manager.informer(one.kind, indexes={_BY_OWNER: _index_by_owner}, optional=integration.optional))
            for one in integration.parts
        ]
        self._latest = MutationCache(self._jobs.get)
        self._jobs.on_change(self._forget_shown_write)
        self._controller.watch(self._jobs)
        for one, jobs in self._parts:
            self._controller.watch(jobs, self._find_job_above, when=partial(_has_stopped, one))
            if integration.needs_parts:
                self._controller.watch(jobs, self._find_job_above, when=_is_another)
        self._controller.watch(owners.workloads, self._list_jobs_of_workload)
        self._controller.watch(priorities.own, self._list_jobs_of_class, when=has_appeared)
        self._controller.watch(priorities.of_pods, self._list_jobs_of_class, when=has_appeared)

    def _forget_shown_write(self, old: T | None, new: T | None) -> None:
        """Drop the remembered write to a job after the informer has delivered it."""
        seen = new if new is not None else old
        assert seen is not None
        self._latest.is_news(key_of(seen), new)

    # Events to keys.

    def _index_by_tie(self, job: T) -> Iterable[str]:
        meta = meta_of(job)
        owner = controller_of(meta)
        ties = {f"owner/{owner.uid}"} if owner is not None else set()
        if name := prebuilt_name(meta):
            ties.add(f"workload/{meta.namespace}/{name}")
        for name in (meta.labels.get(PRIORITY_CLASS_LABEL, ""), self._integration.priority_class(job)):
            if name:
                ties.add(f"class/{name}")
        return ties

    def _list_tied(self, tie: str) -> list[str]:
        return [key_of(job) for job in self._jobs.by(_BY_TIE, tie)]

    def _list_jobs_of_class(self, priority_class: WorkloadPriorityClass | PriorityClass) -> list[str]:
        return self._list_tied(f"class/{priority_class.metadata.name}")

    def _list_jobs_of_workload(self, workload: Workload) -> Iterable[str]:
        """Return the keys of the jobs to reconcile after a change of a Workload.

        These are the keys of the Workload's owner, of a job of which the owner is a part, and of a job that names the
        Workload as prebuilt.
        """
        meta, owner = workload.metadata, controller_of(workload.metadata)
        keys = self._list_tied(f"workload/{meta.namespace}/{meta.name}")
        if owner is not None:
            keys += self._list_tied(f"owner/{owner.uid}")
            if self._kind.is_of(owner):
                keys.append(f"{meta.namespace}/{owner.name}")
        return keys

    def _find_job_above(self, part: Any) -> Iterable[str]:
        """Return the key of the job of which the object is a part; none if it is not a part."""
        meta = meta_of(part)
        owner = controller_of(meta)
        return (f"{meta.namespace}/{owner.name}",) if owner is not None and self._kind.is_of(owner) else ()

    # One reconcile of one job.

    async def _reconcile(self, key: str) -> Result:
        """Reconcile one job with its Workloads; return the seconds until the next reconcile, or None.

        A job that belongs to another queued job follows that job, and a job that does not queue is left alone.
        """
        job = self._latest.get(key)
        meta = meta_of(job) if job is not None else ObjectMeta()
        namespace, name = split_key(key)
        going = meta.deletion_timestamp is not None
        mine = []
        for workload in self._owners.workloads_of(self._kind, namespace, name):
            owner = controller_of(workload.metadata)
            if owner is not None and owner.uid == meta.uid and not going:
                mine.append(workload)
            else:  # the job of the Workload is deleted, so its quota is free
                await self._writer.remove_finalizer(workload)
        if job is None or going or not self._is_ours(job):
            return None
        try:
            ancestor = self._owners.ancestor(meta)
        except NestingTooDeepError as error:
            self._writer.record_event(job, "Warning", "JobNestingTooDeep", str(error))
            return None
        except UnseenOwnerError as unseen:  # when the owner is deleted, the garbage collector deletes the job
            return UNSEEN_SECONDS if await self._owners.is_there(unseen) else None
        if ancestor is not None:
            await self._follow_ancestor(job, ancestor[0])
            return None
        named = meta.labels.get(QUEUE_NAME_LABEL) or self._configuration.manage_jobs_without_queue_name
        if self._owners.is_part(meta) or not named:
            await self._leave(job, mine)
            return None
        return await self._reconcile_with_workloads(job, mine)

    def _is_ours(self, job: T) -> bool:
        namespace = self._namespaces.get(meta_of(job).namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        return self._integration.is_managed(job) and (self._selects is None or self._selects.matches(labels))

    async def _follow_ancestor(self, job: T, ancestor: OwnerReference) -> None:
        """Suspend the job, with an event, while the job that owns it may not run.

        While the owner may run, the job's own controller decides when the job runs.
        """
        if self._integration.is_suspended(job) or self._integration.end(job) is not None:
            return
        if not self._owners.may_run(ancestor, meta_of(job).namespace):
            await self._perform_steps(job, self._integration.stop(job))
            self._writer.record_event(job, "Normal", "Suspended", "Kueue managed child job suspended")

    async def _leave(self, job: T, mine: Sequence[Workload]) -> None:
        """Delete the Workloads of a job that does not queue any more, after it is suspended and has no pods."""
        if self._integration.is_suspended(job) and not self._integration.is_active(job):
            for workload in mine:
                await self._writer.delete(job, workload)

    async def _reconcile_with_workloads(self, job: T, mine: Sequence[Workload]) -> Result:
        """Carry out the decision about a job and its own Workloads; return the seconds until the next reconcile."""
        now, meta = self._clock.now(), meta_of(job)
        if self._integration.needs_parts:
            parts_of_all_kinds = [one for _, parts in self._parts for one in parts.by(_BY_OWNER, own_key(meta))]
            job = self._integration.attach_parts(job, parts_of_all_kinds)
        is_readable = True
        try:
            facts = self._observer.facts(job)
        except UnreadableJobError as error:
            self._writer.record_refusal(job, error)
            if not mine:
                return None
            # The job can still end or be evicted: its Workload has the podsets with which the job was started.
            is_readable, facts = False, self._observer.facts(job, list_granted_podsets(_find_holder(mine)))
        if not facts.podsets and facts.end is None and self._integration.needs_parts:
            return None  # the job's controller has not created its parts yet
        facts = replace(facts, composed=bool(self._parts))
        if facts.end is not None or (facts.suspended and not facts.active):
            facts = replace(facts, active=self._runs_on(meta))
        if facts.prebuilt:
            mine = await self._claim_prebuilt(job)
        try:
            plan = decide(facts, mine, now, self._rules)
            if not is_readable:
                plan = replace(plan, start=False)
            await self._carry_out(job, facts, plan, now)
        except (QuantityError, WorkloadRefusedError) as error:
            self._writer.record_refusal(job, error)
            return None
        return None if plan.wake_at is None else (plan.wake_at - now).total_seconds()

    def _runs_on(self, meta: ObjectMeta) -> bool:
        """Return whether parts of the job still run.

        They may stop only after the job's own status says that it stopped.
        """
        return any(_runs(one, part) for one, parts in self._parts for part in parts.by(_BY_OWNER, own_key(meta)))

    async def _claim_prebuilt(self, job: T) -> list[Workload]:
        """Return the prebuilt Workload that the job names.

        If the Workload has no owner, the job becomes its owner. A Workload of another owner is ignored.
        """
        meta = meta_of(job)
        workload = self._owners.workloads.get(f"{meta.namespace}/{prebuilt_name(meta)}")
        owner = controller_of(workload.metadata) if workload is not None else None
        if workload is None or (owner is not None and owner.uid != meta.uid):
            return []
        return [workload if owner is not None else await self._writer.adopt(workload, meta)]

    # Writing.

    async def _carry_out(self, job: T, facts: ObservedJob, plan: PairingPlan, now: datetime) -> None:
        # Injected values never count as requests of a new Workload, because `_latest` includes this controller's own
        # writes. But a job that another program has started must keep its quota, and the cache may lack that start.
        if plan.gives_back and not await self._is_current(job):
            return
        if plan.stop is not None:
            await self._perform_steps(job, self._integration.stop(job, plan.stop))
            self._writer.record_event(job, "Normal", "Stopped", plan.stop)
        if plan.restore is not None:
            await self._perform_steps(job, self._integration.restore(job, plan.restore.spec.pod_sets))
        for slice_, status in plan.replaced:
            await self._writer.finish_slice(slice_, status)
        for unfit in plan.delete:
            await self._writer.delete(job, unfit)
        if plan.lacks_priority:
            self._writer.record_missing_class(job, facts)
        if plan.create:
            await self._writer.create(job, facts)
        if plan.workload is not None:
            workload = await self._writer.carry_out(job, facts, plan, plan.workload)
            if plan.start:
                await self._start(job, facts, workload, now)
        if plan.end_job:
            await self._client.delete_object(self._kind, job)
            self._writer.record_event(job, "Normal", "Deleted", "Deleted job: deactivation retention period expired")

    async def _start(self, job: T, facts: ObservedJob, workload: Workload, now: datetime) -> None:
        admission = workload.status.admission
        assert admission is not None, "only admitted workloads start"
        podsets = workload.spec.pod_sets if has_injected(facts, workload) else facts.podsets
        labels = self._configuration.features.is_enabled("AssignQueueLabelsForPods")
        try:
            podset_infos = list_injected_values(workload, podsets, self._flavors.get, queue_labels=labels)
        except InjectionError as error:
            await self._writer.fail_to_start(workload, error, now)
            return
        await self._perform_steps(job, self._integration.start(job, podset_infos))
        self._writer.record_event(job, "Normal", "Started", f"Admitted by clusterQueue {admission.cluster_queue}")

    async def _is_current(self, job: T) -> bool:
        """Return whether the server has the job in the cached version.

        If it does not, its change causes another reconcile.
        """
        meta = meta_of(job)
        current = await self._client.find(self._kind, meta.name, meta.namespace)
        return current is not None and meta_of(current).resource_version == meta.resource_version

    async def _perform_steps(self, job: T, steps: Sequence[Step]) -> None:
        for step in steps:
            job = await self._perform_step(job, step)

    async def _perform_step(self, job: T, step: Step) -> T:
        if step.operations:
            job = await self._client.edit_object(self._kind, job, step.operations, subresource=step.subresource)
        else:
            job = await self._client.patch_object(self._kind, job, step.patch, subresource=step.subresource)
        self._latest.wrote(job)
        return job


def _find_holder(workloads: Sequence[Workload]) -> Workload:
    """Return the youngest Workload that holds quota; if none holds quota, the first Workload."""
    return next((one for one in reversed(workloads) if is_true(one.status.conditions, QUOTA_RESERVED)), workloads[0])


@ignores_status
def _index_by_owner(job: Any) -> tuple[str, ...]:
    meta = meta_of(job)
    owner = controller_of(meta)
    return () if owner is None else (owner_key(meta.namespace, owner.uid),)


def _runs(integration: Integration[Any], job: Any) -> bool:
    """Return whether the job may have pods. A job that is being deleted exists until its pods are gone."""
    return integration.end(job) is None and (not integration.is_suspended(job) or integration.is_active(job))


def _is_another(old: Any | None, new: Any | None) -> bool:
    """Return whether the job was created or deleted, or its spec changed.

    A change of its status alone does not count.
    """
    return old is None or new is None or meta_of(old).generation != meta_of(new).generation


def _has_stopped(integration: Integration[Any], old: Any | None, new: Any | None) -> bool:
    return old is not None and _runs(integration, old) and (new is None or not _runs(integration, new))
