"""The placement of a podset's pods: the request (`PodSetTopologyRequest`) and the result (`TopologyAssignment`).

An assignment lists domains, each with a number of pods. The assignment is stored by column: a slice has
the values of each level and the counts of many domains, and stores shared values only once.
"""

from typing import Annotated

from muster.api.kueue.fields import TopologyLabel
from muster.api.markers import ATOMIC, Int32, Required, limits
from muster.api.meta import Struct


class PodsetSliceRequiredTopologyConstraint(Struct):
    """A constraint that all pods of a slice of one size are in one domain of a level.

    topology: the label of the level.
    size: the number of pods in a slice.
    """

    topology: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""
    size: Annotated[Int32, limits(minimum=1)]


class PodSetTopologyRequest(Struct):
    """The request how close together the pods of a podset must be.

    required: the level of which one domain must have all pods.
    preferred: the level of which one domain should have all pods, or else as few wider domains as possible.
    unconstrained: whether any placement with room for all pods is allowed.
    pod_index_label: the label with the index of a pod.
    sub_group_index_label: the label with the index of a pod's group, such as a replicated Job.
    sub_group_count: the number of such groups.
    pod_set_group_name: podsets of the same group are placed together.
    pod_set_slice_required_topology: the level of which one domain must have all pods of a slice.
    pod_set_slice_size: the number of pods in a slice.
    podset_slice_required_topology_constraints: the constraints of slices of several sizes, the larger first.
    """

    required: TopologyLabel | None = None
    preferred: TopologyLabel | None = None
    unconstrained: bool | None = None
    pod_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_count: Annotated[Int32, limits(minimum=0)] | None = None
    pod_set_group_name: Annotated[str, limits(max_length=256)] | None = None
    pod_set_slice_required_topology: TopologyLabel | None = None
    pod_set_slice_size: Annotated[Int32, limits(minimum=1)] | None = None
    podset_slice_required_topology_constraints: Annotated[
        tuple[PodsetSliceRequiredTopologyConstraint, ...], ATOMIC, limits(max_items=3)
    ] = ()


class TopologyAssignmentSlicePodCounts(Struct):
    """The number of pods in each domain of a slice. Exactly one field is set.

    universal: the number in every domain.
    individual: the number in each domain.
    """

    universal: Annotated[Int32, limits(minimum=1)] | None = None
    individual: Annotated[
        tuple[Annotated[Int32, limits(minimum=1)], ...], ATOMIC, limits(min_items=1, max_items=100000)
    ] = ()


class TopologyAssignmentSliceLevelIndividualValues(Struct):
    """The values of the domains, each made of prefix, root and suffix.

    prefix: the common beginning of all values.
    suffix: the common end of all values.
    roots: the part in between, for each domain.
    """

    prefix: TopologyLabel | None = None
    suffix: TopologyLabel | None = None
    roots: Required[Annotated[tuple[TopologyLabel, ...], ATOMIC, limits(min_items=1, max_items=100000)]] = ()


class TopologyAssignmentSliceLevelValues(Struct):
    """The values of one level in a slice. Exactly one field is set.

    universal: the value of every domain.
    individual: the value of each domain.
    """

    universal: TopologyLabel | None = None
    individual: TopologyAssignmentSliceLevelIndividualValues | None = None


class TopologyAssignmentSlice(Struct):
    """Some domains with their pods.

    domain_count: the number of domains.
    values_per_level: the values of the domains for each level of the assignment.
    pod_counts: the number of pods in each domain.
    """

    domain_count: Annotated[Int32, limits(minimum=1)]
    values_per_level: Required[
        Annotated[tuple[TopologyAssignmentSliceLevelValues, ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    pod_counts: TopologyAssignmentSlicePodCounts


class TopologyAssignment(Struct):
    """The domains to which the pods of a podset are assigned.

    levels: the labels of the levels that name a domain, from the widest to the narrowest.
    slices: the domains with their pods, in the order of the pods' ranks.
    """

    levels: Required[
        Annotated[tuple[Annotated[str, limits(max_length=317)], ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    slices: Annotated[tuple[TopologyAssignmentSlice, ...], ATOMIC, limits(max_items=1000)]
