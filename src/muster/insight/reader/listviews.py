"""Defines smaller views of jobs, pods and nodes, with which lists of many are read fast and in little memory.

The views lack pod templates, images, managed fields, and what the containers of pods run and mount: most of an object's
bytes, which no line of a list shows. Code for whole objects accepts the views, except the functions that read the
templates of a job: `JobRecord.templates`, `command_of` and `call_directory`. Ten thousand pods of a job differ in
little more than their names, so `PodSharer` keeps their equal parts once.
"""

from collections.abc import Callable, Hashable
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
from muster.api.core.node import ContainerImage, NodeStatus
from muster.api.jobset import JOB_SET, JobSet, JobSetSpec, ReplicatedJob
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, PodSet, Workload, WorkloadSpec
from muster.api.meta import ObjectMeta, Struct, UnreadManager
from muster.api.ours.interruptions import (
    INTERRUPTIONS_ANNOTATION,
    PREEMPTED_ANNOTATION,
    SUSPENDED_ANNOTATION,
    WITHDRAWN_ANNOTATION,
)
from muster.api.ours.usage import USAGE_ANNOTATION

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

# No field of an object has this name, nor one that begins with it.
_UNREAD = "-"
# The annotations of pods that lines depend on.
_POD_ANNOTATIONS = frozenset((
    COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, INTERRUPTIONS_ANNOTATION, PREEMPTED_ANNOTATION,
    SUSPENDED_ANNOTATION, USAGE_ANNOTATION, WITHDRAWN_ANNOTATION,
))  # fmt: skip

_encode = msgspec.json.Encoder().encode


def _reading(*names: str) -> Callable[[type[S]], type[S]]:
    """Return a decorator that lets a type read these fields only. All others keep their defaults."""

    def restrict_type(type_: type[S]) -> type[S]:
        unread = [field for field in msgspec.structs.fields(type_) if field.name not in names]
        body: dict[str, Any] = {"__module__": type_.__module__, "__doc__": type_.__doc__}
        body["__annotations__"] = {field.name: field.type for field in unread}
        for field in unread:
            default: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
            body[field.name] = msgspec.field(name=_UNREAD + field.name, **default)
        make_type: Any = type(type_)
        restricted: type[S] = make_type(type_.__name__, (type_,), body)
        return restricted

    return restrict_type


def shows_all_of(kind: Kind[Any], view: Kind[Any]) -> bool:
    """Return whether objects read as `kind` contain every field of `view`, a type with fewer fields."""
    return kind.resource == view.resource and issubclass(view.type, kind.type)


class _MetaLine(ObjectMeta):
    managed_fields: tuple[UnreadManager, ...] = msgspec.field(name=_UNREAD, default=())


class _NodeStatusLine(NodeStatus):
    images: tuple[ContainerImage, ...] = msgspec.field(name=_UNREAD, default=())


class NodeLine(Node):
    """A Node without its list of images."""

    metadata: _MetaLine = _MetaLine()
    status: _NodeStatusLine = _NodeStatusLine()


@_reading("name", "restart_policy")
class _ContainerLine(Container):
    pass


@_reading(
    "containers", "init_containers", "node_name", "restart_policy", "priority", "scheduling_gates",
    "active_deadline_seconds", "termination_grace_period_seconds",
)  # fmt: skip
class _PodSpecLine(PodSpec):
    init_containers: tuple[_ContainerLine, ...] = ()
    containers: tuple[_ContainerLine, ...] = ()


@_reading("started_at")
class _RunningLine(ContainerStateRunning):
    pass


@_reading("exit_code", "signal", "reason", "message", "started_at", "finished_at")
class _TerminatedLine(ContainerStateTerminated):
    pass


class _StateLine(ContainerState):
    running: _RunningLine | None = None
    terminated: _TerminatedLine | None = None


@_reading("name", "state", "last_state", "ready", "restart_count", "started")
class _ContainerStatusLine(ContainerStatus):
    state: _StateLine = _StateLine()
    last_state: _StateLine = _StateLine()


@_reading(
    "phase", "conditions", "message", "reason", "nominated_node_name", "start_time", "init_container_statuses",
    "container_statuses",
)  # fmt: skip
class _PodStatusLine(PodStatus):
    init_container_statuses: tuple[_ContainerStatusLine, ...] = ()
    container_statuses: tuple[_ContainerStatusLine, ...] = ()


@_reading(
    "name", "namespace", "uid", "resource_version", "creation_timestamp", "deletion_timestamp",
    "deletion_grace_period_seconds", "labels", "annotations", "owner_references", "finalizers",
)  # fmt: skip
class _PodMetaLine(ObjectMeta):
    pass


class PodLine(Pod):
    """A pod without what its containers run, request and mount, its rules of placement, and its addresses."""

    metadata: _PodMetaLine = _PodMetaLine()
    spec: _PodSpecLine = _PodSpecLine()
    status: _PodStatusLine = _PodStatusLine()


class PodSharer:
    """The `transform` of a list of `PodLine`s, which keeps their equal parts once.

    It drops the label with a pod's index, which is an annotation, too, and annotations that no line depends on.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[type, Hashable], Any] = {}

    def __call__(self, pod: Pod) -> Pod:
        """Return the pod with parts that other pods share."""
        meta, labels = pod.metadata, pod.metadata.labels.copy()
        labels.pop(COMPLETION_INDEX, None)
        shared_meta = replace(
            meta,
            labels=self._share(labels, _encode(labels)),
            annotations={name: meta.annotations[name] for name in _POD_ANNOTATIONS if name in meta.annotations},
            owner_references=self._share(meta.owner_references, meta.owner_references),
            finalizers=self._share(meta.finalizers, meta.finalizers),
        )
        spec, status = self._share(pod.spec, _encode(pod.spec)), self._share(pod.status, _encode(pod.status))
        return replace(pod, metadata=shared_meta, spec=spec, status=status)

    def _share(self, part: T, key: Hashable) -> T:
        """Return the part of an earlier pod with the same key, or this one. Equal keys are those of equal parts."""
        shared: T = self._shared.setdefault((type(part), key), part)
        return shared


class JobSpecLine(JobSpec):
    """The spec of a Job without its pod template."""

    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


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
    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class _WorkloadSpecLine(WorkloadSpec):
    pod_sets: tuple[_PodSetLine, ...] = ()


class WorkloadLine(Workload):
    """A Workload without pod templates."""

    metadata: _MetaLine = _MetaLine()
    spec: _WorkloadSpecLine = _WorkloadSpecLine()


NODE_LINES: Kind[Node] = NODE.viewed_as(NodeLine)
POD_LINES: Kind[Pod] = POD.viewed_as(PodLine)
JOB_LINES: Kind[Job] = JOB.viewed_as(JobLine)
JOB_SET_LINES: Kind[JobSet] = JOB_SET.viewed_as(JobSetLine)
WORKLOAD_LINES: Kind[Workload] = WORKLOAD.viewed_as(WorkloadLine)
