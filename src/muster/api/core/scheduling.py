"""The constraints and preferences of a pod's placement: affinity, tolerations, spreading."""

from muster.api.markers import Int32, Required
from muster.api.meta import LabelSelector, Struct


class NodeSelectorRequirement(Struct):
    """One requirement on a label or field of a node."""

    key: Required[str] = ""
    operator: Required[str] = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    """Requirements of which a node must meet all. A term without requirements matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct):
    """A selector of the nodes that at least one term matches."""

    node_selector_terms: Required[tuple[NodeSelectorTerm, ...]] = ()


class PreferredSchedulingTerm(Struct):
    """A preference: matching nodes get the weight."""

    weight: Required[Int32] = 0
    preference: Required[NodeSelectorTerm] = NodeSelectorTerm()


class NodeAffinity(Struct):
    """The affinity of a pod to nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct):
    """A selector of pods, and the topology in which they count as together."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: Required[str] = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    """A preference for or against running with other pods."""

    weight: Required[Int32] = 0
    pod_affinity_term: Required[PodAffinityTerm] = PodAffinityTerm()


class PodAffinity(Struct):
    """The affinity of a pod to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct):
    """The anti-affinity of a pod to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct):
    """The affinities of a pod to nodes and other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Struct):
    """A permission for a pod to run on nodes with a matching taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct):
    """A constraint on how evenly matching pods are spread over topology domains."""

    max_skew: Required[Int32] = 0
    topology_key: Required[str] = ""
    when_unsatisfiable: Required[str] = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()
