"""Which container has which GPU: whole ones, for itself alone."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from muster.api.core.podstatus import ResourceHealth, ResourceStatus
from muster.api.ours.gpus import GPUS_ANNOTATION, GpuInfo
from muster.cluster.nodes.gpus.device import FAMILIES, Family, Gpu

# Of a container: how many GPUs of each resource.
Wanted = Mapping[str, int]


class NoGpusError(Exception):
    """There are not so many free GPUs."""


class Gpus:
    """Who has which GPU. What a pod has is also in its record on disk, from which it is restored.

    ill: what is wrong with those that no pod may get any more, by name.
    """

    def __init__(self, devices: Sequence[Gpu]) -> None:
        self.devices = {gpu.name: gpu for gpu in devices}
        self.ill: Mapping[str, str] = {}
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}  # by pod uid and container

    def take(self, uid: str, wanted: Mapping[str, Wanted]) -> Mapping[str, tuple[str, ...]]:
        """GPUs for a pod's containers, all or none; what it has already if it has any. Raises `NoGpusError`."""
        if uid not in self._held:
            free = self.free()
            taken: dict[str, tuple[str, ...]] = {}
            for container, resources in wanted.items():
                for resource, count in resources.items():
                    fit = [name for name in free if self.devices[name].family.resource == resource][:count]
                    if len(fit) < count:
                        raise NoGpusError(
                            f"Allocate failed due to requested number of devices unavailable for {resource}. "
                            f"Requested: {count}, Available: {len(fit)}, which is unexpected"
                        )
                    free = [name for name in free if name not in fit]
                    taken[container] = (*taken.get(container, ()), *fit)
            self._held[uid] = taken
        return self._held[uid]

    def restore(self, uid: str, held: Mapping[str, Iterable[str]]) -> None:
        """A pod from before the restart has these."""
        self._held[uid] = {name: tuple(names) for name, names in held.items()}

    def release(self, uid: str) -> None:
        """The pod has ended."""
        self._held.pop(uid, None)

    def free(self) -> list[str]:
        """The names of those that a pod may get."""
        held = {name for pod in self._held.values() for names in pod.values() for name in names}
        return [name for name in self.devices if name not in held and name not in self.ill]

    def of(self, uid: str, container: str) -> list[Gpu]:
        """What a container has."""
        return [self.devices[name] for name in self._held.get(uid, {}).get(container, ()) if name in self.devices]

    def health(self, uid: str, container: str) -> tuple[ResourceStatus, ...]:
        """How those are that a container has, for its status."""
        mine = self.of(uid, container)
        if not mine:
            return ()
        return tuple(
            ResourceStatus(
                name=family.resource,
                resources=tuple(
                    ResourceHealth(resource_id=gpu.name, health="Unhealthy" if gpu.name in self.ill else "Healthy")
                    for gpu in mine
                    if gpu.family == family
                ),
            )
            for family in self.families()
            if any(gpu.family == family for gpu in mine)
        )

    def variables(self, uid: str, container: str) -> dict[str, str]:
        """What tells a container's programs which GPUs they have; of a family that the machine has not, nothing."""
        mine = self.of(uid, container)
        found: dict[str, str] = {}
        for family in self.families():
            numbers = [str(gpu.number) for gpu in mine if gpu.family == family]
            found[family.variable] = ",".join(numbers)
            found |= family.settings if numbers else {}
        return found

    def families(self) -> list[Family]:
        """Whose GPUs the machine has."""
        there = {gpu.family.resource for gpu in self.devices.values()}
        return [family for family in FAMILIES if family.resource in there]

    def lacking(self) -> dict[str, int]:
        """How many of each resource no pod may get, because they are ill."""
        counts: dict[str, int] = {}
        for name in self.ill:
            if name in self.devices:
                resource = self.devices[name].family.resource
                counts[resource] = counts.get(resource, 0) + 1
        return counts

    def problem(self) -> str:
        """What is wrong with those that are ill, as a sentence; "" if none is."""
        return "; ".join(f"GPU {name}: {trouble}" for name, trouble in sorted(self.ill.items()))

    def labels(self) -> dict[str, str]:
        """Those of the node, in the words of the makers' own plugins; of GPUs of several models, none says which."""
        found = {}
        for family in self.families():
            models = {gpu.model for gpu in self.devices.values() if gpu.family == family}
            label = re.sub(r"[^A-Za-z0-9_.-]+", "-", models.pop()).strip("-_.")[:63] if len(models) == 1 else ""
            if label:
                found[family.label] = label.rstrip("-_.")
        return found

    def annotations(self) -> dict[str, str]:
        """What the node tells of them."""
        if not self.devices:
            return {}
        told = [GpuInfo(gpu.name, gpu.model, gpu.memory, gpu.name in self.ill) for gpu in self.devices.values()]
        return {GPUS_ANNOTATION: msgspec.json.encode(told).decode()}
