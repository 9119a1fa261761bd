"""`scheduling.k8s.io/v1alpha2`: upstream's own gangs."""

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import Condition, ObjectMeta, Struct


class BasicSchedulingPolicy(Struct):
    """Pods are scheduled one by one."""


class GangSchedulingPolicy(Struct):
    """Pods are scheduled together."""

    min_count: Required[Int32] = 0


class PodGroupSchedulingPolicy(Struct):
    """How the pods of a group are scheduled; exactly one."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    """All pods of a group run in one place."""

    key: Required[str] = ""


class PodGroupSchedulingConstraints(Struct):
    """Where the pods of a group run."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Struct):
    """A claim on devices that all pods of a group share; exactly one source."""

    name: Required[str] = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(Struct):
    """How the pods of a group are scheduled."""

    scheduling_policy: Required[PodGroupSchedulingPolicy] = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class PodGroupResourceClaimStatus(Struct):
    """The claim that stands for an entry of the group's resourceClaims."""

    name: Required[str] = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    """What was observed of a group."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Struct):
    """Pods that are scheduled by one policy."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[PodGroupSpec] = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


_GROUP = "scheduling.k8s.io"
POD_GROUP = Kind(_GROUP, "v1alpha2", "PodGroup", "podgroups", PodGroup)
