"""Elastic Jobs, which may change their size while they run (kubernetes KEP-3715): Muster's annotations of them.

An elastic Job is an Indexed Job with as many completions as parallelism and the annotation
`muster.dev/elastic: "MIN:MAX"`. The engine shrinks it, never below MIN, if the cluster lacks room, and grows it, never
above MAX, if room is free. An annotation of its pods has the size of the gang as JSON, and changes in place.
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from muster.api.batch import MAX_PARALLELISM
from muster.api.core import PodTemplateSpec
from muster.api.kueue.names import ELASTIC_JOB

# The annotation of a Job with the sizes that it may have.
ELASTIC_ANNOTATION = "muster.dev/elastic"

# The annotation of a Job and its pods with the current size and the number of changes, as `World` in JSON.
WORLD_ANNOTATION = "muster.dev/world"

# The variable of a container with the size of the gang, for frameworks. A value in the template never changes.
WORLD_SIZE_VARIABLE = "WORLD_SIZE"

# The variable of a container of an MPI job by `muster run`, whose command has the number of workers as an argument.
MPI_IDENTITY_VARIABLE = "MUSTER_MPI_IDENTITY"

# The annotation of a Job, or of the pods of a group: "false" if the pods need not start together.
GANG_ANNOTATION = "muster.dev/gang"

# The annotation of a carrier of a gang, such as a Job: the number of members when it last started or grew, and the UID
# of the carrier. Another UID comes from a copied manifest and is ignored. Without the annotation the gang had at most
# one member.
HELD_ANNOTATION = "muster.dev/held-members"

# The annotation of each pod that starts with others, written by its binding: the creation time of the newest of them,
# and the pod's own UID. The carrier has it too during a start that leaves pods behind that are not newer.
BINDING_ANNOTATION = "muster.dev/binding-since"

# The most characters of `MIN:MAX`. Messages do not quote a longer text.
_LONGEST_TEXT = 32


# The annotation of a Job with the largest size that quota allowed when it last ran short. The Job does not grow above
# this size until there is more quota.
CAP_ANNOTATION = "muster.dev/elastic-cap"


def is_elastic(annotations: Mapping[str, str]) -> bool:
    """Return whether these annotations make a Job or Workload elastic, by Muster's annotation or Kueue's."""
    return ELASTIC_ANNOTATION in annotations or annotations.get(ELASTIC_JOB) == "true"


def has_fixed_size(template: PodTemplateSpec) -> bool:
    """Return whether a pod template contains the number of workers as a constant, which a resize does not change."""
    return any(
        variable.name == MPI_IDENTITY_VARIABLE or (variable.name == WORLD_SIZE_VARIABLE and variable.value_from is None)
        for container in template.spec.containers
        for variable in container.env
    )


# The digits of the largest number of completions.
_LONGEST_SIZE = 10


def cap_of(annotations: Mapping[str, str]) -> int | None:
    """Return the size above which quota does not allow a Job to grow; None without a valid annotation of Muster's."""
    text = annotations.get(CAP_ANNOTATION, "")
    return int(text) if 0 < len(text) <= _LONGEST_SIZE and text.isascii() and text.isdigit() else None


class Bounds(msgspec.Struct, frozen=True):
    """The sizes, in pods, that an elastic Job may have."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `MIN:MAX`, whole numbers with 1 <= MIN <= MAX <= 100000.

        Raises:
            ValueError: the text is invalid; the message says why.
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
    """Return the sizes that a Job may have; None without a valid annotation."""
    text = annotations.get(ELASTIC_ANNOTATION)
    if text is None:
        return None
    try:
        return Bounds.parse(text)
    except ValueError:
        return None


class World(msgspec.Struct, frozen=True):
    """The facts about the gang that a running worker needs.

    size: the number of workers, whose ranks are 0 to size - 1.
    epoch: the number of the current size, which starts at 1 and increases with each change of size.
    """

    size: int
    epoch: int
