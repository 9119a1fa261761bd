"""Queue TrainJobs. The pods of a TrainJob belong to the JobSet that its controller makes from its runtime.

The controller of TrainJobs creates that JobSet as soon as the TrainJob exists, suspended like the TrainJob. So podsets
are read from the JobSet, and no rule about runtimes is repeated here. Injected values are a patch of the runtime in the
TrainJob; its controller applies the patch to the JobSet while both are suspended.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from muster.api.kueue import PodSet, ReclaimablePod
from muster.api.members import drop_empty, mapping_at
from muster.controllers.integrations.external import statusreaders
from muster.controllers.integrations.external.documents import ExternalJob, Json, list_at, patch_at, text_at
from muster.controllers.integrations.external.integration import ExternalIntegration
from muster.controllers.integrations.external.kinds import kind_of
from muster.controllers.integrations.external.podsets import Place
from muster.controllers.integrations.external.shape import Shape
from muster.controllers.integrations.framework import Step
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.queueing.jobframework.observedjob import PodSetInfo

# The manager of the runtime patch, the same name that Kueue uses.
MANAGER: Final = "kueue.x-k8s.io/manager"
_PATCHES: Final = ("trainingRuntimeSpec", "template", "spec")
_JOBSETS: Final = JobSetIntegration()


class TrainJobIntegration(ExternalIntegration):
    """The integration of TrainJobs whose runtime is a JobSet. The JobSet has no Workload of its own."""

    parts = (_JOBSETS,)
    needs_parts = True

    def __init__(self) -> None:
        super().__init__(TRAIN_JOB)

    def attach_parts(self, job: ExternalJob, parts: Sequence[Any]) -> ExternalJob:
        """Return the TrainJob with the JobSet of the same name attached, from which its pods are read."""
        own = tuple(one for one in parts if one.metadata.name == job.metadata.name)
        return msgspec.structs.replace(job, parts=own)

    def podsets(self, job: ExternalJob) -> tuple[PodSet, ...]:
        """Return the podsets of the TrainJob's JobSet; none before the JobSet exists."""
        return tuple(podset for part in job.parts for podset in _JOBSETS.podsets(part))

    def priority_class(self, job: ExternalJob) -> str:
        """Return the PriorityClass of the first pods in the TrainJob's JobSet that name one."""
        return next(filter(None, (_JOBSETS.priority_class(part) for part in job.parts)), "")

    def lacks_injection(self, job: ExternalJob) -> bool:
        """Return whether the TrainJob is not suspended and lacks the patch with which admission injects values.

        Return False if the CRD of TrainJobs has no such patches.
        """
        own = _find_own_patch(job)
        return not self.is_suspended(job) and own is not None and not list_at(own, *_PATCHES, "replicatedJobs")

    def reclaimable(self, job: ExternalJob) -> tuple[ReclaimablePod, ...]:
        """Return how many pods belong to Jobs that have succeeded, by podset."""
        done = statusreaders.train_jobs(job, "succeeded")
        sizes = {podset.name: podset.count for podset in self.podsets(job)}
        succeeded_pods = ((role, done.get(role.name, 0)) for part in job.parts for role in part.spec.replicated_jobs)
        return tuple(
            ReclaimablePod(name=role.name, count=min(count, role.replicas) * sizes[role.name] // role.replicas)
            for role, count in succeeded_pods
            if count > 0 and role.replicas > 0
        )

    def start(self, job: ExternalJob, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the writes that first patch the TrainJob's runtime and then resume the TrainJob.

        TrainJob's controller accepts the patch only while the TrainJob is suspended.
        """
        patched = [_make_replicated_job(info) for info in infos]
        return [_make_step(job, patched), Step(patch_at(self.shape.suspend, False))]

    def restore(self, job: ExternalJob, original: Sequence[PodSet]) -> Sequence[Step]:  # noqa: ARG002
        """Return the write that empties the engine's patch of the runtime; no write if the patch is empty or missing.

        TrainJob's controller then updates the JobSet.
        """
        own = _find_own_patch(job)
        return [_make_step(job, [])] if own is not None and list_at(own, *_PATCHES, "replicatedJobs") else []

    def defaults(self, job: ExternalJob) -> Json:
        """Return a merge patch that adds an empty runtime patch of the engine; {} if the TrainJob has one.

        If Kueue later manages the TrainJob, it starts no TrainJob without such a runtime patch.
        """
        if _find_own_patch(job) is not None:
            return {}
        patches = [*list_at(job.spec, "runtimePatches"), _patch([])]
        return {"spec": {"runtimePatches": patches}}


def _list_no_places(job: ExternalJob) -> Iterator[Place]:  # noqa: ARG001  (podsets are its JobSet's)
    return iter(())


def _is_ready(job: ExternalJob) -> bool:
    """Return whether all Jobs of the JobSet are ready or have succeeded; False before the JobSet exists."""
    wanted = {role.name: role.replicas for part in job.parts for role in part.spec.replicated_jobs}
    ready, done = (statusreaders.train_jobs(job, count) for count in ("ready", "succeeded"))
    return bool(wanted) and all(ready.get(name, 0) + done.get(name, 0) >= wanted[name] for name in wanted)


TRAIN_JOB: Final = Shape(
    kind=kind_of("trainer.kubeflow.org/trainjob", "trainjobs"),
    name="trainer.kubeflow.org/trainjob",
    controller="trainer.kubeflow.org/trainjob-controller",
    places=_list_no_places,
    end=statusreaders.end_by_condition("Complete"),
    is_active=statusreaders.train_job_is_active,
    is_ready=_is_ready,
)


def _find_own_patch(job: ExternalJob) -> Json | None:
    patches = list_at(job.spec, "runtimePatches")
    return next((mapping_at(one) for one in patches if text_at(one, "manager") == MANAGER), None)


def _patch(replicated_jobs: list[Json]) -> Json:
    spec: Json = {"replicatedJobs": replicated_jobs} if replicated_jobs else {}
    return {"manager": MANAGER, **patch_at(_PATCHES, spec)}


def _make_step(job: ExternalJob, replicated_jobs: list[Json]) -> Step:
    """Return the write that replaces the engine's patch of the runtime, and keeps the patches of other managers."""
    patches, own = list_at(job.spec, "runtimePatches"), _patch(replicated_jobs)
    if not patches:
        return Step(operations=({"op": "add", "path": "/spec/runtimePatches", "value": [own]},))
    number = next((i for i, one in enumerate(patches) if text_at(one, "manager") == MANAGER), None)
    if number is None:
        return Step(operations=({"op": "add", "path": "/spec/runtimePatches/-", "value": own},))
    return Step(operations=({"op": "replace", "path": f"/spec/runtimePatches/{number}", "value": own},))


def _make_replicated_job(info: PodSetInfo) -> Json:
    metadata: Json = {"labels": dict(info.labels), "annotations": dict(info.annotations)}
    spec: Json = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": msgspec.to_builtins(info.tolerations),
        "schedulingGates": [{"name": name} for name in info.gates],
    }
    template = {"metadata": drop_empty(metadata), "spec": drop_empty(spec)}
    return {"name": info.name, "template": {"spec": {"template": template}}}
