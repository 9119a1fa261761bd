"""The annotation with a pod's usage, which its node writes at the pod's end. Kubernetes has no field for it.

The value `cpu=1.5,memory=10485760` has two numbers: the CPU seconds of all containers and attempts, and the peak
memory of one of them in bytes. A pod that used GPUs has `,gpu=0.5,gpu-memory=1024` too: the seconds of GPUs that
worked, and the peak of their memory in bytes.
"""

import re
from typing import Final

from msgspec import Struct

USAGE_ANNOTATION: Final = "muster.dev/usage"

_SECONDS, _BYTES = r"(\d{1,12}(?:\.\d{1,6})?)", r"(\d{1,18})"
_SHAPE = rf"(?a)cpu={_SECONDS},memory={_BYTES}(?:,gpu={_SECONDS},gpu-memory={_BYTES})?"


class Usage(Struct, frozen=True):
    """The CPU seconds and the peak of memory in bytes, and both of GPUs."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    gpu_seconds: float = 0.0
    gpu_memory_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the usage of both: the sums of the seconds and the greater peaks."""
        return Usage(
            self.cpu_seconds + other.cpu_seconds,
            max(self.memory_bytes, other.memory_bytes),
            self.gpu_seconds + other.gpu_seconds,
            max(self.gpu_memory_bytes, other.gpu_memory_bytes),
        )

    def __str__(self) -> str:
        text = f"cpu={self.cpu_seconds:.3f},memory={self.memory_bytes}"
        if self.gpu_seconds or self.gpu_memory_bytes:
            text += f",gpu={self.gpu_seconds:.3f},gpu-memory={self.gpu_memory_bytes}"
        return text


def usage_of(text: str) -> Usage | None:
    """Return the usage in an annotation; None if the annotation has none."""
    match = re.fullmatch(_SHAPE, text)
    return Usage(float(match[1]), int(match[2]), float(match[3] or 0), int(match[4] or 0)) if match else None
