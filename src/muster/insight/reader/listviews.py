"""Defines smaller views of jobs, pods and nodes, with which lists of many are read fast and in little memory.

The views lack pod templates, images, and what the containers of pods run and mount: most of an object's bytes, which no
line of a list shows. Code for whole objects accepts the views, except the functions that read the templates of a job:
`JobRecord.templates`, `command_of` and `call_directory`.
"""

from typing import Any

import msgspec

from muster.api.batch import JOB, Job, JobSpec, JobTemplateSpec
from muster.api.core import NODE, POD, Container, EnvVar, Node, Pod, PodSpec, PodTemplateSpec, Volume, VolumeMount
from muster.api.core.node import ContainerImage, NodeStatus
from muster.api.jobset import JOB_SET, JobSet, JobSetSpec, ReplicatedJob
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, PodSet, Workload, WorkloadSpec

# No field of an object has this name.
_UNREAD = "-"


def shows_all_of(kind: Kind[Any], view: Kind[Any]) -> bool:
    """Return whether objects read as `kind` contain every field of `view`, a type with fewer fields."""
    return kind.resource == view.resource and issubclass(view.type, kind.type)


class _NodeStatusLine(NodeStatus):
    images: tuple[ContainerImage, ...] = msgspec.field(name=_UNREAD, default=())


class NodeLine(Node):
    """A Node without its list of images."""

    status: _NodeStatusLine = _NodeStatusLine()


class _ContainerLine(Container):
    command: tuple[str, ...] = msgspec.field(name=_UNREAD, default=())
    env: tuple[EnvVar, ...] = msgspec.field(name=_UNREAD + "env", default=())
    volume_mounts: tuple[VolumeMount, ...] = msgspec.field(name=_UNREAD + "mounts", default=())


class _PodSpecLine(PodSpec):
    volumes: tuple[Volume, ...] = msgspec.field(name=_UNREAD, default=())
    init_containers: tuple[_ContainerLine, ...] = ()
    containers: tuple[_ContainerLine, ...] = ()


class PodLine(Pod):
    """A pod without its volumes, and without what its containers run."""

    spec: _PodSpecLine = _PodSpecLine()


class JobSpecLine(JobSpec):
    """The spec of a Job without its pod template."""

    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class JobLine(Job):
    """A Job without its pod template."""

    spec: JobSpecLine = JobSpecLine()


class _JobTemplateLine(JobTemplateSpec):
    spec: JobSpecLine = JobSpecLine()


class _RoleLine(ReplicatedJob):
    template: _JobTemplateLine = _JobTemplateLine()


class _JobSetSpecLine(JobSetSpec):
    replicated_jobs: tuple[_RoleLine, ...] = ()


class JobSetLine(JobSet):
    """A JobSet without pod templates."""

    spec: _JobSetSpecLine = _JobSetSpecLine()


class _PodSetLine(PodSet):
    template: PodTemplateSpec = msgspec.field(name=_UNREAD, default=PodTemplateSpec())


class _WorkloadSpecLine(WorkloadSpec):
    pod_sets: tuple[_PodSetLine, ...] = ()


class WorkloadLine(Workload):
    """A Workload without pod templates."""

    spec: _WorkloadSpecLine = _WorkloadSpecLine()


NODE_LINES: Kind[Node] = NODE.viewed_as(NodeLine)
POD_LINES: Kind[Pod] = POD.viewed_as(PodLine)
JOB_LINES: Kind[Job] = JOB.viewed_as(JobLine)
JOB_SET_LINES: Kind[JobSet] = JOB_SET.viewed_as(JobSetLine)
WORKLOAD_LINES: Kind[Workload] = WORKLOAD.viewed_as(WorkloadLine)
