"""Where a pod may run and where it would rather run: affinity, tolerations, spreading."""

from typing import Annotated

from muster.api.markers import ATOMIC, Int32, Required, Strings, one_of
from muster.api.meta import LabelSelector, Struct


class NodeSelectorRequirement(Struct):
    """One requirement on a label or field of a node.

    key: the label or field.
    operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    values: what the operator compares with; one integer for Gt and Lt, none for Exists and DoesNotExist.
    """

    key: Required[str] = ""
    operator: Annotated[Required[str], one_of("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")] = ""
    values: Strings = ()


class NodeSelectorTerm(Struct):
    """Requirements that a node must meet all together; a term with none matches no node.

    match_expressions: requirements on labels.
    match_fields: requirements on fields (metadata.name).
    """

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], ATOMIC] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], ATOMIC] = ()


class NodeSelector(Struct):
    """Matches a node that any of the terms matches.

    node_selector_terms: the alternatives.
    """

    node_selector_terms: Required[Annotated[tuple[NodeSelectorTerm, ...], ATOMIC]] = ()


class PreferredSchedulingTerm(Struct):
    """A wish: nodes that match get the weight.

    weight: from 1 to 100.
    preference: what a node should have.
    """

    weight: Required[Int32] = 0
    preference: Required[NodeSelectorTerm] = NodeSelectorTerm()


class NodeAffinity(Struct):
    """Which nodes suit a pod.

    required_during_scheduling_ignored_during_execution: a node that does not match is never used.
    preferred_during_scheduling_ignored_during_execution: nodes with a greater sum of weights are preferred.
    """

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredSchedulingTerm, ...], ATOMIC] = ()


class PodAffinityTerm(Struct):
    """Pods, and the topology in which "together" is meant.

    label_selector: which pods; none if absent.
    namespaces: where the pods are, besides those that namespaceSelector selects; the pod's own if both are absent.
    topology_key: node label whose value must be equal for two nodes to count as one place.
    namespace_selector: which namespaces, by their labels; an empty one selects all.
    match_label_keys: labels of this pod whose values the other pods must share.
    mismatch_label_keys: labels of this pod whose values the other pods must not share.
    """

    label_selector: LabelSelector | None = None
    namespaces: Strings = ()
    topology_key: Required[str] = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: Strings = ()
    mismatch_label_keys: Strings = ()


class WeightedPodAffinityTerm(Struct):
    """A wish for or against company.

    weight: from 1 to 100.
    pod_affinity_term: which pods, and what counts as together.
    """

    weight: Required[Int32] = 0
    pod_affinity_term: Required[PodAffinityTerm] = PodAffinityTerm()


class PodAffinity(Struct):
    """Which pods to be together with.

    required_during_scheduling_ignored_during_execution: all terms must hold for a node to be used.
    preferred_during_scheduling_ignored_during_execution: nodes with a greater sum of weights are preferred.
    """

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodAffinityTerm, ...], ATOMIC] = ()
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[WeightedPodAffinityTerm, ...], ATOMIC] = ()


class PodAntiAffinity(Struct):
    """Which pods to be apart from.

    required_during_scheduling_ignored_during_execution: no term may hold for a node to be used.
    preferred_during_scheduling_ignored_during_execution: nodes with a greater sum of weights are avoided.
    """

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodAffinityTerm, ...], ATOMIC] = ()
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[WeightedPodAffinityTerm, ...], ATOMIC] = ()


class Affinity(Struct):
    """What the scheduler looks at besides room.

    node_affinity: which nodes suit.
    pod_affinity: which pods to be together with.
    pod_anti_affinity: which pods to be apart from.
    """

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Struct):
    """Lets a pod onto nodes with a matching taint.

    key: key of the taint; empty, with operator Exists, tolerates everything.
    operator: Exists, or Equal, the default.
    value: value of the taint, for Equal.
    effect: effect of the taint; empty tolerates all of them.
    toleration_seconds: how long a NoExecute taint is borne; forever if absent, not at all if 0 or less.
    """

    key: str = ""
    operator: Annotated[str, one_of("Equal", "Exists")] = ""
    value: str = ""
    effect: Annotated[str, one_of("NoExecute", "NoSchedule", "PreferNoSchedule")] = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct):
    """How evenly matching pods are spread over places.

    max_skew: how far the counts of two places may differ.
    topology_key: node label whose values are the places.
    when_unsatisfiable: DoNotSchedule, or ScheduleAnyway with a preference for less skew.
    label_selector: which pods are counted.
    min_domains: with fewer places than this, the least count is taken as 0; 1 if absent.
    node_affinity_policy: Honor counts only nodes that the pod's node affinity and selector match; Ignore, all.
    node_taints_policy: Honor leaves out nodes with taints that the pod does not tolerate; Ignore, if absent, does not.
    match_label_keys: labels of this pod whose values the counted pods must share.
    """

    max_skew: Required[Int32] = 0
    topology_key: Required[str] = ""
    when_unsatisfiable: Annotated[Required[str], one_of("DoNotSchedule", "ScheduleAnyway")] = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: Annotated[str, one_of("Honor", "Ignore")] | None = None
    node_taints_policy: Annotated[str, one_of("Honor", "Ignore")] | None = None
    match_label_keys: Strings = ()
