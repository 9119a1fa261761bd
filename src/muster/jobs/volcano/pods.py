"""Make the pods of a Job from the templates of its tasks, with the additions of its plugins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.core import Container, EnvVar, EnvVarSource, Pod, PodSpec
from muster.api.core.container import ConfigMapKeySelector, ContainerPort, VolumeMount
from muster.api.core.volumes import ConfigMapVolumeSource, PersistentVolumeClaimVolumeSource, Volume
from muster.api.meta import ObjectMeta
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION
from muster.api.volcano import (
    ENV,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    POD_TEMPLATE,
    PYTORCH,
    QUEUE_NAME,
    SVC,
    TASK_INDEX,
    TASK_SPEC,
    VOLCANO_JOB,
    Job,
    TaskSpec,
)
from muster.api.volcano.plugins import pytorch_arguments, svc_arguments

_INDEX_VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")
_HOSTS_PATH = "/etc/volcano"
_HOSTS_VOLUME = "volcano-svc"
_PORT_NAME = "pytorchjob-port"


def pod_name(job: Job, task: str, index: int) -> str:
    """Return the name of a pod. TorchX and other clients rely on this form."""
    return f"{job.metadata.name}-{task}-{index}"


def pod_group_name(job: Job) -> str:
    """Return the name of the Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def hosts_name(job: Job) -> str:
    """Return the name of the ConfigMap with the host names of the Job's pods."""
    return f"{job.metadata.name}-{SVC}"


def claim_name(job: Job, place: int) -> str:
    """Return the name of the PersistentVolumeClaim for a volume of a Job.

    place: the volume's index in the Job's list of volumes.
    """
    return job.spec.volumes[place].volume_claim_name or f"{job.metadata.name}-volume-{place}"


class _Common(Struct, frozen=True):
    """The additions by plugins that all pods of a Job share.

    hosts: the environment variables of the plugin `svc`.
    group: the environment variables of the plugin `pytorch`, except the rank.
    ranks: the rank of the first pod, for each task whose pods have ranks.
    port: the port on which the pod of rank 0 listens; None without `pytorch`.
    """

    hosts: tuple[EnvVar, ...] = ()
    group: tuple[EnvVar, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)
    port: int | None = None


def make_pods(job: Job, places: Iterable[tuple[TaskSpec, int]]) -> Iterator[Pod]:
    """Yield the pods to create for these tasks and indexes."""
    common = _compute_common(job)
    for task, index in places:
        yield _make_pod(job, task, index, common)


def make_pod(job: Job, task: TaskSpec, index: int) -> Pod:
    """Return the pod to create for an index of a task."""
    return _make_pod(job, task, index, _compute_common(job))


def _make_pod(job: Job, task: TaskSpec, index: int, common: _Common) -> Pod:
    template, meta = task.template, job.metadata
    both = {TASK_INDEX: str(index), TASK_SPEC: task.name, JOB_NAME: meta.name, QUEUE_NAME: job.spec.queue}
    annotations = {
        GROUP_NAME_ANNOTATION: pod_group_name(job),
        JOB_VERSION: str(job.status.version),
        JOB_RETRY_COUNT: str(job.status.retry_count),
        POD_TEMPLATE: f"{meta.name}-{task.name}",
    }
    return Pod(
        metadata=ObjectMeta(
            name=pod_name(job, task.name, index),
            namespace=meta.namespace,
            labels=template.metadata.labels | both | {JOB_NAMESPACE: meta.namespace},
            annotations=template.metadata.annotations | both | annotations,
            owner_references=(VOLCANO_JOB.refer_to_controller(job.metadata),),
            finalizers=template.metadata.finalizers,
        ),
        spec=_make_spec(job, task, index, common),
    )


def _make_spec(job: Job, task: TaskSpec, index: int, common: _Common) -> PodSpec:
    """Return the spec of a task's pod, with the additions of the Job and its plugins."""
    spec = task.template.spec
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or job.spec.scheduler_name,
        priority_class_name=spec.priority_class_name or job.spec.priority_class_name,
    )
    for place, volume in enumerate(job.spec.volumes):
        source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(job, place))
        claim = Volume(name=f"volcano-volume-{place}", persistent_volume_claim=source)
        spec = _add_volume(spec, claim, volume.mount_path)
    if ENV in job.spec.plugins:
        spec = _add_variables(spec, (EnvVar(name=name, value=str(index)) for name in _INDEX_VARIABLES))
    if SVC in job.spec.plugins:
        spec = _add_hosts(job, spec, pod_name(job, task.name, index), common.hosts)
    if common.port is not None:
        first = common.ranks.get(task.name)
        rank = () if first is None else (EnvVar(name="RANK", value=str(first + index)),)
        spec = _add_group(spec, (*common.group, *rank), common.port)
    return spec


def _compute_common(job: Job) -> _Common:
    """Return the plugins' additions that all pods share. The cost grows with the number of tasks, not of pods."""
    common = _Common()
    if SVC in job.spec.plugins and svc_arguments(job).inject_hosts_env:
        names = (name for task in job.spec.tasks for name in _name_variables(task))
        common = replace(common, hosts=tuple(_make_host_variable(job, name) for name in names))
    if PYTORCH in job.spec.plugins:
        common = _add_ranks(job, common)
    return common


def make_hosts(job: Job) -> Mapping[str, str]:
    """Return the data of the ConfigMap for the plugin `svc`.

    It contains a file with the host names of each task, and a file for each environment variable.
    """
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        names = _list_host_names(job, task)
        variables = _name_variables(task)
        data |= {
            f"{task.name.replace('-', '_')}.host": "\n".join(names),
            variables[0]: ",".join(names),
            variables[1]: str(len(names)),
        }
    return data


def _list_host_names(job: Job, task: TaskSpec) -> Sequence[str]:
    different = min(task.replicas, 1) if task.template.spec.hostname else task.replicas
    return [_make_host_name(job, task, index) for index in range(different)]


def _make_host_name(job: Job, task: TaskSpec, index: int) -> str:
    spec = task.template.spec
    return f"{spec.hostname or pod_name(job, task.name, index)}.{spec.subdomain or job.metadata.name}"


def _name_variables(task: TaskSpec) -> tuple[str, str]:
    word = task.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"


def _add_hosts(job: Job, spec: PodSpec, name: str, variables: Sequence[EnvVar]) -> PodSpec:
    """Return the spec with a resolvable host name for the pod, and with the host names of the other pods."""
    spec = replace(spec, hostname=spec.hostname or name, subdomain=spec.subdomain or job.metadata.name)
    source = ConfigMapVolumeSource(name=hosts_name(job))
    return _add_volume(_add_variables(spec, variables), Volume(name=_HOSTS_VOLUME, config_map=source), _HOSTS_PATH)


def _make_host_variable(job: Job, name: str) -> EnvVar:
    key = ConfigMapKeySelector(name=hosts_name(job), key=name)
    return EnvVar(name=name, value_from=EnvVarSource(config_map_key_ref=key))


def _add_ranks(job: Job, common: _Common) -> _Common:
    """Return the additions with the environment variables of torch.distributed."""
    arguments = pytorch_arguments(job)
    tasks = {each.name: each for each in job.spec.tasks}
    master = tasks[arguments.master]
    members = [tasks[name] for name in dict.fromkeys((arguments.master, arguments.worker)) if name in tasks]
    variables = {
        "MASTER_ADDR": _make_host_name(job, master, 0) if master.replicas else "",
        "MASTER_PORT": str(arguments.port),
        "WORLD_SIZE": str(sum(each.replicas for each in members)),
    }
    return replace(
        common,
        group=tuple(EnvVar(name=name, value=value) for name, value in variables.items()),
        ranks={arguments.worker: master.replicas} | {arguments.master: 0},
        port=arguments.port,
    )


def _add_group(spec: PodSpec, variables: Iterable[EnvVar], port: int) -> PodSpec:
    """Return the spec with the environment variables of the plugin `pytorch`, and its port in each container."""
    spec = _add_variables(spec, variables)
    return replace(spec, containers=tuple(_add_port(container, port) for container in spec.containers))


def _add_port(container: Container, port: int) -> Container:
    if any(each.container_port == port for each in container.ports):
        return container
    return replace(container, ports=(*container.ports, ContainerPort(name=_PORT_NAME, container_port=port)))


def _add_variables(spec: PodSpec, variables: Iterable[EnvVar]) -> PodSpec:
    """Return the spec with the variables in all its containers, except where the user sets the same names."""
    additions = tuple(variables)

    def complete(container: Container) -> Container:
        there = {variable.name for variable in container.env}
        return replace(container, env=(*container.env, *(one for one in additions if one.name not in there)))

    return _change_containers(spec, complete)


def _add_volume(spec: PodSpec, volume: Volume, path: str) -> PodSpec:
    """Return the spec with the volume at that path in all its containers."""
    mount = VolumeMount(name=volume.name, mount_path=path)

    def complete(container: Container) -> Container:
        return replace(container, volume_mounts=(*container.volume_mounts, mount))

    return replace(_change_containers(spec, complete), volumes=(*spec.volumes, volume))


def _change_containers(spec: PodSpec, change: Callable[[Container], Container]) -> PodSpec:
    return replace(
        spec,
        init_containers=tuple(map(change, spec.init_containers)),
        containers=tuple(map(change, spec.containers)),
    )
