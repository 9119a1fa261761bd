"""Jobs that may change size while they run (kubernetes KEP-3715), in the names that are ours.

An elastic Job is an Indexed Job with as many completions as parallelism and the annotation `muster.dev/elastic:
"MIN:MAX"`. It is shrunk, never below MIN, when the cluster is short, and grown, never above MAX, when room is free.
Its pods carry the world they are part of, as JSON, in an annotation that changes in place.
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from muster.api.batch import MAX_PARALLELISM
from muster.api.core import PodTemplateSpec
from muster.api.kueue.names import ELASTIC_JOB

# On a Job: between which sizes it may be moved.
ELASTIC_ANNOTATION = "muster.dev/elastic"

# On a Job and on each of its pods: the current size and how often it changed, as `World` in JSON.
WORLD_ANNOTATION = "muster.dev/world"

# In a container: the size of the gang, for frameworks. A value in the template stays as it is when the size changes.
WORLD_SIZE_VARIABLE = "WORLD_SIZE"

# In a container of an MPI job by `muster run`, whose command has the number of workers as an argument.
MPI_IDENTITY_VARIABLE = "MUSTER_MPI_IDENTITY"

# On a Job: "false" if its pods need not start together. On the pods of a group: "false" likewise.
GANG_ANNOTATION = "muster.dev/gang"

# On what carries a gang, such as a Job: how many members it had when it last started or grew, and its own UID: where a
# manifest was copied from another object, that says nothing. Absent: one at the most.
HELD_ANNOTATION = "muster.dev/held-members"

# On each pod of a start of several, written by its binding: when the newest of them was made, and the pod's own UID. On
# the carrier as well while a start is under way that leaves pods behind that are no younger.
BINDING_ANNOTATION = "muster.dev/binding-since"

# More than any `MIN:MAX` takes; what is longer is not even quoted.
_LONGEST_TEXT = 32


# On a Job: the largest size that quota allowed when it was last short. Until there is more, the Job is not grown above.
CAP_ANNOTATION = "muster.dev/elastic-cap"


def is_elastic(annotations: Mapping[str, str]) -> bool:
    """Return whether these annotations let a Job or Workload change size while it runs: in our way or in Kueue's."""
    return ELASTIC_ANNOTATION in annotations or annotations.get(ELASTIC_JOB) == "true"


def has_fixed_size(template: PodTemplateSpec) -> bool:
    """Return whether a pod template tells its containers a number of workers that no later change of size reaches."""
    return any(
        variable.name == MPI_IDENTITY_VARIABLE or (variable.name == WORLD_SIZE_VARIABLE and variable.value_from is None)
        for container in template.spec.containers
        for variable in container.env
    )


# Digits of the largest number of completions.
_LONGEST_SIZE = 10


def cap_of(annotations: Mapping[str, str]) -> int | None:
    """Return the size above which quota does not allow a Job to grow; None without an annotation of ours."""
    text = annotations.get(CAP_ANNOTATION, "")
    return int(text) if 0 < len(text) <= _LONGEST_SIZE and text.isascii() and text.isdigit() else None


class Bounds(msgspec.Struct, frozen=True):
    """The sizes, in pods, that an elastic Job may have."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `MIN:MAX`, whole numbers with 1 <= MIN <= MAX <= 100000.

        Raises `ValueError` that says what is wrong.
        """
        if len(text) > _LONGEST_TEXT:
            raise ValueError(f"{text[:_LONGEST_TEXT]!r}... is not MIN:MAX, such as 2:8")
        least, colon, most = text.partition(":")
        if not (colon and least.isascii() and least.isdigit() and most.isascii() and most.isdigit()):
            raise ValueError(f"{text!r} is not MIN:MAX, such as 2:8")
        bounds = cls(int(least), int(most))
        if not 1 <= bounds.least <= bounds.most:
            raise ValueError(f"{text!r}: MIN must be at least 1 and at most MAX")
        if bounds.most > MAX_PARALLELISM:
            raise ValueError(f"{text!r}: MAX must be at most {MAX_PARALLELISM}, as a Job has no more workers")
        return bounds

    def __str__(self) -> str:
        return f"{self.least}:{self.most}"


def bounds_of(annotations: Mapping[str, str]) -> Bounds | None:
    """Return the sizes between which a Job may be resized; None without a valid annotation."""
    try:
        return Bounds.parse(annotations.get(ELASTIC_ANNOTATION, ""))
    except ValueError:
        return None


class World(msgspec.Struct, frozen=True):
    """What a running worker has to know of its gang.

    size: how many workers there are; ranks are 0 to size - 1.
    epoch: grows by one with each change of size, from 1 for the size that the Job was created with.
    """

    size: int
    epoch: int
