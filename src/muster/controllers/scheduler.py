"""Level 3, placement: binds the pods of a gang to nodes together, or none of them.

The gang of a pod is its Job (all pods that the Job wants to run now), unless the Job says `muster.dev/gang: "false"`;
a pod without a Job stands alone. `muster.gang` decides; here the cluster is followed, decisions are written, and
what could not be placed waits, unlooked at, until something happens that could help.

A gang of several pods is bound by several writes. Before the first, the intent is recorded on the Job
(`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by it, and binds the rest before it
places anything new. Where the rest no longer fits, the bound ones are deleted, and the gang waits whole again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from muster.api.batch import JOB, TRACKING_FINALIZER, Job
from muster.api.core import NODE, POD, Node, Pod
from muster.api.meta import ObjectMeta
from muster.api.pods import is_finished
from muster.api.status import ApiError
from muster.gang.capacity import Capacity
from muster.gang.explain import explain
from muster.gang.placement import Refusal, place
from muster.gang.shapes import count_shapes, shape_of
from muster.jobs.indexes import Indexes
from muster.jobs.sizing import wanted_active
from muster.jobs.terms import Terms
from muster.runtime.clock import Clock
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference, split_key
from muster.runtime.recorder import Recorder
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

GANG_ANNOTATION = "muster.dev/gang"
BINDING_ANNOTATION = "muster.dev/binding-since"

# Gangs bound side by side, and bindings under way for each: enough to fill the server's group commits.
WORKERS = 16
BINDINGS_AT_ONCE = 64

# Room that opens up is looked at in gusts: one sweep over the waiting gangs for all that came in this time.
SWEEP_SECONDS = 0.02
_SWEEP = "sweep"  # a key that no gang has: theirs have a slash


# What a predecessor left half done goes before every priority that a pod can have.
_REPAIR_PRIORITY = 2**31


@dataclass(slots=True)
class _Gang:
    """The unfinished pods of one gang, by UID. Its priority is the highest that one of them ever had."""

    unbound: dict[str, Pod] = field(default_factory=dict)
    bound: dict[str, Pod] = field(default_factory=dict)
    priority: int = 0


class Scheduler:
    """Runs under a `Manager`; schedules the pods whose `schedulerName` is one of `names`."""

    name = "scheduler"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        *,
        names: frozenset[str] = frozenset({"default-scheduler", "muster"}),
    ) -> None:
        self._client = manager.client
        self._clock: Clock = manager.clock
        self._recorder = recorder
        self._names = names
        self._capacity = Capacity()
        self._gangs: dict[str, _Gang] = {}
        self._sent: dict[str, str] = {}  # nodes of pods that we have bound and not yet seen bound, by UID
        self._waiting: dict[str, str] = {}  # gangs that did not fit, and what was said about them
        self._jobs = manager.informer(JOB)
        self._controller = manager.controller(self.name, self._reconcile, workers=WORKERS)
        manager.informer(NODE).on_change(self._node_changed)
        manager.informer(POD).on_change(self._pod_changed)
        self._jobs.on_change(self._job_changed)

    async def run(self) -> None:
        """Finish what a predecessor left half done, then schedule."""
        for key, gang in self._gangs.items():
            if self._half_bound(key, gang):
                self._controller.queue.add(key, _REPAIR_PRIORITY)
        await self._controller.run()

    async def stop(self) -> None:
        """Start no new binding, finish those under way."""
        await self._controller.stop()

    # What happens in the cluster.

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._capacity.remove_node(old.metadata.name)
        elif self._capacity.set_node(new):
            self._sweep_soon()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        uid, key = pod.metadata.uid, _gang_key(pod)
        gang = self._gangs.setdefault(key, _Gang())
        was_unbound = gang.unbound.pop(uid, None) is not None
        gang.bound.pop(uid, None)
        holds = new is not None and not is_finished(new)
        # What we see may be older than what we have written: a pod that we have bound is bound.
        node = pod.spec.node_name or self._sent.get(uid, "")
        if pod.spec.node_name or not holds:
            self._sent.pop(uid, None)
        if holds and node:
            self._capacity.assign(uid, node, shape_of(pod).requests)
            if pod.metadata.deletion_timestamp is None:
                gang.bound[uid] = pod
        elif holds and self._is_ours(pod):
            gang.unbound[uid] = pod
            gang.priority = max(gang.priority, pod.spec.priority or 0)
        if not holds and self._capacity.release(uid) and self._waiting:
            self._sweep_soon()
        if not gang.unbound and not gang.bound:
            del self._gangs[key]
            self._waiting.pop(key, None)
        elif gang.unbound and was_unbound != (uid in gang.unbound):
            self._controller.queue.add(key, gang.priority)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new if new is not None else old
        assert job is not None
        key = f"{key_of(job)}/{job.metadata.uid}"
        if (gang := self._gangs.get(key)) and gang.unbound:
            self._controller.queue.add(key, gang.priority)

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
            and pod.spec.scheduler_name in self._names
        )

    def _sweep_soon(self) -> None:
        self._controller.queue.add_after(_SWEEP, SWEEP_SECONDS)

    # What to do about it.

    async def _reconcile(self, key: str) -> Result:
        if key == _SWEEP:
            for waiting in self._in_order(self._waiting):
                self._controller.queue.add(waiting, self._gangs[waiting].priority)
            return None
        gang = self._gangs.get(key)
        if gang is None or not gang.unbound:
            return None
        if not _has_job(next(iter(gang.unbound.values()))):
            await self._place(key, _by_age(gang.unbound))
            return None
        job = self._job_of(key)
        if job is None:
            return None
        if job.metadata.annotations.get(GANG_ANNOTATION) == "false":
            for pod in _by_age(gang.unbound):
                if not await self._place(key, [pod]):
                    break
        elif len(gang.unbound) + len(gang.bound) >= _size(job):
            await self._place(key, _by_age(gang.unbound), job)
        return None

    async def _place(self, key: str, pods: Sequence[Pod], job: Job | None = None) -> bool:
        """Bind these pods together if they fit. From the decision to the assignment nobody else gets a turn."""
        for pod in pods:  # what an attempt that failed midway had assumed
            self._capacity.release(pod.metadata.uid)
        shapes = count_shapes(pods)
        outcome = place(self._capacity, shapes)
        if isinstance(outcome, Refusal):
            if job is not None and (half := self._half_bound(key, self._gangs[key])):
                await self._take_back(half, job)
            await self._refused(key, pods, job, explain(self._capacity, outcome, len(pods)))
            return False
        self._waiting.pop(key, None)
        nodes = {shape: outcome.expand(shape) for shape in shapes}
        bindings = [(pod, next(nodes[shape_of(pod)])) for pod in pods]
        for pod, node in bindings:
            self._capacity.assign(pod.metadata.uid, node, shape_of(pod).requests)
        if job is not None and len(pods) > 1 and not self._gangs[key].bound:
            await self._record_intent(job)
        await self._bind(bindings)
        self._report(bindings, job)
        return True

    async def _bind(self, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Write the bindings. If a pod is gone or bound already, its own event tells; other errors are tried again."""
        limit = asyncio.Semaphore(BINDINGS_AT_ONCE)

        async def bind(pod: Pod, node: str) -> None:
            meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            async with limit:
                try:
                    await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "binding", body)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
                else:
                    self._is_bound(pod, node)

        outcomes = await asyncio.gather(*(bind(pod, node) for pod, node in bindings), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _is_bound(self, pod: Pod, node: str) -> None:
        """Count a pod as bound from now on, not only once we see it."""
        gang, uid = self._gangs.get(_gang_key(pod)), pod.metadata.uid
        if gang is not None and gang.unbound.pop(uid, None) is not None:
            gang.bound[uid] = pod
            self._sent[uid] = node

    async def _record_intent(self, job: Job) -> None:
        # Pods that join a gang that runs, as replacements or because it grew, are no matter of all or nothing any more.
        since = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"metadata": {"annotations": {BINDING_ANNOTATION: since}}}
        await self._client.patch(JOB, job.metadata.name, patch, job.metadata.namespace)

    async def _refused(self, key: str, pods: Sequence[Pod], job: Job | None, sentence: str) -> None:
        """Say why the gang waits: in an event when the reason changes, on each pod when it begins to wait."""
        if self._waiting.get(key) == sentence:
            return
        self._waiting[key] = sentence
        if job is not None:
            self._recorder.event(reference(JOB, job), "Warning", "FailedScheduling", sentence)
        self._recorder.event(reference(POD, pods[0]), "Warning", "FailedScheduling", sentence)
        since = self._clock.now()
        await asyncio.gather(*(self._mark(pod, sentence, since) for pod in pods if not _is_marked(pod)))

    async def _mark(self, pod: Pod, sentence: str, since: datetime) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": sentence,
            "lastTransitionTime": since.replace(microsecond=0),
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                POD, pod.metadata.name, patch, pod.metadata.namespace, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _report(self, bindings: Sequence[tuple[Pod, str]], job: Job | None) -> None:
        if job is not None and len(bindings) > 1:
            nodes = sorted({node for _, node in bindings})
            shown = ", ".join(nodes[:5]) + (", ..." if len(nodes) > 5 else "")
            message = f"Bound {len(bindings)} pods together to {len(nodes)} nodes: {shown}"
            self._recorder.event(reference(JOB, job), "Normal", "Scheduled", message)
            return
        for pod, node in bindings:
            message = f"Successfully assigned {key_of(pod)} to {node}"
            self._recorder.event(reference(POD, pod), "Normal", "Scheduled", message)

    # What is half done.

    def _half_bound(self, key: str, gang: _Gang) -> list[Pod]:
        """The bound pods of a gang of which others, meant to be bound with them, are not."""
        job = self._job_of(key) if gang.bound and gang.unbound else None
        since = _binding_since(job) if job is not None else None
        if since is None or not any(_made_by(pod, since) for pod in gang.unbound.values()):
            return []
        return [pod for pod in gang.bound.values() if _made_by(pod, since)]

    async def _take_back(self, pods: Sequence[Pod], job: Job) -> None:
        """Delete the bound part of a gang whose rest no longer fits; the Job makes the pods anew."""
        message = f"{len(pods)} pods of the gang were bound, and the rest no longer fits: starting over"
        self._recorder.event(reference(JOB, job), "Warning", "GangTakenBack", message)
        for pod in pods:
            meta = pod.metadata
            # Without its finalizer a pod goes uncounted: this is no failure of the Job's.
            kept = [finalizer for finalizer in meta.finalizers if finalizer != TRACKING_FINALIZER]
            patch = {"metadata": {"uid": meta.uid, "finalizers": kept}}
            try:
                await self._client.patch(POD, meta.name, patch, meta.namespace)
                await self._client.delete(POD, meta.name, meta.namespace, uid=meta.uid)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise

    def _job_of(self, key: str) -> Job | None:
        where, uid = split_key(key)
        job = self._jobs.get(where)
        return job if job is not None and job.metadata.uid == uid else None

    def _in_order(self, keys: Iterable[str]) -> list[str]:
        """Higher priority first, then the older."""

        def rank(key: str) -> tuple[int, datetime, str]:
            gang = self._gangs[key]
            return -gang.priority, min(_created(pod.metadata) for pod in gang.unbound.values()), key

        return sorted((key for key in keys if key in self._gangs and self._gangs[key].unbound), key=rank)


def _gang_key(pod: Pod) -> str:
    """`namespace/job/uid`, or `namespace/uid` for a pod without a Job."""
    for owner in pod.metadata.owner_references:
        if owner.controller and owner.kind == "Job":
            return f"{pod.metadata.namespace}/{owner.name}/{owner.uid}"
    return f"{pod.metadata.namespace}/{pod.metadata.uid}"


def _has_job(pod: Pod) -> bool:
    return any(owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references)


def _size(job: Job) -> int:
    """How many pods the Job wants to run side by side, by what its status says is done."""
    terms = Terms.of(job)
    failed = Indexes.parse(job.status.failed_indexes or "", terms.completions or 0)
    return wanted_active(terms, active=0, succeeded=job.status.succeeded + len(failed))


def _created(meta: ObjectMeta) -> datetime:
    assert meta.creation_timestamp is not None, "the server stamps every object"
    return meta.creation_timestamp


def _by_age(pods: dict[str, Pod]) -> list[Pod]:
    return sorted(pods.values(), key=lambda pod: (_created(pod.metadata), pod.metadata.name))


def _made_by(pod: Pod, moment: datetime) -> bool:
    """To the second, which is all that the server stamps."""
    return _created(pod.metadata) <= moment


def _binding_since(job: Job) -> datetime | None:
    try:
        since = datetime.fromisoformat(job.metadata.annotations.get(BINDING_ANNOTATION, ""))
    except ValueError:  # absent, or somebody else wrote there: no intent of ours
        return None
    return since if since.tzinfo else None


def _is_marked(pod: Pod) -> bool:
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.status.conditions)
