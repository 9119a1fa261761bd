"""Defaults of the kinds that are only stored."""

import copy
from typing import Any

import pytest

from muster.api.defaults import DEFAULTS

POD_SPEC = {
    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
    "securityContext": {}, "terminationGracePeriodSeconds": 30,
}  # fmt: skip
TEMPLATE = {"spec": POD_SPEC}
CLAIM = {"spec": {"volumeMode": "Filesystem", "resources": {}}, "status": {"phase": "Pending"}}
UP = [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("deployments.apps", {}, {
        "spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "template": TEMPLATE,
                 "strategy": {"type": "RollingUpdate",
                              "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}}),
    ("deployments.apps", {"spec": {"replicas": 0, "paused": True, "strategy": {"type": "Recreate"}}}, {
        "spec": {"replicas": 0, "paused": True, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                 "template": TEMPLATE, "strategy": {"type": "Recreate"}}}),
    ("replicasets.apps", {}, {"spec": {"replicas": 1, "template": TEMPLATE}}),
    ("statefulsets.apps", {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]}}, {
        "spec": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                 "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                 "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                 "template": TEMPLATE,
                 "volumeClaimTemplates": [
                     {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"}} | CLAIM]}}),
    ("daemonsets.apps", {}, {
        "spec": {"revisionHistoryLimit": 10, "template": TEMPLATE,
                 "updateStrategy": {"type": "RollingUpdate",
                                    "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}),
    ("daemonsets.apps", {"spec": {"updateStrategy": {"type": "OnDelete"}}}, {
        "spec": {"revisionHistoryLimit": 10, "template": TEMPLATE, "updateStrategy": {"type": "OnDelete"}}}),
    ("replicationcontrollers", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}, {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"replicas": 1, "selector": {"a": "b"},
                 "template": {"metadata": {"labels": {"a": "b"}}} | TEMPLATE}}),
    ("cronjobs.batch", {}, {
        "spec": {"concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
                 "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": TEMPLATE}}}}),
    ("podtemplates", {}, {"template": TEMPLATE}),
    ("persistentvolumeclaims", {}, CLAIM),
    ("persistentvolumeclaims",
     {"spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "s"},
               "resources": {"requests": {"storage": "1024Mi"}}}},
     {"spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}},
               "dataSource": {"kind": "VolumeSnapshot", "name": "s"},
               "dataSourceRef": {"kind": "VolumeSnapshot", "name": "s"}}, "status": {"phase": "Pending"}}),
    ("persistentvolumes", {"spec": {"iscsi": {"lun": 1}, "hostPath": {"path": "/x"}}}, {
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
                 "iscsi": {"lun": 1, "iscsiInterface": "default"}, "hostPath": {"path": "/x", "type": ""}},
        "status": {"phase": "Pending"}}),
    ("storageclasses.storage.k8s.io", {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("csidrivers.storage.k8s.io", {"spec": {"attachRequired": False}}, {
        "spec": {"attachRequired": False, "podInfoOnMount": False, "storageCapacity": False,
                 "requiresRepublish": False, "seLinuxMount": False, "fsGroupPolicy": "ReadWriteOnceWithFSType",
                 "volumeLifecycleModes": ["Persistent"]}}),
    ("networkpolicies.networking.k8s.io", {"spec": {"ingress": [{"ports": [{"port": 80}]}]}}, {
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"],
                 "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}}),
    ("networkpolicies.networking.k8s.io", {"spec": {"egress": [{}]}}, {
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}]}}),
    ("ingressclasses.networking.k8s.io", {"spec": {"parameters": {"kind": "K", "name": "n"}}}, {
        "spec": {"parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}}),
    ("endpoints", {"subsets": [{"ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]}]}, {
        "subsets": [{"ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}]}]}),
    ("endpointslices.discovery.k8s.io", {"ports": [{}]}, {"ports": [{"name": "", "protocol": "TCP"}]}),
    ("horizontalpodautoscalers.autoscaling", {}, {"spec": {"minReplicas": 1, "metrics": [CPU]}}),
    ("horizontalpodautoscalers.autoscaling",
     {"spec": {"metrics": [CPU], "behavior": {"scaleUp": {"stabilizationWindowSeconds": 5}}}},
     {"spec": {"minReplicas": 1, "metrics": [CPU],
               "behavior": {"scaleUp": {"stabilizationWindowSeconds": 5, "selectPolicy": "Max", "policies": UP},
                            "scaleDown": {"selectPolicy": "Max", "policies": UP[1:]}}}}),
    ("apiservices.apiregistration.k8s.io", {"spec": {"service": {}}}, {"spec": {"service": {"port": 443}}}),
    ("flowschemas.flowcontrol.apiserver.k8s.io", {}, {"spec": {"matchingPrecedence": 1000}}),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
     {"spec": {"limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}},
     {"spec": {"limited": {"nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse": {
         "type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}}}}}),
    ("resourceclaims.resource.k8s.io",
     {"spec": {"devices": {"requests": [{"exactly": {"tolerations": [{}]}},
                                        {"firstAvailable": [{"allocationMode": "All"}]}]}}},
     {"spec": {"devices": {"requests": [
         {"exactly": {"allocationMode": "ExactCount", "count": 1, "tolerations": [{"operator": "Equal"}]}},
         {"firstAvailable": [{"allocationMode": "All"}]}]}}}),
    ("podgroups.scheduling.k8s.io", {}, {"spec": {"disruptionMode": "Pod"}}),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "given", "expected"), CASES, ids=[case[0] for case in CASES])
def test_defaults(resource: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    subject = copy.deepcopy(given)
    DEFAULTS[resource](subject)
    assert subject == expected
    DEFAULTS[resource](subject)
    assert subject == expected
