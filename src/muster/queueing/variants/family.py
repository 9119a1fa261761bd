"""Read a parent Workload and its variants from the cluster, and make new variants. Pure."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.kueue import RETAIN_FIRST_ADMISSION, WORKLOAD, ClusterQueueSpec, PreemptionGate, Workload, WorkloadSpec
from muster.api.kueue.names import (
    ADMITTED,
    ALLOWED_FLAVORS,
    CONCURRENT_ADMISSION_GATE,
    EVICTED,
    PARENT_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.variants import flavor_of, parent_of
from muster.api.meta import ObjectMeta
from muster.api.ours.creation import CREATED_ANNOTATION, created_at
from muster.queueing.jobframework.names import workload_name


class Family(Struct, frozen=True):
    """A parent Workload and its variants.

    flavors: the flavors of its ClusterQueue, the best first.
    variants: the variants in the order of `flavors`.
    strays: variants of a flavor that the ClusterQueue no longer has, or for which there is another variant.
    retains: whether the parent stays in the flavor of its first admission.
    last: the last flavor to which the parent may move; "" for any.
    """

    parent: Workload
    flavors: tuple[str, ...] = ()
    variants: tuple[Workload, ...] = ()
    strays: tuple[Workload, ...] = ()
    retains: bool = False
    last: str = ""

    @classmethod
    def of(cls, parent: Workload, children: Sequence[Workload], queue: ClusterQueueSpec) -> Self:
        """Return the family of a parent, with the Workloads that it owns sorted by the flavors of its ClusterQueue."""
        flavors, policy = flavors_of(queue), queue.concurrent_admission_policy
        by_flavor: dict[str, Workload] = {}
        for child in sorted(children, key=lambda one: (not has_quota(one), one.metadata.name)):
            by_flavor.setdefault(flavor_of(child), child)
        variants = tuple(by_flavor[flavor] for flavor in flavors if flavor in by_flavor)
        strays = tuple(child for child in children if child not in variants)
        constraints = policy.migration.constraints if policy is not None else None
        return cls(
            parent=parent,
            flavors=flavors,
            variants=variants,
            strays=strays,
            retains=policy is not None and policy.migration.mode == RETAIN_FIRST_ADMISSION,
            last=constraints.last_acceptable_flavor_name if constraints is not None else "",
        )

    @property
    def all(self) -> tuple[Workload, ...]:
        """All variants, the best flavor first, followed by the strays."""
        return self.variants + self.strays

    @property
    def admitted(self) -> Workload | None:
        """The best variant that is admitted and not evicted; None if there is none."""
        return next((one for one in self.variants if is_running(one)), None)

    def position(self, variant: Workload) -> int:
        """Return the position of a variant's flavor in the queue; 0 is the best flavor."""
        flavor = flavor_of(variant)
        return self.flavors.index(flavor) if flavor in self.flavors else len(self.flavors)

    def limit(self) -> int:
        """Return the position of the last flavor to which the parent may move."""
        return self.flavors.index(self.last) if self.last in self.flavors else len(self.flavors)

    def is_mirrored(self, variant: Workload) -> bool:
        """Return whether the parent has copied the admission of this variant, so that the job runs with it."""
        return flavor_of(variant) in flavors_used(self.parent)


def has_quota(workload: Workload) -> bool:
    """Return whether a Workload has quota."""
    return is_true(workload.status.conditions, QUOTA_RESERVED)


def without_doubles(workloads: Iterable[Workload]) -> list[Workload]:
    """Return the Workloads without variants that would count their job a second time, in addition to their parent.

    A variant stays in the list if it holds quota of a flavor that its parent does not use, because the job is moving
    between them.
    """
    workloads = list(workloads)
    by_uid = {one.metadata.uid: one for one in workloads}

    def is_double(workload: Workload) -> bool:
        owner = parent_of(workload.metadata)
        if owner is None:
            return False
        parent = by_uid.get(owner.uid)
        return not has_quota(workload) or (parent is not None and flavor_of(workload) in flavors_used(parent))

    return [one for one in workloads if not is_double(one)]


def flavors_used(workload: Workload) -> frozenset[str]:
    """Return the flavors of the quota with which a Workload was admitted."""
    admission = workload.status.admission
    podsets = admission.pod_set_assignments if admission is not None else ()
    return frozenset(flavor for podset in podsets for flavor in podset.flavors.values())


def is_running(variant: Workload) -> bool:
    """Return whether a variant is admitted and not evicted."""
    return is_true(variant.status.conditions, ADMITTED) and not is_true(variant.status.conditions, EVICTED)


def name_of(workload: Workload) -> str:
    """Return the name by which messages refer to the Workload: its namespace and name."""
    return f"{workload.metadata.namespace}/{workload.metadata.name}"


def flavors_of(queue: ClusterQueueSpec) -> tuple[str, ...]:
    """Return the flavors of a ClusterQueue for which variants are made, the best first."""
    groups = queue.resource_groups
    return tuple(flavor.name for flavor in groups[0].flavors) if groups else ()


def variant_of(parent: Workload, flavor: str, position: int) -> Workload:
    """Return a new variant of the parent for a flavor.

    position: the position of the flavor. Variants of one parent queue directly behind one another, the best one first.
    """
    meta = parent.metadata
    labels = {key: text for key, text in meta.labels.items() if key != PARENT_LABEL}
    created = created_at(meta) + timedelta(microseconds=position)
    annotations = {**meta.annotations, ALLOWED_FLAVORS: flavor, CREATED_ANNOTATION: created.isoformat()}
    owner = WORKLOAD.refer_to_controller(meta)
    return Workload(
        metadata=ObjectMeta(
            name=_name_variant(meta, flavor),
            namespace=meta.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=(owner,),
        ),
        spec=spec_of(parent, active=parent.spec.active),
    )


def spec_of(parent: Workload, *, active: bool) -> WorkloadSpec:
    """Return the spec of a variant of the parent. The variant does not preempt until its gate is opened."""
    gates = [gate for gate in parent.spec.preemption_gates if gate.name != CONCURRENT_ADMISSION_GATE]
    gates.append(PreemptionGate(name=CONCURRENT_ADMISSION_GATE))
    return replace(parent.spec, active=active, preemption_gates=tuple(gates))


def _name_variant(parent: ObjectMeta, flavor: str) -> str:
    """Return the name of a variant, as Kueue forms it: the parent's name without its hash, the flavor, a new hash."""
    stem = parent.name.rpartition("-")[0] or parent.name
    digest = workload_name(WORKLOAD.kind, WORKLOAD.group, parent.name, parent.uid, flavor).rpartition("-")[2]
    room = 253 - 1 - len(digest)
    return f"{f'{stem}-variant-{flavor}'[:room]}-{digest}"
