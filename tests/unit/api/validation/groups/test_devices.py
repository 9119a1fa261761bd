"""Rules of devices, their classes and claims: a good object of each kind, and what is wrong with others."""

import copy
from typing import Any

import msgspec
import pytest

from muster.api.defaults import DEFAULTS
from muster.api.groups.resource import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from muster.api.validation.groups.devices import make_rules, validate_claim_status_change

RULES = make_rules(lambda text: "unsound" if text == "!" else "")
CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}}
SLICE = {
    "driver": "gpu.example.com",
    "nodeName": "n",
    "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": "a", "attributes": {"x": {"int": 1}}, "taints": [{"key": "k", "effect": "NoSchedule"}]}],
}
GOOD: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "claim": (RESOURCE_CLAIM, RULES.claim, CLAIM),
    "template": (RESOURCE_CLAIM_TEMPLATE, RULES.template, {"spec": CLAIM}),
    "class": (DEVICE_CLASS, RULES.device_class, {"selectors": [{"cel": {"expression": "true"}}]}),
    "slice": (RESOURCE_SLICE, RULES.slice, SLICE),
}


def made(name: str, path: str = "", value: Any = None) -> Any:
    """The good object of that kind, with its defaults; at the path below its spec there is the value, or nothing."""
    kind, rules, spec = GOOD[name]
    meta = {"name": "x", "namespace": "default"} if rules.namespaced else {"name": "x"}
    document = {"metadata": meta, "spec": copy.deepcopy(spec)}
    if path:
        *parents, last = path.split(".")
        place: Any = document["spec"]
        for part in parents:
            place = place[int(part)] if part.isdigit() else place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value
    DEFAULTS.get(kind.resource, lambda _: None)(document)
    return msgspec.convert(document, kind.type)


@pytest.mark.parametrize("name", GOOD)
def test_good(name: str) -> None:
    rules = GOOD[name][1]
    assert rules.create(made(name)) == []
    assert rules.update(made(name), made(name)) == []


EXACTLY = "devices.requests.0.exactly"
WHERE = "spec.devices.requests[0].exactly"
ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

BAD: list[tuple[str, str, Any, str, str]] = [
    ("claim", EXACTLY, None, "spec.devices.requests[0]", "exactly one of `exactly` or `firstAvailable` is required"),
    ("claim", "devices.requests.0.firstAvailable", [{"name": "a", "deviceClassName": "c"}],
     "spec.devices.requests[0]",
     "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"),
    ("claim", "devices.requests", [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}] * 2}],
     "spec.devices.requests[0].firstAvailable[1].name", ""),
    ("claim", "devices.requests.0.name", "A", "spec.devices.requests[0].name", ""),
    ("claim", "devices.requests", [{"name": "a", "exactly": {"deviceClassName": "c"}}] * 2,
     "spec.devices.requests[1].name", ""),
    ("claim", "devices.requests", [{"name": f"r{n}", "exactly": {"deviceClassName": "c"}} for n in range(33)],
     "spec.devices.requests", "must have at most 32 items"),
    ("template", "spec.devices.requests.0.exactly", {}, "spec.spec.devices.requests[0].exactly.deviceClassName", ""),
    ("claim", f"{EXACTLY}.deviceClassName", "C", f"{WHERE}.deviceClassName", ""),
    ("claim", f"{EXACTLY}.allocationMode", "Some", f"{WHERE}.allocationMode", 'supported values: "All", "ExactCount"'),
    ("claim", f"{EXACTLY}.count", -1, f"{WHERE}.count", "must be greater than zero"),
    ("claim", EXACTLY, {"deviceClassName": "c", "allocationMode": "All", "count": 1}, f"{WHERE}.count",
     "must not be specified when allocationMode is 'All'"),
    ("claim", f"{EXACTLY}.selectors", [{}], f"{WHERE}.selectors[0].cel", ""),
    ("claim", f"{EXACTLY}.selectors", [{"cel": {"expression": "!"}}], f"{WHERE}.selectors[0].cel.expression",
     "compilation failed: unsound"),
    ("claim", f"{EXACTLY}.selectors", [{"cel": {"expression": "x" * 10_241}}],
     f"{WHERE}.selectors[0].cel.expression", "may not be more than 10240 bytes"),
    ("claim", f"{EXACTLY}.tolerations", [{"operator": "Exists", "value": "v"}], f"{WHERE}.tolerations[0].value",
     "must be empty for operator `Exists`"),
    ("claim", f"{EXACTLY}.tolerations", [{"operator": "In"}], f"{WHERE}.tolerations[0].operator",
     'supported values: "Equal", "Exists"'),
    ("claim", f"{EXACTLY}.tolerations", [{"operator": "Exists", "effect": "Other"}],
     f"{WHERE}.tolerations[0].effect", 'supported values: "NoExecute", "NoSchedule", "None"'),
    ("claim", "devices.constraints", [{"requests": ["other"], "matchAttribute": "a/b"}],
     "spec.devices.constraints[0].requests[0]", A_REQUEST),
    ("claim", "devices.constraints", [{}], "spec.devices.constraints[0].matchAttribute", ""),
    ("claim", "devices.constraints", [{"matchAttribute": "a/b"}] * 33, "spec.devices.constraints",
     "must have at most 32 items"),
    ("claim", "devices.constraints", [{"matchAttribute": "a/b", "requests": [f"r{n}" for n in range(33)]}],
     "spec.devices.constraints[0].requests", "must have at most 32 items"),
    ("claim", "devices.config", [{}] * 33, "spec.devices.config", "must have at most 32 items"),
    ("claim", f"{EXACTLY}.tolerations", [{"operator": "Exists"}] * 17, f"{WHERE}.tolerations",
     "must have at most 16 items"),
    ("claim", f"{EXACTLY}.selectors", [{"cel": {"expression": f"{n}" * 10_240}} for n in range(3)],
     "spec.devices.requests", "the selectors of all requests together may not be more than 20480 bytes"),
    ("claim", f"{EXACTLY}.capacity", {"requests": {"gpu.example.com/memory": "many"}},
     f"{WHERE}.capacity.requests[gpu.example.com/memory]", ""),
    ("slice", "devices.0.capacity", {"memory": {"value": "much"}}, "spec.devices[0].capacity[memory].value", ""),
    ("slice", "devices.0.consumesCounters", [{"counterSet": "s", "counters": {"memory": {"value": "much"}}}],
     "spec.devices[0].consumesCounters[0].counters[memory].value", ""),
    ("template", "spec.devices.constraints", [{"matchAttribute": "a/b"}] * 33, "spec.spec.devices.constraints",
     "must have at most 32 items"),
    ("class", "config", [{}] * 33, "spec.config", "must have at most 32 items"),
    ("slice", "devices.0.taints", [{"key": "k", "effect": "None"}] * 17, "spec.devices[0].taints",
     "must have at most 16 items"),
    ("slice", "devices.0.attributes", {f"a{n}": {"int": 1} for n in range(33)}, "spec.devices[0]",
     "the total number of attributes and capacities must not exceed 32"),
    ("slice", "devices.0.attributes.x", {"string": "a" * 65}, "spec.devices[0].attributes[x].string",
     "may not be more than 64 bytes"),
    ("slice", "devices.0.attributes.x", {"version": "1" * 65}, "spec.devices[0].attributes[x].version",
     "may not be more than 64 bytes"),
    ("claim", "devices.config", [{"requests": ["other"]}], "spec.devices.config[0].requests[0]", A_REQUEST),
    ("class", "selectors.0.cel.expression", "!", "spec.selectors[0].cel.expression", "compilation failed: unsound"),
    ("slice", "driver", "", "spec.driver", ""),
    ("slice", "driver", "a" * 64, "spec.driver", "may not be more than 63 bytes"),
    ("slice", "nodeName", None, "spec", ONE_PLACE),
    ("slice", "allNodes", True, "spec", f"{ONE_PLACE}, but multiple fields are set"),
    ("slice", "pool.name", "", "spec.pool.name", ""),
    ("slice", "pool.resourceSliceCount", 0, "spec.pool.resourceSliceCount", "must be greater than zero"),
    ("slice", "pool.generation", -1, "spec.pool.generation", "must be greater than or equal to 0"),
    ("slice", "devices", [{"name": f"d{n}"} for n in range(129)], "spec.devices", "must have at most 128 items"),
    ("slice", "devices", [{"name": "a"}, {"name": "a"}], "spec.devices[1].name", ""),
    ("slice", "devices.0.name", "A", "spec.devices[0].name", ""),
    ("slice", "devices.0.attributes.x", {}, "spec.devices[0].attributes[x]", "exactly one value must be specified"),
    ("slice", "devices.0.taints.0.key", "", "spec.devices[0].taints[0].key", ""),
    ("slice", "devices.0.taints.0.effect", "", "spec.devices[0].taints[0].effect", ""),
    ("slice", "devices.0.taints.0.effect", "Other", "spec.devices[0].taints[0].effect",
     'supported values: "NoExecute", "NoSchedule", "None"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value", "where", "detail"), BAD)
def test_bad(name: str, path: str, value: Any, where: str, detail: str) -> None:
    errors = GOOD[name][1].create(made(name, path, value))
    assert where in [error.path for error in errors]
    assert detail in [error.detail for error in errors if error.path == where] or not detail


@pytest.mark.parametrize(
    ("name", "path", "value", "where"),
    [
        ("claim", "devices.requests.0.name", "other", "spec"),
        ("template", "spec.devices.requests.0.name", "other", "spec"),
        ("class", "selectors", [], ""),
        ("slice", "devices", [], ""),
        ("slice", "driver", "other", "spec.driver"),
        ("slice", "nodeName", "other", "spec.nodeName"),
        ("slice", "pool.name", "other", "spec.pool.name"),
    ],
)
def test_changes(name: str, path: str, value: Any, where: str) -> None:
    errors = GOOD[name][1].update(made(name, path, value), made(name))
    assert [error.path for error in errors] == ([where] if where else [])


def status(*users: str, device: str = "", deleting: bool = False) -> Any:
    """A claim that is reserved for pods and has a device."""
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": device}
    found = {"reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users]}
    if device:
        found["allocation"] = {"devices": {"results": [result]}}  # type: ignore[assignment]
    meta = {"name": "x", "namespace": "default"}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": meta, "spec": CLAIM, "status": found}, RESOURCE_CLAIM.type)


@pytest.mark.parametrize(
    ("new", "old", "where"),
    [
        (status("a", device="x"), status(), ""),
        (status("a", "b", device="x"), status("a", device="x"), ""),
        (status(), status("a", device="x"), ""),
        (status("a"), status(), "status.reservedFor"),
        (status("a", "a", device="x"), status(), "status.reservedFor[1].uid"),
        (status(*map(str, range(257)), device="x"), status(), "status.reservedFor"),
        (status("a", device="y"), status("a", device="x"), "status.allocation"),
        (status("a", "b", device="x", deleting=True), status("a", device="x", deleting=True), "status.reservedFor"),
        (status(device="x", deleting=True), status("a", device="x", deleting=True), ""),
    ],
    ids=["allocated", "one more user", "given back", "users of nothing", "twice", "too many", "another device",
         "a user of what is deleted", "one user fewer of that"],
)  # fmt: skip
def test_status(new: Any, old: Any, where: str) -> None:
    assert [error.path for error in validate_claim_status_change(new, old)] == ([where] if where else [])


def test_selectors_that_are_too_long_together_are_not_compiled() -> None:
    selectors = [{"cel": {"expression": f"{n}" * 10_240}} for n in range(3)]
    compiled: list[str] = []

    def compile_selector(text: str) -> str:
        compiled.append(text)
        return ""

    make_rules(compile_selector).claim.create(made("claim", f"{EXACTLY}.selectors", selectors))
    assert compiled == []


def test_an_allocation_has_at_most_32_devices() -> None:
    results = [{"request": "gpu", "driver": "d", "pool": "n", "device": f"a{n}"} for n in range(33)]
    old, new = made("claim"), made("claim")
    status = {"allocation": {"devices": {"results": results}}}
    new = msgspec.structs.replace(new, status=msgspec.convert(status, type(new.status)))
    assert [error.path for error in validate_claim_status_change(new, old)] == ["status.allocation.devices.results"]


def test_parts_of_devices_may_be_fractions() -> None:
    whole = {"deviceClassName": "c", "capacity": {"requests": {"gpu.example.com/memory": "1500m"}}}
    assert GOOD["claim"][1].create(made("claim", EXACTLY, whole)) == []
