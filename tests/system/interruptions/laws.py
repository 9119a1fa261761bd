"""What must hold of every schedule: looked at with every change, while nothing happens for long, and at the end.

A law says what is wrong as a line; no line means that it holds. The first word of a line names the law.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.system.interruptions.kinds import LEAST, Order, has_failed, has_succeeded, retries_used
from tests.system.interruptions.machines import CPUS
from tests.system.interruptions.scene import QUEUE, QUOTA, Scene
from tests.system.queueing.quota_audit import Books, reserved

from muster.api.batch import Job
from muster.api.conditions import find, is_true
from muster.api.config import Scheduling
from muster.api.core import NODE, Node, Pod
from muster.api.jobset import JobSet, names
from muster.api.kueue import CLUSTER_QUEUE
from muster.api.pods import is_active, is_finished
from muster.api.values.durations import SECOND
from muster.controllers.intents import read_intent
from muster.jobs.job.conditions import finish

_FAILURES = "batch.kubernetes.io/job-index-failure-count"
# A gang whose pods begin is whole within this time, or its pods are taken back, if nothing interrupts it.
_START_SECONDS = 30.0
# The same for a gang that the scheduler repaired, because it had not heard yet that the gang's other pods were gone.
_REPAIR_SECONDS = Scheduling().recovery_timeout / SECOND + _START_SECONDS
_LOOK_SECONDS = 5.0


@dataclass(slots=True)
class _Start:
    """A start of a gang: since when pods of it are bound, how long it may take, and whether it has been whole since."""

    since: float
    seconds: float
    whole: bool = False


class Watch:
    """Looks at every change of a scene, and puts down what is wrong.

    disturbed: when something was last done to the scene, by the clock.
    """

    def __init__(self, scene: Scene) -> None:
        self.findings: dict[str, float] = {}
        self.disturbed = 0.0
        self._scene = scene
        self._starts: dict[str, _Start] = {}
        self._timer: asyncio.TimerHandle | None = None
        scene.pods.on_change(self._pod_changed)
        scene.workloads.on_change(lambda _, __: self._changed())
        self._run = asyncio.create_task(self._look())

    def stop(self) -> None:
        """Look no more."""
        self._run.cancel()

    def _find(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.findings.setdefault(line, self._scene.clock.monotonic())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and new.metadata.annotations.get(_FAILURES, "0") != "0":
            self._find([f"retries: {new.metadata.name} is made after a failure of its index"])
        for order in self._scene.orders:
            self._follow(order)
        self._changed()

    def _changed(self) -> None:
        """What several kinds say together holds once everybody has heard of everything: time passes only then."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.001, self._compare)

    def _compare(self) -> None:
        self._timer = None
        scene = self._scene
        if over := Books(scene.queues.all(), ()).excess(reserved(scene.workloads.all())):
            self._find([f"quota: more is reserved than there is: {over}"])
        for order in scene.orders:
            self._find(_squatters(scene, order))

    def _follow(self, order: Order) -> None:
        """Note whether the order is whole, at the very change that makes it so."""
        bound = self._scene.bound(order)
        if not bound:
            self._starts.pop(order.name, None)
            return
        if order.name not in self._starts:
            seconds = _START_SECONDS if any(read_intent(pod.metadata) for pod in bound) else _REPAIR_SECONDS
            self._starts[order.name] = _Start(self._scene.clock.monotonic(), seconds)
        start = self._starts[order.name]
        if not start.whole and len(bound) >= _whole(self._scene, order):
            start.whole = True
            self._find(_strays(self._scene, order))

    async def _look(self) -> None:
        while True:
            await self._scene.clock.sleep(_LOOK_SECONDS)
            now = self._scene.clock.monotonic()
            if self._scene.engine.wire.writes_left == 0:  # killed controllers finish nothing
                self.disturbed = now
            for name, start in self._starts.items():
                if not start.whole and now - max(start.since, self.disturbed) > start.seconds:
                    self._find([f"start: pods of {name} have nodes, and it has not been whole"])


def _strays(scene: Scene, order: Order) -> Iterator[str]:
    """Pods of a JobSet that start together and take it for different attempts."""
    attempts = {pod.metadata.labels.get(names.RESTART_ATTEMPT, "") for pod in scene.bound(order)}
    if len(attempts) > 1:
        yield f"attempt: workers of {order.name} take it for {sorted(attempts)}"


def _whole(scene: Scene, order: Order) -> int:
    """Return how many pods an order needs on nodes to be whole. Pods of later waves start alone."""
    ended = _ended(scene, order)
    return 0 if ended and order.kind.in_waves else order.kind.start - ended


def _ended(scene: Scene, order: Order) -> int:
    """Return how many pods of an order need not run any more; some may have been collected."""
    if order.kind.pods is not None:
        return len(scene.succeeded(order))
    counted = sum(job.status.succeeded or 0 for job in _jobs(scene, order))
    return max(counted, sum(pod.status.phase == "Succeeded" for pod in scene.members(order)))


def _squatters(scene: Scene, order: Order) -> Iterator[str]:
    """Pods of an order in a queue that are on nodes while it holds no quota. Nobody can end those on dark nodes."""
    if not order.queue or any(
        one.status.admission is not None and is_true(one.status.conditions, "QuotaReserved")
        for one in scene.workloads_of(order)
    ):
        return
    for pod in scene.members(order):
        if pod.spec.node_name and not is_finished(pod) and pod.spec.node_name not in scene.machines.dark:
            yield f"quota: pods of {order.name} run, and it holds none"
            return


async def check_rest(scene: Scene) -> list[str]:
    """Return what is wrong once nothing has happened for long, though room may be short."""
    room = await _room(scene)
    return [
        *(line for order in scene.orders for line in _rest_of(scene, order, room)),
        *await _told_usage(scene),
    ]


def _rest_of(scene: Scene, order: Order, room: int) -> Iterator[str]:
    if _is_over(scene, order):
        return
    bound = len(scene.bound(order))
    if order.kind.start > 1 and 0 < bound < _whole(scene, order):
        yield f"whole: {bound} pods of {order.name} have nodes at rest"
    if room >= _needed(scene, order) and _may_run(scene, order):
        yield f"progress: {order.name} has not ended, and {room} CPUs are there: {_standing(scene, order)}"


def _needed(scene: Scene, order: Order) -> int:
    """Return how many pods an order needs to start: also those by which it grew, unless it may start with fewer."""
    root = scene.root(order)
    may_shrink = not order.kind.grows or order.kind.start == LEAST
    grown = root.spec.parallelism if isinstance(root, Job) and not may_shrink else 0
    return max(order.kind.start, grown or 0)


def _may_run(scene: Scene, order: Order) -> bool:
    """Whether nobody has stopped the queue of an order or holds it, and others leave it enough quota."""
    if not order.queue:
        return True
    others = sum(reserved(scene.workloads.all()).values()) - sum(reserved(scene.workloads_of(order)).values())
    if QUOTA - others / 1000 < order.kind.start:
        return False
    open_ = all(queue.spec.stop_policy in (None, "", "None") for queue in scene.queues.all())
    return open_ and scene.local_queue_is_open and all(one.spec.active for one in scene.workloads_of(order))


async def _room(scene: Scene) -> int:
    """Return the CPUs of nodes that take pods and run them."""
    nodes = (await scene.client.list(NODE)).items
    return CPUS * sum(_takes_pods(node) and node.metadata.name not in scene.machines.dark for node in nodes)


def _takes_pods(node: Node) -> bool:
    return not node.spec.unschedulable and not any(
        each.effect in ("NoSchedule", "NoExecute") for each in node.spec.taints
    )


async def _told_usage(scene: Scene) -> Iterator[str]:
    """What a ClusterQueue says of its usage, if its workloads say otherwise."""
    held = sum(reserved(scene.workloads.all()).values())
    queue = await scene.client.get(CLUSTER_QUEUE, QUEUE)
    told = sum(int(one.total) * 1000 for flavor in queue.status.flavors_reservation for one in flavor.resources)
    return iter([f"quota: the queue says that {told} are reserved, and {held} are"] if told != held else [])


def is_over(scene: Scene) -> bool:
    """Whether every order and every urgent Job has ended, well or not."""
    urgent = [scene.jobs.get(f"default/{name}") for name in scene.urgent]
    return all(_is_over(scene, order) for order in scene.orders) and all(
        job is not None and finish(job) is not None for job in urgent
    )


def _is_over(scene: Scene, order: Order) -> bool:
    if order.kind.pods is not None:
        return len(scene.succeeded(order)) >= order.kind.start
    root = scene.root(order)
    return root is not None and (has_succeeded(root) or has_failed(root))


async def check_end(scene: Scene) -> list[str]:
    """Return what is wrong at the end: who has not succeeded, what was used up, what is left over."""
    found = [line for order in scene.orders for line in _end_of(scene, order)]
    for name in scene.urgent:
        job = scene.jobs.get(f"default/{name}")
        if job is None or not has_succeeded(job):
            found.append(f"success: {name}: {_why(job)}")
    found += [f"users: {error!r}" for error in scene.broken_authors()]
    found += [f"barrier: {line}" for line in scene.machines.early]
    if left := [pod.metadata.name for pod in scene.pods.all() if is_active(pod)]:
        found.append(f"left: {left}")
    if not found:
        found += [
            f"left: the workload {one.metadata.name} is not finished"
            for one in scene.workloads.all()
            if not is_true(one.status.conditions, "Finished")
        ]
    return [*found, *await _told_usage(scene)]


def _end_of(scene: Scene, order: Order) -> Iterator[str]:
    root = scene.root(order)
    if order.kind.pods is not None:
        if not _is_over(scene, order):
            yield f"success: {order.name} ({order.kind.name}): {_standing(scene, order)}"
        return
    if root is None or not has_succeeded(root):
        yield f"success: {order.name} ({order.kind.name}): {_why(root) or _standing(scene, order)}"
    if isinstance(root, JobSet):
        yield from _retries(order, root)
    for job in _jobs(scene, order):
        yield from _retries(order, job)


def _retries(order: Order, root: Job | JobSet) -> Iterator[str]:
    if used := retries_used(root):
        yield f"retries: {root.metadata.name} ({order.kind.name}): {used}"


def _jobs(scene: Scene, order: Order) -> list[Job]:
    """Return the Job of an order, or those of its JobSet."""
    return [
        job for job in scene.jobs.all() if order.name in (job.metadata.name, job.metadata.labels.get(names.JOBSET_NAME))
    ]


def _why(root: object) -> str:
    conditions = getattr(getattr(root, "status", None), "conditions", ())
    failed = find(conditions, "Failed")
    return f"{failed.reason}: {failed.message}" if failed is not None and failed.status == "True" else ""


def _standing(scene: Scene, order: Order) -> str:
    """Say where an order stands: its pods, and the conditions of its workloads."""
    pods = [
        f"{pod.metadata.name.removeprefix(order.name)}:{pod.status.phase}"
        + (f"@{pod.spec.node_name}" if pod.spec.node_name else "")
        + (" going" if pod.metadata.deletion_timestamp is not None else "")
        for pod in scene.members(order)
    ]
    said = [
        f"{one.type}={one.status}({one.reason})" for each in scene.workloads_of(order) for one in each.status.conditions
    ]
    return f"pods [{', '.join(pods)}] workload [{', '.join(said)}]"
