"""Match nodes with the required and preferred terms of a pod's node affinity."""

from collections.abc import Iterable, Mapping

from muster.api.core import NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PreferredSchedulingTerm
from muster.api.values.selectors import Operator, Requirement, SelectorError

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
_SETS = (Operator.IN, Operator.NOT_IN)
_COMPARISONS = (Operator.GREATER_THAN, Operator.LESS_THAN)


def list_required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternative terms that a pod's node affinity requires; empty if it requires nothing."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required.node_selector_terms if required is not None else ()


def list_preferred_terms(spec: PodSpec) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the terms that a pod's node affinity prefers, with their weights."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()


def make_requirement(written: NodeSelectorRequirement) -> Requirement:
    """Convert a requirement on labels.

    Raises:
        SelectorError: the requirement is invalid, which is possible in a template.
    """
    operator = _OPERATORS.get(written.operator)
    if operator is None:
        raise SelectorError(f'"{written.operator}" is not a valid node selector operator')
    if operator in _SETS and not written.values:
        raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
    if operator in _COMPARISONS and len(written.values) != 1:
        raise SelectorError("for 'Gt', 'Lt' operators, exactly one value is required")
    return Requirement(written.key, operator, frozenset(written.values))


def matches_any(terms: Iterable[NodeSelectorTerm], name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node matches one of the terms. A term that is empty or invalid matches no node.

    Upstream: component-helpers/scheduling/corev1/nodeaffinity, `LazyErrorNodeSelector.Match`.
    """
    return any(_matches(term, {"metadata.name": name}, labels) for term in terms)


def _matches(term: NodeSelectorTerm, fields: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    try:
        on_labels = all(make_requirement(one).matches(labels) for one in term.match_expressions)
        return on_labels and all(make_requirement(one).matches(fields) for one in term.match_fields)
    except SelectorError:
        return False
