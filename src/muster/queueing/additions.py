"""What the pods of a workload will have beyond their templates: defaults of their namespace, overhead of their class.

Kueue's AdjustResources. What a container's own limits say counts before a default request, as it does for the pod.
"""

from collections.abc import Iterable, Mapping
from typing import Self

import msgspec
from msgspec import Struct, field

from muster.api.core import Container, PodSpec
from muster.api.core.quota import LimitRange, LimitRangeItem
from muster.api.groups.runtimeclass import RuntimeClass
from muster.api.kueue import PodSet, Workload
from muster.api.values.quantity import ResourceList


class Defaults(Struct, frozen=True):
    """Of a namespace: limits and requests of containers that say nothing."""

    limits: ResourceList = field(default_factory=dict)
    requests: ResourceList = field(default_factory=dict)


def defaults_of(items: Iterable[LimitRangeItem]) -> Defaults | None:
    """Those of all LimitRanges of a namespace, the first one first; None if there are none."""
    limits: ResourceList = {}
    requests: ResourceList = {}
    for item in reversed([item for item in items if item.type == "Container"]):
        limits |= item.default
        requests |= item.default_request
    return Defaults(limits, requests) if limits or requests else None


class Completion(Struct, frozen=True):
    """All that a cluster adds: defaults by namespace, and overheads by RuntimeClass."""

    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    overheads: Mapping[str, ResourceList] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: Iterable[LimitRange], classes: Iterable[RuntimeClass]) -> Self:
        """As they are defined."""
        items: dict[str, list[LimitRangeItem]] = {}
        for one in ranges:
            items.setdefault(one.metadata.namespace, []).extend(one.spec.limits)
        found = {namespace: defaults_of(some) for namespace, some in items.items()}
        return cls(
            {namespace: defaults for namespace, defaults in found.items() if defaults is not None},
            {one.metadata.name: one.overhead.pod_fixed for one in classes if one.overhead is not None},
        )

    def podset(self, podset: PodSet, namespace: str) -> PodSet:
        """With pods as they will be there."""
        return completed_podset(podset, self.defaults.get(namespace), self.overheads)

    def workload(self, workload: Workload) -> Workload:
        """The workload with pods as they will be; itself if nothing is added."""
        return completed(workload, self.defaults.get(workload.metadata.namespace), self.overheads)


def completed(workload: Workload, defaults: Defaults | None, overheads: Mapping[str, ResourceList]) -> Workload:
    """The workload with pods as they will be; itself if nothing is added.

    overheads: of each pod, by RuntimeClass.
    """
    podsets = tuple(completed_podset(podset, defaults, overheads) for podset in workload.spec.pod_sets)
    if podsets == workload.spec.pod_sets:
        return workload
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, pod_sets=podsets))


def completed_podset(podset: PodSet, defaults: Defaults | None, overheads: Mapping[str, ResourceList]) -> PodSet:
    """The same of one podset."""
    spec = podset.template.spec
    overhead = spec.overhead or overheads.get(spec.runtime_class_name or "", {})
    spec = msgspec.structs.replace(spec, overhead=overhead)
    if defaults is not None:
        spec = _with_defaults(spec, defaults)
    return msgspec.structs.replace(podset, template=msgspec.structs.replace(podset.template, spec=spec))


def _with_defaults(spec: PodSpec, defaults: Defaults) -> PodSpec:
    return msgspec.structs.replace(
        spec,
        containers=tuple(_container(one, defaults) for one in spec.containers),
        init_containers=tuple(_container(one, defaults) for one in spec.init_containers),
    )


def _container(container: Container, defaults: Defaults) -> Container:
    written = container.resources
    resources = msgspec.structs.replace(
        written,
        limits=defaults.limits | written.limits,
        requests=defaults.requests | written.limits | written.requests,
    )
    return msgspec.structs.replace(container, resources=resources)
