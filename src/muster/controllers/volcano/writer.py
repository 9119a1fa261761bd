"""Write a plan and decide nothing. If the server refuses one object, the others are still written."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from muster.api.core import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, SERVICE, ConfigMap, Pod
from muster.api.kinds import Kind
from muster.api.meta import controller_of
from muster.api.notes import Note
from muster.api.podgroups.volcano import POD_GROUP, PodGroup
from muster.api.status import ApiError
from muster.api.volcano import REPLACED_BY_RETRY, VOLCANO_JOB, Job, JobStatus
from muster.jobs.volcano.children import Children
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference, merge_patch, meta_of
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import TransportError
from muster.runtime.writes import Refusal, Writes

# The maximum number of concurrent requests for all Jobs.
AT_ONCE = 128
# The size of the first batch of a Job's pods.
FIRST_BATCH = 8

_SAID_OF_GROUP = ("min_member", "min_task_member", "queue", "priority_class_name")

T = TypeVar("T")


class Writer:
    """The writer that carries out the plans of all Jobs."""

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        self._client = manager.client
        self._recorder = recorder
        self._writes = Writes(AT_ONCE)
        self._services = manager.informer(SERVICE)
        self._config_maps = manager.informer(CONFIG_MAP)
        self._claims = manager.informer(PERSISTENT_VOLUME_CLAIM)

    def record_event(self, job: Job, note: Note) -> None:
        """Record an event about the Job."""
        self._recorder.event(make_reference(VOLCANO_JOB, job), note.type, note.reason, note.message)

    async def write_children(self, job: Job, children: Children, group: PodGroup | None) -> list[Refusal]:
        """Create and correct the Job's objects other than pods; return the server's refusals.

        group: the existing PodGroup; None if there is none.
        """
        desired: list[tuple[Kind[Any], Any, Any]] = [(POD_GROUP, children.pod_group, group)]
        if (service := children.service) is not None:
            desired.append((SERVICE, service, self._services.get(key_of(service))))
        if (hosts := children.hosts) is not None:
            desired.append((CONFIG_MAP, hosts, self._config_maps.get(key_of(hosts))))
        desired += [(PERSISTENT_VOLUME_CLAIM, claim, self._claims.get(key_of(claim))) for claim in children.claims]
        missing = [(kind, thing) for kind, thing, existing in desired if not _is_usable(kind, existing, thing)]
        changes = [
            (kind, existing, patch) for kind, thing, existing in desired if (patch := _make_patch(thing, existing))
        ]
        created = await self._writes.each(self._make, missing)
        errors = [answer for answer in created if isinstance(answer, ApiError | TransportError)]
        errors += [answer for answer in await self._writes.each(self._apply_change, changes) if answer is not None]
        if errors:
            self.record_event(job, Note("Warning", "FailedCreate", str(errors[0])))
        return errors

    async def delete_group(self, group: PodGroup) -> None:
        """Delete the PodGroup."""
        with ignoring("NotFound"):
            await self._client.delete_object(POD_GROUP, group)

    async def mark_as_replaced(self, pods: Sequence[Pod], retry: int, expected: Expectations) -> list[Refusal]:
        """Annotate the pods that a retry of the Job replaces with the retry's number; return the server's refusals.

        The server refuses (Conflict) the write for a pod that has changed since the decision.
        """
        patch = {"metadata": {"annotations": {REPLACED_BY_RETRY: str(retry)}}}

        async def annotate(pod: Pod) -> None:
            with ignoring("NotFound"):
                expected.wrote(await self._client.patch_object(POD, pod, patch))

        return [answer for answer in await self._writes.each(annotate, pods) if answer is not None]

    async def store_status(self, job: Job, status: JobStatus, expected: Expectations) -> None:
        """Store the status. Raises `ApiError` (Conflict) if the Job has changed since it was read."""
        whole = {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)}
        expected.wrote_owner(await self._client.edit_object(VOLCANO_JOB, job, [whole], subresource="status"))

    async def delete_pods(self, job: Job, pods: Sequence[Pod], expected: Expectations) -> list[Refusal]:
        """Delete the pods; return the server's refusals, and record an event about the first."""

        async def delete(pod: Pod) -> None:
            with ignoring("NotFound"):
                await self._client.delete_object(POD, pod)
                expected.going.add(pod.metadata.uid)
                return
            expected.gone.add(pod.metadata.uid)

        errors = [answer for answer in await self._writes.each(delete, pods) if answer is not None]
        if errors:
            self.record_event(job, Note("Warning", "FailedDelete", f"Error deleting pods: {errors[0]}"))
        return errors

    async def create_pods(self, job: Job, pods: Sequence[Pod], expected: Expectations) -> list[Refusal]:
        """Create the pods; return the server's refusals.

        The pods are created in batches that double in size, so that few requests are made if the server refuses all.
        After a batch with a refusal, the next decision creates the other pods.
        """

        async def create(pod: Pod) -> None:
            expected.wrote(await self._make((POD, pod)))

        errors: list[Refusal] = []
        start, size = 0, FIRST_BATCH
        while start < len(pods) and not errors:
            batch = pods[start : start + size]
            errors += [answer for answer in await self._writes.each(create, batch) if answer is not None]
            start, size = start + size, size * 2
        errors = [error for error in errors if not (isinstance(error, ApiError) and error.is_namespace_terminating)]
        if errors:
            self.record_event(job, Note("Warning", "FailedCreate", f"Error creating pods: {errors[0]}"))
        return errors

    async def delete_job(self, job: Job) -> None:
        """Delete the Job itself, unless it changed since the decision."""
        meta = job.metadata
        with ignoring("NotFound", "Conflict"):
            await self._client.delete(
                VOLCANO_JOB,
                meta.name,
                meta.namespace,
                propagation="Foreground",
                uid=meta.uid,
                resource_version=meta.resource_version,
            )

    async def _make(self, thing: tuple[Kind[T], T]) -> T:
        """Create an object, or return the Job's own existing object.

        Raises `ApiError` (AlreadyExists) if another object has the name, perhaps only for a moment.
        """
        kind, wanted = thing
        try:
            return await self._client.create(kind, wanted)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            meta = meta_of(wanted)
            existing: T | None = await self._client.find(kind, meta.name, meta.namespace)
            if existing is None or not _is_usable(kind, existing, wanted):
                raise
            return existing

    async def _apply_change(self, change: tuple[Kind[Any], Any, dict[str, Any]]) -> None:
        with ignoring("NotFound"):
            await self._client.patch_object(*change)


def _is_usable(kind: Kind[Any], existing: object | None, desired: object) -> bool:
    """Return whether an existing object may be used: the Job owns it, or it is a Service that a user made."""
    if existing is None:
        return False
    owner = controller_of(meta_of(existing))
    return owner == controller_of(meta_of(desired)) or (owner is None and kind == SERVICE)


def _make_patch(desired: Any, existing: Any) -> dict[str, Any]:
    """Return the patch that corrects the Job's own object after the Job was resized; {} if there is nothing to do."""
    if existing is None or controller_of(meta_of(existing)) != controller_of(meta_of(desired)):
        return {}
    if isinstance(desired, ConfigMap) and existing.data != desired.data:
        return {"data": {name: None for name in existing.data if name not in desired.data} | desired.data}
    if isinstance(desired, PodGroup):  # other programs may have set the rest of its spec
        fields = {name: getattr(desired.spec, name) for name in _SAID_OF_GROUP}
        if spec := merge_patch(msgspec.structs.replace(existing.spec, **fields), existing.spec):
            return {"spec": spec}
    return {}
