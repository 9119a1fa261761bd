"""Resize elastic Jobs by the room on nodes (kubernetes KEP-3715); `muster.gang.elastic` decides.

A Job with the annotation `muster.dev/elastic: "MIN:MAX"` is shrunk, never below MIN, when the cluster is short of room,
and grown, never above MAX, when room is free. One patch changes `completions` and `parallelism`, in the version of the
Job that the decision read. The Job controller then creates and deletes pods. MIN and MAX bound only this controller. A
user may choose any size. Above MAX the controller does not grow the Job, and below MIN it does not resize the Job.

No finished work is lost: a Job is never shrunk below an index that has ended permanently, and a Job with such an index
is not grown any more. Jobs that are suspended, ended or being deleted are not resized.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from muster.api.batch import INDEXED, JOB, Job
from muster.api.core import POD, Pod
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.decisions import Subject
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, Bounds, World, cap_of
from muster.api.pods import is_active
from muster.api.status import ApiError
from muster.api.values.indexes import Indexes
from muster.controllers.elastic.decisions import NODES, Resized
from muster.controllers.gangs import Gang, note_held_members, read_creation_time, read_recorded_size, starts_together
from muster.controllers.integrations.job.gang import JobGangs, failed_indexes
from muster.controllers.job.claims import BY_CONTROLLER, by_controller
from muster.gang.elastic import ElasticGang, Resize, WaitingGang, limit_growth, resize
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Asking, no_claims_known, shape_of
from muster.jobs.job.census import NO_INDEX, completion_index
from muster.jobs.job.conditions import find_announced_end, finish
from muster.jobs.job.quota import is_gated
from muster.jobs.job.world import find_current_world, make_world_annotations, world_of
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference, own_key, split_key

# Only Jobs are elastic.
_GANGS = JobGangs()


class Sizes:
    """The elastic Jobs that the scheduler may resize, by the keys of their gangs. All state is a cache."""

    def __init__(
        self, manager: Manager, recorder: Recorder, names: Collection[str], record: Callable[[Resized], None]
    ) -> None:
        """Watch the Jobs.

        names: the scheduler names of this engine; Jobs of other schedulers are ignored.
        record: called with each new size.
        """
        self._client = manager.client
        self._recorder = recorder
        self._record = record
        self._jobs = manager.informer(JOB)
        self._pods = manager.informer(POD, indexes={BY_CONTROLLER: by_controller})
        self._names = names
        self._bounds: dict[str, Bounds] = {}  # the bounds of the Jobs that may be resized
        self._refused: dict[str, int] = {}  # generations of Jobs whose resize the server refused

    @property
    def has_elastic_jobs(self) -> bool:
        """Whether there is any elastic Job."""
        return bool(self._bounds)

    def on_change(self, handler: Callable[[], None]) -> None:
        """Register a handler that is called whenever sizes must be decided again."""

        def job_changed(old: Job | None, new: Job | None) -> None:
            job = new if new is not None else old
            assert job is not None
            if self._record_bounds(_GANGS.key_of(job), old, new):
                handler()

        self._jobs.on_change(job_changed)

    def _find_job(self, key: str) -> Job | None:
        """Return the Job of a gang from the cache; None if it is gone.

        If the cached Job is stale, the server refuses a write that uses it.
        """
        job = self._jobs.get(split_key(key)[0])
        return job if job is not None and _GANGS.key_of(job) == key else None

    def _record_bounds(self, key: str, old: Job | None, new: Job | None) -> bool:
        """Record the bounds of a changed Job, or an event about invalid bounds.

        Return whether sizes must be decided again.
        """
        if new is None:
            self._refused.pop(key, None)
            return self._bounds.pop(key, None) is not None
        before = self._bounds.pop(key, None)
        bounds, complaint = _read(new)
        if bounds is not None:
            self._bounds[key] = bounds
        if complaint and (old is None or complaint != _read(old)[1]):
            self._recorder.event(make_reference(JOB, new), "Warning", "ElasticIgnored", complaint)
        if bounds != before:
            return True
        if old is None:
            return False
        raised = cap_of(old.metadata.annotations) != cap_of(new.metadata.annotations)
        return raised or old.metadata.generation != new.metadata.generation

    async def resize(
        self,
        capacity: Capacity,
        gangs: Mapping[str, Gang],
        leaving: Collection[str],
        waiting: Sequence[WaitingGang],
        *,
        grow: bool,
        asking: Asking = no_claims_known,
    ) -> bool:
        """Resize the elastic Jobs whose size should change; return whether the server refused a size.

        After a refusal, another decision may choose other sizes.

        gangs: the gangs by key.
        leaving: the UIDs of pods that are being deleted and still occupy their nodes.
        waiting: the gangs for which no room was found, in the order of the queue.
        grow: whether Jobs may also grow.
        asking: returns the requests of pods' resource claims.

        Raises `ApiError` (Conflict) if a Job has changed since the decision read it.
        """
        jobs = {key: job for key in self._bounds if key in gangs and (job := self._find_job(key)) is not None}
        views = [self._describe_job(key, job, gangs[key], capacity, asking) for key, job in jobs.items()]
        elastic = [view for view in views if view is not None]
        refused = False
        for change in resize(capacity, leaving, waiting, elastic, grow=grow):
            refused |= not await self._write(jobs[change.key], change)
        return refused

    def _describe_job(self, key: str, job: Job, gang: Gang, capacity: Capacity, asking: Asking) -> ElasticGang | None:
        """Return the input of the decision about a Job; None if this controller may not resize it."""
        if self._refused.get(key) == job.metadata.generation:
            return None
        pods = [pod for pod in gang.pods if completion_index(pod) != NO_INDEX]
        if not pods or pods[0].spec.scheduler_name not in self._names:
            return None
        bounds, size = self._bounds[key], job.spec.completions or 0
        most = limit_growth(size, bounds.least, bounds.most, cap_of(job.metadata.annotations))
        ended = ended_indexes(job, self._pods.by(BY_CONTROLLER, own_key(job.metadata)))
        # Pods that wait for quota count first, because the requested size is not granted yet.
        granted = not any(
            is_gated(pod) for pod in self._pods.by(BY_CONTROLLER, own_key(job.metadata)) if is_active(pod)
        )
        may_grow = not ended and granted
        return ElasticGang(
            key,
            gang.priority,
            read_creation_time(job.metadata),
            size,
            least=least_size(bounds, ended),
            most=most if may_grow else size,
            shape=shape_of(pods[-1], capacity.watched, asking),
            bound={completion_index(pod): uid for pod in pods if capacity.assigned(uid := pod.metadata.uid)},
            done=len(ended),
        )

    async def _write(self, job: Job, change: Resize) -> bool:
        """Resize the Job, if it has the version that the decision read, and record an event.

        Return whether the Job has its new size, or no longer exists. If the server refuses the size, return False,
        and do not resize the Job again until its spec changes.
        """
        meta = job.metadata
        try:
            await self._client.patch_object(JOB, job, make_resize_patch(job, change.new))
        except ApiError as error:
            if error.code == 404:
                return True
            if error.code not in (403, 422):
                raise
            self._refused[change.key] = meta.generation
            self._recorder.event(
                make_reference(JOB, job), "Warning", "ResizeRefused", f"Not {_lower_first_letter(change)}: {error}"
            )
            return False
        self._recorder.event(make_reference(JOB, job), "Normal", change.verb, str(change))
        because = change.why.removeprefix(": ")
        self._record(Resized(subject_of(job), change.old, change.new, NODES, because, change.helps))
        return True


def subject_of(job: Job) -> Subject:
    """Return the subject of a record about a Job."""
    return Subject(key_of(job), job.metadata.uid)


def elastic_bounds(job: Job) -> Bounds | None:
    """Return the sizes between which a Job may be resized; None if it requests no resizing.

    Raises `ValueError`, with the reason as its message, if the annotation is invalid or the Job cannot be resized.
    """
    text = job.metadata.annotations.get(ELASTIC_ANNOTATION)
    if text is None:
        return None
    bounds, spec = Bounds.parse(text), job.spec
    if spec.completion_mode != INDEXED:
        raise ValueError(f"only a Job with completionMode {INDEXED} can be resized")
    if spec.completions != spec.parallelism:
        different = f"completions ({spec.completions}) and parallelism ({spec.parallelism})"
        raise ValueError(f"{different} change only together, so they must be equal")
    if not starts_together(job.metadata):
        raise ValueError(f'the pods are no gang, as {GANG_ANNOTATION} is "false"')
    return bounds


def ended_indexes(job: Job, pods: Iterable[Pod]) -> Indexes:
    """Return the indexes that have ended permanently, including those that the Job's status does not show yet."""
    size = job.spec.completions or 0
    succeeded = Indexes.of(
        index for pod in pods if pod.status.phase == "Succeeded" and 0 <= (index := completion_index(pod)) < size
    )
    return succeeded | Indexes.parse(job.status.completed_indexes, size) | failed_indexes(job)


def least_size(bounds: Bounds, ended: Indexes) -> int:
    """Return the size below which a Job is not shrunk: its minimum, or more to keep all indexes that have ended."""
    return max(bounds.least, ended.runs[-1][1] + 1 if ended else 0)


def make_resize_patch(job: Job, size: int) -> dict[str, Any]:
    """Return the merge patch that gives the Job another size and announces the size to its workers.

    Growth of a queued Job is announced only after the Job has quota. A shrink may also record the members that the Job
    gives up, so that they count as growth if the Job gets them back.
    """
    meta = job.metadata
    # The world is written with the size, not later by the Job's controller at the same time. But a queued Job that
    # grows still needs quota: `jobs.job.world` waits for that.
    world_before = world_of(meta)
    size_before = world_before.size if world_before is not None else job.spec.completions or 0
    on_credit = size > size_before and QUEUE_NAME_LABEL in meta.labels
    # Growth without quota was never announced. Back at the size that the workers know, nothing has changed for them.
    is_size_known = on_credit or (world_before is not None and world_before.size == size)
    world = {} if is_size_known else make_world_annotations(World(size, find_current_world(job).epoch + 1))
    # If the Job gives up members and gets them back later, they count as growth. Otherwise the scheduler would need a
    # write of its own for that.
    held = note_held_members(meta, size) if size < (read_recorded_size(meta) or 0) else {}
    return {"metadata": {"annotations": world | held}, "spec": {"completions": size, "parallelism": size}}


def _read(job: Job) -> tuple[Bounds | None, str]:
    """Return the bounds of a Job and the error in its annotation.

    Both are empty, (None, ""), for a Job that is not elastic or not running.
    """
    if ELASTIC_ANNOTATION not in job.metadata.annotations or not _goes_on(job):
        return None, ""
    try:
        return elastic_bounds(job), ""
    except ValueError as error:
        return None, f"{ELASTIC_ANNOTATION} is ignored: {error}"


def _goes_on(job: Job) -> bool:
    """Return whether the Job runs: it has neither ended nor been suspended or deleted."""
    over = finish(job) is not None or find_announced_end(job) is not None or job.metadata.deletion_timestamp is not None
    return not over and not job.spec.suspend


def _lower_first_letter(change: Resize) -> str:
    text = str(change)
    return text[0].lower() + text[1:]
