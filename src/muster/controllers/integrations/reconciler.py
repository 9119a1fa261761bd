"""Keeps the jobs of one kind in step with their Workloads: objects in, `jobframework.pairing` decides, writes out.

Every write is made only if what it was decided on is still so (resourceVersion), and every decision is made anew from
what the server has, so it may be cut anywhere and goes on. The order of writes is that of the plan: quota is given back
only after the job has stopped.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import NAMESPACE
from muster.api.groups.scheduling import PriorityClass
from muster.api.kueue import RESOURCE_FLAVOR, Workload, WorkloadPriorityClass
from muster.api.kueue.names import (
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.ancestry import NestingTooDeepError
from muster.api.managed.jobs import prebuilt_name
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.api.values.quantity import QuantityError
from muster.api.values.selectors import label_matcher
from muster.controllers.integrations.framework import Integration, Step
from muster.controllers.integrations.injection import InjectionError, infos
from muster.controllers.integrations.observed import Observer
from muster.controllers.integrations.owners import Owners
from muster.controllers.integrations.priorities import Priorities, appeared
from muster.controllers.integrations.rules import rules
from muster.controllers.integrations.workloads import WorkloadRefusedError, Workloads
from muster.controllers.waits import CreationWaits
from muster.queueing.jobframework.matching import injected
from muster.queueing.jobframework.observed import ObservedJob
from muster.queueing.jobframework.pairing import PairingPlan, decide
from muster.queueing.jobframework.slices import in_force
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, meta_of, split_key
from muster.runtime.reconciler import Reconciler

T = TypeVar("T")

WORKERS = 16

# Jobs, by what they name or belong to: what has to be looked at when that changes.
_BY_TIE = "queueing-tie"

# Jobs that other jobs have made, by the UID of the maker.
_BY_OWNER = "queueing-owner"


class JobReconciler(Reconciler, Generic[T]):
    """Runs under a `Manager`."""

    def __init__(
        self,
        manager: Manager,
        integration: Integration[T],
        owners: Owners,
        recorder: Recorder,
        configuration: Configuration,
    ) -> None:
        self.name = f"{integration.name}-queueing"
        super().__init__(manager, workers=WORKERS)
        self._integration = integration
        self._kind = integration.kind
        self._owners = owners
        self._configuration = configuration
        selector = configuration.managed_jobs_namespace_selector
        self._selects = label_matcher(selector) if selector is not None else None
        self._rules = rules(manager, configuration)
        self._jobs = manager.informer(integration.kind, indexes={_BY_TIE: self._ties})
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._namespaces = manager.informer(NAMESPACE)
        priorities = Priorities(manager)
        self._observer = Observer(integration, priorities, configuration)
        self._writer = Workloads(
            manager.client,
            manager.clock,
            recorder,
            integration.kind,
            configuration.integrations.label_keys_to_copy,
            CreationWaits(manager.registry, integration.kind.kind, configuration.features),
        )
        self._parts = [(one, manager.informer(one.kind, indexes={_BY_OWNER: _owner_uid})) for one in integration.parts]
        self._controller.watch(self._jobs)
        for one, jobs in self._parts:
            self._controller.watch(jobs, self._job_above, when=partial(_has_stopped, one))
        self._controller.watch(owners.workloads, self._jobs_of)
        self._controller.watch(priorities.own, self._jobs_of_class, when=appeared)
        self._controller.watch(priorities.of_pods, self._jobs_of_class, when=appeared)

    # Which jobs have to be looked at.

    def _ties(self, job: T) -> Iterable[str]:
        meta = meta_of(job)
        owner = controller_of(meta)
        ties = {f"owner/{owner.uid}"} if owner is not None else set()
        if name := prebuilt_name(meta):
            ties.add(f"workload/{meta.namespace}/{name}")
        for name in (meta.labels.get(PRIORITY_CLASS_LABEL, ""), self._integration.priority_class(job)):
            if name:
                ties.add(f"class/{name}")
        return ties

    def _tied(self, tie: str) -> list[str]:
        return [key_of(job) for job in self._jobs.by(_BY_TIE, tie)]

    def _jobs_of_class(self, found: WorkloadPriorityClass | PriorityClass) -> list[str]:
        return self._tied(f"class/{found.metadata.name}")

    def _jobs_of(self, workload: Workload) -> Iterable[str]:
        """The job that a Workload belongs to, jobs that belong to that job, and one that is to have the Workload."""
        meta, owner = workload.metadata, controller_of(workload.metadata)
        keys = self._tied(f"workload/{meta.namespace}/{meta.name}")
        if owner is not None:
            keys += self._tied(f"owner/{owner.uid}")
            if self._kind.is_of(owner):
                keys.append(f"{meta.namespace}/{owner.name}")
        return keys

    def _job_above(self, part: Any) -> Iterable[str]:
        """The job that it is a part of."""
        meta = meta_of(part)
        owner = controller_of(meta)
        return (f"{meta.namespace}/{owner.name}",) if owner is not None and self._kind.is_of(owner) else ()

    # One look at one job.

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        meta = meta_of(job) if job is not None else ObjectMeta()
        namespace, name = split_key(key)
        going = meta.deletion_timestamp is not None
        mine = []
        for workload in self._owners.workloads_of(self._kind, namespace, name):
            owner = controller_of(workload.metadata)
            if owner is not None and owner.uid == meta.uid and not going:
                mine.append(workload)
            else:  # of a job that is gone: its quota is free
                await self._writer.let_go(workload)
        if job is None or going or not self._is_ours(job):
            return None
        try:
            ancestor = self._owners.ancestor(meta)
        except NestingTooDeepError as error:
            self._writer.tell(job, "Warning", "JobNestingTooDeep", str(error))
            return None
        if ancestor is not None:
            await self._follow_ancestor(job, ancestor[0])
            return None
        named = meta.labels.get(QUEUE_NAME_LABEL) or self._configuration.manage_jobs_without_queue_name
        if self._owners.is_part(meta) or not named:
            await self._leave(job, mine)
            return None
        return await self._pair(job, mine)

    def _is_ours(self, job: T) -> bool:
        namespace = self._namespaces.get(meta_of(job).namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        return self._integration.is_managed(job) and (self._selects is None or self._selects.matches(labels))

    async def _follow_ancestor(self, job: T, ancestor: OwnerReference) -> None:
        """The manager of the job starts it; here it is only seen to that it does not run before its time."""
        if self._integration.is_suspended(job) or self._integration.end(job) is not None:
            return
        if not self._owners.may_run(ancestor, meta_of(job).namespace):
            await self._steps(job, self._integration.stop(job))
            self._writer.tell(job, "Normal", "Suspended", "Kueue managed child job suspended")

    async def _leave(self, job: T, mine: Sequence[Workload]) -> None:
        """The job does not queue any more: what waits for it goes."""
        if self._integration.is_suspended(job) and not self._integration.is_active(job):
            for workload in mine:
                await self._writer.delete(job, workload)

    async def _pair(self, job: T, mine: Sequence[Workload]) -> Result:
        facts, now = self._observer.facts(job), self._clock.now()
        facts = replace(facts, composed=bool(self._parts))
        if facts.end is not None or (facts.suspended and not facts.active):
            facts = replace(facts, active=self._runs_on(meta_of(job).uid))
        if facts.prebuilt:
            mine = await self._prebuilt_of(job)
        mine = in_force(mine)
        try:
            plan = decide(facts, mine, now, self._rules)
            await self._carry_out(job, facts, plan, now)
        except (QuantityError, WorkloadRefusedError) as error:
            self._writer.tell_of_refusal(job, error)
            return None
        return None if plan.wake_at is None else (plan.wake_at - now).total_seconds()

    def _runs_on(self, uid: str) -> bool:
        """Whether jobs that it has made still run: they may be asked to stop only later, and its status comes last."""
        return any(_runs(one, part) for one, parts in self._parts for part in parts.by(_BY_OWNER, uid))

    async def _prebuilt_of(self, job: T) -> list[Workload]:
        """The Workload that was made for the job: one without an owner becomes the job's, another's is left alone."""
        meta = meta_of(job)
        workload = self._owners.workloads.get(f"{meta.namespace}/{prebuilt_name(meta)}")
        owner = controller_of(workload.metadata) if workload is not None else None
        if workload is None or (owner is not None and owner.uid != meta.uid):
            return []
        return [workload if owner is not None else await self._writer.adopt(workload, meta)]

    # Writing.

    async def _carry_out(self, job: T, facts: ObservedJob, plan: PairingPlan, now: datetime) -> None:
        # The cache may be behind our own writes. What was injected must not become what the job asks for, and no quota
        # is given back for a job that has begun to run.
        if (plan.create or plan.gives_back) and not await self._is_current(job):
            return
        if plan.stop is not None:
            await self._steps(job, self._integration.stop(job))
            self._writer.tell(job, "Normal", "Stopped", plan.stop)
        if plan.restore is not None:
            await self._steps(job, self._integration.restore(job, plan.restore.spec.pod_sets))
        for unfit in plan.delete:
            await self._writer.delete(job, unfit)
        if plan.lacks_priority:
            self._writer.tell_of_missing_class(job, facts)
        if plan.create:
            await self._writer.create(job, facts)
        if plan.workload is not None:
            workload = await self._writer.carry_out(job, facts, plan, plan.workload)
            if plan.start:
                await self._start(job, facts, workload, now)
        if plan.end_job:
            await self._client.delete_object(self._kind, job)
            self._writer.tell(job, "Normal", "Deleted", "Deleted job: deactivation retention period expired")

    async def _start(self, job: T, facts: ObservedJob, workload: Workload, now: datetime) -> None:
        admission = workload.status.admission
        assert admission is not None, "only admitted workloads start"
        podsets = workload.spec.pod_sets if injected(facts, workload) else facts.podsets
        labels = self._configuration.features.enabled("AssignQueueLabelsForPods")
        try:
            found = infos(workload, podsets, self._flavors.get, queue_labels=labels)
        except InjectionError as error:
            await self._writer.fail_to_start(workload, error, now)
            return
        await self._steps(job, self._integration.start(job, found))
        self._writer.tell(job, "Normal", "Started", f"Admitted by clusterQueue {admission.cluster_queue}")

    async def _is_current(self, job: T) -> bool:
        """Whether the job still is as the cache has it; if not, we are called again."""
        meta = meta_of(job)
        current = await self._client.find(self._kind, meta.name, meta.namespace)
        return current is not None and meta_of(current).resource_version == meta.resource_version

    async def _steps(self, job: T, steps: Sequence[Step]) -> None:
        for step in steps:
            job = await self._step(job, step)

    async def _step(self, job: T, step: Step) -> T:
        if step.operations:
            return await self._client.edit_object(self._kind, job, step.operations, subresource=step.subresource)
        return await self._client.patch_object(self._kind, job, step.patch, subresource=step.subresource)


def _owner_uid(job: Any) -> tuple[str, ...]:
    owner = controller_of(meta_of(job))
    return () if owner is None else (owner.uid,)


def _runs(integration: Integration[Any], job: Any) -> bool:
    """Whether it may have pods. One that is being deleted is there for as long as they are."""
    return integration.end(job) is None and (not integration.is_suspended(job) or integration.is_active(job))


def _has_stopped(integration: Integration[Any], old: Any | None, new: Any | None) -> bool:
    return old is not None and _runs(integration, old) and (new is None or not _runs(integration, new))
