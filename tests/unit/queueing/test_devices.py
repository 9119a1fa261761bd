"""Tests of what claimed devices count in quotas (Kueue KEP-2941)."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.config import load
from muster.api.groups.resource import DeviceClass, ResourceClaimTemplate, ResourceSlice
from muster.api.kueue import PodSet, Workload, WorkloadStatus
from muster.queueing.convert import convert_workload as read
from muster.queueing.devicefleet import Fleet, Source
from muster.queueing.devices import (
    GATE_IS_OFF,
    NO_CLAIMS,
    DeviceCount,
    DeviceRules,
    PodDevices,
    class_by_extended_resource,
    count_devices,
    devices_by_status,
)

RULES = DeviceRules(counts=True, rejects=True, extended=True, names={"gpu": "gpus", "big": "gpus", "nic": "nics"})


def request(device_class: str = "gpu", count: int = 1, **more: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count} | more
    return {"name": "r", "exactly": exactly}


def template(*requests: Any) -> ResourceClaimTemplate:
    document = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    return msgspec.convert(document, ResourceClaimTemplate)


def podset(*claims: Any, name: str = "main", containers: Any = (), **spec: Any) -> PodSet:
    template = {"spec": {"containers": list(containers) or [{"name": "c"}], "resourceClaims": claims, **spec}}
    return msgspec.convert({"name": name, "count": 3, "template": template}, PodSet)


def uses(*templates: str) -> tuple[Any, ...]:
    return tuple({"name": f"c{number}", "resourceClaimTemplateName": one} for number, one in enumerate(templates))


def device_class(name: str, resource: str = "", second: int = 0) -> DeviceClass:
    document = {
        "metadata": {"name": name, "creationTimestamp": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)},
        "spec": {"extendedResourceName": resource or None},
    }
    return msgspec.convert(document, DeviceClass)


def count_added(count: DeviceCount) -> dict[str, dict[str, int]]:
    assert count.problem == ""
    return {name: dict(devices.added) for name, devices in count.by_podset.items()}


def a_fleet(*kinds: str) -> Fleet:
    """Return devices of class gpu, each of a kind that expressions name, and of class mig if they are parts."""
    taken = [{"counterSet": "s", "counters": {"memory": {"value": "10"}}}]
    devices = [
        {
            "name": f"d{number}",
            "attributes": {kind: {"bool": True}},
            "consumesCounters": taken if kind == "part" else [],
        }
        for number, kind in enumerate(kinds)
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": devices}}
    classes = [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        for name, expression in (("gpu", "true"), ("mig", "part"))
    ]
    return Fleet(
        [msgspec.convert(slice_, ResourceSlice)],
        msgspec.convert(classes, list[DeviceClass]),
        lambda expression, _, device: expression == "true" or expression in device.attributes,
    )


CLAIM = "spec.podSets[0].template.spec.resourceClaims[0]"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([request()], {"gpus": 1}),
        ([request(count=4)], {"gpus": 4}),
        ([request(count=2), request("nic")], {"gpus": 2, "nics": 1}),
        ([request(count=2), request("big", 3)], {"gpus": 5}),
        ([request(adminAccess=True)], None),
        ([request("unmapped", adminAccess=True), request()], {"gpus": 1}),
        ([request(selectors=[{"cel": {"expression": "true"}}])], {"gpus": 1}),
        ([request(count=2**62), request(count=2**62)], {"gpus": 2**48}),
        ([], None),
    ],
    ids=["one", "several", "two classes", "two classes of one name", "looked at only", "looked at, and one",
         "a selector", "more than there can be", "nothing"],
)  # fmt: skip
def test_claims_of_templates_count_by_class(requests, expected):
    count = count_devices([podset(*uses("t"))], RULES, {"t": template(*requests)}, {})
    assert count_added(count) == ({} if expected is None else {"main": expected})


def test_each_claim_of_each_podset_counts():
    podsets = [podset(*uses("one", "two"), name="a"), podset(*uses("one", "one"), name="b"), podset(name="c")]
    templates = {"one": template(request()), "two": template(request(count=2), request("nic"))}
    assert count_added(count_devices(podsets, RULES, templates, {})) == {"a": {"gpus": 3, "nics": 1}, "b": {"gpus": 2}}


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        (None, (f"{CLAIM}: Internal error: failed to get claim spec for ResourceClaimTemplate t in podset main: "
               'ResourceClaimTemplate.resource.k8s.io "t" not found')),
        ([request("other")], (f"{CLAIM}.resourceClaimTemplateName: Not found: "
                             '"DeviceClass other is not mapped in DRA configuration for podset main"')),
        ([request(), request(allocationMode="All", count=0)],
         (f'{CLAIM}.devices.requests[1].exactly.allocationMode: Invalid value: "All": '
         "ResourceClaimTemplate t: AllocationMode 'All' is not supported")),
        ([request(allocationMode="Some")],
         (f'{CLAIM}.devices.requests[0].exactly.allocationMode: Invalid value: "Some": '
         "ResourceClaimTemplate t: unsupported allocation mode: Some")),
        ([{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}],
         (f"{CLAIM}.devices.requests[0]: Invalid value: null: "
         "ResourceClaimTemplate t: FirstAvailable device selection is not supported")),
        ([{"name": "r"}], (f"{CLAIM}.devices.requests[0]: Invalid value: null: "
                          "ResourceClaimTemplate t: Exactly must be set if FirstAvailable is nil")),
    ],
    ids=["no template", "not mapped", "all", "another mode", "several ways", "no way"],
)  # fmt: skip
def test_what_cannot_be_counted_is_said_in_kueues_words(requests, problem):
    templates = {"t": template(*requests)} if requests is not None else {}
    assert count_devices([podset(*uses("t"))], RULES, templates, {}) == DeviceCount(problem=problem)


def test_a_claim_that_is_named_is_not_supported():
    count = count_devices([podset({"name": "c", "resourceClaimName": "mine"})], RULES, {}, {})
    assert count == DeviceCount(problem=NO_CLAIMS)


@pytest.mark.parametrize(("rejects", "problem"), [(True, GATE_IS_OFF), (False, "")])
def test_claims_without_the_feature(rejects, problem):
    rules = DeviceRules(rejects=rejects)
    assert count_devices([podset(*uses("t"))], rules, {}, {}) == DeviceCount(problem=problem)
    assert count_devices([podset()], rules, {}, {}) == DeviceCount()


GPU = "example.com/gpu"


def container(name: str = "c", **requests: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {GPU if key == "gpu" else key: requests[key] for key in requests}}}


def test_extended_resources_count_as_their_device_class():
    podsets = [
        podset(*uses("t"), containers=[container(gpu="2", cpu="1"), container("d", gpu=1)]),
        podset(name="plain", containers=[container(cpu="1")]),
    ]
    extended = class_by_extended_resource([device_class("gpu", GPU)])
    count = count_devices(podsets, RULES, {"t": template(request())}, extended)
    assert count.by_podset == {"main": PodDevices({"gpus": 4}, frozenset({GPU}))}
    unmapped = class_by_extended_resource([device_class("other", GPU)])
    count = count_devices(podsets[:1], RULES, {"t": template(request())}, unmapped)
    assert count.by_podset == {"main": PodDevices({"gpus": 1, GPU: 3}, frozenset({GPU}))}


def test_extended_resources_count_as_they_are_without_a_class_or_the_feature():
    asking = [podset(containers=[container(gpu="2")])]
    extended = class_by_extended_resource([device_class("gpu", GPU)])
    assert count_devices(asking, RULES, {}, {}) == DeviceCount()
    assert count_devices(asking, DeviceRules(counts=True, names=RULES.names), {}, extended) == DeviceCount()


def test_parts_of_an_extended_resource_are_refused():
    asking = [podset(containers=[container(gpu="500m"), container("d", gpu="500m")])]
    extended = class_by_extended_resource([device_class("gpu", GPU)])
    assert count_devices(asking, RULES, {}, extended).problem == (
        f"spec.podSets[0].template.spec.containers[0].resources.requests.{GPU}: "
        'Invalid value: "500m": extended resource quantity must be an integer'
    )


def test_the_class_created_last_stands_for_a_resource_then_the_first_by_name():
    classes = [device_class("b", GPU, 1), device_class("c", GPU, 2), device_class("a", GPU, 2), device_class("d")]
    assert {name: one.metadata.name for name, one in class_by_extended_resource(classes).items()} == {GPU: "a"}


def test_devices_replace_and_add_to_what_pods_request():
    document = {
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"podSets": [msgspec.to_builtins(podset(containers=[container(gpu="2", cpu="1")]))]},
    }
    workload = msgspec.convert(document, Workload)
    (counted,) = read(workload, "q", devices={"main": PodDevices({"gpus": 2}, frozenset({GPU}))}).podsets
    assert counted.requests == {"cpu": 1000, "gpus": 2}
    assert counted.asks == {"cpu": 1000, GPU: 2}  # of nodes the pods ask for what they say


def test_rules_are_those_of_the_configuration():
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  deviceClassMappings:
  - {name: gpus, deviceClassNames: [gpu, big]}
  - name: memory
    deviceClassNames: [mig]
    sources:
    - counter: {name: memory, driver: gpu.example.com, deviceSelector: {cel: {expression: "true"}}}
"""
    rules = DeviceRules.of(load(text))
    names = {"gpu": "gpus", "big": "gpus", "mig": "memory"}
    source = Source("memory", "memory", "gpu.example.com", "true", is_counter=True)
    assert rules == DeviceRules(counts=True, rejects=True, extended=True, names=names, sources={"mig": (source,)})
    assert count_devices([podset(*uses("t"))], rules, {"t": template(request("mig"))}, {}).problem == (
        f"{CLAIM}.devices.requests[0]: Internal error: the devices of the cluster are not known here"
    )
    asking = [podset(containers=[container(gpu="2")])]
    extended = class_by_extended_resource([device_class("mig", GPU)])
    assert count_devices(asking, rules, {}, extended).problem == (
        f'spec.podSets[0].template.spec.containers[0]: Invalid value: "{GPU}": extended resource {GPU} resolves to '
        "DeviceClass mig with counters configured; "
        "use ResourceClaimTemplates with CEL selectors for counter-based quota"
    )


def test_devices_that_match_are_counted_and_what_they_take_of_counters():
    source = Source("memory", "memory", "d", "true", is_counter=True)
    rules = DeviceRules(counts=True, names={"gpu": "gpus", "mig": "memory"}, sources={"mig": (source,)})
    selected = request(count=2, selectors=[{"cel": {"expression": "large"}}])
    templates = {"t": template(selected, request("mig", 3))}

    def count(*kinds: str) -> DeviceCount:
        return count_devices([podset(*uses("t"))], rules, templates, {}, a_fleet(*kinds))

    assert count_added(count("large", "large", "part", "part", "part")) == {"main": {"gpus": 2, "memory": 30}}
    assert count("large", "part", "part", "part").problem == (
        f"{CLAIM}.devices.requests[0].exactly.selectors: Internal error: ResourceClaimTemplate t: "
        "insufficient matching devices for CEL selector in DeviceClass gpu: "
        "1 device(s) match in the cluster but 2 requested"
    )
    assert count("large", "large", "part").problem == (
        f"{CLAIM}.devices.requests[1]: Internal error: insufficient matching devices for counter driver: "
        "1 device(s) match but 3 requested"
    )


def test_readers_who_do_not_know_the_configuration_take_devices_from_the_status():
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    podsets = [
        {"name": "a", "count": 3, "template": {"spec": spec | {"resourceClaims": claims}}},
        {"name": "b", "count": 2, "template": {"spec": spec}},
    ]
    texts = [
        {"name": "a", "resources": {"cpu": "3", "gpus": "6"}},
        {"name": "b", "resources": {"cpu": "2", "credits": "4"}},
    ]
    document = {"metadata": {"name": "w"}, "spec": {"podSets": podsets}, "status": {"resourceRequests": texts}}
    workload = msgspec.convert(document, Workload)
    assert devices_by_status(workload) == {"a": PodDevices({"gpus": 2})}
    assert devices_by_status(msgspec.structs.replace(workload, status=WorkloadStatus())) == {}
