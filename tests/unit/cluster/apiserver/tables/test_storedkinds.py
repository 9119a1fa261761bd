"""Rows of the kinds that are only stored."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api import core
from muster.api.batch import CRON_JOB
from muster.api.groups import apps, autoscaling_v2, discovery, networking, policy, resource, storage
from muster.api.kinds import Kind
from muster.cluster.apiserver.registry.autoscalers import V1
from muster.cluster.apiserver.registry.storedkinds import STORED_KINDS
from muster.cluster.apiserver.tables import encode_row, printer_of, storedkinds
from muster.cluster.apiserver.tables.printer import Printer

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
META = {"name": "x", "creationTimestamp": "2026-01-02T09:00:00Z"}
RUNS = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
}
TAIL = ["c", "i:1", "a=b"]
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
NOW_CPU = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}
RATE = {"type": "Pods", "pods": {"metric": {"name": "r"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
QUEUE = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "9"}}}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 3}

KINDS: dict[str, Kind[Any]] = {served.kind.resource: served.kind for served in STORED_KINDS}
CASES: list[tuple[Kind[Any], dict[str, Any], list[Any]]] = [
    (apps.DEPLOYMENT, {"spec": {"replicas": 3} | RUNS, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
     ["x", "1/3", 2, 0, "3h", *TAIL]),
    (apps.REPLICA_SET, {"spec": {"replicas": 3} | RUNS, "status": {"replicas": 2, "readyReplicas": 1}},
     ["x", 3, 2, 1, "3h", *TAIL]),
    (core.REPLICATION_CONTROLLER, {"spec": RUNS | {"selector": {"a": "b"}}}, ["x", 0, 0, 0, "3h", *TAIL]),
    (apps.STATEFUL_SET, {"spec": {"replicas": 2} | RUNS}, ["x", "0/2", "3h", "c", "i:1"]),
    (apps.DAEMON_SET, {"spec": RUNS}, ["x", 0, 0, 0, 0, 0, "<none>", "3h", *TAIL]),
    (apps.CONTROLLER_REVISION,
     {"revision": 4, "metadata": META | {"ownerReferences": [
         {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}]}},
     ["x", "statefulset.apps/s", 4, "3h"]),
    (CRON_JOB, {"spec": {"schedule": "@daily", "jobTemplate": {"spec": RUNS}},
                "status": {"lastScheduleTime": "2026-01-02T11:59:00Z"}},
     ["x", "@daily", "<none>", "False", 0, "60s", "3h", *TAIL]),
    (policy.POD_DISRUPTION_BUDGET, {"spec": {"maxUnavailable": "50%"}}, ["x", "N/A", "50%", 0, "3h"]),
    (autoscaling_v2.HORIZONTAL_POD_AUTOSCALER,
     {"spec": SCALED | {"metrics": [CPU, RATE, QUEUE]}, "status": {"currentMetrics": [NOW_CPU]}},
     ["x", "Deployment/d", "cpu: 20%/80%, <unknown>/5 (avg) + 1 more...", "1", 3, 0, "3h"]),
    (networking.NETWORK_POLICY, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, ["x", "a=b", "3h"]),
    (networking.INGRESS, {"spec": {"rules": [{"host": h} for h in "abcd"], "tls": [{}]},
                          "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
     ["x", "<none>", "a,b,c + 1 more...", "1.2.3.4", "80, 443", "3h"]),
    (networking.INGRESS_CLASS, {"spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}},
     ["x", "c", "K.g/n", "3h"]),
    (core.ENDPOINTS, {"subsets": [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80}]}]},
     ["x", "1.1.1.1:80", "3h"]),
    (discovery.ENDPOINT_SLICE, {"addressType": "IPv4"}, ["x", "IPv4", "<unset>", "<unset>", "3h"]),
    (core.PERSISTENT_VOLUME_CLAIM,
     {"spec": {"volumeName": "v", "volumeMode": "Filesystem"},
      "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}},
     ["x", "Bound", "v", "1Gi", "RWO,RWX", "", "<unset>", "3h", "Filesystem"]),
    (core.PERSISTENT_VOLUME,
     {"spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "n", "name": "c"},
               "persistentVolumeReclaimPolicy": "Retain"}},
     ["x", "1Gi", "", "Retain", "", "n/c", "", "<unset>", "", "3h", "<unset>"]),
    (storage.STORAGE_CLASS,
     {"provisioner": "p",
      "metadata": META | {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
     ["x (default)", "p", "Delete", "Immediate", False, "3h"]),
    (KINDS["certificatesigningrequests.certificates.k8s.io"],
     {"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
      "status": {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}},
     ["x", "3h", "s", "u", "60m", "Approved,Issued"]),
    (resource.RESOURCE_CLAIM, {"status": {"allocation": {}}}, ["x", "allocated", "3h"]),
]  # fmt: skip


def cells_of(kind: Kind[Any], document: dict[str, Any], printer: Printer | None = None) -> list[Any]:
    cells: list[Any] = msgspec.json.decode(encode_row(kind, msgspec.json.encode(document), NOW, printer=printer))[
        "cells"
    ]
    return cells


@pytest.mark.parametrize(("kind", "document", "expected"), CASES, ids=[case[0].resource for case in CASES])
def test_rows(kind: Kind[Any], document: dict[str, Any], expected: list[Any]) -> None:
    cells = cells_of(kind, {"metadata": META} | document)
    assert cells == expected
    assert len(cells) == len(printer_of(kind).columns)


@pytest.mark.parametrize("served", STORED_KINDS, ids=lambda served: f"{served.kind.api_version} {served.kind.plural}")
def test_an_empty_object_has_a_row(served: Any) -> None:
    printer = served.view.printer or printer_of(served.kind)
    cells = cells_of(served.kind, {"metadata": META}, printer)
    assert cells[0] == "x"
    assert len(cells) == len(printer.columns)


def test_an_autoscaler_of_v1() -> None:
    document = {"metadata": META, "spec": SCALED | {"targetCPUUtilizationPercentage": 50}}
    printer = storedkinds.printer_of("horizontalpodautoscalers.autoscaling/v1")
    expected = ["x", "Deployment/d", "cpu: <unknown>/50%", "1", 3, 0, "3h"]
    assert cells_of(V1, document, printer) == expected
