"""Write the Workloads of jobs, and events about them. A write applies only if the Workload has the version read."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload, WorkloadSpec, WorkloadStatus
from muster.api.kueue.names import (
    ERR_WORKLOAD_COMPOSE,
    FAILED_TO_START,
    FINISHED,
    JOB_UID_LABEL,
    PROVISIONING_REQUEST_PREFIX,
    RESOURCE_IN_USE_FINALIZER,
)
from muster.api.managed.dispatch import home_of
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.ours.creation import CREATED_ANNOTATION
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.status import ApiError
from muster.controllers.integrations.injection import InjectionError
from muster.controllers.integrations.notes import of_checks, of_update
from muster.controllers.waits import CreationWaits
from muster.queueing.conditions import put, stamp_generation
from muster.queueing.elastic.growth import make_resize_patch
from muster.queueing.jobframework.names import workload_name
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.queueing.jobframework.pairing import PairingPlan
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import EventType, Recorder
from muster.runtime.objects import key_of, make_reference, merge_patch, meta_of
from muster.runtime.refusals import ignoring, is_refusal

_LONGEST_LABEL = 63


class WorkloadRefusedError(Exception):
    """A refusal of a Workload by the server, which continues as long as the job stays the same."""


class Workloads:
    """The writer of the Workloads of jobs, and of events about them. Raises `ApiError` unless a method says otherwise.

    Creating a Workload, or changing its spec, may raise `WorkloadRefusedError` as well.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: Recorder,
        kind: Kind[Any],
        labels_to_copy: tuple[str, ...],
        waits: CreationWaits,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._kind = kind
        self._labels_to_copy = labels_to_copy
        self._waits = waits

    async def carry_out(self, job: Any, facts: ObservedJob, plan: PairingPlan, workload: Workload) -> Workload:
        """Write the plan's changes of a Workload (spec, status, finalizer), with events; return the stored Workload."""
        if plan.update is not None or plan.annotations:
            old, workload = workload, await self._update(workload, plan.update, plan.annotations)
            if note := of_update(old, workload):
                self.record_event(job, "Normal", "UpdatedWorkload", note)
        if plan.status is not None:
            workload = await self.set_status(workload, plan.status)
            if facts.end is not None:
                self.record_event(
                    job, "Normal", "FinishedWorkload", f"Workload '{key_of(workload)}' is declared finished"
                )
        if plan.remove_finalizer:
            await self.remove_finalizer(workload)
        if facts.suspended and plan == PairingPlan(plan.workload) and (note := of_checks(workload)):
            self.record_event(job, "Normal", "UpdatedAdmissionCheck", note)
        return workload

    async def create(self, job: Any, facts: ObservedJob, group: str = "", members: Sequence[ObjectMeta] = ()) -> None:
        """Create a Workload for a job, unless a Workload of that name exists.

        An existing Workload will appear in the cache, or is being deleted.

        group: the name of a job that consists of several objects, which own the Workload together; "" for any other
        job.
        members: the metadata of these objects.
        """
        meta = meta_of(job)
        labels = copied_labels(members if group else (meta,), self._labels_to_copy)
        assert labels is not None, "members that disagree make no Workload"
        requests = {key: text for key, text in meta.annotations.items() if key.startswith(PROVISIONING_REQUEST_PREFIX)}
        submitter = find_submitter(members if group else (meta,))
        workload = Workload(
            metadata=ObjectMeta(
                name=group or workload_name(self._kind.kind, self._kind.group, meta.name, meta.uid),
                namespace=meta.namespace,
                labels=labels if group else labels | _make_uid_label(meta),
                annotations=requests
                | dict(facts.annotations)
                | {CREATED_ANNOTATION: self._clock.now().isoformat()}
                | ({SUBMITTER_ANNOTATION: submitter} if submitter else {}),
                owner_references=self._refer_to_members(members) if group else (self._refer_to_job(meta),),
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
            with ignoring("AlreadyExists"), _refuse_invalid():
                workload = await self._client.create(WORKLOAD, workload)
                self._waits.observe_creation(meta, workload)
                self.record_event(job, "Normal", "CreatedWorkload", f"Created Workload: {key_of(workload)}")
        except ApiError as error:
            self.record_refusal(job, error)
            raise

    async def _update(
        self, workload: Workload, spec: WorkloadSpec | None, annotations: Mapping[str, str | None]
    ) -> Workload:
        if spec is not None and (sizes := make_resize_patch(workload.spec, spec)):
            with _refuse_invalid():
                workload = await self._client.edit_object(WORKLOAD, workload, sizes)
            if not annotations:
                return workload
        patch: dict[str, Any] = {"metadata": {"annotations": dict(annotations)}} if annotations else {}
        if spec is not None:
            old = merge_patch(workload.spec)
            patch["spec"] = {field: value for field, value in merge_patch(spec).items() if old[field] != value}
        with _refuse_invalid():
            return await self._client.patch_object(WORKLOAD, workload, patch)

    async def set_status(self, workload: Workload, status: WorkloadStatus) -> Workload:
        """Store a Workload's new status, and return the stored Workload.

        New conditions get the Workload's generation.
        """
        conditions = stamp_generation(workload.status.conditions, status.conditions, workload.metadata.generation)
        patch = merge_patch(msgspec.structs.replace(status, conditions=conditions), workload.status)
        return await self._client.patch_object(WORKLOAD, workload, {"status": patch}, subresource="status")

    async def fail_to_start(self, workload: Workload, error: InjectionError, now: datetime) -> None:
        """Set a Workload to Finished, because the values to inject contradict the job's own."""
        conditions = put(workload.status.conditions, FINISHED, True, FAILED_TO_START, str(error), now)
        await self.set_status(workload, msgspec.structs.replace(workload.status, conditions=conditions))

    async def finish_slice(self, workload: Workload, status: WorkloadStatus) -> None:
        """Mark a slice (a Workload of an elastic job) as replaced, and remove its finalizer; ignore a deleted slice."""
        with ignoring("NotFound"):
            await self.remove_finalizer(await self.set_status(workload, status))

    async def adopt(self, workload: Workload, meta: ObjectMeta) -> Workload:
        """Make the job the owner of a Workload without an owner; return the stored Workload."""
        owners = [*workload.metadata.owner_references, self._refer_to_job(meta)]
        patch = {"metadata": {"ownerReferences": owners, "labels": _make_uid_label(meta)}}
        return await self._client.patch_object(WORKLOAD, workload, patch)

    async def join(self, workload: Workload, members: Sequence[ObjectMeta]) -> Workload:
        """Add these objects to the owners of a group's Workload; return the stored Workload."""
        owners = [*workload.metadata.owner_references, *self._refer_to_members(members)]
        return await self._client.patch_object(WORKLOAD, workload, {"metadata": {"ownerReferences": owners}})

    async def delete(self, job: Any, workload: Workload) -> None:
        """Delete a Workload that does not fit the job, after removing the finalizer, and record an event.

        A Workload that is being deleted already only loses its finalizer.
        """
        await self.remove_finalizer(workload)
        if workload.metadata.deletion_timestamp is None:
            with ignoring("NotFound"):
                await self._client.delete_object(WORKLOAD, workload)
        self.record_event(job, "Normal", "DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}")

    async def retire(self, job: Any, workload: Workload) -> None:
        """Delete a Workload whose pods have not ended yet, and record an event.

        The finalizer keeps the Workload and its quota until the pods have ended.
        """
        if workload.metadata.deletion_timestamp is None:
            with ignoring("NotFound"):
                await self._client.delete_object(WORKLOAD, workload)
            self.record_event(job, "Normal", "DeletedWorkload", f"Deleted Workload: {key_of(workload)}")

    async def remove_finalizer(self, workload: Workload) -> None:
        """Remove the engine's finalizer, unless the Workload's copies in other clusters must be removed first.

        A deleted Workload is ignored.
        """
        finalizers = workload.metadata.finalizers
        if RESOURCE_IN_USE_FINALIZER not in finalizers or home_of(workload.metadata):
            return
        finalizers_left = [finalizer for finalizer in finalizers if finalizer != RESOURCE_IN_USE_FINALIZER]
        with ignoring("NotFound"):
            await self._client.patch_object(WORKLOAD, workload, {"metadata": {"finalizers": finalizers_left or None}})

    def record_event(self, job: Any, type: EventType, reason: str, message: str) -> None:
        """Record an event about the job."""
        self._recorder.event(make_reference(self._kind, job), type, reason, message)

    def record_refusal(self, job: Any, error: Exception) -> None:
        """Record an event that the server refused the job's Workload, or a change of it."""
        self.record_event(job, "Warning", ERR_WORKLOAD_COMPOSE, str(error))

    def record_missing_class(self, job: Any, facts: ObservedJob) -> None:
        """Record that the priority class that the job names does not exist."""
        if (named := facts.priority_class) is not None:
            self.record_event(job, "Warning", f"{named.kind}NotFound", f'{named.kind} "{named.name}" not found')

    def _refer_to_members(self, members: Sequence[ObjectMeta]) -> tuple[OwnerReference, ...]:
        kind = self._kind
        return tuple(kind.refer_to_owner(meta) for meta in members)

    def _refer_to_job(self, meta: ObjectMeta) -> OwnerReference:
        return self._kind.refer_to_controller(meta)


def copied_labels(metas: Sequence[ObjectMeta], keys: Sequence[str]) -> dict[str, str] | None:
    """Return the labels with these keys from all objects; None if two objects have different values."""
    labels: dict[str, str] = {}
    for meta in metas:
        for key in keys:
            if key in meta.labels and labels.setdefault(key, meta.labels[key]) != meta.labels[key]:
                return None
    return labels


def find_submitter(metas: Sequence[ObjectMeta]) -> str:
    """Return which user submitted all of these objects; "" if that is unknown, or if several users did."""
    submitters = {meta.annotations.get(SUBMITTER_ANNOTATION, "") for meta in metas}
    return submitters.pop() if len(submitters) == 1 else ""


@contextmanager
def _refuse_invalid() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if is_refusal(error, "Invalid"):
            raise WorkloadRefusedError(str(error)) from None
        raise


def _make_uid_label(meta: ObjectMeta) -> dict[str, str]:
    return {JOB_UID_LABEL: meta.uid} if len(meta.uid) <= _LONGEST_LABEL else {}
