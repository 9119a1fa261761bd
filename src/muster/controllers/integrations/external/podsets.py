"""Read the podsets of other projects' kinds. Pure; most functions return a reader for some kinds.

Names, order and counts of podsets are Kueue's, so that a Workload that Kueue made fits the job in Muster.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from muster.api.core import PodTemplateSpec
from muster.api.core.container import Container, ResourceRequirements
from muster.api.kueue import PodSet
from muster.api.managed.topology import topology_request
from muster.api.members import value_at
from muster.controllers.integrations.external.documents import (
    ExternalJob,
    Path,
    count_at,
    list_at,
    template_at,
    text_at,
)
from muster.controllers.integrations.framework import UnreadableJobError

# The label that Kubeflow's operators add to pods, with the rank within the role.
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
HEAD: Final = "head"
SUBMITTER: Final = "submitter"


class Place(msgspec.Struct, frozen=True):
    """A podset of a job, with the location of its pod template in the job.

    path: the path of the template.
    ranked_by: the pod label with the rank.
    groups: if pods form groups with ranks of their own, the pod label with the group's index, and the number of groups.
    written: whether the job contains the template. Otherwise the kind's controller uses a default template, and
    injected values are written to the path.
    """

    name: str
    count: int
    path: Path
    template: PodTemplateSpec
    ranked_by: str | None = None
    groups: tuple[str, int] | None = None
    written: bool = True

    @property
    def podset(self) -> PodSet:
        """The podset as the job's Workload has it, with the topology request in the template's annotations."""
        request = topology_request(self.template.metadata.annotations, self.ranked_by, self.groups)
        return PodSet(name=self.name, template=self.template, count=self.count, topology_request=request)


# Raises `UnreadableJobError`.
PlacesOf = Callable[[ExternalJob], Iterator[Place]]


def replica_specs(field: str, *roles: str) -> PlacesOf:
    """Return a reader of the podsets in a map of roles in `spec`, as in Kubeflow's kinds.

    field: the name of the map.
    roles: the roles to read, in the order of their podsets; other roles in the map are ignored.
    """

    def places(job: ExternalJob) -> Iterator[Place]:
        document = {"spec": job.spec}
        if not isinstance(job.spec.get(field) or {}, dict):
            raise UnreadableJobError(f"spec.{field}", "must be a map of roles")
        for role in roles:
            if value_at(job.spec, (field, role)) is None:
                continue
            path: Path = ("spec", field, role)
            template = template_at(document, (*path, "template"))
            count = count_at(document, *path, "replicas")
            yield Place(role.lower(), count, (*path, "template"), template, REPLICA_INDEX)

    return places


def ray_groups(*cluster: str) -> PlacesOf:
    """Return the reader of a Ray cluster's podsets: the head, and each group of workers.

    cluster: the path of the cluster's spec.
    """

    def places(job: ExternalJob) -> Iterator[Place]:
        document = {"spec": job.spec}
        path: Path = (*cluster, "headGroupSpec", "template")
        yield Place(HEAD, 1, path, template_at(document, path))
        for number, group in enumerate(list_at(document, *cluster, "workerGroupSpecs")):
            at: Path = (*cluster, "workerGroupSpecs", number)
            count = count_at(document, *at, "replicas") * max(1, count_at(document, *at, "numOfHosts"))
            yield Place(
                text_at(group, "groupName").lower(), count, (*at, "template"), template_at(document, (*at, "template"))
            )

    return places


def ray_job(job: ExternalJob) -> Iterator[Place]:
    """Yield the podsets of a RayJob: the podsets of its cluster, and the pod that submits the job to the cluster.

    With the submission mode SidecarMode, the head pod contains the submitter. Only K8sJobMode has a separate submitter
    pod.
    """
    mode = text_at(job.spec, "submissionMode") or "K8sJobMode"
    first = True
    for place in ray_groups("spec", "rayClusterSpec")(job):
        yield _add_submitter(place) if first and mode == "SidecarMode" else place
        first = False
    if mode == "K8sJobMode":
        yield _find_submitter(job)


def _find_submitter(job: ExternalJob) -> Place:
    path: Path = ("spec", "submitterPodTemplate")
    if value_at(job.spec, path[1:]) is not None:
        return Place(SUBMITTER, 1, path, template_at({"spec": job.spec}, path))
    containers = list_at(job.spec, "rayClusterSpec", "headGroupSpec", "template", "spec", "containers")
    image = text_at(containers[0], "image") if containers else ""
    return Place(SUBMITTER, 1, path, _make_submitter_template(image), written=False)


def _add_submitter(head: Place) -> Place:
    spec = head.template.spec
    spec = msgspec.structs.replace(spec, containers=(*spec.containers, _make_submitter_container("")))
    return msgspec.structs.replace(head, template=msgspec.structs.replace(head.template, spec=spec))


def _make_submitter_container(image: str) -> Container:
    """Return the container that KubeRay adds.

    Its resources are KubeRay's defaults, which a RayJob cannot change.
    """
    resources = ResourceRequirements(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m", "memory": "200Mi"})
    return Container(name="ray-job-submitter", image=image, resources=resources)


def _make_submitter_template(image: str) -> PodTemplateSpec:
    container = msgspec.to_builtins(_make_submitter_container(image))
    return msgspec.convert({"spec": {"containers": [container], "restartPolicy": "Never"}}, PodTemplateSpec)
