"""The annotations of a workload that runs in another cluster, in addition to Kueue's."""

from collections.abc import Iterable
from typing import Final, Self

import msgspec

from muster.api.kueue import Workload
from muster.api.meta import ObjectMeta

# The only cluster where the job may exist. The annotation is stored before any job is created there.
HOME_ANNOTATION: Final = "muster.dev/multikueue-home"

# The size that the cluster refused, as `Refusal` in JSON. It is removed with the home, or if the request changes.
REFUSED_ANNOTATION: Final = "muster.dev/multikueue-refused"

# The beginning of the check's message if the job cannot be created in some clusters, whose names follow.
_BARRED: Final = "A job or PodGroup of the same name, which this manager did not make, is in: "


def home_of(workload: ObjectMeta) -> str:
    """Return the cluster that runs the workload's job; "" if none does."""
    return workload.annotations.get(HOME_ANNOTATION, "")


class Refusal(msgspec.Struct, frozen=True):
    """A worker cluster's refusal to let a workload grow to the given numbers of pods."""

    sizes: tuple[int, ...]
    said: str

    @classmethod
    def of(cls, workload: Workload, message: str) -> Self:
        """Return the refusal of the size that the workload requests now. message: the worker's message."""
        return cls(tuple(podset.count for podset in workload.spec.pod_sets), message)

    def make_annotation(self) -> dict[str, str]:
        """Return the annotation with the refusal."""
        return {REFUSED_ANNOTATION: msgspec.json.encode(self).decode()}


def refusal_of(workload: Workload) -> Refusal | None:
    """Return the refusal of the size that the workload requests; None if there is none or it is unreadable."""
    try:
        refusal = msgspec.json.decode(
            workload.metadata.annotations.get(REFUSED_ANNOTATION, "null"), type=Refusal | None
        )
    except msgspec.DecodeError:
        return None
    return refusal if refusal is not None and refusal == Refusal.of(workload, refusal.said) else None


def describe_barred(clusters: Iterable[str]) -> str:
    """Return the check's message about clusters where another job's object is in the way; "" if there are none."""
    names = ", ".join(clusters)
    return f"{_BARRED}{names}" if names else ""


def find_barred(message: str) -> tuple[str, ...]:
    """Return the names of the barred clusters in the check's message."""
    return tuple(message.removeprefix(_BARRED).split(", ")) if message.startswith(_BARRED) else ()
