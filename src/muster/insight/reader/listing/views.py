"""Define smaller views of jobs, pods and nodes, with which long lists are read fast and in little memory.

The views lack pod templates, images, managed fields, and what the containers of pods run and mount. These are most of
an object's bytes, and no line of a list shows them. Code for whole objects accepts the views, except the functions that
read the templates of a job: `JobRecord.templates`, `command_of` and `call_directory`. Ten thousand pods of a job differ
in little more than their names, so `PodSharer` keeps their equal parts once.

`POD_DEMANDS` is the complementary view of a pod: its requests, devices and rules of affinity, which `muster top` and
forecasts read, without the status of its containers.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from muster.api.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    JOB,
    Job,
    JobSpec,
    JobTemplateSpec,
)
from muster.api.core import (
    NODE,
    POD,
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from muster.api.core.node import NodeStatus
from muster.api.jobset import JOB_SET, JobSet, JobSetSpec, ReplicatedJob
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, PodSet, Workload, WorkloadSpec
from muster.api.kueue.names import (
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    TOPOLOGY_ANNOTATIONS,
    WORKLOAD_ANNOTATION,
)
from muster.api.meta import ObjectMeta, Struct
from muster.api.ours.interruptions import (
    INTERRUPTIONS_ANNOTATION,
    PREEMPTED_ANNOTATION,
    SUSPENDED_ANNOTATION,
    WITHDRAWN_ANNOTATION,
)
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.usage import USAGE_ANNOTATION

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

# No field of an object has this name, nor one that begins with it. A field with such a name has no type, so that a
# decoder need not know the type.
_UNREAD = "-"
# The annotations of pods on which lines depend, and those on which demands depend.
_LINE_ANNOTATIONS = frozenset((
    COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, INTERRUPTIONS_ANNOTATION, PREEMPTED_ANNOTATION,
    POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT, SUSPENDED_ANNOTATION, USAGE_ANNOTATION, WITHDRAWN_ANNOTATION,
))  # fmt: skip
_DEMAND_ANNOTATIONS = frozenset((COMPLETION_INDEX, SUBMITTER_ANNOTATION, WORKLOAD_ANNOTATION)) | TOPOLOGY_ANNOTATIONS

_encode = msgspec.json.Encoder().encode


def _read_only(*names: str) -> Callable[[type[S]], type[S]]:
    """Return a decorator that makes a type read only these fields of an object; all others keep their defaults."""

    def restrict_type(type_: type[S]) -> type[S]:
        body: dict[str, Any] = {"__module__": type_.__module__, "__doc__": type_.__doc__}
        empty, unread = type_(), [name for name in type_.__struct_fields__ if name not in names]
        body["__annotations__"] = dict.fromkeys(unread, Any)
        for name in unread:
            body[name] = msgspec.field(name=_UNREAD + name, default=getattr(empty, name))
        make_type: Any = type(type_)
        restricted: type[S] = make_type(type_.__name__, (type_,), body)
        return restricted

    return restrict_type


def shows_all_of(kind: Kind[Any], view: Kind[Any]) -> bool:
    """Return whether objects read as `kind` contain every field of `view`, a type with fewer fields."""
    return kind.resource == view.resource and issubclass(view.type, kind.type)


class _MetaLine(ObjectMeta):
    managed_fields: Any = msgspec.field(name=_UNREAD, default=())


class _NodeStatusLine(NodeStatus):
    images: Any = msgspec.field(name=_UNREAD, default=())


class NodeLine(Node):
    """A Node without its list of images."""

    metadata: _MetaLine = _MetaLine()
    status: _NodeStatusLine = _NodeStatusLine()


@_read_only("name", "restart_policy")
class _ContainerLine(Container):
    pass


@_read_only(
    "containers", "init_containers", "node_name", "restart_policy", "priority", "scheduling_gates",
    "active_deadline_seconds", "termination_grace_period_seconds", "scheduling_group",
)  # fmt: skip
class _PodSpecLine(PodSpec):
    init_containers: tuple[_ContainerLine, ...] = ()
    containers: tuple[_ContainerLine, ...] = ()


@_read_only("started_at")
class _RunningLine(ContainerStateRunning):
    pass


@_read_only("exit_code", "signal", "reason", "message", "started_at", "finished_at")
class _TerminatedLine(ContainerStateTerminated):
    pass


class _StateLine(ContainerState):
    running: _RunningLine | None = None
    terminated: _TerminatedLine | None = None


@_read_only("name", "state", "last_state", "ready", "restart_count", "started")
class _ContainerStatusLine(ContainerStatus):
    state: _StateLine = _StateLine()
    last_state: _StateLine = _StateLine()


@_read_only(
    "phase", "conditions", "message", "reason", "nominated_node_name", "start_time", "init_container_statuses",
    "container_statuses",
)  # fmt: skip
class _PodStatusLine(PodStatus):
    init_container_statuses: tuple[_ContainerStatusLine, ...] = ()
    container_statuses: tuple[_ContainerStatusLine, ...] = ()


@_read_only(
    "name", "namespace", "uid", "resource_version", "creation_timestamp", "deletion_timestamp",
    "deletion_grace_period_seconds", "labels", "annotations", "owner_references", "finalizers",
)  # fmt: skip
class _PodMetaLine(ObjectMeta):
    pass


class PodLine(Pod):
    """A pod without the commands, requests and mounts of its containers, its rules of placement, and its addresses."""

    metadata: _PodMetaLine = _PodMetaLine()
    spec: _PodSpecLine = _PodSpecLine()
    status: _PodStatusLine = _PodStatusLine()


@_read_only("name", "restart_policy", "resources")
class _ContainerDemand(Container):
    pass


@_read_only(
    "containers", "init_containers", "node_name", "overhead", "resources", "affinity", "topology_spread_constraints",
)  # fmt: skip
class _PodSpecDemand(PodSpec):
    init_containers: tuple[_ContainerDemand, ...] = ()
    containers: tuple[_ContainerDemand, ...] = ()


@_read_only("allocated_resources_status")
class _ContainerDevices(ContainerStatus):
    pass


@_read_only("phase", "container_statuses")
class _PodStatusDemand(PodStatus):
    container_statuses: tuple[_ContainerDevices, ...] = ()


class PodDemand(Pod):
    """A pod with the amounts that it uses on its node, and its rules for selecting nodes and for excluding pods."""

    metadata: _PodMetaLine = _PodMetaLine()
    spec: _PodSpecDemand = _PodSpecDemand()
    status: _PodStatusDemand = _PodStatusDemand()


class PodSharer:
    """The `transform` of a list of `PodLine`s or `PodDemand`s, which keeps their equal parts once.

    It drops annotations on which no output depends.

    has_index: whether to keep the label with a pod's index. Rules of affinity may select that label, and an annotation
    has the same value.
    """

    def __init__(self, annotations: Collection[str] = _LINE_ANNOTATIONS, *, has_index: bool = False) -> None:
        self._annotations = annotations
        self._has_index = has_index
        self._shared: dict[tuple[type, Hashable], Any] = {}

    def __call__(self, pod: Pod) -> Pod:
        """Return the pod with parts that other pods share, and without annotations that no reader needs."""
        meta = pod.metadata
        shared_meta = replace(
            meta,
            labels=self._share_labels(meta.labels),
            annotations={name: meta.annotations[name] for name in self._annotations if name in meta.annotations},
            owner_references=self._share_part(meta.owner_references, meta.owner_references),
            finalizers=self._share_part(meta.finalizers, meta.finalizers),
        )
        spec, status = self._share_part(pod.spec, _encode(pod.spec)), self._share_part(pod.status, _encode(pod.status))
        return replace(pod, metadata=shared_meta, spec=spec, status=status)

    def _share_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        if self._has_index and COMPLETION_INDEX in labels:
            return {name: self._share_part(value, value) for name, value in labels.items()}
        others = {name: value for name, value in labels.items() if name != COMPLETION_INDEX}
        return self._share_part(others, _encode(others))

    def _share_part(self, part: T, key: Hashable) -> T:
        """Return the part of an earlier pod with the same key, or this part. Equal keys must stand for equal parts."""
        shared: T = self._shared.setdefault((type(part), key), part)
        return shared


class JobSpecLine(JobSpec):
    """The spec of a Job without its pod template."""

    template: Any = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class JobLine(Job):
    """A Job without its pod template."""

    metadata: _MetaLine = _MetaLine()
    spec: JobSpecLine = JobSpecLine()


class _JobTemplateLine(JobTemplateSpec):
    spec: JobSpecLine = JobSpecLine()


class _RoleLine(ReplicatedJob):
    template: _JobTemplateLine = _JobTemplateLine()


class _JobSetSpecLine(JobSetSpec):
    replicated_jobs: tuple[_RoleLine, ...] = ()


class JobSetLine(JobSet):
    """A JobSet without pod templates."""

    metadata: _MetaLine = _MetaLine()
    spec: _JobSetSpecLine = _JobSetSpecLine()


class _PodSetLine(PodSet):
    template: Any = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class _WorkloadSpecLine(WorkloadSpec):
    pod_sets: tuple[_PodSetLine, ...] = ()


class WorkloadLine(Workload):
    """A Workload without pod templates."""

    metadata: _MetaLine = _MetaLine()
    spec: _WorkloadSpecLine = _WorkloadSpecLine()


NODE_LINES: Kind[Node] = NODE.viewed_as(NodeLine)
POD_LINES: Kind[Pod] = POD.viewed_as(PodLine)
POD_DEMANDS: Kind[Pod] = POD.viewed_as(PodDemand)
JOB_LINES: Kind[Job] = JOB.viewed_as(JobLine)
JOB_SET_LINES: Kind[JobSet] = JOB_SET.viewed_as(JobSetLine)
WORKLOAD_LINES: Kind[Workload] = WORKLOAD.viewed_as(WorkloadLine)


def make_sharer(kind: Kind[T]) -> Callable[[T], T] | None:
    """Return the `transform` with which a list of these objects keeps equal parts once; None for a list without one."""
    sharer: Any = None
    if kind == POD_LINES:
        sharer = PodSharer()
    elif kind == POD_DEMANDS:
        sharer = PodSharer(_DEMAND_ANNOTATIONS, has_index=True)
    return sharer  # type: ignore[no-any-return]
