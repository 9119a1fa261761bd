"""Make the Jobs of a JobSet, exactly as upstream makes them."""

from collections.abc import Iterable
from hashlib import sha1

from msgspec.structs import replace

from muster.api.batch import Job, JobTemplateSpec
from muster.api.config.types import GroupScheduling
from muster.api.core import Container, PodSpec, Toleration, Volume
from muster.api.core.volumes import PersistentVolumeClaimVolumeSource
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.jobset.naming import claim_name, coordinator_endpoint, job_name, name_subdomain
from muster.api.meta import ObjectMeta
from muster.jobs.jobset import gang
from muster.jobs.jobset.census import job_restarts
from muster.jobs.jobset.start.barrier import DEFAULT, add_barrier
from muster.jobs.jobset.start.group import epoch_of, is_target
from muster.jobs.jobset.terms import attempt_of, has_dns_names, is_suspended


class Children:
    """A maker of one JobSet's child Jobs. It computes their common parts once."""

    def __init__(self, jobset: JobSet, start: GroupScheduling = DEFAULT) -> None:
        self._jobset = jobset
        self._start = start
        self._owner = JOB_SET.refer_to_controller(jobset.metadata)
        self._records = {record.name: record for record in jobset.status.replicated_jobs_status}
        self._global_replicas = 0
        self._group_replicas: dict[str, int] = {}
        # By role: the index of its first Job among all Jobs of the JobSet, and among the Jobs of its group.
        self._first: dict[str, tuple[int, int]] = {}
        for role in jobset.spec.replicated_jobs:
            in_group = self._group_replicas.get(role.group_name, 0)
            self._first[role.name] = self._global_replicas, in_group
            self._global_replicas += role.replicas
            self._group_replicas[role.group_name] = in_group + role.replicas

    def job(self, role: ReplicatedJob, index: int) -> Job:
        """Return the Job of a role with that index."""
        meta = self._jobset.metadata
        template = self.template(role, index)
        return Job(
            metadata=ObjectMeta(
                name=job_name(self._jobset, role.name, index),
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(self._owner,),
            ),
            spec=replace(template.spec, suspend=is_suspended(self._jobset)),
        )

    def template(self, role: ReplicatedJob, index: int) -> JobTemplateSpec:
        """Return the template of a Job: its labels, annotations and spec."""
        jobset, template = self._jobset, role.template
        marks = self._make_labels(role, index)
        placement = self._read_placement(role)
        labels, annotations = template.metadata.labels | marks, template.metadata.annotations | marks | placement
        pod_marks = marks | {names.RESTART_ATTEMPT: str(attempt_of(jobset))}
        pods = template.spec.template
        spec = pods.spec
        if has_dns_names(jobset):
            spec = replace(spec, subdomain=name_subdomain(jobset))
        if names.EXCLUSIVE_TOPOLOGY in annotations and names.NODE_SELECTOR_STRATEGY in annotations:
            spec = _select_own_nodes(spec, f"{jobset.metadata.namespace}_{job_name(jobset, role.name, index)}")
        spec = replace(spec, volumes=(*spec.volumes, *self._list_volumes(spec)))
        meta = replace(
            pods.metadata,
            labels=pods.metadata.labels | pod_marks,
            annotations=pods.metadata.annotations | pod_marks | placement | gang.pod_annotations(jobset, role),
        )
        job_template = JobTemplateSpec(
            metadata=ObjectMeta(labels=labels, annotations=annotations),
            spec=replace(template.spec, template=replace(pods, metadata=meta, spec=spec)),
        )
        if not is_target(jobset.spec, role.name):
            return job_template
        return add_barrier(job_template, jobset, epoch_of(jobset), self._start)

    def _make_labels(self, role: ReplicatedJob, index: int) -> dict[str, str]:
        """Return the key-value pairs that the Job and its pods get both as labels and as annotations."""
        jobset = self._jobset
        name = job_name(jobset, role.name, index)
        first, first_in_group = self._first[role.name]
        marks = {
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
            marks[names.COORDINATOR] = coordinator_endpoint(jobset, jobset.spec.coordinator)
        return marks

    def _read_placement(self, role: ReplicatedJob) -> dict[str, str]:
        """Return the annotations for exclusive placement: the JobSet's annotations, overridden by the role's."""
        placement: dict[str, str] = {}
        for annotations in (self._jobset.metadata.annotations, role.template.metadata.annotations):
            if names.EXCLUSIVE_TOPOLOGY in annotations:
                kinds = (names.EXCLUSIVE_TOPOLOGY, names.NODE_SELECTOR_STRATEGY)
                placement |= {name: annotations[name] for name in kinds if name in annotations}
        return placement

    def _list_volumes(self, spec: PodSpec) -> Iterable[Volume]:
        """Yield a volume for each claim that a container mounts."""
        mounted = {mount.name for container in _list_containers(spec) for mount in container.volume_mounts}
        for policy in self._jobset.spec.volume_claim_policies:
            for claim in policy.templates:
                if (name := claim.metadata.name) in mounted:
                    source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(self._jobset, name))
                    yield Volume(name=name, persistent_volume_claim=source)


def job_key(namespace: str, name: str) -> str:
    """Return a hash that identifies the Job in labels, where its name may be too long."""
    return sha1(f"{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()


def _list_containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*spec.containers, *spec.init_containers)


def _select_own_nodes(spec: PodSpec, job: str) -> PodSpec:
    """Return the pod spec restricted to the nodes that an administrator reserved for the Job by label."""
    toleration = Toleration(key=names.NO_SCHEDULE_TAINT, operator="Exists", effect="NoSchedule")
    return replace(
        spec,
        node_selector=spec.node_selector | {names.NAMESPACED_JOB: job},
        tolerations=(*spec.tolerations, toleration),
    )
