"""Constraints and preferences of where a pod runs: affinity, tolerations, spreading."""

from muster.api.markers import Int32, Required
from muster.api.meta import LabelSelector, Struct


class NodeSelectorRequirement(Struct):
    """One requirement on a label or field of a node."""

    key: Required[str] = ""
    operator: Required[str] = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    """Requirements that a node must meet all together; a term with none matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct):
    """Matches a node that any of the terms matches."""

    node_selector_terms: Required[tuple[NodeSelectorTerm, ...]] = ()


class PreferredSchedulingTerm(Struct):
    """A wish: nodes that match get the weight."""

    weight: Required[Int32] = 0
    preference: Required[NodeSelectorTerm] = NodeSelectorTerm()


class NodeAffinity(Struct):
    """Which nodes suit a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct):
    """Pods, and the topology in which "together" is meant."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: Required[str] = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    """A wish for or against company."""

    weight: Required[Int32] = 0
    pod_affinity_term: Required[PodAffinityTerm] = PodAffinityTerm()


class PodAffinity(Struct):
    """Which pods to be together with."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct):
    """Which pods to be apart from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct):
    """What the scheduler looks at besides room."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Struct):
    """Lets a pod onto nodes with a matching taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct):
    """How evenly matching pods are spread over places."""

    max_skew: Required[Int32] = 0
    topology_key: Required[str] = ""
    when_unsatisfiable: Required[str] = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()
