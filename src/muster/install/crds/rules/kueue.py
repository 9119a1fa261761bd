"""List the CEL rules of Kueue's kinds, except those of Workloads, which are in `workload`."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api import kueue
from muster.api.kinds import Kind
from muster.api.kueue.fields import OLD_VERSION, VERSION
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.validation.fields import IMMUTABLE
from muster.install.crds.rules.rule import TAINTS, TOLERATIONS, UNCHANGED, UNIQUE, Rule, Rules, exactly_one

_UNCHANGED = Rule(UNCHANGED, IMMUTABLE)

_GROUPS: Rules = {
    ".spec.resourceGroups[]": [
        Rule(
            "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        )
    ]
}
_FLAVOR: Rules = {
    ".spec": [
        Rule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)",
            "at least one nodeLabel is required when topology is set",
        ),
        Rule(
            "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable when topologyName is set",
        ),
    ],
    ".spec.nodeTaints": TAINTS,
    ".spec.tolerations": TOLERATIONS,
}


def _make_hosts_condition(levels: str) -> str:
    return f"{levels}[size({levels}) - 1].nodeLabel == '{HOSTNAME_LABEL}'"


_LEVELS = (
    UNIQUE,
    Rule(
        f"!self.exists(l, l.nodeLabel == '{HOSTNAME_LABEL}') || {_make_hosts_condition('self')}",
        f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology",
    ),
)
_CHANGED_LEVELS = Rule(
    f"{UNCHANGED} || ({_make_hosts_condition('self')} && {_make_hosts_condition('oldSelf')})",
    f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change",
)


def _make_cluster_queue_rules(cohort: str) -> Rules:
    """Return the CEL rules of a ClusterQueue, by path. cohort: the field's name, `cohort` or `cohortName`."""
    return {
        ".spec": [
            Rule(
                f"has(self.{cohort}) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
                "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
                "borrowingLimit must be nil when cohort is empty",
            )
        ],
        ".spec.flavorFungibility": [
            Rule(
                "!has(self.preference) || [self.whenCanBorrow, self.whenCanPreempt].all(w, w == 'TryNextFlavor')",
                "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            )
        ],
        ".spec.preemption": [
            Rule(
                "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || "
                "self.borrowWithinCohort.policy == 'Never'",
                "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            )
        ],
        **_GROUPS,
    }


def _apply_to_both_versions(kind: Kind[Any], rules: Rules) -> Mapping[tuple[str, str], Rules]:
    return {(kind.resource, version): rules for version in (OLD_VERSION, VERSION)}


# By `Kind.resource` and version.
KUEUE: Final[Mapping[tuple[str, str], Rules]] = {
    **_apply_to_both_versions(kueue.ADMISSION_CHECK, {".spec.controllerName": [_UNCHANGED]}),
    **_apply_to_both_versions(kueue.COHORT, _GROUPS),
    **_apply_to_both_versions(kueue.LOCAL_QUEUE, {".spec.clusterQueue": [_UNCHANGED]}),
    **_apply_to_both_versions(kueue.RESOURCE_FLAVOR, _FLAVOR),
    (kueue.CLUSTER_QUEUE.resource, OLD_VERSION): _make_cluster_queue_rules("cohort"),
    (kueue.CLUSTER_QUEUE.resource, VERSION): _make_cluster_queue_rules("cohortName"),
    (kueue.MULTI_KUEUE_CLUSTER.resource, VERSION): {
        ".spec.clusterSource": [exactly_one("kubeConfig", "clusterProfileRef")]
    },
    (kueue.MULTI_KUEUE_CONFIG.resource, VERSION): {".spec.clusters": [UNIQUE]},
    (kueue.TOPOLOGY.resource, OLD_VERSION): {".spec.levels": [_UNCHANGED, *_LEVELS]},
    (kueue.TOPOLOGY.resource, VERSION): {".spec.levels": [_CHANGED_LEVELS, *_LEVELS]},
}
