"""Trim the objects that the engine caches, so that a big cluster fits in memory.

Equal parts of different objects are stored once. Against a real API server, a pod that has a node loses fields on which
no decision depends: most fields of its containers, volumes that do not restrict its nodes, and details of its status.
Pods without a node, and pods that queue by themselves, are not trimmed, because the scheduler reads all of their spec
and Workloads are created from them.
"""

from collections.abc import Iterable
from sys import intern
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from muster.api.batch import Job
from muster.api.core import Container, ContainerStatus, Pod, PodStatus
from muster.api.jobset import JobSet
from muster.api.kueue import ClusterQueue, LocalQueue, Workload
from muster.api.managed.pods import WORDS
from muster.api.meta import ObjectMeta
from muster.gang.shapes import restricts_nodes
from muster.runtime.objects import remove_managed_fields

T = TypeVar("T")

# The maximum number of remembered parts that other objects may share, and the length from which a part is not
# remembered.
MOST_SHARED, LONG_BYTES = 4096, 16 << 10
# Conditions that only report how the node starts the pod.
_STEPS: Final = frozenset({"PodReadyToStartContainers", "Initialized", "ContainersReady"})

# The kinds whose states share parts with the previous state. They contain no JSON of any type, in which 1 and True are
# different values that Python takes for equal.
_SHARING_KINDS = (Pod, Workload, Job, JobSet, ClusterQueue, LocalQueue)

_encode = msgspec.json.Encoder().encode


class ObjectSharer:
    """The `transform` of informers in a process that also runs nodes, which need whole pods.

    It removes only managedFields. It remembers parts of objects, so that equal objects share them.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[type, bytes], Any] = {}

    def __call__(self, obj: T, old: T | None = None) -> T:
        """Return the object without managedFields.

        A state of a kind in `_SHARING_KINDS` shares its metadata with the previous state if only the versions differ,
        and its spec if the specs are equal. The parts of a Pod or Workload are also shared with other objects that have
        equal parts.

        old: the previous state, as this function returned it; None if there is none.
        """
        reduced: Any = remove_managed_fields(obj)
        if isinstance(reduced, Pod | Workload):
            reduced = self._share_all(reduced, old if old is not None else type(reduced)())
        elif old is not None and isinstance(reduced, _SHARING_KINDS):
            reduced = _share_with_previous(reduced, old)
        return reduced  # type: ignore[no-any-return]

    def _share_all(self, obj: Any, before: Any) -> Any:
        meta = _share_unchanged(obj.metadata, before.metadata) or self._share_metadata(obj.metadata)
        spec = before.spec if obj.spec == before.spec else self._share_parts(obj.spec)
        return replace(obj, metadata=meta, spec=spec, status=self._share_parts(obj.status, before.status))

    def _share_metadata(self, meta: ObjectMeta) -> ObjectMeta:
        return replace(
            meta,
            labels=_share_words(meta.labels),
            annotations=_share_words(meta.annotations),
            owner_references=self._share(meta.owner_references),
            namespace=intern(meta.namespace),
            generate_name=intern(meta.generate_name),
            finalizers=_share_list(meta.finalizers),
        )

    def _share(self, part: T) -> T:
        """Return the remembered part that equals this part.

        If there is none, return this part, with its own parts shared.
        """
        if not part or _is_plain(part):
            return part
        key = type(part[0] if isinstance(part, tuple) else part), _encode(part)
        cached: T | None = self._shared.get(key)
        if cached is None:
            cached = self._share_parts(part)
            if len(key[1]) > LONG_BYTES:
                return cached
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            self._shared[key] = cached
        return cached

    def _share_parts(self, part: Any, before: Any = None) -> Any:
        """Return the part with shared parts. before: the part of the same type whose equal parts are preferred."""
        if isinstance(part, tuple):
            return tuple(map(self._share, part))
        values = astuple(part)
        others = astuple(before) if before is not None else (None,) * len(values)
        fields = zip(part.__struct_fields__, values, others, strict=True)
        return replace(
            part,
            **{name: other if value == other else self._share_value(value) for name, value, other in fields if value},
        )

    def _share_value(self, value: Any) -> Any:
        return intern(value) if type(value) is str else self._share(value)


class ObjectTrimmer(ObjectSharer):
    """The `transform` of the engine's informers against a real API server: it also trims objects."""

    def __call__(self, obj: T, old: T | None = None) -> T:
        """Return the object as `ObjectSharer` does. A Pod also loses the fields that the engine does not read."""
        trimmed: Any = _trim(obj) if isinstance(obj, Pod) else obj
        return super().__call__(trimmed, old)  # type: ignore[no-any-return]


def _share_with_previous(obj: Any, before: Any) -> Any:
    """Return the object with the metadata and the spec of its previous state, as far as they did not change."""
    meta = _share_unchanged(obj.metadata, before.metadata) or obj.metadata
    return replace(obj, metadata=meta, spec=before.spec if obj.spec == before.spec else obj.spec)


def _share_unchanged(meta: ObjectMeta, before: ObjectMeta) -> ObjectMeta | None:
    """Return the metadata made from the parts of the previous metadata; None if more than the versions differ."""
    same = replace(before, resource_version=meta.resource_version, generation=meta.generation)
    return same if same == meta else None


def _share_words(words: dict[str, str]) -> dict[str, str]:
    return {intern(name): intern(value) for name, value in words.items()}


def _share_list(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, words))


def _is_plain(value: Any) -> bool:
    """Return whether a non-empty part contains no structures, so that sharing it saves nothing."""
    return not isinstance(value[0] if isinstance(value, tuple) else value, Struct)


def _is_queued(pod: Pod) -> bool:
    keys = pod.metadata.labels.keys() | pod.metadata.annotations.keys()
    return not keys.isdisjoint(WORDS)


def _trim(pod: Pod) -> Pod:
    if not pod.spec.node_name or _is_queued(pod):
        return pod
    spec = replace(
        pod.spec,
        volumes=tuple(filter(restricts_nodes, pod.spec.volumes)),
        init_containers=_trim_containers(pod.spec.init_containers),
        containers=_trim_containers(pod.spec.containers),
    )
    return replace(pod, spec=spec, status=_trim_status(pod.status))


def _trim_containers(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        Container(name=one.name, resources=one.resources, ports=one.ports, restart_policy=one.restart_policy)
        for one in containers
    )


def _trim_status(status: PodStatus) -> PodStatus:
    return replace(
        status,
        conditions=tuple(condition for condition in status.conditions if condition.type not in _STEPS),
        host_ips=(),
        init_container_statuses=_trim_statuses(status.init_container_statuses),
        container_statuses=_trim_statuses(status.container_statuses),
        ephemeral_container_statuses=(),
    )


def _trim_statuses(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    return tuple(
        ContainerStatus(
            name=one.name, state=one.state, last_state=one.last_state, ready=one.ready,
            restart_count=one.restart_count, started=one.started,
        )
        for one in statuses
    )  # fmt: skip
