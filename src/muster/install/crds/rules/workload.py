"""List the CEL rules of Workloads."""

from collections.abc import Mapping, Sequence
from typing import Final

from muster.api import kueue
from muster.api.kueue import POD_PRIORITY_GROUP, WORKLOAD_PRIORITY_GROUP
from muster.api.kueue.fields import OLD_VERSION, VERSION
from muster.api.kueue.names import ADMITTED, QUOTA_RESERVED
from muster.install.crds.rules.rule import TOLERATIONS, Rule, Rules, exactly_one

_WHILE_HELD = "while workload quota reserved"


def _is_true(condition: str, of: str) -> str:
    """Return the CEL expression for whether a condition of a Workload is True. of: the expression for the Workload."""
    conditions = f"{of}.status.conditions"
    is_true = f"{conditions}.exists(c, c.type == '{condition}' && c.status == 'True')"
    return f"has({of}.status) && has({conditions}) && {is_true}"


_HELD, _HOLDS = _is_true(QUOTA_RESERVED, "oldSelf"), _is_true(QUOTA_RESERVED, "self")


def _make_both_set(field: str) -> str:
    """Return the CEL expression for whether a field of the spec is set both before and after an update."""
    return f"has(oldSelf.spec.{field}) && has(self.spec.{field})"


def _make_immutable_rule(field: str, condition: str) -> str:
    """Return the CEL expression for: a field of the spec is unchanged, or no quota is held, or `condition` is false."""
    return f"!({_HELD} && {condition}) || oldSelf.spec.{field} == self.spec.{field}"


def _make_default_zero(field: str) -> str:
    return f"(has({field}) ? {field} : 0)"


_TIME = "spec.maximumExecutionTimeSeconds"
_AS_MANY_ASSIGNMENTS = Rule(
    f"!({_HOLDS} && has(self.status.admission)) || "
    "size(self.spec.podSets) == size(self.status.admission.podSetAssignments)",
    "podSetAssignments must have the same number of podSets as the spec",
)
_SAME_QUEUE_AND_TIME: Sequence[Rule] = (
    Rule(
        f"!({_HELD} && {_HOLDS}) || (has(oldSelf.spec.queueName) == has(self.spec.queueName) && "
        "(!has(self.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName))",
        f"queueName is immutable {_WHILE_HELD}",
    ),
    Rule(
        f"!({_is_true(ADMITTED, 'oldSelf')} && {_is_true(ADMITTED, 'self')}) || "
        f"{_make_default_zero(f'oldSelf.{_TIME}')} == {_make_default_zero(f'self.{_TIME}')}",
        f"maximumExecutionTimeSeconds is immutable {_WHILE_HELD}",
    ),
)
_OF_BOTH_VERSIONS: Rules = {
    ".spec.podSets[]": [
        Rule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount should be positive and less or equal to count",
        )
    ],
    ".status": [
        Rule(
            "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
            "clusterName is immutable once set",
        ),
        Rule(
            "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
            "clusterName and nominatedClusterNames are mutually exclusive",
        ),
    ],
    ".status.admissionChecks[].podSetUpdates[].tolerations": TOLERATIONS,
}

_OLD_CLASS = "self.spec.priorityClassSource == 'kueue.x-k8s.io/workloadpriorityclass'"

_V1BETA1: Rules = {
    "": [
        _AS_MANY_ASSIGNMENTS,
        Rule(
            _make_immutable_rule("priorityClassSource", _make_both_set("priorityClassSource")),
            f"priorityClassSource is immutable {_WHILE_HELD}",
        ),
        Rule(
            _make_immutable_rule(
                "priorityClassName",
                f"{_make_both_set('priorityClassSource')} && !({_OLD_CLASS}) && {_make_both_set('priorityClassName')}",
            ),
            "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to "
            "kueue.x-k8s.io/workloadpriorityclass",
        ),
        *_SAME_QUEUE_AND_TIME,
    ],
    ".spec": [
        Rule(
            "!has(self.priorityClassName) || has(self.priority)",
            "priority should not be nil when priorityClassName is set",
        )
    ],
    **_OF_BOTH_VERSIONS,
}

_REF = "priorityClassRef"
_IS_POD_CLASS = f"self.spec.{_REF}.group == '{POD_PRIORITY_GROUP}' && self.spec.{_REF}.kind == 'PriorityClass'"
_KINDS = {POD_PRIORITY_GROUP: "PriorityClass", WORKLOAD_PRIORITY_GROUP: "WorkloadPriorityClass"}
_TOPOLOGY = ".status.admission.podSetAssignments[].topologyAssignment"

_V1BETA2: Rules = {
    "": [
        _AS_MANY_ASSIGNMENTS,
        Rule(
            f"!({_HELD}) || has(oldSelf.spec.{_REF}) == has(self.spec.{_REF})",
            f"priorityClassRef is immutable {_WHILE_HELD}",
        ),
        Rule(
            _make_immutable_rule(f"{_REF}.group", _make_both_set(_REF)),
            f"priorityClassRef.group is immutable {_WHILE_HELD}",
        ),
        Rule(
            _make_immutable_rule(f"{_REF}.kind", _make_both_set(_REF)),
            f"priorityClassRef.kind is immutable {_WHILE_HELD}",
        ),
        Rule(
            _make_immutable_rule(f"{_REF}.name", f"{_make_both_set(_REF)} && {_IS_POD_CLASS}"),
            f"priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass {_WHILE_HELD}",
        ),
        *_SAME_QUEUE_AND_TIME,
    ],
    ".spec": [
        Rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        )
    ],
    ".spec.priorityClassRef": [
        Rule(
            f"self.group != '{group}' || self.kind == '{kind}'",
            f"only the {kind} kind is allowed for the {group} group",
        )
        for group, kind in _KINDS.items()
    ],
    _TOPOLOGY: [
        Rule(
            "self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
            "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
        )
    ],
    f"{_TOPOLOGY}.slices[]": [
        Rule(
            "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
            "podCounts.individual must have length equal to domainCount",
        ),
        Rule(
            "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount "
            "of this TopologyAssignmentSlice",
        ),
    ],
    f"{_TOPOLOGY}.slices[].podCounts": [exactly_one("universal", "individual")],
    f"{_TOPOLOGY}.slices[].valuesPerLevel[]": [exactly_one("universal", "individual")],
    **_OF_BOTH_VERSIONS,
}

# By `Kind.resource` and version.
WORKLOAD: Final[Mapping[tuple[str, str], Rules]] = {
    (kueue.WORKLOAD.resource, OLD_VERSION): _V1BETA1,
    (kueue.WORKLOAD.resource, VERSION): _V1BETA2,
}
