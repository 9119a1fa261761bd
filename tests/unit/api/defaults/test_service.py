import copy
from typing import Any

import pytest

from muster.api.defaults import default_service, keep_allocated


def service(**spec: Any) -> Any:
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"clusterIP": "None"},
         {"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
          "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP"}),
        ({"ports": [{"port": 80}], "type": "NodePort"},
         {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "externalTrafficPolicy": "Cluster",
          "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
          "sessionAffinity": "None", "type": "NodePort"}),
        ({"type": "ExternalName", "externalName": "a.b"},
         {"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}),
        ({"sessionAffinity": "ClientIP", "type": "LoadBalancer", "ports": [{"port": 1, "targetPort": "x"}]},
         {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
          "type": "LoadBalancer", "ports": [{"port": 1, "protocol": "TCP", "targetPort": "x"}],
          "allocateLoadBalancerNodePorts": True, "externalTrafficPolicy": "Cluster",
          "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
        ({"externalIPs": ["1.2.3.4"], "clusterIPs": ["10.0.0.1"]},
         {"externalIPs": ["1.2.3.4"], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
          "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
          "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP"}),
    ],
)  # fmt: skip
def test_default_service(given: Any, expected: Any) -> None:
    subject = service(**given)
    default_service(subject)
    assert subject["spec"] == expected
    assert subject["status"] == {"loadBalancer": {}}
    once = copy.deepcopy(subject)
    default_service(subject)
    assert subject == once


def test_keep_allocated() -> None:
    old = service(type="NodePort", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"],
                  ports=[{"port": 80, "protocol": "TCP", "nodePort": 30000}])  # fmt: skip
    new = service(type="NodePort", ports=[{"port": 80}, {"port": 81}])
    keep_allocated(new, old)
    assert new["spec"] == {
        "type": "NodePort",
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}],
    }
    external = service(type="ExternalName", externalName="a")
    keep_allocated(external, old)
    assert external["spec"] == {"type": "ExternalName", "externalName": "a"}
