"""`scheduling.k8s.io/v1alpha2`: upstream's own PodGroup."""

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import Condition, ObjectMeta, Struct


class BasicSchedulingPolicy(Struct):
    """The policy that schedules the pods of a group one by one."""


class GangSchedulingPolicy(Struct):
    """The policy that schedules the pods of a group together.

    min_count: the least number of pods of the group that may start.
    """

    min_count: Required[Int32] = 0


class PodGroupSchedulingPolicy(Struct):
    """The scheduling policy of a group. Exactly one field is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    """A constraint that all pods of a group run in one topology domain."""

    key: Required[str] = ""


class PodGroupSchedulingConstraints(Struct):
    """The constraints on the placement of a group."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Struct):
    """A claim on devices that all pods of a group share. Exactly one source is set."""

    name: Required[str] = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(Struct):
    """The desired scheduling of the pods of a group."""

    scheduling_policy: Required[PodGroupSchedulingPolicy] = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class PodGroupResourceClaimStatus(Struct):
    """The claim that was created or found for an entry of the group's resourceClaims."""

    name: Required[str] = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    """The observed state of a group."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Struct):
    """A group of pods that one policy schedules."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[PodGroupSpec] = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


_GROUP = "scheduling.k8s.io"
POD_GROUP = Kind(_GROUP, "v1alpha2", "PodGroup", "podgroups", PodGroup)
