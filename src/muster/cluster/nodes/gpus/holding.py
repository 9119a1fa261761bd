"""Assign whole GPUs to containers. A GPU is assigned to at most one container."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.api.core.podstatus import ResourceHealth, ResourceStatus
from muster.api.ours.gpus import GPUS_ANNOTATION, GpuInfo
from muster.cluster.nodes.gpus.device import FAMILIES, Family, Gpu

# How many GPUs of each resource a container requests.
Wanted = Mapping[str, int]


class NoGpusError(Exception):
    """A lack of free GPUs for a pod."""


class Gpus:
    """The GPUs of a node, and their assignment to pods.

    After a restart, the record of each pod restores its GPUs.

    ill: the problems of unhealthy GPUs, by GPU name. No further pod gets such a GPU.
    """

    def __init__(self, devices: Sequence[Gpu]) -> None:
        self.devices = {gpu.name: gpu for gpu in devices}
        self.ill: Mapping[str, str] = {}
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}  # by pod uid and container

    def take(self, uid: str, requests: Mapping[str, Wanted]) -> Mapping[str, tuple[str, ...]]:
        """Assign all GPUs that a pod requests, or none; return their names by container.

        A pod with assigned GPUs keeps these. Raises `NoGpusError` if too few are free.
        """
        if uid not in self._held:
            free = self.free()
            taken: dict[str, tuple[str, ...]] = {}
            for container, resources in requests.items():
                for resource, count in resources.items():
                    chosen = [name for name in free if self.devices[name].family.resource == resource][:count]
                    if len(chosen) < count:
                        raise NoGpusError(
                            f"Allocate failed due to requested number of devices unavailable for {resource}. "
                            f"Requested: {count}, Available: {len(chosen)}, which is unexpected"
                        )
                    free = [name for name in free if name not in chosen]
                    taken[container] = (*taken.get(container, ()), *chosen)
            self._held[uid] = taken
        return self._held[uid]

    def restore(self, uid: str, gpus: Mapping[str, Iterable[str]]) -> None:
        """Assign the GPUs that a pod had before a restart of the server. gpus: the GPU names by container."""
        self._held[uid] = {name: tuple(names) for name, names in gpus.items()}

    def release(self, uid: str) -> None:
        """Free the GPUs of a terminated pod."""
        self._held.pop(uid, None)

    def free(self) -> list[str]:
        """Return the names of the healthy GPUs that are not assigned to a pod."""
        held_names = {name for pod in self._held.values() for names in pod.values() for name in names}
        return [name for name in self.devices if name not in held_names and name not in self.ill]

    def of(self, uid: str, container: str) -> list[Gpu]:
        """Return the GPUs that are assigned to a container."""
        return [self.devices[name] for name in self._held.get(uid, {}).get(container, ()) if name in self.devices]

    def hidden_files(self, uid: str, container: str, root: Path) -> list[str]:
        """Return the device files of the machine's GPUs that the container must not see: all but its own GPUs.

        root: the root of the file system.
        """
        mine = {gpu.file for gpu in self.of(uid, container)}
        there = (f"/{file.relative_to(root)}" for family in FAMILIES for file in root.glob(family.files))
        return sorted(file for file in there if file not in mine)

    def health(self, uid: str, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of a container's GPUs, for the container's status."""
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
        """Return the environment variables that list a container's GPUs for its programs; "" lists no GPU.

        A family without a GPU on this node gets no variable.
        """
        mine = self.of(uid, container)
        values: dict[str, str] = {}
        for family in self.families():
            numbers = [str(gpu.number) for gpu in mine if gpu.family == family]
            values[family.variable] = ",".join(numbers)
            values |= family.settings if numbers else {}
        return values

    def families(self) -> list[Family]:
        """Return the families of the machine's GPUs."""
        resources = {gpu.family.resource for gpu in self.devices.values()}
        return [family for family in FAMILIES if family.resource in resources]

    def count_unhealthy(self) -> dict[str, int]:
        """Return how many GPUs of each resource are unhealthy and so not assignable."""
        counts: dict[str, int] = {}
        for name in self.ill:
            if name in self.devices:
                resource = self.devices[name].family.resource
                counts[resource] = counts.get(resource, 0) + 1
        return counts

    def problem(self) -> str:
        """Return a sentence about the unhealthy GPUs; "" if all are healthy."""
        return "; ".join(f"GPU {name}: {trouble}" for name, trouble in sorted(self.ill.items()))

    def labels(self) -> dict[str, str]:
        """Return the labels that describe the GPUs on the Node, with the names that the makers' own plugins use.

        A family with GPUs of several models gets no label.
        """
        labels = {}
        for family in self.families():
            models = {gpu.model for gpu in self.devices.values() if gpu.family == family}
            label = re.sub(r"[^A-Za-z0-9_.-]+", "-", models.pop()).strip("-_.")[:63] if len(models) == 1 else ""
            if label:
                labels[family.label] = label.rstrip("-_.")
        return labels

    def annotations(self) -> dict[str, str]:
        """Return the annotation that describes the GPUs on the Node; no annotation without GPUs."""
        if not self.devices:
            return {}
        infos = [GpuInfo(gpu.name, gpu.model, gpu.memory, gpu.name in self.ill) for gpu in self.devices.values()]
        return {GPUS_ANNOTATION: msgspec.json.encode(infos).decode()}
