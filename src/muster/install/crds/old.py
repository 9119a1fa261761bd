"""List the constraints in the schemas of Kueue's v1beta2 that the schemas of v1beta1 lack.

Muster's types for v1beta1 have the limits of both versions; these lists remove them from v1beta1's definitions.
"""

from collections.abc import Collection, Mapping

from muster.api import kueue
from muster.api.kueue.fields import OLD_VERSION

_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MAP_LIST = (_LIST_TYPE, _LIST_KEYS)
_CONDITIONS = {".status.conditions": ("maxItems",)}
_COVERED = {".spec.resourceGroups[].coveredResources": (_LIST_TYPE,)}
_REQUEST = ".spec.podSets[].topologyRequest"
_ASSIGNMENT = ".status.admission.podSetAssignments[]"
_CHECKS = ".spec.admissionChecksStrategy.admissionChecks"

# By `Kind.resource` and version, then by path.
KEYWORDS_OF_THE_NEW: Mapping[tuple[str, str], Mapping[str, Collection[str]]] = {
    (kind.resource, OLD_VERSION): dropped
    for kind, dropped in (
        (kueue.ADMISSION_CHECK, {
            ".spec.controllerName": ("minLength", "maxLength"),
            ".spec.parameters.apiGroup": ("minLength",),
            ".spec.parameters.kind": ("minLength",),
            ".spec.parameters.name": ("minLength",),
            **_CONDITIONS,
        }),
        (kueue.CLUSTER_QUEUE, {
            _CHECKS: ("maxItems", *_MAP_LIST),
            f"{_CHECKS}[].name": ("minLength",),
            f"{_CHECKS}[].onFlavors": ("maxItems", _LIST_TYPE),
            ".spec.admissionScope.admissionMode": ("enum",),
            **_COVERED,
            **_CONDITIONS,
        }),
        (kueue.COHORT, _COVERED),
        (kueue.LOCAL_QUEUE, _CONDITIONS),
        (kueue.MULTI_KUEUE_CLUSTER, {".spec.kubeConfig.location": ("maxLength",), **_CONDITIONS}),
        (kueue.MULTI_KUEUE_CONFIG, {".spec.clusters[]": ("maxLength",)}),
        (kueue.PROVISIONING_REQUEST_CONFIG, {
            ".spec.podSetUpdates.nodeSelector": _MAP_LIST,
            ".spec.provisioningClassName": ("minLength",),
        }),
        (kueue.WORKLOAD_PRIORITY_CLASS, {".description": ("maxLength",)}),
        (kueue.WORKLOAD, {
            **{f"{_REQUEST}.{label}": ("maxLength",) for label in (
                "podIndexLabel", "podSetGroupName", "podSetSliceRequiredTopology", "preferred", "required",
                "subGroupIndexLabel",
            )},
            f"{_REQUEST}.subGroupCount": ("minimum",),
            f"{_ASSIGNMENT}.delayedTopologyRequest": ("maxLength", "enum"),
            f"{_ASSIGNMENT}.topologyAssignment.levels[]": ("maxLength",),
            ".status.admissionChecks[].name": ("minLength",),
            ".status.admissionChecks[].podSetUpdates[].tolerations": (_LIST_TYPE,),
            ".status.clusterName": ("maxLength",),
            ".status.nominatedClusterNames[]": ("maxLength",),
            ".status.schedulingStats.evictions": ("maxItems",),
            ".status.unhealthyNodes": ("maxItems", *_MAP_LIST),
            ".status.unhealthyNodes[].name": ("maxLength",),
            **_CONDITIONS,
        }),
    )
}  # fmt: skip
