"""Jobs that may change size while they run (KEP-3715), in the names that are ours.

An elastic Job is an Indexed Job with as many completions as parallelism and the annotation `muster.dev/elastic:
"MIN:MAX"`. It is shrunk, never below MIN, when the cluster is short, and grown, never above MAX, when room is free.
Its pods carry the world they are part of, as JSON, in an annotation that changes in place.
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from muster.api.kueue.names import ELASTIC_JOB

# On a Job: between which sizes it may be moved.
ELASTIC_ANNOTATION = "muster.dev/elastic"

# On a Job and on each of its pods: the current size and how often it changed, as `World` in JSON.
WORLD_ANNOTATION = "muster.dev/world"


def is_elastic(annotations: Mapping[str, str]) -> bool:
    """Whether a Job or Workload with these annotations may change size while it runs: in our way or in Kueue's."""
    return ELASTIC_ANNOTATION in annotations or annotations.get(ELASTIC_JOB) == "true"


class Bounds(msgspec.Struct, frozen=True):
    """The sizes, in pods, that an elastic Job may have."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of `MIN:MAX`, two whole numbers with 1 <= MIN <= MAX. Raises `ValueError` that says what is wrong."""
        least, colon, most = text.partition(":")
        if not (colon and least.isascii() and least.isdigit() and most.isascii() and most.isdigit()):
            raise ValueError(f"{text!r} is not MIN:MAX, such as 2:8")
        bounds = cls(int(least), int(most))
        if not 1 <= bounds.least <= bounds.most:
            raise ValueError(f"{text!r}: MIN must be at least 1 and at most MAX")
        return bounds

    def __str__(self) -> str:
        return f"{self.least}:{self.most}"


class World(msgspec.Struct, frozen=True):
    """What a running worker has to know of its gang.

    size: how many workers there are; ranks are 0 to size - 1.
    epoch: grows by one with each change of size; 1 is the size that the Job began with.
    """

    size: int
    epoch: int
