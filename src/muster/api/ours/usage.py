"""The annotation with a pod's usage, which its node writes at the pod's end. Kubernetes has no field for it.

The value `cpu=1.5,memory=10485760` has two numbers: the CPU seconds of all containers and attempts, and the peak
memory of one of them in bytes.
"""

import re
from typing import Final

from msgspec import Struct

USAGE_ANNOTATION: Final = "muster.dev/usage"

_SHAPE = re.compile(r"cpu=(\d{1,12}(?:\.\d{1,6})?),memory=(\d{1,18})", re.ASCII)


class Usage(Struct, frozen=True):
    """The CPU seconds and the peak of memory in bytes."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the usage of both: the sum of the CPU seconds and the greater peak."""
        return Usage(self.cpu_seconds + other.cpu_seconds, max(self.memory_bytes, other.memory_bytes))

    def __str__(self) -> str:
        return f"cpu={self.cpu_seconds:.3f},memory={self.memory_bytes}"


def usage_of(text: str) -> Usage | None:
    """Return the usage in an annotation, or None if the annotation has none."""
    match = _SHAPE.fullmatch(text)
    return Usage(float(match[1]), int(match[2])) if match else None
