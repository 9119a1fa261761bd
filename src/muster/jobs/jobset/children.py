"""The Jobs of a JobSet, byte for byte as upstream makes them."""

from collections.abc import Iterable
from hashlib import sha1

from msgspec.structs import replace

from muster.api.batch import Job, JobTemplateSpec
from muster.api.config.types import GroupScheduling
from muster.api.core import Container, PodSpec, Toleration, Volume
from muster.api.core.volumes import PersistentVolumeClaimVolumeSource
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.jobset.naming import claim_name, coordinator_endpoint, job_name, subdomain
from muster.api.meta import ObjectMeta, OwnerReference
from muster.jobs.jobset import gang
from muster.jobs.jobset.census import job_restarts
from muster.jobs.jobset.start.barrier import DEFAULT, gated
from muster.jobs.jobset.start.group import epoch_of, is_target
from muster.jobs.jobset.terms import has_dns_names, is_suspended


class Children:
    """Makes the Jobs of one JobSet; what they share is made once."""

    def __init__(self, jobset: JobSet, start: GroupScheduling = DEFAULT) -> None:
        self._jobset = jobset
        self._start = start
        self._owner = owner_reference(jobset)
        self._records = {record.name: record for record in jobset.status.replicated_jobs_status}
        self._global_replicas = 0
        self._group_replicas: dict[str, int] = {}
        self._first: dict[str, tuple[int, int]] = {}  # of each role: index of its first Job, among all and in its group
        for role in jobset.spec.replicated_jobs:
            in_group = self._group_replicas.get(role.group_name, 0)
            self._first[role.name] = self._global_replicas, in_group
            self._global_replicas += role.replicas
            self._group_replicas[role.group_name] = in_group + role.replicas

    def job(self, role: ReplicatedJob, index: int) -> Job:
        """The Job of a role with that index."""
        meta = self._jobset.metadata
        made = self.template(role, index)
        return Job(
            metadata=ObjectMeta(
                name=job_name(self._jobset, role.name, index),
                namespace=meta.namespace,
                labels=made.metadata.labels,
                annotations=made.metadata.annotations,
                owner_references=(self._owner,),
            ),
            spec=replace(made.spec, suspend=is_suspended(self._jobset)),
        )

    def template(self, role: ReplicatedJob, index: int) -> JobTemplateSpec:
        """What the Job is like."""
        jobset, template = self._jobset, role.template
        said = self._said(role, index)
        placed = self._placement(role)
        labels, annotations = template.metadata.labels | said, template.metadata.annotations | said | placed
        pods = template.spec.template
        spec = pods.spec
        if has_dns_names(jobset):
            spec = replace(spec, subdomain=subdomain(jobset))
        if names.EXCLUSIVE_TOPOLOGY in annotations and names.NODE_SELECTOR_STRATEGY in annotations:
            spec = _on_its_own_nodes(spec, f"{jobset.metadata.namespace}_{job_name(jobset, role.name, index)}")
        spec = replace(spec, volumes=(*spec.volumes, *self._volumes(spec)))
        meta = replace(
            pods.metadata,
            labels=pods.metadata.labels | said,
            annotations=pods.metadata.annotations | said | placed | gang.pod_annotations(jobset, role),
        )
        made = JobTemplateSpec(
            metadata=ObjectMeta(labels=labels, annotations=annotations),
            spec=replace(template.spec, template=replace(pods, metadata=meta, spec=spec)),
        )
        return gated(made, jobset, epoch_of(jobset), self._start) if is_target(jobset.spec, role.name) else made

    def _said(self, role: ReplicatedJob, index: int) -> dict[str, str]:
        """What the Job and its pods have both as labels and as annotations."""
        jobset = self._jobset
        name = job_name(jobset, role.name, index)
        first, first_in_group = self._first[role.name]
        said = {
            names.JOBSET_NAME: jobset.metadata.name,
            names.JOBSET_UID: jobset.metadata.uid,
            names.REPLICATED_JOB_NAME: role.name,
            names.RESTART_ATTEMPT: str(jobset.status.restarts),
            names.JOB_RESTART_ATTEMPT: str(job_restarts(self._records.get(role.name), index)),
            names.REPLICATED_JOB_REPLICAS: str(role.replicas),
            names.GLOBAL_REPLICAS: str(self._global_replicas),
            names.JOB_INDEX: str(index),
            names.JOB_KEY: job_key(jobset.metadata.namespace, name),
            names.JOB_GLOBAL_INDEX: str(first + index),
            names.GROUP_NAME: role.group_name,
            names.GROUP_REPLICAS: str(self._group_replicas[role.group_name]),
            names.JOB_GROUP_INDEX: str(first_in_group + index),
        }
        if jobset.spec.coordinator is not None:
            said[names.COORDINATOR] = coordinator_endpoint(jobset, jobset.spec.coordinator)
        return said

    def _placement(self, role: ReplicatedJob) -> dict[str, str]:
        """Annotations about exclusive placement: the JobSet's, and over them its role's."""
        found: dict[str, str] = {}
        for asked in (self._jobset.metadata.annotations, role.template.metadata.annotations):
            if names.EXCLUSIVE_TOPOLOGY in asked:
                kinds = (names.EXCLUSIVE_TOPOLOGY, names.NODE_SELECTOR_STRATEGY)
                found |= {name: asked[name] for name in kinds if name in asked}
        return found

    def _volumes(self, spec: PodSpec) -> Iterable[Volume]:
        """The claims that a container mounts."""
        mounted = {mount.name for container in _containers(spec) for mount in container.volume_mounts}
        for policy in self._jobset.spec.volume_claim_policies:
            for claim in policy.templates:
                if (name := claim.metadata.name) in mounted:
                    source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(self._jobset, name))
                    yield Volume(name=name, persistent_volume_claim=source)


def owner_reference(jobset: JobSet) -> OwnerReference:
    """The reference that makes the JobSet the controller of what it owns."""
    return OwnerReference(
        api_version=JOB_SET.api_version,
        kind=JOB_SET.kind,
        name=jobset.metadata.name,
        uid=jobset.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def job_key(namespace: str, name: str) -> str:
    """What stands for the Job where its name may be too long."""
    return sha1(f"{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()


def _containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*spec.containers, *spec.init_containers)


def _on_its_own_nodes(spec: PodSpec, job: str) -> PodSpec:
    """On nodes that were set apart for the Job beforehand."""
    toleration = Toleration(key=names.NO_SCHEDULE_TAINT, operator="Exists", effect="NoSchedule")
    return replace(
        spec,
        node_selector=spec.node_selector | {names.NAMESPACED_JOB: job},
        tolerations=(*spec.tolerations, toleration),
    )
