"""Complete the pods of a workload with the defaults of their namespace and the overhead of their RuntimeClass.

The rules are Kueue's AdjustResources. A container's own limits take precedence over a default request, as in a pod.
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
    """The default limits and requests of a namespace's LimitRanges, for containers that set none themselves."""

    limits: ResourceList = field(default_factory=dict)
    requests: ResourceList = field(default_factory=dict)


def defaults_of(items: Iterable[LimitRangeItem]) -> Defaults | None:
    """Merge the defaults of all LimitRanges of one namespace; return None if there are none.

    If several LimitRanges set a default, the first one applies.
    """
    limits: ResourceList = {}
    requests: ResourceList = {}
    for item in reversed([item for item in items if item.type == "Container"]):
        limits |= item.default
        requests |= item.default_request
    return Defaults(limits, requests) if limits or requests else None


class Completion(Struct, frozen=True):
    """The amounts that a cluster adds to the requests of a pod.

    defaults: the LimitRange defaults, by namespace.
    overheads: the pod overheads, by RuntimeClass.
    """

    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    overheads: Mapping[str, ResourceList] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: Iterable[LimitRange], classes: Iterable[RuntimeClass]) -> Self:
        """Return the additions that the LimitRanges and RuntimeClasses of a cluster define."""
        items: dict[str, list[LimitRangeItem]] = {}
        for one in ranges:
            items.setdefault(one.metadata.namespace, []).extend(one.spec.limits)
        defaults_by_namespace = {namespace: defaults_of(limits) for namespace, limits in items.items()}
        return cls(
            {namespace: defaults for namespace, defaults in defaults_by_namespace.items() if defaults is not None},
            {one.metadata.name: one.overhead.pod_fixed for one in classes if one.overhead is not None},
        )

    def podset(self, podset: PodSet, namespace: str) -> PodSet:
        """Return the podset with the namespace's defaults and the RuntimeClass's overhead added to its pods."""
        return complete_podset(podset, self.defaults.get(namespace), self.overheads)

    def workload(self, workload: Workload) -> Workload:
        """Return the workload with defaults and overheads added to its pods; the same object if nothing is added."""
        return complete_workload(workload, self.defaults.get(workload.metadata.namespace), self.overheads)


def complete_workload(workload: Workload, defaults: Defaults | None, overheads: Mapping[str, ResourceList]) -> Workload:
    """Return the workload with defaults and overheads added to its pods; the same object if nothing is added.

    overheads: the overhead of each pod, by RuntimeClass.
    """
    if defaults is None and not overheads:
        return workload
    podsets = tuple(complete_podset(podset, defaults, overheads) for podset in workload.spec.pod_sets)
    if podsets == workload.spec.pod_sets:
        return workload
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, pod_sets=podsets))


def complete_podset(podset: PodSet, defaults: Defaults | None, overheads: Mapping[str, ResourceList]) -> PodSet:
    """Return the podset with its RuntimeClass's overhead and its namespace's LimitRange defaults added to each pod.

    overheads: the overhead of a pod, by RuntimeClass.
    """
    spec = podset.template.spec
    overhead = spec.overhead or overheads.get(spec.runtime_class_name or "", {})
    spec = msgspec.structs.replace(spec, overhead=overhead)
    if defaults is not None:
        spec = _default_containers(spec, defaults)
    return msgspec.structs.replace(podset, template=msgspec.structs.replace(podset.template, spec=spec))


def _default_containers(spec: PodSpec, defaults: Defaults) -> PodSpec:
    return msgspec.structs.replace(
        spec,
        containers=tuple(_default_container(one, defaults) for one in spec.containers),
        init_containers=tuple(_default_container(one, defaults) for one in spec.init_containers),
    )


def _default_container(container: Container, defaults: Defaults) -> Container:
    own = container.resources
    resources = msgspec.structs.replace(
        own,
        limits=defaults.limits | own.limits,
        requests=defaults.requests | own.limits | own.requests,
    )
    return msgspec.structs.replace(container, resources=resources)
