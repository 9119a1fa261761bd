from typing import Any

import msgspec
import pytest

from muster.api.core import SERVICE
from muster.api.validation.core.service import validate_create, validate_status_update, validate_update

GOOD = {
    "metadata": {"name": "s", "namespace": "default"},
    "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
}
BALANCED = {"spec.type": "LoadBalancer"}
ONLY_BALANCED = "Forbidden: may only be used when `type` is 'LoadBalancer'"


@pytest.fixture
def create(edit: Any, defaulted: Any, sentences: Any) -> Any:
    return lambda edits: sentences(validate_create(defaulted(SERVICE, edit(GOOD, edits))))


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"spec.clusterIP": "None", "spec.ports": None},
        {"spec.clusterIP": "10.0.0.1"},
        {"spec.type": "ExternalName", "spec.externalName": "a.b.", "spec.ports": None},
        BALANCED,
        {"spec.ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b", "protocol": "UDP"}]},
        {"spec.ports": [{"port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"}]},
        {"spec.sessionAffinity": "ClientIP"},
        {"spec.externalIPs": ["1.2.3.4"]},
        {"metadata.name": "1s"},
        {"spec.publishNotReadyAddresses": True, "spec.trafficDistribution": "PreferClose"},
    ],
)
def test_good_services(create: Any, edits: Any) -> None:
    assert create(edits) == []


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"metadata.name": "a.b"}, ['metadata.name: Invalid value: "a.b": must not contain dots']),
        ({"spec.ports": None}, ["spec.ports: Required value"]),
        ({"spec.clusterIP": "None", "spec.type": "NodePort"},
         ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"]),
        ({"spec.type": "ExternalName", "spec.clusterIPs": ["10.0.0.1"]},
         ["spec.clusterIPs: Forbidden: may not be set for ExternalName services",
          "spec.externalName: Required value"]),
        ({"spec.type": "External"},
         [('spec.type: Unsupported value: "External": '
          'supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"')]),
        ({"spec.ports": [{"port": 0, "protocol": "x"}, {"port": 0, "name": "A", "targetPort": "b c"}]},
         ["spec.ports[0].name: Required value",
          "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
          'spec.ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
          "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
          'spec.ports[1].name: Invalid value: "A": *',
          "spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
          ('spec.ports[1].targetPort: Invalid value: "b c": must contain only alpha-numeric characters (a-z, 0-9), '
          "and hyphens (-)")]),
        ({"spec.ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]},
         ['spec.ports[1].name: Duplicate value: "a"',
          'spec.ports[1]: Duplicate value: {"protocol":"TCP","port":80}']),
        ({"spec.ports": [{"port": 80, "nodePort": 30000}]},
         ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
        ({"spec.type": "NodePort", "spec.ports": [{"port": 80, "name": "a", "nodePort": 30000},
                                                  {"port": 81, "name": "b", "nodePort": 30000}]},
         ["spec.ports[1].nodePort: Duplicate value: 30000"]),
        ({"spec.selector": {"a": "b c"}}, ['spec.selector: Invalid value: "b c": *']),
        ({"spec.sessionAffinity": "x"},
         ['spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"']),
        ({"spec.sessionAffinity": "ClientIP", "spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
         [("spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: "
          "must be greater than 0 and less than 86400")]),
        ({"spec.clusterIP": "10.0.0.1", "spec.clusterIPs": ["10.0.0.2"]},
         ['spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`']),
        ({"spec.clusterIPs": ["None", "10.0.0.2"]},
         ["spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.2\"]: 'None' must be the first and only value"]),
        ({"spec.clusterIP": "x"}, ['spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, *']),
        ({"spec.clusterIPs": ["10.0.0.1", "10.0.0.2"]},
         [('spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: '
          "may specify no more than one IP for each IP family")]),
        ({"spec.clusterIP": "fd00::1"},
         ['spec.clusterIPs[0]: Invalid value: "fd00::1": expected an IPv4 value as indicated by `ipFamilies[0]`']),
        ({"spec.ipFamilies": ["IPv4", "IPv4", "IPv5"], "spec.ipFamilyPolicy": "Any"},
         ['spec.ipFamilies[1]: Duplicate value: "IPv4"',
          'spec.ipFamilies[2]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"',
          ('spec.ipFamilyPolicy: Unsupported value: "Any": '
          'supported values: "PreferDualStack", "RequireDualStack", "SingleStack"')]),
        ({"spec.externalIPs": ["127.0.0.1", "::ffff:1.2.3.4", "0.0.0.0", "169.254.1.1"]},
         [('spec.externalIPs[0]: Invalid value: "127.0.0.1": '
          "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
          'spec.externalIPs[1]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address',
          'spec.externalIPs[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
          ('spec.externalIPs[3]: Invalid value: "169.254.1.1": '
          "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]),
        ({"spec.loadBalancerSourceRanges": ["10.0.0.0/8"], "spec.allocateLoadBalancerNodePorts": False,
          "spec.loadBalancerClass": "a.b/c", "spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 1},
         [f"spec.LoadBalancerSourceRanges: {ONLY_BALANCED}", f"spec.allocateLoadBalancerNodePorts: {ONLY_BALANCED}",
          f"spec.loadBalancerClass: {ONLY_BALANCED}",
          'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
          ("spec.healthCheckNodePort: Invalid value: 1: "
          "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")]),
        (BALANCED | {"spec.loadBalancerSourceRanges": ["10.0.0.1/8", "x"], "spec.externalTrafficPolicy": "Local"},
         [('spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": '
          "must not have bits set beyond the prefix length"),
          'spec.LoadBalancerSourceRanges[1]: Invalid value: "x": *',
          "spec.healthCheckNodePort: Required value"]),
        ({"spec.internalTrafficPolicy": "x", "spec.trafficDistribution": "y"},
         ['spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"',
          ('spec.trafficDistribution: Unsupported value: "y": '
          'supported values: "PreferClose", "PreferSameZone", "PreferSameNode"')]),
    ],
)  # fmt: skip
def test_bad_services(create: Any, edits: Any, expected: Any) -> None:
    got = create(edits)
    assert [g[: len(e) - 1] + "*" if e.endswith("*") else g for g, e in zip(got, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("before", "change", "expected"),
    [
        ({}, {"spec.selector": {"c": "d"}, "spec.ports": [{"port": 81}]}, []),
        ({"spec.clusterIP": "10.0.0.1"}, {"spec.clusterIP": "10.0.0.2"},
         ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set']),
        ({"spec.clusterIP": "10.0.0.1"}, {"spec.clusterIP": None},
         ["spec.clusterIPs[0]: Invalid value: []: primary clusterIP can not be unset"]),
        ({}, {"spec.clusterIP": "10.0.0.1"}, []),
        ({}, {"spec.ipFamilies": ["IPv6"]},
         ['spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set']),
        ({"spec.ipFamilies": ["IPv4", "IPv6"], "spec.ipFamilyPolicy": "PreferDualStack"},
         {"spec.ipFamilies": ["IPv4"]},
         [('spec.ipFamilyPolicy: Invalid value: "PreferDualStack": '
          "must be set to 'SingleStack' when releasing the secondary ipFamily")]),
        ({"spec.clusterIP": "10.0.0.1"},
         {"spec.type": "ExternalName", "spec.externalName": "a", "spec.clusterIP": None, "spec.ports": None}, []),
        ({"spec.clusterIP": "None"}, {"spec.ports": None}, []),
        (BALANCED, {"spec.loadBalancerClass": "a.b/c"},
         ['spec.loadBalancerClass: Invalid value: "a.b/c": may not change once set']),
        (BALANCED | {"spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 1},
         {"spec.healthCheckNodePort": 2}, ["spec.healthCheckNodePort: Forbidden: field is immutable"]),
    ],
)  # fmt: skip
def test_updates(edit: Any, defaulted: Any, sentences: Any, before: Any, change: Any, expected: Any) -> None:
    old = edit(GOOD, before)
    errors = validate_update(defaulted(SERVICE, edit(old, change)), defaulted(SERVICE, old))
    assert sentences(errors) == expected


@pytest.mark.parametrize(
    ("edits", "ingress", "expected"),
    [
        ({}, [{"ip": "1.2.3.4"}],
         ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]),
        (BALANCED, [{"ip": "1.2.3.4"}], []),
        (BALANCED, [{"ip": "1.2.3.4", "ipMode": "x"}, {"ipMode": "VIP"}, {"hostname": "1.2.3.4"}],
         ['status.loadBalancer.ingress[0].ipMode: Unsupported value: "x": supported values: "Proxy", "VIP"',
          "status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
          'status.loadBalancer.ingress[2].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address']),
    ],
)  # fmt: skip
def test_status(edit: Any, sentences: Any, edits: Any, ingress: Any, expected: Any) -> None:
    old = msgspec.convert(edit(GOOD, edits), SERVICE.type)
    entries = [{"ipMode": "VIP"} | entry if "ip" in entry else entry for entry in ingress]
    new = msgspec.convert(edit(GOOD, edits | {"status": {"loadBalancer": {"ingress": entries}}}), SERVICE.type)
    assert sentences(validate_status_update(new, old)) == expected
