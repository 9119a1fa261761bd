"""Mirror Jobs whose `spec.managedBy` names MultiKueue. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.batch import (
    CONTROLLER_UID_LABEL,
    INDEXED,
    JOB,
    JOB_NAME_LABEL,
    LEGACY_CONTROLLER_UID_LABEL,
    LEGACY_JOB_NAME_LABEL,
    Job,
    JobSpec,
    pods_at_once,
)
from muster.api.kueue import PodSet
from muster.api.kueue.names import ELASTIC_JOB, MULTI_KUEUE_CONTROLLER
from muster.api.managed.jobs import ties_completions
from muster.api.ours.elastic import ELASTIC_ANNOTATION, World, is_elastic
from muster.jobs.job import world as worlds
from muster.jobs.job.conditions import finish
from muster.jobs.job.terms import managed_by
from muster.multicluster.mirrors.framework import Mirror, restore
from muster.multicluster.mirrors.jobstatus import at_rest, mirror_status
from muster.runtime.objects import merge_patch

# Labels that the API server sets on the pods of a Job, and on a Job without labels. A copy omits them, because the API
# server of its worker sets its own.
_SERVERS_LABELS = (CONTROLLER_UID_LABEL, JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, LEGACY_JOB_NAME_LABEL)


def make_resize_operations(path: str, here: JobSpec, there: JobSpec) -> list[dict[str, Any]]:
    """Return the JSON patch that gives a Job spec the size of another spec; a missing size is written as 1.

    path: the path of the patched spec in its object.
    here: the spec with the desired size.
    there: the spec to patch.
    """
    sizes = {"parallelism": (here.parallelism, there.parallelism)}
    if here.completion_mode == INDEXED:  # completions may change only then
        sizes["completions"] = (here.completions, there.completions)
    return [
        {"op": "add", "path": f"{path}/{field}", "value": 1 if mine is None else mine}
        for field, (mine, its) in sizes.items()
        if mine != its
    ]


def cap_parallelism(spec: JobSpec, podsets: Sequence[PodSet]) -> JobSpec:
    """Return a spec with its parallelism limited to the podset's count, which has quota.

    An Indexed Job whose completions equal its parallelism keeps them equal.
    """
    if len(podsets) != 1 or podsets[0].count >= pods_at_once(spec):
        return spec
    size, tied = podsets[0].count, spec.completion_mode == INDEXED and spec.completions == spec.parallelism
    return replace(spec, parallelism=size, completions=size if tied else spec.completions)


def _undo_partial_admission(spec: JobSpec, size: int, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that give a Job the size of its podset again; {} if the manager has not made it smaller.

    The worker decides by itself how many of the pods get quota, and refuses a Job of the smallest size.
    """
    if pods_at_once(spec) >= size:
        return {}
    return {"parallelism": size} | ({"completions": size} if ties_completions(annotations) else {})


class JobMirror(Mirror[Job]):
    """The rules by which MultiKueue runs a Job in a worker cluster (`Mirror`)."""

    kind = JOB

    def is_handed_over(self, job: Job) -> bool:
        """Return whether `spec.managedBy` names MultiKueue."""
        return managed_by(job) == MULTI_KUEUE_CONTROLLER

    def status(self, local: Job, remote: Job) -> dict[str, Any] | None:
        """Return the merge patch that gives the local Job the copy's status.

        Return {} if the local Job has finished, or the API server would refuse the change. Return None while the local
        Job is suspended and the copy runs.
        """
        if self.has_ended(local):
            return {}
        if local.spec.suspend and not remote.spec.suspend and finish(remote) is None:
            return None
        return merge_patch(mirror_status(local, remote), local.status)

    def make_stop_patch(self, local: Job, now: datetime) -> dict[str, Any]:
        """Return the merge patch that gives the local Job the status of a suspended Job; {} if it has finished."""
        return {} if self.has_ended(local) else merge_patch(at_rest(local, now), local.status)

    def has_ended(self, local: Job) -> bool:
        """Return whether the Job is Complete or Failed."""
        return finish(local) is not None

    def has_started(self, remote: Job) -> bool:
        """Return whether the copy is not suspended or counts pods."""
        return not remote.spec.suspend or self.is_active(remote)

    def is_active(self, remote: Job) -> bool:
        """Return whether the copy counts pods that have not finished."""
        status = remote.status
        return bool(status.active or status.terminating or status.ready)

    def make_resize_patch(self, local: Job, remote: Job, podsets: Sequence[PodSet]) -> list[dict[str, Any]]:
        """Return the JSON patch that gives the copy the local Job's size, limited by quota; [] if it is not elastic.

        podsets: the podsets with the counts for which the workload has quota.
        """
        if not is_elastic(local.metadata.annotations):
            return []
        return make_resize_operations("/spec", cap_parallelism(local.spec, podsets), remote.spec)

    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:
        spec, annotations = document["spec"], document["metadata"]["annotations"]
        spec["suspend"] = True
        bounded = annotations.pop(ELASTIC_ANNOTATION, None) is not None  # only the manager resizes it
        if bounded:
            annotations[ELASTIC_JOB] = "true"
        if is_elastic(annotations):
            sized = cap_parallelism(msgspec.convert(spec, JobSpec), podsets)
            spec |= {"parallelism": sized.parallelism, "completions": sized.completions}
        elif len(podsets) == 1 and podsets[0].min_count is not None:
            spec |= _undo_partial_admission(msgspec.convert(spec, JobSpec), podsets[0].count, annotations)
        if bounded and spec.get("completionMode") == INDEXED:  # the worker's engine tells the pods their world
            annotations |= worlds.make_world_annotations(World(spec["completions"] or 0, 1))
        template = spec.setdefault("template", {})
        if len(podsets) == 1:
            restore(template, podsets[0].template, keep=_SERVERS_LABELS)
        if spec.get("manualSelector"):
            return  # the user set these labels
        spec.pop("selector", None)
        for labeled in (document["metadata"], template.get("metadata") or {}):
            for label in _SERVERS_LABELS:
                (labeled.get("labels") or {}).pop(label, None)
