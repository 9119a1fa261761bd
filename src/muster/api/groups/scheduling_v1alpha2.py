"""`scheduling.k8s.io/v1alpha2`: upstream's own gangs."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Default, Int32, Required, map_by, merged_by, one_of
from muster.api.meta import Condition, ObjectMeta, Struct


class TypedLocalObjectReference(Struct):
    """Names an object of any kind in the same namespace.

    api_group: group of the object's kind; empty for the core group.
    kind: kind of the object.
    name: name of the object.
    """

    api_group: str = ""
    kind: Required[str] = ""
    name: Required[str] = ""


class BasicSchedulingPolicy(Struct):
    """Pods are scheduled one by one."""


class GangSchedulingPolicy(Struct):
    """Pods are scheduled together.

    min_count: how many at least.
    """

    min_count: Required[Int32] = 0


class PodGroupSchedulingPolicy(Struct):
    """How the pods of a group are scheduled; exactly one.

    basic: one by one.
    gang: together.
    """

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    """All pods of a group run in one place.

    key: node label whose values are the places.
    """

    key: Required[str] = ""


class PodGroupSchedulingConstraints(Struct):
    """Where the pods of a group run.

    topology: in one place.
    """

    topology: Annotated[tuple[TopologyConstraint, ...], ATOMIC] = ()


class PodGroupResourceClaim(Struct):
    """A claim on devices that all pods of a group share; exactly one source.

    name: unique in the group.
    resource_claim_name: a ResourceClaim.
    resource_claim_template_name: a template from which a claim is made for the group.
    """

    name: Required[str] = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


Claims = Annotated[tuple[PodGroupResourceClaim, ...], merged_by("name", retain_keys=True)]
DisruptionMode = Annotated[str, one_of("Pod", "PodGroup")]


class PodGroupTemplate(Struct):
    """Describes groups of pods.

    name: unique in the Workload.
    scheduling_policy: how the pods are scheduled.
    scheduling_constraints: where they run.
    resource_claims: claims on devices that they share.
    disruption_mode: Pod, or PodGroup: all are disrupted together.
    priority_class_name: name of the PriorityClass.
    priority: the greater, the more important; set from the class.
    """

    name: Required[str] = ""
    scheduling_policy: Required[PodGroupSchedulingPolicy] = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: Claims = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class WorkloadSpec(Struct):
    """Which groups of pods a workload has.

    controller_ref: the object that it stands for.
    pod_group_templates: the groups.
    """

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: Required[Annotated[tuple[PodGroupTemplate, ...], map_by("name")]] = ()


class Workload(Struct):
    """Describes the groups of pods of something that is run.

    metadata: what every object carries.
    spec: which groups.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[WorkloadSpec] = WorkloadSpec()


class WorkloadPodGroupTemplateReference(Struct):
    """Names a template in a Workload.

    workload_name: name of the Workload.
    pod_group_template_name: name of the template.
    """

    workload_name: Required[str] = ""
    pod_group_template_name: Required[str] = ""


class PodGroupTemplateReference(Struct):
    """Where a group's template is.

    workload: in a Workload.
    """

    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(Struct):
    """How the pods of a group are scheduled.

    pod_group_template_ref: the template that it was made from.
    scheduling_policy: how the pods are scheduled.
    scheduling_constraints: where they run.
    resource_claims: claims on devices that they share.
    disruption_mode: Pod, or PodGroup: all are disrupted together.
    priority_class_name: name of the PriorityClass.
    priority: the greater, the more important; set from the class.
    """

    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: Required[PodGroupSchedulingPolicy] = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: Claims = ()
    disruption_mode: Annotated[DisruptionMode, Default("Pod")] | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class PodGroupResourceClaimStatus(Struct):
    """The claim that stands for an entry of the group's resourceClaims.

    name: name of the entry.
    resource_claim_name: the claim that was made.
    """

    name: Required[str] = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    """What was observed of a group.

    conditions: observed aspects.
    resource_claim_statuses: claims that were made for the group.
    """

    conditions: Annotated[tuple[Condition, ...], merged_by("type")] = ()
    resource_claim_statuses: Annotated[
        tuple[PodGroupResourceClaimStatus, ...], merged_by("name", retain_keys=True)
    ] = ()


class PodGroup(Struct):
    """Pods that are scheduled by one policy.

    metadata: what every object carries.
    spec: how they are scheduled.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[PodGroupSpec] = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


_GROUP = "scheduling.k8s.io"
WORKLOAD = Kind(_GROUP, "v1alpha2", "Workload", "workloads", Workload)
POD_GROUP = Kind(_GROUP, "v1alpha2", "PodGroup", "podgroups", PodGroup)
