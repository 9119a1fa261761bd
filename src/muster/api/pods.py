"""Read facts from a pod: its requests, its state, its owner."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.conditions import find, is_true
from muster.api.core import Container, Pod, PodCondition, PodSpec
from muster.api.core.container import ResourceRequirements
from muster.api.jobset.names import JOBSET_NAME, JOBSET_UID
from muster.api.meta import OwnerReference, controller_of
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.values.quantity import ResourceList, parse_amount

# The reason of the condition Ready of a pod on a lost node, where the pod may still run.
NODE_NOT_READY = "NodeNotReady"
# The message of a pod that the kubelet ended because its machine shut down.
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."
# The message of a pod that a process node found ended, although the server had it as running.
FORGOTTEN_MESSAGE = (
    "The server took the pod for one that runs: a backup was restored, or the end of the pod was never written."
)
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})

_QOS_RESOURCES = ("cpu", "memory")


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """Return the resources that the pod needs on a node, in units of `quantity.parse_amount`.

    Raises:
        QuantityError: a request is invalid.
    """
    if len(spec.containers) == 1 and not spec.init_containers:  # the shape of most pods
        requests = container_requests(spec.containers[0].resources)
        return _as_a_whole(spec, {resource: number for resource, number in requests.items() if number > 0})
    running = Counter[str]()
    for container in spec.containers:
        running.update(container_requests(container.resources))
    sidecars = Counter[str]()
    starting = Counter[str]()
    for container in spec.init_containers:
        requests = container_requests(container.resources)
        if is_sidecar(container):
            sidecars.update(requests)
            starting |= sidecars
        else:
            starting |= sidecars + Counter(requests)
    running.update(sidecars)
    return _as_a_whole(spec, dict(running | starting))


def _as_a_whole(spec: PodSpec, total: dict[str, int]) -> dict[str, int]:
    """Return the pod's requests: the containers' sum, replaced by the pod-level requests, plus the pod's overhead."""
    if spec.resources is not None:
        total |= container_requests(spec.resources)
    for resource, number in parse_amounts(spec.overhead).items():
        total[resource] = total.get(resource, 0) + number
    return total


def container_requests(resources: ResourceRequirements) -> dict[str, int]:
    """Return the requests of a container. A missing request is its limit.

    Raises:
        QuantityError: a request is invalid.
    """
    return (
        parse_amounts(resources.limits | resources.requests) if resources.limits else parse_amounts(resources.requests)
    )


def memory_limit(container: Container) -> int:
    """Return the memory limit of a container in bytes; 0 for none.

    Raises:
        QuantityError: the limit is invalid.
    """
    return parse_amount("memory", container.resources.limits.get("memory", 0))


def parse_amounts(resources: ResourceList) -> dict[str, int]:
    """Return the resources in units of `quantity.parse_amount`.

    Raises:
        QuantityError: a quantity is invalid.
    """
    return {resource: parse_amount(resource, quantity) for resource, quantity in resources.items()}


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running with the main containers."""
    return container.restart_policy == "Always"


def all_containers(spec: PodSpec) -> Iterator[Container]:
    """Return init containers, containers and ephemeral containers."""
    yield from spec.init_containers
    yield from spec.containers
    yield from spec.ephemeral_containers


def get_priority(pod: Pod) -> int:
    """Return the pod's priority, or 0 if it has none."""
    return pod.spec.priority or 0


def is_finished(pod: Pod) -> bool:
    """Return whether the pod will never run again."""
    return pod.status.phase in FINISHED_PHASES


def is_deleting(pod: Pod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Return whether the pod runs or will run, and is not being deleted."""
    return not is_finished(pod) and not is_deleting(pod)


def is_ready(pod: Pod) -> bool:
    """Return whether the pod's condition Ready is True."""
    return is_true(pod.status.conditions, "Ready")


def is_gated(pod: Pod) -> bool:
    """Return whether the pod has a scheduling gate."""
    return bool(pod.spec.scheduling_gates)


def find_condition(pod: Pod, type: str) -> PodCondition | None:
    """Return the pod's condition of a type, or None."""
    return find(pod.status.conditions, type)


def ended_with_cluster(pod: Pod) -> bool:
    """Return whether the pod ended because the whole cluster stopped, which its Job does not count as a failure."""
    stopped = find_condition(pod, CLUSTER_STOPPED)
    return stopped is not None and stopped.status == "True"


def restart_count(pod: Pod) -> int:
    """Return how often the pod's containers, init containers included, were restarted."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def rank_of(pod: Pod) -> str:
    """Return the completion index of the pod in its Job; without one, the last part of the pod's name."""
    return pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.name.rpartition("-")[2]


def job_reference(pod: Pod) -> OwnerReference | None:
    """Return the reference to the pod's controller if that is a Job; None otherwise."""
    owner = controller_of(pod.metadata)
    return owner if owner is not None and JOB.is_of(owner) else None


def job_uid(pod: Pod) -> str:
    """Return the UID of the pod's JobSet, or else of its Job; "" if it has neither."""
    owner = job_reference(pod)
    return "" if owner is None else pod.metadata.labels.get(JOBSET_UID) or owner.uid


def job_of(pod: Pod) -> tuple[str, str]:
    """Return the UID and the name of a pod's job: its JobSet, else its controller, else the pod itself."""
    labels, owner = pod.metadata.labels, controller_of(pod.metadata)
    uid, name = labels.get(JOBSET_UID, ""), labels.get(JOBSET_NAME, "")
    if owner is not None and uid and name:
        return uid, name
    return (owner.uid, owner.name) if owner is not None else (pod.metadata.uid, pod.metadata.name)


def qos_class(spec: PodSpec) -> str:
    """Return Guaranteed, Burstable or BestEffort, by CPU and memory of all containers or of the pod as a whole."""
    if spec.resources is not None and (
        _parse_qos_amounts(spec.resources.limits) or _parse_qos_amounts(spec.resources.requests)
    ):
        return _compute_qos([spec.resources])
    return _compute_qos(container.resources for container in (*spec.containers, *spec.init_containers))


def _compute_qos(requirements: Iterable[ResourceRequirements]) -> str:
    each = [(_parse_qos_amounts(r.limits | r.requests), _parse_qos_amounts(r.limits)) for r in requirements]
    if not any(requests or limits for requests, limits in each):
        return "BestEffort"
    guaranteed = all(len(limits) == len(_QOS_RESOURCES) and requests == limits for requests, limits in each)
    return "Guaranteed" if guaranteed else "Burstable"


def _parse_qos_amounts(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    amounts = {name: parse_amount(name, resources[name]) for name in _QOS_RESOURCES if name in resources}
    return {name: number for name, number in amounts.items() if number > 0}


def why_unplaced(pods: Iterable[Pod]) -> str:
    """Return the last message of a scheduler about unbound pods; "" if there is none.

    A scheduler sets the message of each pod when the pod begins to wait, and the message of one pod of a gang when the
    reason changes (`lastProbeTime`). The messages of gated pods count only if all pods are gated.
    """
    listed_pods = list(pods)
    said = [
        (condition.last_probe_time or condition.last_transition_time, condition.last_probe_time, condition.message)
        for pod in [pod for pod in listed_pods if not is_gated(pod)] or listed_pods
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message
    ]

    def newness(one: tuple[datetime | None, datetime | None, str]) -> tuple[float, bool]:
        seen, probed, _ = one
        return seen.timestamp() if seen is not None else 0.0, probed is not None

    return max(said, key=newness)[-1] if said else ""
