"""Make the other objects of a Job: its PodGroup, and a Service, a ConfigMap and claims for its plugins and volumes."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import ConfigMap, PersistentVolumeClaim, Service, ServiceSpec
from muster.api.meta import ObjectMeta
from muster.api.podgroups.volcano import PodGroup, PodGroupSpec
from muster.api.volcano import JOB_NAME, JOB_NAMESPACE, SVC, VOLCANO_JOB, Job, TaskSpec
from muster.api.volcano.plugins import svc_arguments
from muster.jobs.volcano.pods import claim_name, hosts_name, make_hosts, pod_group_name


class Children(Struct, frozen=True):
    """The objects other than pods that a Job needs."""

    pod_group: PodGroup
    service: Service | None = None
    hosts: ConfigMap | None = None
    claims: tuple[PersistentVolumeClaim, ...] = ()


def make_children(job: Job) -> Children:
    """Return the objects that the Job needs other than its pods."""
    group = PodGroup(
        metadata=_make_meta(job, pod_group_name(job), labels=job.metadata.labels), spec=_make_group_spec(job)
    )
    claims = tuple(_make_claims(job))
    if SVC not in job.spec.plugins:
        return Children(group, claims=claims)
    service = Service(
        metadata=_make_meta(job, job.metadata.name),
        spec=ServiceSpec(
            cluster_ip="None",
            selector={JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace},
            publish_not_ready_addresses=svc_arguments(job).publish_not_ready_addresses,
        ),
    )
    return Children(
        group, service, ConfigMap(metadata=_make_meta(job, hosts_name(job)), data=dict(make_hosts(job))), claims
    )


def minimum_of(task: TaskSpec) -> int:
    """Return how many pods of a task must start together."""
    return task.replicas if task.min_available is None else task.min_available


def _make_group_spec(job: Job) -> PodGroupSpec:
    spec = job.spec
    return PodGroupSpec(
        min_member=spec.min_available,
        min_task_member={task.name: minimum_of(task) for task in spec.tasks},
        queue=spec.queue,
        priority_class_name=spec.priority_class_name,
    )


def _make_claims(job: Job) -> Iterator[PersistentVolumeClaim]:
    for place, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            yield PersistentVolumeClaim(metadata=_make_meta(job, claim_name(job, place)), spec=volume.volume_claim)


def _make_meta(job: Job, name: str, labels: dict[str, str] | None = None) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=job.metadata.namespace,
        labels=labels or {},
        owner_references=(VOLCANO_JOB.refer_to_controller(job.metadata),),
    )
