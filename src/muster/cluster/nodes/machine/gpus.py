"""The machine's GPUs: which there are, and who has which.

A container gets whole GPUs, for itself, by `CUDA_VISIBLE_DEVICES`. Numbers are the positions on the PCI bus
(`CUDA_DEVICE_ORDER=PCI_BUS_ID`), which do not change while the machine runs; more programs parse them than UUIDs.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

RESOURCE = "nvidia.com/gpu"
_DRIVER = Path("/proc/driver/nvidia/gpus")
_SMI = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
_SMI_SECONDS = 10.0


class NoGpusError(Exception):
    """There are not so many free GPUs."""


def discover(driver: Path = _DRIVER) -> tuple[str, ...]:
    """The GPUs' numbers: from the driver's files, or from nvidia-smi where those are hidden (containers)."""
    if driver.is_dir():
        return tuple(str(number) for number, _ in enumerate(sorted(driver.iterdir())))
    try:
        done = subprocess.run(_SMI, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip().isdigit())


class Gpus:
    """Who has which GPU. What a pod has is also in its record on disk, from which it is restored."""

    def __init__(self, numbers: Sequence[str]) -> None:
        self.numbers = tuple(numbers)
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}  # by pod uid and container

    def take(self, uid: str, wanted: Mapping[str, int]) -> Mapping[str, tuple[str, ...]]:
        """GPUs for a pod's containers, all or none; what it has already if it has any. Raises `NoGpusError`."""
        if uid not in self._held:
            free = self._free()
            needed = sum(wanted.values())
            if needed > len(free):
                raise NoGpusError(
                    f"Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
                    f"Requested: {needed}, Available: {len(free)}, which is unexpected"
                )
            given = iter(free)
            self._held[uid] = {name: tuple(next(given) for _ in range(count)) for name, count in wanted.items()}
        return self._held[uid]

    def restore(self, uid: str, held: Mapping[str, Iterable[str]]) -> None:
        """A pod from before the restart has these."""
        self._held[uid] = {name: tuple(numbers) for name, numbers in held.items()}

    def release(self, uid: str) -> None:
        """The pod has ended."""
        self._held.pop(uid, None)

    def variables(self, uid: str, container: str) -> dict[str, str]:
        """What tells a container's programs which GPUs they have; on a machine without any, nothing."""
        if not self.numbers:
            return {}
        mine = self._held.get(uid, {}).get(container, ())
        return {"CUDA_VISIBLE_DEVICES": ",".join(mine)} | ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if mine else {})

    def _free(self) -> list[str]:
        held = {number for pod in self._held.values() for numbers in pod.values() for number in numbers}
        return [number for number in self.numbers if number not in held]
