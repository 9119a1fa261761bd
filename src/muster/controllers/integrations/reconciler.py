"""Keeps the jobs of one kind in step with their Workloads: objects in, `queueing.pairing` decides, writes out.

Every write is made only if what it was decided on is still so (resourceVersion), and every decision is made anew from
what the server has, so it may be cut anywhere and goes on. The order of writes is that of the plan: quota is given back
only after the job has stopped.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from muster.api.config import Configuration
from muster.api.core import NAMESPACE
from muster.api.elastic import ELASTIC_ANNOTATION
from muster.api.kueue import (
    LOCAL_QUEUE,
    POD_PRIORITY_GROUP,
    RESOURCE_FLAVOR,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    WORKLOAD_PRIORITY_GROUP,
    PriorityClassRef,
    Workload,
    WorkloadSpec,
)
from muster.api.kueue.names import (
    ADMISSION_GATED_BY,
    ELASTIC_JOB,
    FAILED_TO_START,
    FINISHED,
    JOB_UID_LABEL,
    MAX_EXEC_TIME_SECONDS_LABEL,
    OUT_OF_SYNC,
    PREBUILT_WORKLOAD_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    RESOURCE_IN_USE_FINALIZER,
)
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.scheduling import PRIORITY_CLASS
from muster.api.selectors import label_matcher
from muster.api.status import ApiError
from muster.controllers.integrations.framework import Integration, Step
from muster.controllers.integrations.injection import InjectionError, conflict, infos
from muster.queueing.conditions import put
from muster.queueing.equivalence import sanitized
from muster.queueing.names import workload_name
from muster.queueing.pairing import JobFacts, Plan, decide
from muster.queueing.ready import JOB_START_ANNOTATION, READY_ANNOTATION
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, merge_patch, meta_of, reference, split_key
from muster.runtime.recorder import EventType, Recorder

T = TypeVar("T")

WORKERS = 16
_BY_OWNER = "owner"

# Annotations of a job that its Workload has too: they are read there.
_COPIED = (ADMISSION_GATED_BY, READY_ANNOTATION, ELASTIC_ANNOTATION, ELASTIC_JOB)


class _Unknown(Exception):  # noqa: N818  (an expected lack, not an error)
    """Something that the job names does not exist (yet)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class JobReconciler(Generic[T]):
    """Runs under a `Manager`."""

    def __init__(
        self, manager: Manager, integration: Integration[T], recorder: Recorder, configuration: Configuration
    ) -> None:
        self.name = f"{integration.name}-queueing"
        self._client = manager.client
        self._clock = manager.clock
        self._integration = integration
        self._kind = integration.kind
        self._recorder = recorder
        self._configuration = configuration
        selector = configuration.managed_jobs_namespace_selector
        self._selects = label_matcher(selector) if selector is not None else None
        self._jobs = manager.informer(integration.kind)
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_OWNER: _owners})
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._queues = manager.informer(LOCAL_QUEUE)
        self._namespaces = manager.informer(NAMESPACE)
        self._classes = manager.informer(WORKLOAD_PRIORITY_CLASS)
        self._pod_classes = manager.informer(PRIORITY_CLASS)
        self._controller = manager.controller(self.name, self._reconcile, workers=WORKERS)
        self._controller.watch(self._jobs)
        self._controller.watch(self._workloads, self._jobs_of)

    async def run(self) -> None:
        """Reconcile until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Finish what is being written."""
        await self._controller.stop()

    def _jobs_of(self, workload: Workload) -> Iterable[str]:
        meta = workload.metadata
        mine = (owner for owner in meta.owner_references if owner.controller and owner.kind == self._kind.kind)
        return [f"{meta.namespace}/{owner.name}" for owner in mine]

    # One look at one job.

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        uid = meta_of(job).uid if job is not None else ""
        namespace, name = split_key(key)
        mine, strangers = self._owned(namespace, name, uid)
        for workload in strangers:  # of a job that is gone: its quota is free
            await self._let_go(workload)
        if job is None or not self._is_managed(job):
            return None
        try:
            facts = self._facts(job)
        except _Unknown as lack:
            self._tell(job, "Warning", lack.reason, str(lack))
            return None
        now = self._clock.now()
        prebuilt = meta_of(job).labels.get(PREBUILT_WORKLOAD_NAME_LABEL, "")
        if prebuilt:
            mine = await self._prebuilt(job, prebuilt)
            if not mine and facts.end is None:
                if not facts.suspended:
                    await self._stop(job, "missing workload")
                return None
        plan = decide(facts, mine, now, watch_readiness=self._configuration.wait_for_pods_ready is not None)
        await self._write(job, facts, mine, plan, now)
        return None

    def _owned(self, namespace: str, name: str, uid: str) -> tuple[list[Workload], list[Workload]]:
        """The Workloads of the job, oldest first, and those of others that had its name."""
        found = self._workloads.by(_BY_OWNER, f"{self._kind.kind}/{namespace}/{name}")
        found.sort(key=lambda workload: (workload.metadata.creation_timestamp, workload.metadata.name))
        mine = [workload for workload in found if _controller(workload) == uid]
        return mine, [workload for workload in found if _controller(workload) != uid]

    def _is_managed(self, job: T) -> bool:
        meta = meta_of(job)
        if meta.deletion_timestamp is not None:
            return False
        namespace = self._namespaces.get(meta.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        if self._selects is not None and not self._selects.matches(labels):
            return False
        return bool(meta.labels.get(QUEUE_NAME_LABEL)) or self._configuration.manage_jobs_without_queue_name

    def _facts(self, job: T) -> JobFacts:
        meta, kind = meta_of(job), self._integration
        ref, priority = self._priority(job)
        longest = meta.labels.get(MAX_EXEC_TIME_SECONDS_LABEL, "")
        elastic = ELASTIC_ANNOTATION in meta.annotations or meta.annotations.get(ELASTIC_JOB) == "true"
        return JobFacts(
            suspended=kind.is_suspended(job),
            active=kind.is_active(job),
            ready=kind.is_ready(job),
            podsets=tuple(map(sanitized, kind.podsets(job))),
            end=kind.end(job),
            reclaimable=kind.reclaimable(job),
            queue=meta.labels.get(QUEUE_NAME_LABEL, ""),
            priority_class=ref,
            priority=priority,
            maximum_execution_time_seconds=int(longest) if longest.isascii() and longest.isdigit() else None,
            elastic=elastic,
        )

    def _priority(self, job: T) -> tuple[PriorityClassRef | None, int]:
        """By the label of the job, else as the pods have it, else by the cluster's default."""
        if name := meta_of(job).labels.get(PRIORITY_CLASS_LABEL, ""):
            own = self._classes.get(name)
            if own is None:
                message = f"WorkloadPriorityClass {name} not found"
                raise _Unknown("WorkloadPriorityClassNotFound", message)
            return PriorityClassRef(group=WORKLOAD_PRIORITY_GROUP, kind="WorkloadPriorityClass", name=name), own.value
        if name := self._integration.priority_class(job):
            found = self._pod_classes.get(name)
            if found is None:
                raise _Unknown("PriorityClassNotFound", f"PriorityClass {name} not found")
            return PriorityClassRef(group=POD_PRIORITY_GROUP, kind="PriorityClass", name=name), found.value
        default = next((one for one in self._pod_classes.all() if one.global_default), None)
        if default is None:
            return None, 0
        return PriorityClassRef(
            group=POD_PRIORITY_GROUP, kind="PriorityClass", name=default.metadata.name
        ), default.value

    # Writing.

    async def _write(self, job: T, facts: JobFacts, mine: Sequence[Workload], plan: Plan, now: datetime) -> None:
        for unfit in plan.delete:
            await self._delete(job, unfit)
        workload = next((one for one in mine if one not in plan.delete), None)
        if plan.stop is not None:
            await self._stop(job, plan.stop)
        if plan.create:
            await self._create(job, facts)
        if workload is None:
            return
        if plan.restore:
            await self._steps(job, self._integration.restore(job, workload.spec.pod_sets))
        if plan.finished:
            await self._let_go(workload)
        if plan.update is not None:
            workload = await self._update(job, workload, plan.update)
        if plan.status is not None:
            workload = await self._set_status(workload, plan.status)
            if facts.end is not None:
                where = key_of(workload)
                self._tell(job, "Normal", "FinishedWorkload", f"Workload '{where}' is declared finished")
        if plan.start:
            await self._start(job, workload, now)
        elif not facts.suspended:
            await self._note_start(job, workload)

    async def _start(self, job: T, workload: Workload, now: datetime) -> None:
        admission = workload.status.admission
        assert admission is not None, "only admitted workloads start"
        try:
            injected = infos(workload, {flavor.metadata.name: flavor for flavor in self._flavors.all()})
            for info, podset in zip(injected, workload.spec.pod_sets, strict=True):
                if why := conflict(info, podset.template.spec.node_selector):
                    raise InjectionError(why)
        except InjectionError as error:
            conditions = put(workload.status.conditions, FINISHED, True, FAILED_TO_START, str(error), now)
            await self._set_status(workload, msgspec.structs.replace(workload.status, conditions=conditions))
            return
        await self._steps(job, self._integration.start(job, injected))
        self._tell(job, "Normal", "Started", f"Admitted by clusterQueue {admission.cluster_queue}")

    async def _stop(self, job: T, why: str) -> None:
        await self._steps(job, self._integration.stop(job))
        self._tell(job, "Normal", "Stopped", why)

    async def _steps(self, job: T, steps: Sequence[Step]) -> None:
        meta = meta_of(job)
        version = meta.resource_version
        for step in steps:
            metadata = step.patch.get("metadata", {}) | {"resourceVersion": version}
            patch = step.patch | {"metadata": metadata}
            job = await self._client.patch(self._kind, meta.name, patch, meta.namespace, subresource=step.subresource)
            version = meta_of(job).resource_version

    async def _create(self, job: T, facts: JobFacts) -> None:
        meta = meta_of(job)
        name = workload_name(self._kind.kind, self._kind.group, meta.name, meta.uid)
        copied = {
            key: meta.labels[key] for key in self._configuration.integrations.label_keys_to_copy if key in meta.labels
        }
        owner = OwnerReference(
            api_version=self._kind.api_version,
            kind=self._kind.kind,
            name=meta.name,
            uid=meta.uid,
            controller=True,
            block_owner_deletion=True,
        )
        workload = Workload(
            metadata=ObjectMeta(
                name=name,
                namespace=meta.namespace,
                labels=copied | {JOB_UID_LABEL: meta.uid},
                annotations={key: meta.annotations[key] for key in _COPIED if key in meta.annotations},
                owner_references=(owner,),
                finalizers=(RESOURCE_IN_USE_FINALIZER,),
            ),
            spec=WorkloadSpec(
                pod_sets=facts.podsets,
                queue_name=facts.queue,
                priority_class_ref=facts.priority_class,
                priority=facts.priority,
                maximum_execution_time_seconds=facts.maximum_execution_time_seconds,
            ),
        )
        try:
            await self._client.create(WORKLOAD, workload)
        except ApiError as error:
            if error.reason == "AlreadyExists":  # ours, and the cache is behind; or it is still going
                return
            self._tell(job, "Warning", "ErrWorkloadCompose", str(error))
            raise
        self._tell(job, "Normal", "CreatedWorkload", f"Created Workload: {meta.namespace}/{name}")

    async def _update(self, job: T, workload: Workload, spec: WorkloadSpec) -> Workload:
        meta = workload.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "spec": merge_patch(spec)}
        updated = await self._client.patch(WORKLOAD, meta.name, patch, meta.namespace)
        self._tell(job, "Normal", "UpdatedWorkload", f"Updated Workload: {key_of(workload)}")
        return updated

    async def _set_status(self, workload: Workload, status: Any) -> Workload:
        meta = workload.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": merge_patch(status)}
        return await self._client.patch(WORKLOAD, meta.name, patch, meta.namespace, subresource="status")

    async def _delete(self, job: T, workload: Workload) -> None:
        await self._let_go(workload)
        meta = workload.metadata
        try:
            await self._client.delete(WORKLOAD, meta.name, meta.namespace, uid=meta.uid)
        except ApiError as error:
            if error.code != 404:
                raise
        self._tell(job, "Normal", "DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}")

    async def _let_go(self, workload: Workload) -> None:
        """Remove our finalizer."""
        meta = workload.metadata
        if RESOURCE_IN_USE_FINALIZER not in meta.finalizers:
            return
        kept = [finalizer for finalizer in meta.finalizers if finalizer != RESOURCE_IN_USE_FINALIZER]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept or None}}
        try:
            await self._client.patch(WORKLOAD, meta.name, patch, meta.namespace)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _prebuilt(self, job: T, name: str) -> list[Workload]:
        """The Workload that somebody made for the job; it becomes the job's, or is out of step with it for ever."""
        meta = meta_of(job)
        workload = self._workloads.get(f"{meta.namespace}/{name}")
        if workload is None:
            return []
        if _controller(workload) == meta.uid:
            return [workload]
        if _controller(workload):
            conditions = put(
                workload.status.conditions,
                FINISHED,
                True,
                OUT_OF_SYNC,
                "The workload belongs to another job",
                self._clock.now(),
            )
            await self._set_status(workload, msgspec.structs.replace(workload.status, conditions=conditions))
            return []
        owner = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "name": meta.name, "uid": meta.uid,
                 "controller": True, "blockOwnerDeletion": True}  # fmt: skip
        labels = {JOB_UID_LABEL: meta.uid}
        patch = {
            "metadata": {
                "resourceVersion": workload.metadata.resource_version,
                "ownerReferences": [owner],
                "labels": labels,
            }
        }
        return [await self._client.patch(WORKLOAD, name, patch, meta.namespace)]

    async def _note_start(self, job: T, workload: Workload) -> None:
        """Where the timeout of KEP-349 counts from the start of the job, the Workload says when that was."""
        waiting = self._configuration.wait_for_pods_ready
        started = self._integration.started_at(job)
        if waiting is None or waiting.clock != "JobStart" or started is None:
            return
        text = started.isoformat().replace("+00:00", "Z")
        meta = workload.metadata
        if meta.annotations.get(JOB_START_ANNOTATION) != text:
            patch = {
                "metadata": {"resourceVersion": meta.resource_version, "annotations": {JOB_START_ANNOTATION: text}}
            }
            await self._client.patch(WORKLOAD, meta.name, patch, meta.namespace)

    def _tell(self, job: T, type: EventType, reason: str, message: str) -> None:
        self._recorder.event(reference(self._kind, job), type, reason, message)


def _owners(workload: Workload) -> Iterable[str]:
    meta = workload.metadata
    return [f"{owner.kind}/{meta.namespace}/{owner.name}" for owner in meta.owner_references if owner.controller]


def _controller(workload: Workload) -> str:
    """The UID of the job that the Workload belongs to; "" if it belongs to none."""
    return next((owner.uid for owner in workload.metadata.owner_references if owner.controller), "")
