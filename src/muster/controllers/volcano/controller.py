"""Reconcile Volcano's Jobs: read caches, call `muster.jobs.volcano.decide`, write its plan.

A Job is not reconciled before the caches show this controller's own writes. All memory is a cache, except for pods that
were deleted without a grace period. If the controller is killed before it handles such a pod, the pod is created again
and no policy applies.
"""

from msgspec import Struct, field

from muster.api.core import POD, Pod
from muster.api.meta import OwnerReference, controller_of
from muster.api.podgroups.volcano import POD_GROUP, PodGroup
from muster.api.pods import is_finished
from muster.api.volcano import VOLCANO_JOB, Job
from muster.controllers.delays import STALE_SECONDS
from muster.controllers.volcano.writer import Writer
from muster.jobs.volcano.decide import decide
from muster.jobs.volcano.plan import VolcanoJobPlan
from muster.jobs.volcano.pods import pod_group_name
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, own_key, owner_key
from muster.runtime.writes import Refusal

WORKERS = 4

# Many pods of a Job change at the same time. All changes within this time cause one reconcile. The time grows with the
# number of pods, so that reconciles of a big Job cost a few percent of the time.
GATHER_SECONDS = 0.05
GATHER_SECONDS_PER_POD = 0.0002
GATHER_SECONDS_MOST = 2.0

_BY_JOB = "volcano-job-uid"


class _Memory(Struct):
    """The state that the controller keeps of a Job between two reconciles.

    lost: pods that were deleted without a grace period, by name.
    pods: how many pods the Job had at the last reconcile.
    waits: whether the Job waits until the caches show this controller's writes.
    expected: the writes that the caches do not show yet.
    """

    uid: str
    lost: dict[str, Pod] = field(default_factory=dict)
    pods: int = 0
    waits: bool = False
    expected: Expectations = field(default_factory=Expectations)


class VolcanoJobController(Reconciler):
    """The reconciler of Volcano's Jobs."""

    name = "volcano-job-controller"

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        super().__init__(manager, workers=WORKERS)
        self._memories: dict[str, _Memory] = {}
        self._jobs = manager.informer(VOLCANO_JOB)
        self._pods = manager.informer(POD, indexes={_BY_JOB: _index_pod_by_job})
        self._groups = manager.informer(POD_GROUP)
        self._writer = Writer(manager, recorder)
        self._controller.watch(self._jobs)
        self._controller.watch(self._groups, _index_group_by_job, when=_has_gone)
        self._pods.on_change(self._on_pod_changed)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        owner = _find_job_reference(pod)
        if owner is None:
            return
        key = f"{pod.metadata.namespace}/{owner.name}"
        memory = self._memories.get(key)
        if memory is not None and memory.uid == owner.uid:
            memory.expected.saw(pod.metadata.uid, new)
            if new is None and _was_alive(pod):
                memory.lost[pod.metadata.name] = pod
            job = self._jobs.get(key)
            if memory.waits and job is not None and memory.expected.are_met(job, self._pods.version):
                self._controller.queue.add(key)
                return
        gather = GATHER_SECONDS + GATHER_SECONDS_PER_POD * (memory.pods if memory is not None else 0)
        self._controller.queue.add_after(key, min(gather, GATHER_SECONDS_MOST))

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            self._memories.pop(key, None)
            return None
        memory = self._memories.get(key)
        if memory is None or memory.uid != job.metadata.uid:
            memory = self._memories[key] = _Memory(job.metadata.uid)
        now = self._clock.now().replace(microsecond=0)
        pods = self._pods.by(_BY_JOB, own_key(job.metadata))
        memory.pods = len(pods)
        memory.expected.check_cache(pods)
        memory.waits = not memory.expected.are_met(job, self._pods.version)
        if memory.waits:
            return STALE_SECONDS
        lost = dict(memory.lost)
        plan = decide(job, pods, now=now, lost=lost.values())
        await self._perform(job, plan, memory)
        for name, pod in lost.items():
            if memory.lost.get(name) is pod:
                del memory.lost[name]
        if plan.more:
            return 0.0
        return None if plan.wake_at is None else max(0.0, (plan.wake_at - now).total_seconds())

    async def _perform(self, job: Job, plan: VolcanoJobPlan, memory: _Memory) -> None:
        """Write the plan, with events; create pods only if the server refused nothing else.

        Raises an error of the status write at once, and the first other error at the end.
        """
        if plan.expired:
            await self._writer.delete_job(job)
            return
        errors: list[Refusal] = []
        group = self._groups.get(f"{job.metadata.namespace}/{pod_group_name(job)}")
        if plan.children is not None:
            errors += await self._writer.write_children(job, plan.children, group)
        if plan.ungroup and group is not None:
            await self._writer.delete_group(group)
        errors += await self._writer.mark_as_replaced(plan.replaced, plan.retry, memory.expected)
        if plan.status != job.status:
            await self._writer.store_status(job, plan.status, memory.expected)
        for note in plan.notes:
            self._writer.record_event(job, note)
        errors += await self._writer.delete_pods(job, plan.delete, memory.expected)
        if not errors:
            errors += await self._writer.create_pods(job, plan.create, memory.expected)
        if errors:
            raise errors[0]


@ignores_status
def _index_pod_by_job(pod: Pod) -> tuple[str, ...]:
    """Return the key of the Volcano Job that controls a pod, for the index `_BY_JOB`; empty for any other pod."""
    owner = _find_job_reference(pod)
    return (owner_key(pod.metadata.namespace, owner.uid),) if owner is not None else ()


def _find_job_reference(pod: Pod) -> OwnerReference | None:
    """Return the owner reference of the Volcano Job that controls the pod; None if no such Job does."""
    owner = controller_of(pod.metadata)
    return owner if owner is not None and VOLCANO_JOB.is_of(owner) else None


def _was_alive(pod: Pod) -> bool:
    """Return whether the pod had neither ended nor been deleted."""
    return pod.metadata.deletion_timestamp is None and not is_finished(pod)


def _has_gone(old: PodGroup | None, new: PodGroup | None) -> bool:
    return old is not None and new is None


def _index_group_by_job(group: PodGroup) -> tuple[str, ...]:
    """Return the key of the Job to which the group belongs; empty if it belongs to none."""
    owner = controller_of(group.metadata)
    return (f"{group.metadata.namespace}/{owner.name}",) if owner is not None and VOLCANO_JOB.is_of(owner) else ()
