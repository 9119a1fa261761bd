"""Parents and variants: how one job asks for several flavors at once (Kueue KEP-8691, ConcurrentAdmission).

The Workload of a job in a ClusterQueue with a `concurrentAdmissionPolicy` is a parent. It stands in no queue and holds
no quota of its own: for each flavor of the ClusterQueue it has a variant, a Workload that may get that flavor alone.
"""

from typing import Final, Literal

from muster.api.kueue import GATE_OPEN, WORKLOAD, Workload
from muster.api.kueue.names import ALLOWED_FLAVORS, CONCURRENT_ADMISSION_GATE, PARENT_LABEL
from muster.api.meta import ObjectMeta, OwnerReference

_TRUE: Final = "true"


def is_parent(workload: Workload) -> bool:
    """Return whether the Workload is admitted by way of its variants."""
    return workload.metadata.labels.get(PARENT_LABEL) == _TRUE


def is_variant(workload: Workload) -> bool:
    """Return whether another Workload owns it."""
    return parent_of(workload.metadata) is not None


def role_of(workload: Workload) -> Literal["", "parent", "variant"]:
    """Return what the Workload is; "" of one that is neither."""
    if is_parent(workload):
        return "parent"
    return "variant" if is_variant(workload) else ""


def parent_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference of a variant to its parent."""
    return next((owner for owner in meta.owner_references if WORKLOAD.is_of(owner)), None)


def allowed_flavors(meta: ObjectMeta) -> frozenset[str]:
    """Return the only flavors that a Workload may get; none: any."""
    return frozenset(filter(None, map(str.strip, meta.annotations.get(ALLOWED_FLAVORS, "").split(","))))


def flavor_of(variant: Workload) -> str:
    """Return the flavor of a variant; "" if its annotation names none."""
    return next(filter(None, map(str.strip, variant.metadata.annotations.get(ALLOWED_FLAVORS, "").split(","))), "")


def has_closed_gate(workload: Workload) -> bool:
    """Return whether the Workload may not preempt others before the gate of its variants is opened."""
    gates = any(gate.name == CONCURRENT_ADMISSION_GATE for gate in workload.spec.preemption_gates)
    return gates and not has_open_gate(workload)


def has_open_gate(workload: Workload) -> bool:
    """Return whether the gate of variants was opened for this one."""
    return any(
        gate.name == CONCURRENT_ADMISSION_GATE and gate.position == GATE_OPEN
        for gate in workload.status.preemption_gates
    )
