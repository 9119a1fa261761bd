"""The annotation with a pod's use of its machine, which its node writes at its end. Kubernetes has no field for that.

`cpu=1.5,memory=10485760` in an annotation: seconds of processors, of all containers and attempts, and the most memory
that one of them held, in bytes.
"""

import re
from typing import Final

from msgspec import Struct

USAGE_ANNOTATION: Final = "muster.dev/usage"

_SHAPE = re.compile(r"cpu=(\d{1,12}(?:\.\d{1,6})?),memory=(\d{1,18})", re.ASCII)


class Usage(Struct, frozen=True):
    """Seconds of processors, and bytes of memory at the highest."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the usage of both: the sum of the times, and the greater memory."""
        return Usage(self.cpu_seconds + other.cpu_seconds, max(self.memory_bytes, other.memory_bytes))

    def __str__(self) -> str:
        return f"cpu={self.cpu_seconds:.3f},memory={self.memory_bytes}"


def usage_of(text: str) -> Usage | None:
    """Return the value of an annotation; None if there is none."""
    found = _SHAPE.fullmatch(text)
    return Usage(float(found[1]), int(found[2])) if found else None
