"""JobSets whose groups start together, on a control plane in virtual time: the test plays the nodes, file by file.

A pod's barrier reads what a kubelet would mount: the ConfigMap as it is when the test says that the node looks.
"""

from collections.abc import Mapping
from typing import Any

from tests.system.jobs.job_cluster import JobCluster, Wire
from tests.system.jobsets.jobset_cluster import Words, role

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, POD, Pod
from muster.api.jobset import names
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.pods import is_active, is_finished
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.job import JobController
from muster.controllers.jobset import JobSetController
from muster.jobs.job.census import completion_index
from muster.jobs.job.conditions import FAILURE_TARGET
from muster.jobs.jobset.start.barrier import make_barrier_word
from muster.jobs.jobset.start.group import find_started_member
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

Place = tuple[str, int]  # a Job's name and an index
RUNNING: dict[str, Any] = {"running": {}}
THROUGH = {"terminated": {"exitCode": 0}}


class GroupCluster(Words, JobCluster):
    """A server with controllers of Jobs and JobSets. Checks on every step that no pod begins before its group is there.

    begun: by epoch, what has begun. came: by restart and by how often everything was stopped, what has started: the
    test's own account of starts, which knows nothing of epochs.
    """

    clock: VirtualClock

    def __init__(self) -> None:
        super().__init__(collector=True)
        self.came: dict[tuple[str, int], set[Place]] = {}
        self._stops = 0
        self.begun: dict[int, set[Place]] = {}

    async def start_controller(self) -> None:
        """Start those of Jobs and JobSets."""
        self.wire = Wire(InProcessTransport(self._server))
        manager = Manager(Client(self.wire), self.clock, Random(3), registry=self.registry)
        sink = EventSink(self.client, self.clock, Ids(4), Random(4))
        manager.add(sink)
        manager.add(JobController(manager, sink.recorder("job-controller")))
        manager.add(JobSetController(manager, sink.recorder("jobset")))
        await self._start(manager)

    async def restart_cluster(self, left: int = 0, writes: int | None = None) -> None:
        """The whole cluster is stopped, and started again. left: how many pods run on meanwhile, the first ones.

        writes: how many the first start gets done, before it is killed; None if it is not.
        """
        await self.kill_controller()
        bound = [pod for pod in (await self.client.list(POD, "default")).items if pod.spec.node_name]
        on_nodes = sorted((pod for pod in bound if not is_finished(pod)), key=_place)
        for pod in on_nodes[left:]:
            await self._say(pod, "Failed", None, {"type": CLUSTER_STOPPED, "status": "True"})
        if on_nodes and not any(find_started_member(pod) is not None for pod in on_nodes[:left]):
            self._stops += 1
        await self.release_everything()
        await self.start_controller()
        if writes is not None:
            self.wire.writes_left = writes
            await self.settle()
            await self.kill_controller()
            await self.start_controller()

    async def group(self, replicas: int = 2, pods: int = 2, timeout: int = 30, **spec: Any) -> None:
        """A JobSet with one role, all of which starts together."""
        config = {"timeoutAfterSeconds": timeout}
        await self.jobset(role("w", replicas, pods), groupSchedulingConfig=config, **spec)

    async def pods_there(self) -> list[Pod]:
        """Pods that may still run, by Job and index."""
        found = [pod for pod in (await self.client.list(POD, "default")).items if is_active(pod)]
        return sorted(found, key=_place)

    async def arrive(self, *pods: Pod) -> None:
        """They get nodes, which run their barriers."""
        for pod in pods:
            if not pod.spec.node_name:
                with ignoring("NotFound", "Conflict"):
                    await self.bind(pod)
            if find_started_member(pod) is None and await self._say(pod, "Pending", RUNNING):
                self.came.setdefault(self._start_of(pod), set()).add(_place(pod))

    async def look(self) -> None:
        """All nodes bring what pods mount up to date: barriers that find their word open, and main containers begin."""
        found = await self.client.find(CONFIG_MAP, "js-group-scheduling", "default")
        said = found.data.get("started") if found is not None else None
        for pod in await self.pods_there():
            if find_started_member(pod) is not None and pod.status.phase == "Pending" and said == _word(pod):
                await self._begin(pod)

    async def _begin(self, pod: Pod) -> None:
        jobset, epoch = await self.seen(), _epoch(pod)
        workers = jobset.spec.replicated_jobs[0]
        pods = workers.template.spec.completions or 0
        group = {(f"js-w-{job}", index) for job in range(workers.replicas) for index in range(pods)}
        assert self.came[self._start_of(pod)] >= group, f"{_place(pod)} begins in epoch {epoch} before all have started"
        if await self._say(pod, "Running", THROUGH):
            self.begun.setdefault(epoch, set()).add(_place(pod))

    async def end(self, pod: Pod, phase: str) -> None:
        """The pod has ended; one that did not begin can only have failed."""
        await self._say(pod, phase if pod.status.phase == "Running" else "Failed", None)

    async def doom(self, name: str) -> None:
        """A Job is about to fail, for whatever reason."""
        condition = {"type": FAILURE_TARGET, "status": "True", "reason": "R", "message": "m"}
        with ignoring("NotFound"):
            await self.report(name, conditions=[condition])

    async def delete_jobs(self, *names: str) -> None:
        """A user deletes Jobs; each goes once its pods have gone."""
        for name in names:
            with ignoring("NotFound"):
                await self.client.delete(JOB, name, "default", propagation="Foreground")

    async def release_everything(self) -> None:
        """Containers of pods that are being deleted end."""
        for pod in (await self.client.list(POD, "default")).items:
            if pod.metadata.deletion_timestamp is not None:
                with ignoring("NotFound"):
                    await self.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)

    async def gone(self, seconds: float) -> None:
        """Time passes, in which nodes end what is to be deleted."""
        await self.clock.sleep(seconds / 2)
        await self.release_everything()
        await self.clock.sleep(seconds / 2)
        if (await self.seen()).spec.suspend and not (await self.client.list(POD, "default")).items:
            self._stops += 1

    def _start_of(self, pod: Pod) -> tuple[str, int]:
        return pod.metadata.labels[names.RESTART_ATTEMPT], self._stops

    async def _say(
        self, pod: Pod, phase: str, barrier: Mapping[str, Any] | None, *conditions: Mapping[str, str]
    ) -> bool:
        statuses = [{"name": names.GROUP_SCHEDULING_INIT, "image": "", "imageID": "", "state": barrier}]
        status = {"phase": phase, "conditions": list(conditions)} | (
            {"initContainerStatuses": statuses} if barrier is not None else {}
        )
        with ignoring("NotFound", "Conflict"):
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid}, "status": status}
            await self.client.patch(
                POD, meta.name, patch, meta.namespace, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
            return True
        return False


def _word(pod: Pod) -> str:
    return make_barrier_word(pod.metadata.labels[names.JOBSET_UID], _epoch(pod))


def _epoch(pod: Pod) -> int:
    return int(pod.metadata.annotations[names.GROUP_SCHEDULING_EPOCH])


def _place(pod: Pod) -> Place:
    return pod.metadata.labels["batch.kubernetes.io/job-name"], completion_index(pod)
