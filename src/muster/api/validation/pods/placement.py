"""The rules of a pod's placement: affinity, tolerations, spreading, gates."""

from muster.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from muster.api.meta import LabelSelector
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    required,
    unsupported,
    validate_positive,
)
from muster.api.validation.metadata import validate_label_key, validate_label_selector

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(path: str, wishes: Affinity | None) -> Errors:
    """Yield the errors in affinities of all kinds."""
    if wishes is None:
        return
    if wishes.node_affinity is not None:
        yield from _validate_node_affinity(f"{path}.nodeAffinity", wishes.node_affinity)
    if wishes.pod_affinity is not None:
        yield from _validate_pod_affinity(f"{path}.podAffinity", wishes.pod_affinity)
    if wishes.pod_anti_affinity is not None:
        yield from _validate_pod_affinity(f"{path}.podAntiAffinity", wishes.pod_anti_affinity)


def validate_tolerations(path: str, tolerations: tuple[Toleration, ...]) -> Errors:
    """Yield the errors in the tolerations of a pod."""
    for i, toleration in enumerate(tolerations):
        yield from _validate_toleration(f"{path}[{i}]", toleration)


def validate_taint_effect(path: str, effect: str) -> Errors:
    """Yield the errors in the effect of a taint."""
    if effect not in TAINT_EFFECTS:
        yield unsupported(path, effect, TAINT_EFFECTS)


def validate_scheduling_gates(path: str, gates: tuple[PodSchedulingGate, ...]) -> Errors:
    """Yield the errors in the scheduling gates of a pod."""
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        yield from make_errors(f"{path}[{i}]", gate.name, names.label_key(gate.name))
        if gate.name in seen:
            yield duplicate(f"{path}[{i}]", gate.name)
        seen.add(gate.name)


def validate_spread_constraints(path: str, constraints: tuple[TopologySpreadConstraint, ...]) -> Errors:
    """Check the topology spread constraints."""
    for i, constraint in enumerate(constraints):
        yield from _validate_spread_constraint(f"{path}[{i}]", constraint, constraints[i + 1 :])


def _validate_node_affinity(path: str, wishes: NodeAffinity) -> Errors:
    if wishes.required_during_scheduling_ignored_during_execution is not None:
        yield from validate_node_selector(
            f"{path}.{_REQUIRED}", wishes.required_during_scheduling_ignored_during_execution
        )
    for i, term in enumerate(wishes.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{i}]"
        yield from _validate_weight(place, term.weight)
        yield from _validate_term(f"{place}.preference", term.preference, check_values=False)


def validate_node_selector(path: str, selector: NodeSelector) -> Errors:
    """Check a node selector."""
    if not selector.node_selector_terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(selector.node_selector_terms):
        yield from _validate_term(f"{path}.nodeSelectorTerms[{i}]", term, check_values=True)


def _validate_weight(path: str, weight: int) -> Errors:
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _validate_term(path: str, term: NodeSelectorTerm, *, check_values: bool) -> Errors:
    for i, expression in enumerate(term.match_expressions):
        yield from _validate_expression(f"{path}.matchExpressions[{i}]", expression, check_values=check_values)
    for i, expression in enumerate(term.match_fields):
        yield from _validate_field(f"{path}.matchFields[{i}]", expression)


def _validate_expression(path: str, expression: NodeSelectorRequirement, *, check_values: bool) -> Errors:
    if expression.operator in ("In", "NotIn"):
        if not expression.values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif expression.operator in ("Exists", "DoesNotExist"):
        if expression.values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif expression.operator in ("Gt", "Lt"):
        if len(expression.values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{path}.operator", expression.operator, "not a valid selector operator")
    yield from validate_label_key(f"{path}.key", expression.key)
    if check_values:
        for i, value in enumerate(expression.values):
            yield from make_errors(f"{path}.values[{i}]", value, names.label_value(value))


def _validate_field(path: str, expression: NodeSelectorRequirement) -> Errors:
    if expression.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", expression.operator, "not a valid selector operator")
    elif len(expression.values) != 1:
        sentence = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", sentence)
    if expression.key != "metadata.name":
        yield invalid(f"{path}.key", expression.key, "not a valid field selector key")
        return
    for i, value in enumerate(expression.values):
        yield from make_errors(f"{path}.values[{i}]", value, names.dns_subdomain(value))


def _validate_pod_affinity(path: str, wishes: PodAffinity | PodAntiAffinity) -> Errors:
    for i, term in enumerate(wishes.required_during_scheduling_ignored_during_execution):
        yield from _validate_pod_term(f"{path}.{_REQUIRED}[{i}]", term)
    for i, weighted in enumerate(wishes.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{i}]"
        yield from _validate_weight(place, weighted.weight)
        yield from _validate_pod_term(f"{place}.podAffinityTerm", weighted.pod_affinity_term)


def _validate_pod_term(path: str, term: PodAffinityTerm) -> Errors:
    yield from validate_label_selector(f"{path}.labelSelector", term.label_selector)
    yield from validate_label_selector(f"{path}.namespaceSelector", term.namespace_selector)
    for name in term.namespaces:
        yield from make_errors(f"{path}.namespace", name, names.dns_label(name))
    yield from _validate_label_keys(path, term.match_label_keys, term.mismatch_label_keys, term.label_selector)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from validate_label_key(f"{path}.topologyKey", term.topology_key)


def _validate_label_keys(
    path: str, match: tuple[str, ...], mismatch: tuple[str, ...], selector: LabelSelector | None
) -> Errors:
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for i, key in enumerate(keys):
            yield from validate_label_key(f"{path}.{field}[{i}]", key)
    if selector is not None:
        asked = set(selector.match_labels)
        for expression in selector.match_expressions:
            # The server adds one expression for each key of matchLabelKeys. A second one comes from the user.
            if expression.key in match and expression.key in asked:
                place = f"{path}[{match.index(expression.key)}]"
                yield invalid(place, expression.key, "exists in both matchLabelKeys and labelSelector")
            asked.add(expression.key)
    for i, key in enumerate(match):
        if key in mismatch:
            yield invalid(f"{path}.matchLabelKeys[{i}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _validate_toleration(path: str, toleration: Toleration) -> Errors:
    if toleration.key:
        yield from validate_label_key(f"{path}.key", toleration.key)
    elif toleration.operator != "Exists":
        sentence = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", toleration.operator, sentence)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        sentence = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect, sentence)
    yield from _validate_toleration_value(path, toleration)
    if toleration.effect:
        yield from validate_taint_effect(f"{path}.effect", toleration.effect)


def _validate_toleration_value(path: str, toleration: Toleration) -> Errors:
    value = toleration.value
    if toleration.operator in ("Equal", ""):
        if messages := names.label_value(value):
            yield invalid(f"{path}.operator", value, ";".join(messages))
    elif toleration.operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield unsupported(f"{path}.operator", toleration.operator, ("Equal", "Exists"))


def _validate_spread_constraint(
    path: str, constraint: TopologySpreadConstraint, others: tuple[TopologySpreadConstraint, ...]
) -> Errors:
    yield from validate_positive(f"{path}.maxSkew", constraint.max_skew)
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    action = constraint.when_unsatisfiable
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
    pair = (constraint.topology_key, action)
    if any(pair == (other.topology_key, other.when_unsatisfiable) for other in others):
        yield duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
    if constraint.min_domains is not None:
        yield from validate_positive(f"{path}.minDomains", constraint.min_domains)
        if action != "DoNotSchedule":
            sentence = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{path}.minDomains", constraint.min_domains, sentence)
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None and policy not in _NODE_POLICIES:
            yield unsupported(f"{path}.{field}", policy, _NODE_POLICIES)
    yield from _validate_label_keys(path, constraint.match_label_keys, (), constraint.label_selector)
    yield from validate_label_selector(f"{path}.labelSelector", constraint.label_selector)
