"""Places of a podset's pods: the request (`PodSetTopologyRequest`) and the result (`TopologyAssignment`).

An assignment lists domains, each with a number of pods. It is kept by column: a slice holds, for many domains, the
values of each level and the counts, and says only once what all of them share.
"""

from typing import Annotated

from muster.api.kueue.fields import TopologyLabel
from muster.api.markers import ATOMIC, Int32, Required, limits
from muster.api.meta import Struct


class PodsetSliceRequiredTopologyConstraint(Struct):
    """Slices of one size keep to one level.

    topology: label of the level.
    size: pods in a slice.
    """

    topology: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""
    size: Annotated[Int32, limits(minimum=1)]


class PodSetTopologyRequest(Struct):
    """How close together the pods of a podset must be.

    required: level in whose one domain all the pods must be.
    preferred: level in whose one domain the pods should be; else in as few wider ones as possible.
    unconstrained: whether any placement will do that has room for all.
    pod_index_label: label that holds a pod's index.
    sub_group_index_label: label that holds the index of a pod's group, such as a replicated Job.
    sub_group_count: number of such groups.
    pod_set_group_name: podsets of the same group are placed together.
    pod_set_slice_required_topology: level in whose one domain every slice must be.
    pod_set_slice_size: pods in a slice.
    podset_slice_required_topology_constraints: slices of several sizes, the larger first.
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
    """Pods in each domain of a slice; exactly one of the two.

    universal: the number in every domain.
    individual: the number in each domain.
    """

    universal: Annotated[Int32, limits(minimum=1)] | None = None
    individual: Annotated[
        tuple[Annotated[Int32, limits(minimum=1)], ...], ATOMIC, limits(min_items=1, max_items=100000)
    ] = ()


class TopologyAssignmentSliceLevelIndividualValues(Struct):
    """A value for each domain: prefix + root + suffix.

    prefix: what all values begin with.
    suffix: what all values end with.
    roots: what is in between, for each domain.
    """

    prefix: TopologyLabel | None = None
    suffix: TopologyLabel | None = None
    roots: Required[Annotated[tuple[TopologyLabel, ...], ATOMIC, limits(min_items=1, max_items=100000)]] = ()


class TopologyAssignmentSliceLevelValues(Struct):
    """The values of one level in a slice; exactly one of the two.

    universal: the value of every domain.
    individual: the value of each domain.
    """

    universal: TopologyLabel | None = None
    individual: TopologyAssignmentSliceLevelIndividualValues | None = None


class TopologyAssignmentSlice(Struct):
    """Some domains with their pods.

    domain_count: how many domains.
    values_per_level: their values, for each level of the assignment.
    pod_counts: pods in each.
    """

    domain_count: Annotated[Int32, limits(minimum=1)]
    values_per_level: Required[
        Annotated[tuple[TopologyAssignmentSliceLevelValues, ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    pod_counts: TopologyAssignmentSlicePodCounts


class TopologyAssignment(Struct):
    """Where the pods of a podset go.

    levels: labels of the levels that name a domain, from the widest to the narrowest.
    slices: the domains with their pods; the pods' ranks follow their order.
    """

    levels: Required[
        Annotated[tuple[Annotated[str, limits(max_length=317)], ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    slices: Annotated[tuple[TopologyAssignmentSlice, ...], ATOMIC, limits(max_items=1000)]
