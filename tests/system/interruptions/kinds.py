"""The kinds of workloads that are interrupted: what their users write, and what of theirs is counted. Data only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.system.interruptions.machines import GROUP_SIZE

from muster.actions.submission import manifests
from muster.actions.submission.gang import Gang
from muster.actions.submission.sweep import Sweep
from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue.names import (
    ELASTIC_JOB,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    QUEUE_NAME_LABEL,
)
from muster.api.ours.elastic import GANG_ANNOTATION, Bounds
from muster.api.ours.simulated import RUN_TIME, START_TIME, STOP_TIME
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.podgroups.names import (
    GROUP_NAME_ANNOTATION,
    POD_GROUP_LABEL,
    VOLCANO_GROUP_NAME_ANNOTATION,
)
from muster.jobs.jobset.gang import WHOLE

MEMBER_OF = "muster.test/order"
"""On each pod: the name of its order."""
KEPT = "muster.test/kept"
"""The finalizer by which users who make pods keep those that have succeeded, as workflow engines do."""

SIZE = 4
# Between these sizes an elastic order of `muster run` is moved; users let the others grow, too.
LEAST, GROWN = 2, 6
Document = tuple[Kind[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """One workload that a user submits. queue: its LocalQueue, or "" for none. Times are in seconds.

    bears: for how long its pods stay on a lost node; None leaves that to the cluster.
    """

    name: str
    kind: "WorkloadKind"
    queue: str
    run: int
    start: int = 0
    stop: int = 0
    bears: int | None = None

    @property
    def tolerations(self) -> list[dict[str, Any]]:
        """Return what its pods bear."""
        borne = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": self.bears}
        keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
        return [borne | {"key": key} for key in keys] if self.bears is not None else []

    @property
    def pod_marks(self) -> dict[str, Any]:
        """Return the metadata of its pods: their lives on simulated nodes, and their order."""
        times = {RUN_TIME: f"{self.run}s", START_TIME: f"{self.start}s", STOP_TIME: f"{self.stop}s"}
        return {"labels": {MEMBER_OF: self.name}, "annotations": times}

    @property
    def queue_label(self) -> dict[str, str]:
        """Return the label that names its queue."""
        return {QUEUE_NAME_LABEL: self.queue} if self.queue else {}


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """What a user writes, and what is counted of it.

    documents: what the user creates, the pods of a user who makes them left out.
    pods: how a user who makes pods makes them, by number; None if a controller makes them.
    start: how many pods start together; 1 if each may start alone.
    in_waves: whether pods start alone once one has succeeded.
    rounds: how many of its pods run one after another at the most, once it runs without a break.
    grows: whether its size is changed while it runs.
    queues: whether it may wait in a queue; else it is never in one.
    """

    name: str
    documents: Callable[[Order], Sequence[Document]]
    pods: Callable[[Order, int], dict[str, Any]] | None = None
    start: int = SIZE
    in_waves: bool = False
    rounds: int = 2
    grows: bool = False
    queues: bool = True


def template(order: Order, marks: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the pod template of an order. marks: more labels and annotations."""
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": _joined(order.pod_marks, marks or {}),
        "spec": {"restartPolicy": "Never", "containers": [container], "tolerations": order.tolerations, **spec},
    }


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    return {part: {**first.get(part, {}), **second.get(part, {})} for part in ("labels", "annotations")}


def _job(
    order: Order, *, annotations: Mapping[str, str] | None = None, pod: Mapping[str, Any] | None = None, **spec: Any
) -> Document:
    """Return a Job that forgives no failure."""
    metadata = {"name": order.name, "labels": order.queue_label, "annotations": dict(annotations or {})}
    sizes = {"parallelism": SIZE, "completions": SIZE, "backoffLimit": 0}
    return JOB, {"metadata": metadata, "spec": sizes | spec | {"template": template(order, pod)}}


def _indexed(order: Order, **more: Any) -> Document:
    return _job(order, completionMode="Indexed", **more)


def _replicated(order: Order, role: str, replicas: int, pods: int, marks: Mapping[str, Any]) -> dict[str, Any]:
    sizes = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0}
    return {
        "name": role,
        "replicas": replicas,
        "template": {"spec": sizes | {"template": template(order, marks)}},
    }


def _jobset(order: Order, marks: Mapping[str, Any] | None = None, **spec: Any) -> Document:
    """Return a JobSet that never restarts: one Job of two pods and two of one, all of which start together."""
    roles = [_replicated(order, "driver", 1, 2, marks or {}), _replicated(order, "workers", 2, 1, marks or {})]
    metadata = {"name": order.name, "labels": order.queue_label, "annotations": {GANG_ANNOTATION: WHOLE}}
    return JOB_SET, {"metadata": metadata, "spec": {"replicatedJobs": roles, **spec}}


def _group_start(order: Order) -> Sequence[Document]:
    marks = {"annotations": {GROUP_SIZE: str(SIZE)}}
    return [_jobset(order, marks, groupSchedulingConfig={"timeoutAfterSeconds": 600})]


def _gang(order: Order, workers: int = SIZE, **more: Any) -> Gang:
    """Return what `muster run` was asked for."""
    marks = order.pod_marks
    annotations = {**marks["annotations"], GROUP_SIZE: str(workers)}
    asked = {"labels": marks["labels"], "annotations": annotations, "queue": order.queue, **more}
    return Gang(order.name, ("true",), workers, cpus="1", **asked)


def _run(order: Order) -> Sequence[Document]:
    return [(JOB_SET, manifests.make_jobset(_gang(order)))]


def _run_plain(order: Order) -> Sequence[Document]:
    return [(JOB, manifests.make_job(_gang(order, plain=True)))]


def _run_sweep(order: Order) -> Sequence[Document]:
    return [(JOB, manifests.make_job(_gang(order, 1, sweep=Sweep.parse("0-5%4", ()))))]


def _run_elastic(order: Order) -> Sequence[Document]:
    return [(JOB, manifests.make_job(_gang(order, elastic=Bounds(LEAST, GROWN), retries=0)))]


def _group(kind: Kind[Any], order: Order, **spec: Any) -> Document:
    field = "minMembers" if kind is kep.POD_GROUP else "minMember"
    return kind, {"metadata": {"name": order.name}, "spec": {field: SIZE, **spec}}


def _in_group(kind: Kind[Any], mark: Callable[[str], dict[str, Any]]) -> Callable[[Order], Sequence[Document]]:
    """Return how a PodGroup of a dialect and the Job that makes its pods are written."""
    return lambda order: [_group(kind, order), _job(order, pod=mark(order.name))]


def _annotated(key: str) -> Callable[[str], dict[str, Any]]:
    return lambda name: {"annotations": {key: name}}


def _member(order: Order, number: int, marks: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod that its user makes."""
    pod = template(order, marks)
    # In a queue, Kueue's own finalizer keeps them.
    own = {"name": f"{order.name}-{number}", "finalizers": [] if order.queue else [KEPT]}
    return pod | {"metadata": own | pod["metadata"]}


def _queued_member(order: Order, number: int) -> dict[str, Any]:
    labels = {POD_GROUP_NAME_LABEL: order.name} | order.queue_label
    return _member(order, number, {"labels": labels, "annotations": {POD_GROUP_TOTAL_COUNT: str(SIZE)}})


def _lone_member(order: Order, number: int) -> dict[str, Any]:
    return _member(order, number, {"annotations": {GROUP_NAME_ANNOTATION: order.name}})


def _labelled(name: str) -> dict[str, Any]:
    return {"labels": {POD_GROUP_LABEL: name}}


KINDS: tuple[WorkloadKind, ...] = (
    WorkloadKind("job", lambda order: [_job(order)]),
    WorkloadKind("indexed", lambda order: [_indexed(order)]),
    WorkloadKind("waves", lambda order: [_indexed(order, completions=2 * SIZE)], in_waves=True),
    WorkloadKind(
        "elastic",
        lambda order: [_indexed(order, annotations={ELASTIC_JOB: "true"})],
        grows=True,
    ),
    WorkloadKind("run elastic", _run_elastic, start=LEAST, grows=True),
    WorkloadKind("sweep", _run_sweep, start=1, rounds=6),  # its queue may have quota for one trial
    WorkloadKind("jobset", lambda order: [_jobset(order)]),
    WorkloadKind("group start", _group_start),
    WorkloadKind("run", _run),
    WorkloadKind("run plain", _run_plain),
    WorkloadKind("pod group", lambda _: [], _queued_member),
    WorkloadKind("kep-34", _in_group(kep.POD_GROUP, _annotated(GROUP_NAME_ANNOTATION))),
    WorkloadKind("kep-34 pods", lambda order: [_group(kep.POD_GROUP, order)], _lone_member, queues=False),
    WorkloadKind("coscheduling", _in_group(coscheduling.POD_GROUP, _labelled)),
    WorkloadKind("kube-batch", _in_group(kubebatch.POD_GROUP, _annotated(GROUP_NAME_ANNOTATION))),
    WorkloadKind("sigs", _in_group(sigs.POD_GROUP, _annotated(GROUP_NAME_ANNOTATION))),
    WorkloadKind("volcano", _in_group(volcano.POD_GROUP, _annotated(VOLCANO_GROUP_NAME_ANNOTATION))),
)


def has_succeeded(root: Job | JobSet) -> bool:
    """Whether a Job or a JobSet has ended well."""
    return is_true(root.status.conditions, "Complete") or is_true(root.status.conditions, "Completed")


def has_failed(root: Job | JobSet) -> bool:
    """Whether a Job or a JobSet has failed for good."""
    return is_true(root.status.conditions, "Failed")


def retries_used(root: Job | JobSet) -> dict[str, Any]:
    """Return what has been used up of what users allow to fail; empty if nothing has."""
    if isinstance(root, JobSet):
        found: dict[str, Any] = {"restartsCountTowardsMax": root.status.restarts_count_towards_max}
    else:
        found = {"failed": root.status.failed, "failedIndexes": root.status.failed_indexes}
    return {name: value for name, value in found.items() if value}
