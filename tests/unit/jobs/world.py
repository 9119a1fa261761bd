"""A tiny cluster for the Job algorithm: one Job, its pods, an API server that checks what is written to it.

`World.writes()` performs one decision write by write, in the shell's order, so that a test can stop between any two
of them. Nodes are the test's hand: pods run, end and disappear when it says so.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from muster.api.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    TRACKING_FINALIZER,
    Job,
    JobSpec,
    JobStatus,
)
from muster.api.conditions import is_true
from muster.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplateSpec,
)
from muster.api.meta import ObjectMeta
from muster.api.notes import Note
from muster.api.ours.interruptions import SUSPENDED_ANNOTATION, WITHDRAWN_ANNOTATION
from muster.api.validation.jobs.job import validate_status_update
from muster.api.values.indexes import Indexes
from muster.jobs.job.backoff import Backoff
from muster.jobs.job.census import completion_index
from muster.jobs.job.conditions import finish
from muster.jobs.job.decide import decide
from muster.jobs.job.plan import Deletion, JobPlan, Outcome
from muster.jobs.job.pods import PodTemplate

replace = msgspec.structs.replace

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LONG_AGO = timedelta(hours=1)


def spec_of(fields: dict[str, Any]) -> JobSpec:
    """A JobSpec from its JSON, with a template and the server's default of the back-off limit."""
    spec = msgspec.convert({"backoffLimit": 6} | fields, JobSpec)
    if not spec.template.spec.containers:
        pod = PodSpec(containers=(Container(name="main", image="none"),), restart_policy="Never")
        spec = replace(spec, template=PodTemplateSpec(spec=pod))
    return spec


def job_of(spec: dict[str, Any], status: dict[str, Any] | None = None, **meta: Any) -> Job:
    """A Job named `job` from the JSON of its spec and status."""
    metadata = ObjectMeta(name="job", namespace="default", uid="job-uid", generation=1, **meta)
    return Job(metadata=metadata, spec=spec_of(spec), status=msgspec.convert(status or {}, JobStatus))


class World:
    """One Job, its pods, and what was written."""

    def __init__(self, job: Job, now: datetime = START) -> None:
        self.job = job
        self.pods: dict[str, Pod] = {}  # by uid
        self.now = now
        self.backoff: Backoff | None = None
        self.closing = False  # whether the namespace is being deleted
        self.notes: list[Note] = []
        self.created: list[str] = []  # names
        self.deleted: list[str] = []  # uids
        self.released: list[str] = []
        self.status_writes = 0
        self.wake_at: datetime | None = None
        self.create_limit: int | None = None  # further creations fail
        self.delete_fails = False
        self._pods_made = 0

    # The pods, as nodes and users change them.

    def add(self, phase: str, index: int | str | None = None, **how: Any) -> Pod:
        """Put a pod there that was not created by a decision."""
        self._pods_made += 1
        number = self._pods_made
        annotations = {} if index is None else {COMPLETION_INDEX: str(index)}
        if (failures := how.pop("failures", None)) is not None:
            annotations[INDEX_FAILURE_COUNT] = str(failures)
        pod = Pod(
            metadata=ObjectMeta(
                name=f"pod-{number}",
                namespace="default",
                uid=f"uid-{number}",
                annotations=annotations,
                creation_timestamp=self.now - LONG_AGO,
                finalizers=(TRACKING_FINALIZER,) if how.pop("tracked", True) else (),
                deletion_timestamp=self.now if how.pop("deleting", False) else None,
            ),
            spec=PodSpec(node_name="" if phase == "Pending" else "node", restart_policy="Never"),
        )
        self.pods[pod.metadata.uid] = pod
        self.set_phase(pod, phase, **({"ago": LONG_AGO} | how))
        return self.pods[pod.metadata.uid]

    def set_phase(
        self,
        pod: Pod,
        phase: str,
        *,
        ready: bool = False,
        ago: timedelta = timedelta(0),
        exit_code: int | None = None,
        conditions: tuple[tuple[str, str], ...] = (),
        restarts: int = 0,
    ) -> None:
        """What the pod's node says of it."""
        pod = self.pods[pod.metadata.uid]
        state = ContainerState()
        if phase in ("Succeeded", "Failed"):
            code = exit_code if exit_code is not None else int(phase == "Failed")
            state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, finished_at=self.now - ago))
        found = tuple(PodCondition(type=type, status=status) for type, status in conditions)
        if ready:
            found = (*found, PodCondition(type="Ready", status="True", last_transition_time=self.now - ago))
        status = replace(
            pod.status,
            phase=phase,
            conditions=found,
            container_statuses=(ContainerStatus(name="main", state=state, restart_count=restarts),),
        )
        spec = pod.spec if phase == "Pending" else replace(pod.spec, node_name="node")
        self._store(replace(pod, status=status, spec=spec))

    def active(self) -> list[Pod]:
        """Pods that have not ended and are not being deleted, by index."""
        pods = [
            pod
            for pod in self.pods.values()
            if pod.status.phase in ("Pending", "Running") and pod.metadata.deletion_timestamp is None
        ]
        return sorted(pods, key=completion_index)

    def active_indexes(self) -> list[int]:
        """Their indexes."""
        return [completion_index(pod) for pod in self.active()]

    def pod_of(self, index: int) -> Pod:
        """The active pod of an index."""
        (pod,) = (pod for pod in self.active() if completion_index(pod) == index)
        return pod

    def start_pods(self) -> None:
        """Every pending pod runs and is ready."""
        for pod in self.active():
            if pod.status.phase == "Pending":
                self.set_phase(pod, "Running", ready=True)

    def end_deleted_pods(self) -> None:
        """Nodes finish what was asked to end, successfully or not."""
        for pod in list(self.pods.values()):
            if pod.metadata.deletion_timestamp is not None and pod.status.phase in ("Pending", "Running"):
                self.set_phase(pod, "Failed")

    def delete(self, pod: Pod) -> None:
        """DELETE on a pod: it is gone at once if nothing holds it and no node has it."""
        stored = self.pods.get(pod.metadata.uid)
        if stored is not None and stored.metadata.deletion_timestamp is None:
            self._store(replace(stored, metadata=replace(stored.metadata, deletion_timestamp=self.now)))

    def untrack(self, pod: Pod) -> None:
        """The patch that removes the finalizer."""
        stored = self.pods.get(pod.metadata.uid)
        if stored is not None:
            finalizers = tuple(name for name in stored.metadata.finalizers if name != TRACKING_FINALIZER)
            self._store(replace(stored, metadata=replace(stored.metadata, finalizers=finalizers)))

    def withdraw(self, pod: Pod) -> None:
        """The patch that comes before the deletion of a pod whose gang starts over."""
        self.untrack(pod)
        stored = self.pods[pod.metadata.uid]
        annotations = stored.metadata.annotations | {WITHDRAWN_ANNOTATION: pod.metadata.uid}
        self._store(replace(stored, metadata=replace(stored.metadata, annotations=annotations)))

    def _prepare_deletion(self, deletion: Deletion) -> str:
        """The patch that comes before the deletion of a pod, and its name; "" if there is none."""
        pod = deletion.pod
        if deletion.untrack:
            self.untrack(pod)
            self.released.append(pod.metadata.uid)
            return "untrack"
        if deletion.suspended:
            stored = self.pods[pod.metadata.uid]
            annotations = stored.metadata.annotations | {SUSPENDED_ANNOTATION: pod.metadata.uid}
            self._store(replace(stored, metadata=replace(stored.metadata, annotations=annotations)))
            return "mark"
        return ""

    def _store(self, pod: Pod) -> None:
        meta = pod.metadata
        running = pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")
        if meta.deletion_timestamp is not None and not meta.finalizers and not running:
            self.pods.pop(meta.uid, None)
        else:
            self.pods[meta.uid] = pod

    # The Job, as users change it.

    def set_spec(self, **fields: Any) -> None:
        """Change the spec."""
        self.job = replace(self.job, spec=replace(self.job.spec, **fields))

    def scale(self, size: int) -> None:
        """Change completions and parallelism in tandem."""
        self.set_spec(completions=size, parallelism=size)

    def ending(self) -> bool:
        """Whether the Job's end is announced."""
        found = self.job.status.conditions
        return is_true(found, "SuccessCriteriaMet") or is_true(found, "FailureTarget")

    # Decisions, and writing them.

    def decide(self) -> JobPlan:
        """The decision about what is there now."""
        return decide(self.job, tuple(self.pods.values()), now=self.now, backoff=self.backoff, closing=self.closing)

    def writes(self) -> Iterator[str]:
        """Decide and write the plan in the shell's order; stops after each write with the name of it."""
        job, seen = self.job, tuple(self.pods.values())
        plan = decide(job, seen, now=self.now, backoff=self.backoff, closing=self.closing)
        created = 0
        undeleted = set()
        for deletion in plan.delete:
            if self.delete_fails or ((deletion.untrack or deletion.suspended) and self._has_changed(deletion.pod)):
                undeleted.add(deletion.pod.metadata.uid)
                continue
            if step := self._prepare_deletion(deletion):
                yield step
            self.delete(deletion.pod)
            self.deleted.append(deletion.pod.metadata.uid)
            yield "delete"
        template = PodTemplate(job)
        for creation in plan.create:
            if self.create_limit is not None and len(self.created) >= self.create_limit:
                break
            self._create(template.pod(creation))
            created += 1
            yield "create"
        outcome = Outcome(created, frozenset(undeleted))
        if outcome != plan.all_done:
            plan = decide(job, seen, now=self.now, backoff=self.backoff, closing=self.closing, outcome=outcome)
        self.wake_at = plan.wake_at
        if plan.status != job.status:
            if self.job is not job:
                yield "conflict"
                return
            self._store_status(plan.status)
            self.status_writes += 1
            yield "status"
        self.notes += plan.notes
        self.backoff = plan.backoff
        for pod in plan.release:
            self.check_release(pod)
            self.untrack(pod)
            self.released.append(pod.metadata.uid)
            yield "release"
        for pod in plan.track:
            if (stored := self.pods.get(pod.metadata.uid)) is not None:
                finalizers = tuple(dict.fromkeys((*stored.metadata.finalizers, TRACKING_FINALIZER)))
                self._store(replace(stored, metadata=replace(stored.metadata, finalizers=finalizers)))
            yield "track"

    def _has_changed(self, pod: Pod) -> bool:
        """Whether the patch that takes the finalizer finds the pod another than it was seen: it is refused then."""
        stored = self.pods.get(pod.metadata.uid)
        return bool(pod.metadata.finalizers) and stored is not None and stored is not pod

    def sync(self) -> list[str]:
        """One decision, written whole; the names of its writes."""
        return list(self.writes())

    def settle(self, *, nodes: bool = True) -> None:
        """Decide until nothing changes; with `nodes`, pods start and deleted ones end meanwhile."""
        for _ in range(100):
            before = (self.job, dict(self.pods))
            self.sync()
            if nodes:
                self.start_pods()
                self.end_deleted_pods()
            if (self.job, self.pods) == before:
                return
        raise AssertionError("the Job does not come to rest")

    def check_release(self, pod: Pod) -> None:
        """For tests that want to know which pods are let go, and when."""

    def _store_status(self, status: JobStatus) -> None:
        check_status_update(self.job, status)
        self.job = replace(self.job, status=status)

    def _create(self, pod: Pod) -> None:
        self._pods_made += 1
        number = self._pods_made
        meta = replace(
            pod.metadata,
            name=f"{pod.metadata.generate_name}{number:05}",
            uid=f"uid-{number}",
            creation_timestamp=self.now,
        )
        pod = replace(pod, metadata=meta, status=replace(pod.status, phase="Pending"))
        self.pods[meta.uid] = pod
        self.created.append(meta.name)


def check_status_update(job: Job, new: JobStatus) -> None:
    """What the API server asks of a write to a Job's status, and what we ask beyond that."""
    assert finish(job) is None, "a finished Job was written"
    assert validate_status_update(replace(job, status=new), job) == []
    types = [condition.type for condition in new.conditions]
    assert len(types) == len(set(types)), "a condition twice"
    if is_true(new.conditions, "Failed"):
        assert is_true(new.conditions, "FailureTarget")
    if job.spec.completion_mode == "Indexed":
        completed = Indexes.parse(new.completed_indexes, job.spec.completions or 0)
        assert str(completed) == new.completed_indexes
        assert len(completed) == new.succeeded
        assert not (new.uncounted_terminated_pods and new.uncounted_terminated_pods.succeeded)
