"""Rules of the plain kinds: one table of creations, one of updates."""

from typing import Any

import pytest

from muster.api.core import CONFIG_MAP, EVENT, NAMESPACE, NODE, SECRET, SERVICE_ACCOUNT
from muster.api.groups.coordination import LEASE
from muster.api.groups.events import EVENTS_V1_EVENT
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.validation.core import (
    configmap,
    event,
    namespace,
    node,
    secret,
    serviceaccount,
)
from muster.api.validation.groups import (
    event_v1,
    lease,
    priorityclass,
)

META = {"name": "a", "namespace": "default"}
WIDE = {"name": "a"}
NOW, LATER = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.000000Z"
FROZEN = "Forbidden: field is immutable when `immutable` is set"
BIG = "x" * (1024 * 1024 + 1)
BIG_BASE64 = "AAAA" * (1024 * 1024 // 3 + 1)
EVENT_META = {"metadata": META, "involvedObject": {"namespace": "default"}}
NEW_EVENT = EVENT_META | {
    "eventTime": NOW, "reportingComponent": "a.b/c", "reportingInstance": "i", "action": "A", "reason": "R",
}  # fmt: skip
V1_EVENT = {
    "metadata": META, "regarding": {"namespace": "default"}, "eventTime": NOW, "reportingController": "a.b/c",
    "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
}  # fmt: skip


def cut(got: Any, expected: Any) -> Any:
    return [g[: len(e) - 1] + "*" if e.endswith("*") else g for g, e in zip(got, expected, strict=True)]


@pytest.mark.parametrize(
    ("kind", "rules", "given", "expected"),
    [
        (CONFIG_MAP, configmap, {"metadata": META, "data": {"a.b-c_d": "x"}, "binaryData": {"e": "eA=="}}, []),
        (CONFIG_MAP, configmap, {"metadata": META, "data": {"a/b": "", "c": ""}, "binaryData": {"c": "", "..": ""}},
         ['data[a/b]: Invalid value: "a/b": *', 'data[c]: Invalid value: "c": duplicate of key present in binaryData',
          "binaryData[..]: Invalid value: \"..\": must not be '..'"]),
        (CONFIG_MAP, configmap, {"metadata": META, "data": {"a": BIG}},
         ["Too long: may not be more than 1048576 bytes"]),
        (SECRET, secret, {"metadata": META, "stringData": {"a": "x"}}, []),
        (SECRET, secret, {"metadata": META, "data": {"a/b": ""}}, ['data[a/b]: Invalid value: "a/b": *']),
        (SECRET, secret, {"metadata": META, "data": {"a": BIG_BASE64}},
         ["data: Too long: may not be more than 1048576 bytes"]),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/tls"},
         ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/basic-auth"},
         ["data[username]: Required value", "data[password]: Required value"]),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/ssh-auth"},
         ["data[ssh-privatekey]: Required value"]),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/service-account-token"},
         ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/dockerconfigjson",
                          "stringData": {".dockerconfigjson": "{}"}}, []),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/dockerconfigjson",
                          "stringData": {".dockerconfigjson": "very secret"}},
         ['data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": must be a JSON object']),
        (SECRET, secret, {"metadata": META, "type": "kubernetes.io/dockercfg"},
         ["data[.dockercfg]: Required value"]),
        (SERVICE_ACCOUNT, serviceaccount, {"metadata": META}, []),
        (SERVICE_ACCOUNT, serviceaccount, {"metadata": META | {"name": "A"}}, ['metadata.name: Invalid value: "A": *']),
        (NAMESPACE, namespace, {"metadata": WIDE, "spec": {"finalizers": ["kubernetes"]}}, []),
        (NAMESPACE, namespace, {"metadata": {"name": "a.b"}, "spec": {"finalizers": ["mine"]}},
         ['metadata.name: Invalid value: "a.b": must not contain dots',
          'spec.finalizers[0]: Invalid value: "mine": *']),
        (NODE, node, {"metadata": WIDE, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}],
                                                 "podCIDRs": ["10.0.0.0/24"]},
                      "status": {"capacity": {"cpu": "500m", "example.com/gpu": "1"}}}, []),
        (NODE, node, {"metadata": META}, ["metadata.namespace: Forbidden: not allowed on this type"]),
        (NODE, node, {"metadata": WIDE, "spec": {"taints": [{"key": "-", "value": "-"},
                                                            {"key": "a", "effect": "No"},
                                                            {"key": "a", "effect": "No"}],
                                                 "podCIDRs": ["10.0.0.1/24", "x", "10.0.0.0/8"]},
                      "status": {"capacity": {"pods": "1.5", "memory": "-1"}, "allocatable": {"cpu": "x"}}},
         ['metadata.taints[0].key: Invalid value: "-": *', 'metadata.taints[0].value: Invalid value: "-": *',
          "metadata.taints[0].effect: Required value",
          'metadata.taints[1].effect: Unsupported value: "No": *', "metadata.taints[2].effect: Unsupported value: *",
          ('metadata.taints[2]: Duplicate value: {"key":"a","effect":"No"}: '
          "taints must be unique by key and effect pair"),
          'status.capacity.pods: Invalid value: "1500m": must be an integer',
          'status.capacity.memory: Invalid value: "-1": must be greater than or equal to 0',
          'status.allocatable.cpu: Invalid value: "x": *',
          'spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length',
          'spec.podCIDRs[1]: Invalid value: "x": *',
          "spec.podCIDRs: Invalid value: *"]),
        (LEASE, lease, {"metadata": META, "spec": {"leaseDurationSeconds": 15, "renewTime": NOW}}, []),
        (LEASE, lease, {"metadata": META, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1,
                                                   "preferredHolder": "x"}},
         ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
          "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
          "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
        (LEASE, lease, {"metadata": META, "spec": {"strategy": "Newest"}},
         ['spec.strategy.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"']),
        (PRIORITY_CLASS, priorityclass, {"metadata": WIDE, "value": 10**9}, []),
        (PRIORITY_CLASS, priorityclass, {"metadata": {"name": "system-cluster-critical"}, "value": 2 * 10**9}, []),
        (PRIORITY_CLASS, priorityclass, {"metadata": WIDE, "value": 10**9 + 1, "preemptionPolicy": "x"},
         ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
          'preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"']),
        (PRIORITY_CLASS, priorityclass, {"metadata": {"name": "system-a"}, "value": 1},
         [("metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
          "error: system-a is not a known system priority class")]),
        (PRIORITY_CLASS, priorityclass, {"metadata": {"name": "system-node-critical"}, "value": 1},
         [("metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
          "error: value of system-node-critical PriorityClass must be 2000001000")]),
        (EVENT, event, EVENT_META, []),
        (EVENT, event, {"metadata": META, "involvedObject": {}}, []),
        (EVENT, event, {"metadata": META, "involvedObject": {"namespace": "other"}},
         ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
        (EVENT, event, NEW_EVENT, []),
        (EVENT, event, EVENT_META | {"eventTime": NOW, "reportingInstance": "i" * 129, "message": "m" * 1025},
         ["reportingComponent: Required value",
          'reportingComponent: Invalid value: "": name part must be non-empty',
          'reportingComponent: Invalid value: "": name part must consist *',
          'reportingInstance: Invalid value: "": can have at most 128 characters',
          "action: Required value", "reason: Required value",
          'message: Invalid value: "": can have at most 1024 characters']),
        (EVENTS_V1_EVENT, event_v1, V1_EVENT, []),
        (EVENTS_V1_EVENT, event_v1, V1_EVENT | {"series": {"count": 1}, "type": "Odd", "deprecatedCount": 3,
                                                "deprecatedSource": {"host": "h"}},
         ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value",
          'type: Invalid value: "": has invalid value: Odd', 'count: Invalid value: "": needs to be unset',
          'source: Invalid value: "": needs to be unset']),
        (EVENTS_V1_EVENT, event_v1, {"metadata": META, "type": "Normal"}, ["eventTime: Required value"]),
    ],
)  # fmt: skip
def test_create(defaulted: Any, sentences: Any, kind: Any, rules: Any, given: Any, expected: Any) -> None:
    got = sentences(rules.validate_create(defaulted(kind, given)))
    assert cut(got, expected) == expected


@pytest.mark.parametrize(
    ("kind", "rules", "old", "new", "expected"),
    [
        (CONFIG_MAP, configmap, {"data": {"a": "1"}}, {"data": {"a": "2"}}, []),
        (CONFIG_MAP, configmap, {"immutable": True, "data": {"a": "1"}, "binaryData": {}},
         {"data": {"a": "2"}, "binaryData": {"b": ""}},
         [f"immutable: {FROZEN}", f"data: {FROZEN}", f"binaryData: {FROZEN}"]),
        (SECRET, secret, {"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}, []),
        (SECRET, secret, {"type": "a"}, {"type": "b"}, ['type: Invalid value: "b": field is immutable']),
        (SECRET, secret, {"immutable": True}, {"data": {"a": ""}}, [f"immutable: {FROZEN}", f"data: {FROZEN}"]),
        (SERVICE_ACCOUNT, serviceaccount, {}, {"secrets": [{"name": "a"}]}, []),
        (PRIORITY_CLASS, priorityclass, {"value": 1}, {"value": 2, "preemptionPolicy": "Never"},
         ["value: Forbidden: may not be changed in an update.",
          'preemptionPolicy: Invalid value: "Never": field is immutable']),
        (PRIORITY_CLASS, priorityclass, {"value": 1}, {"value": 1, "description": "x"}, []),
        (LEASE, lease, {"spec": {"holderIdentity": "a"}}, {"spec": {"holderIdentity": "b", "renewTime": LATER}}, []),
        (NODE, node, {"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}},
         {"spec": {"podCIDRs": ["10.0.1.0/24"], "providerID": "b", "externalID": "c"},
          "status": {"addresses": [{"type": "Hostname", "address": "a"}] * 2}},
         ['status.addresses[1]: Duplicate value: {"type":"Hostname","address":"a"}',
          'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
          'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
          "spec.externalID: Forbidden: may not be updated"]),
        (NODE, node, {}, {"spec": {"unschedulable": True, "podCIDRs": ["10.0.1.0/24"]}}, []),
        (EVENT, event, NEW_EVENT, NEW_EVENT | {"count": 2, "message": "x"}, []),
        (EVENTS_V1_EVENT, event_v1, V1_EVENT, V1_EVENT | {"series": {"count": 2, "lastObservedTime": LATER}}, []),
        (EVENTS_V1_EVENT, event_v1, V1_EVENT, V1_EVENT | {"note": "x", "eventTime": LATER},
         ['message: Invalid value: "x": field is immutable',
          'eventTime: Invalid value: "2026-01-01T00:00:01+00:00": field is immutable']),
        (NAMESPACE, namespace, {}, {"metadata": WIDE | {"labels": {"a": "b"}}}, []),
    ],
)  # fmt: skip
def test_update(defaulted: Any, sentences: Any, kind: Any, rules: Any, old: Any, new: Any, expected: Any) -> None:
    meta = META if kind.namespaced else WIDE
    pair = (defaulted(kind, {"metadata": meta} | obj) for obj in (new, old))
    assert sentences(rules.validate_update(*pair)) == expected


@pytest.mark.parametrize(
    ("deleting", "phase", "expected"),
    [
        (False, "Active", []),
        (False, "Terminating",
         ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]),
        (True, "Terminating", []),
        (True, "Active",
         ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"]),
    ],
)  # fmt: skip
def test_the_phase_of_a_namespace(defaulted: Any, sentences: Any, deleting: Any, phase: Any, expected: Any) -> None:
    meta = WIDE | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})
    old = defaulted(NAMESPACE, {"metadata": meta})
    new = defaulted(NAMESPACE, {"metadata": meta, "status": {"phase": phase}})
    assert sentences(namespace.validate_status_update(new, old)) == expected


def test_finalizing_a_namespace(defaulted: Any, sentences: Any) -> None:
    old = defaulted(NAMESPACE, {"metadata": WIDE, "spec": {"finalizers": ["kubernetes"]}})
    assert namespace.validate_finalize(defaulted(NAMESPACE, {"metadata": WIDE}), old) == []
    new = defaulted(NAMESPACE, {"metadata": WIDE, "spec": {"finalizers": ["-a/b"]}})
    assert cut(sentences(namespace.validate_finalize(new, old)), ["spec.finalizers: *"]) == ["spec.finalizers: *"]


def test_the_status_of_a_node(defaulted: Any) -> None:
    old = defaulted(NODE, {"metadata": WIDE})
    new = defaulted(NODE, {"metadata": WIDE, "status": {"capacity": {"cpu": "4"}}})
    assert node.validate_status_update(new, old) == []
