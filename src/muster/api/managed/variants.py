"""Parents and variants, by which one job requests several flavors at once (Kueue KEP-8691, ConcurrentAdmission).

The Workload of a job in a ClusterQueue with a `concurrentAdmissionPolicy` is a parent. A parent waits in no queue and
holds no quota. For each flavor of the ClusterQueue it has a variant: a Workload that may get only this flavor.
"""

from typing import Final, Literal

from muster.api.kueue import GATE_OPEN, WORKLOAD, Workload
from muster.api.kueue.names import ALLOWED_FLAVORS, CONCURRENT_ADMISSION_GATE, PARENT_LABEL
from muster.api.meta import ObjectMeta, OwnerReference

_TRUE: Final = "true"


def is_parent(workload: Workload) -> bool:
    """Return whether the Workload is a parent, which is admitted through its variants."""
    return workload.metadata.labels.get(PARENT_LABEL) == _TRUE


def is_variant(workload: Workload) -> bool:
    """Return whether the Workload is a variant, which another Workload owns."""
    return parent_of(workload.metadata) is not None


def role_of(workload: Workload) -> Literal["", "parent", "variant"]:
    """Return whether the Workload is a parent or a variant; "" if it is neither."""
    if is_parent(workload):
        return "parent"
    return "variant" if is_variant(workload) else ""


def parent_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference of a variant to its parent; None if the Workload is no variant."""
    for owner in meta.owner_references:  # a generator would take twice as long in this hot function
        if WORKLOAD.is_of(owner):
            return owner
    return None


def allowed_flavors(meta: ObjectMeta) -> frozenset[str]:
    """Return the flavors to which a Workload is limited; empty if it may get any."""
    return frozenset(filter(None, map(str.strip, meta.annotations.get(ALLOWED_FLAVORS, "").split(","))))


def flavor_of(variant: Workload) -> str:
    """Return the flavor of a variant; "" if its annotation names none."""
    return next(filter(None, map(str.strip, variant.metadata.annotations.get(ALLOWED_FLAVORS, "").split(","))), "")


def has_closed_gate(workload: Workload) -> bool:
    """Return whether the Workload is a variant with a closed preemption gate, and so may not preempt others yet."""
    gates = any(gate.name == CONCURRENT_ADMISSION_GATE for gate in workload.spec.preemption_gates)
    return gates and not has_open_gate(workload)


def has_open_gate(workload: Workload) -> bool:
    """Return whether the Workload is a variant whose preemption gate was opened."""
    return any(
        gate.name == CONCURRENT_ADMISSION_GATE and gate.position == GATE_OPEN
        for gate in workload.status.preemption_gates
    )
