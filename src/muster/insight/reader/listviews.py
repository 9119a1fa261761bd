"""Defines smaller views of jobs, pods and nodes, with which lists of many are read fast.

The views lack the managed fields and, except for Pods, the pod templates: most of an object's bytes, which no line of a
list shows. Code for whole objects accepts the views, except the functions that read the templates of a job:
`JobRecord.templates`, `command_of` and `call_directory`.
"""

from typing import Any

import msgspec

from muster.api.batch import JOB, Job, JobSpec, JobTemplateSpec
from muster.api.core import NODE, POD, Node, Pod, PodTemplateSpec
from muster.api.core.node import ContainerImage, NodeStatus
from muster.api.jobset import JOB_SET, JobSet, JobSetSpec, ReplicatedJob
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, PodSet, Workload, WorkloadSpec
from muster.api.meta import ObjectMeta

# No field of an object has this name.
_UNREAD = "-"


class MetaLine(ObjectMeta):
    """Metadata without managed fields."""

    managed_fields: tuple[dict[str, Any], ...] = msgspec.field(name=_UNREAD, default=())


class PodLine(Pod):
    """A pod without managed fields."""

    metadata: MetaLine = MetaLine()


class _NodeStatusLine(NodeStatus):
    images: tuple[ContainerImage, ...] = msgspec.field(name=_UNREAD, default=())


class NodeLine(Node):
    """A node without managed fields and images."""

    metadata: MetaLine = MetaLine()
    status: _NodeStatusLine = _NodeStatusLine()


class JobSpecLine(JobSpec):
    """The spec of a Job without its pod template."""

    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class JobLine(Job):
    """A Job without managed fields and pod template."""

    metadata: MetaLine = MetaLine()
    spec: JobSpecLine = JobSpecLine()


class _JobTemplateLine(JobTemplateSpec):
    spec: JobSpecLine = JobSpecLine()


class _RoleLine(ReplicatedJob):
    template: _JobTemplateLine = _JobTemplateLine()


class _JobSetSpecLine(JobSetSpec):
    replicated_jobs: tuple[_RoleLine, ...] = ()


class JobSetLine(JobSet):
    """A JobSet without managed fields and pod templates."""

    metadata: MetaLine = MetaLine()
    spec: _JobSetSpecLine = _JobSetSpecLine()


class _PodSetLine(PodSet):
    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class _WorkloadSpecLine(WorkloadSpec):
    pod_sets: tuple[_PodSetLine, ...] = ()


class WorkloadLine(Workload):
    """A Workload without managed fields and pod templates."""

    metadata: MetaLine = MetaLine()
    spec: _WorkloadSpecLine = _WorkloadSpecLine()


NODE_LINES: Kind[Node] = NODE.seen_as(NodeLine)
POD_LINES: Kind[Pod] = POD.seen_as(PodLine)
JOB_LINES: Kind[Job] = JOB.seen_as(JobLine)
JOB_SET_LINES: Kind[JobSet] = JOB_SET.seen_as(JobSetLine)
WORKLOAD_LINES: Kind[Workload] = WORKLOAD.seen_as(WorkloadLine)
