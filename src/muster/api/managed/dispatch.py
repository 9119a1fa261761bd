"""Reads and writes what is stored of a workload that runs in another cluster, beside what Kueue stores."""

from collections.abc import Iterable
from typing import Final, Self

import msgspec

from muster.api.kueue import Workload
from muster.api.meta import ObjectMeta

# The one cluster where its job may be. It is stored before anything is made there that could run.
HOME_ANNOTATION: Final = "muster.dev/multikueue-home"

# The size that this cluster refused, as `Refusal` in JSON. It goes with the home, and when another size is asked for.
REFUSED_ANNOTATION: Final = "muster.dev/multikueue-refused"

# How the check's message begins where its job cannot be made in some clusters; then they are named.
_BARRED: Final = "A job or PodGroup of the same name, which this manager did not make, is in: "


def home_of(workload: ObjectMeta) -> str:
    """Return the cluster that runs the workload's job; "" if none does."""
    return workload.annotations.get(HOME_ANNOTATION, "")


class Refusal(msgspec.Struct, frozen=True):
    """What a worker cluster said when a workload that runs there was to get so many pods, by podset."""

    sizes: tuple[int, ...]
    said: str

    @classmethod
    def of(cls, workload: Workload, said: str) -> Self:
        """Return the refusal of the size that the workload requests."""
        return cls(tuple(podset.count for podset in workload.spec.pod_sets), said)

    def written(self) -> dict[str, str]:
        """Return the annotation."""
        return {REFUSED_ANNOTATION: msgspec.json.encode(self).decode()}


def refusal_of(workload: Workload) -> Refusal | None:
    """Return the refusal of the size that the workload requests; None if there is none, or an unreadable one."""
    try:
        found = msgspec.json.decode(workload.metadata.annotations.get(REFUSED_ANNOTATION, "null"), type=Refusal | None)
    except msgspec.DecodeError:
        return None
    return found if found is not None and found == Refusal.of(workload, found.said) else None


def barred(clusters: Iterable[str]) -> str:
    """Return the check's message about clusters that another job's object bars; "" if there are none."""
    names = ", ".join(clusters)
    return f"{_BARRED}{names}" if names else ""


def barred_in(message: str) -> tuple[str, ...]:
    """Return the barred clusters, from the check's message."""
    return tuple(message.removeprefix(_BARRED).split(", ")) if message.startswith(_BARRED) else ()
