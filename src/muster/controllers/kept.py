"""Reduces the objects that the engine follows: it keeps what a decision depends on, and equal parts only once.

Most pods of a big cluster run, and are of others. Of such a pod counts where it is, what it takes there, whom it
belongs to and its status; not what it runs. Pods that wait, or queue by themselves, are kept whole: the scheduler
places them by all of their spec, and Workloads are made of them.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from muster.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from muster.api.kueue import Workload
from muster.api.managed.pods import WORDS
from muster.gang.shapes import binds
from muster.runtime.cache import lean

T = TypeVar("T")

# The number of remembered parts that other objects may share, and the length from which a part is not remembered.
MOST_SHARED, LONG_BYTES = 4096, 16 << 10
# Conditions that only say how the node starts the pod.
_STEPS: Final = frozenset({"PodReadyToStartContainers", "Initialized", "ContainersReady"})

_encode = msgspec.json.Encoder().encode


class Kept:
    """A function that returns the part to store of each object that is seen."""

    def __init__(self) -> None:
        self._shared: dict[tuple[type, bytes], Any] = {}

    def __call__(self, obj: T) -> T:
        """Return the object as the engine stores it."""
        found: Any = lean(obj)
        if isinstance(found, Pod) and found.spec.node_name and not _queues(found):
            found = replace(found, spec=self._spec(found.spec), status=_status(found.status))
        elif isinstance(found, Workload):
            found = replace(found, spec=replace(found.spec, pod_sets=self._once(found.spec.pod_sets)))
        return found  # type: ignore[no-any-return]

    def _spec(self, spec: PodSpec) -> PodSpec:
        return replace(
            spec,
            volumes=tuple(filter(binds, spec.volumes)),
            init_containers=self._once(_containers(spec.init_containers)),
            containers=self._once(_containers(spec.containers)),
            tolerations=self._once(spec.tolerations),
            affinity=self._once(spec.affinity),
        )

    def _once(self, part: T) -> T:
        """Return an equal, remembered part of another object; else this one, made of such parts."""
        if not part or _is_plain(part):
            return part
        key = type(part[0] if isinstance(part, tuple) else part), _encode(part)
        known: T | None = self._shared.get(key)
        if known is None:
            known = self._of_shared(part)
            if len(key[1]) > LONG_BYTES:
                return known
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            self._shared[key] = known
        return known

    def _of_shared(self, part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(self._once, part))
        fields = zip(part.__struct_fields__, astuple(part), strict=True)
        return replace(part, **{name: self._once(value) for name, value in fields if value and not _is_plain(value)})


def _is_plain(value: Any) -> bool:
    """Return whether the part, which is not empty, holds nothing that is shared."""
    return not isinstance(value[0] if isinstance(value, tuple) else value, Struct)


def _queues(pod: Pod) -> bool:
    said = pod.metadata.labels.keys() | pod.metadata.annotations.keys()
    return not said.isdisjoint(WORDS)


def _containers(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        Container(name=one.name, resources=one.resources, ports=one.ports, restart_policy=one.restart_policy)
        for one in containers
    )


def _status(status: PodStatus) -> PodStatus:
    return replace(
        status,
        conditions=tuple(condition for condition in status.conditions if condition.type not in _STEPS),
        host_ips=(),
        init_container_statuses=_statuses(status.init_container_statuses),
        container_statuses=_statuses(status.container_statuses),
        ephemeral_container_statuses=(),
    )


def _statuses(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    return tuple(
        ContainerStatus(
            name=one.name, state=one.state, last_state=one.last_state, ready=one.ready,
            restart_count=one.restart_count, started=one.started,
        )
        for one in statuses
    )  # fmt: skip
