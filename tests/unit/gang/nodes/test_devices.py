"""Which devices nodes have, who holds them, and which of them pods get."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Pod, PodStatus
from muster.api.groups.resource import Device, DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import ObjectMeta
from muster.gang.nodes.devices import Devices
from muster.gang.nodes.deviceselections import MOST_OF_NAMESPACE, MOST_SELECTIONS
from muster.gang.shapes import DeviceAsk

GPUS = "devices of class gpu"
LARGE = "devices of class gpu with large"
WHOLE = "all devices of class gpu"


def matches(expression: str, driver: str, device: Device) -> bool:
    """An expression names the driver, an attribute that has to be there, or is "true"."""
    return expression in ("true", driver) or expression in device.attributes


def slice_(node: str, *devices: Any, generation: int = 1, parts: int = 1, part: int = 0, driver: str = "d") -> Any:
    """A slice with devices, each a name or a whole device."""
    listed = [{"name": one} if isinstance(one, str) else one for one in devices]
    pool = {"name": node, "generation": generation, "resourceSliceCount": parts}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": listed}
    return msgspec.convert({"metadata": {"name": f"{node}-{driver}-{part}"}, "spec": spec}, ResourceSlice)


def large(name: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"large": {"bool": True}}}


def put(devices: Devices, one: ResourceSlice) -> frozenset[str]:
    return devices.set_slice(one.metadata.name, one)


def gpu_class(devices: Devices, expression: str = "d") -> frozenset[str]:
    document = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    return devices.set_class("gpu", msgspec.convert(document, DeviceClass))


def request(count: int = 1, *, selector: str = "", name: str = "r", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly | more}


def claiming(name: str) -> Pod:
    """A pod with one claim, of its own name."""
    document = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [], "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": name}]},
    }
    return msgspec.convert(document, Pod)


def claim(name: str, *requests: Any, allocated: Any = (), node: str = "n") -> ResourceClaim:
    """The claim of a pod of that name. allocated: names of its devices."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    results = [{"request": "r", "driver": "d", "pool": node, "device": one} for one in allocated]
    status = {"allocation": {"devices": {"results": results}}} if allocated else {}
    document = {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": list(requests) or [request()]}},
        "status": status,
    }
    return msgspec.convert(document, ResourceClaim)


def want(devices: Devices, name: str, *requests: Any, **status: Any) -> Pod:
    """A pod that claims these devices."""
    devices.set_claim(f"ns/{name}", claim(name, *requests, **status))
    return claiming(name)


def a_node(*listed: Any) -> Devices:
    """Node n with such devices, all of class gpu."""
    devices = Devices(matches)
    gpu_class(devices)
    put(devices, slice_("n", *listed))
    return devices


def picked(devices: Devices, pod: Pod) -> list[str]:
    return [device for _, (_, _, device) in devices.get_picks(pod.metadata.uid)[f"ns/{pod.metadata.name}"]]


def test_a_node_has_the_devices_that_match_the_class_and_the_selectors():
    devices = a_node("a", large("b"), large("c"))
    want(devices, "any")
    assert devices.count_devices("n") == {GPUS: 3}
    want(devices, "some", request(selector="large"))
    assert devices.count_devices("n") == {GPUS: 3, LARGE: 2}
    assert devices.count_devices("m") == {}
    assert gpu_class(devices, "other") == {"n"}
    assert devices.count_devices("n") == {GPUS: 0, LARGE: 0}
    assert devices.set_class("gpu", None) == {"n"}
    assert devices.count_devices("n") == {GPUS: 0, LARGE: 0}


def test_of_a_pool_the_last_generation_counts_once_it_is_whole():
    devices = a_node("a")
    want(devices, "any")
    put(devices, slice_("n", "a", "b", generation=2, parts=2, part=1))
    assert devices.count_devices("n") == {}
    put(devices, slice_("n", "c", generation=2, parts=2, part=2))
    assert devices.count_devices("n") == {GPUS: 3}
    assert devices.set_slice("n-d-2", None) == {"n"}
    assert devices.count_devices("n") == {}


@pytest.mark.parametrize(
    ("device", "request_", "has"),
    [
        ({"taints": [{"key": "ill", "effect": "NoSchedule"}]}, {}, 0),
        ({"taints": [{"key": "ill", "effect": "NoExecute"}]}, {}, 0),
        ({"taints": [{"key": "ill", "effect": "None"}]}, {}, 1),
        ({"taints": [{"key": "ill", "effect": "NoSchedule"}]},
         {"tolerations": [{"key": "ill", "operator": "Exists"}]}, 1),
        ({"taints": [{"key": "ill", "value": "a", "effect": "NoSchedule"}]},
         {"tolerations": [{"key": "ill", "operator": "Equal", "value": "b"}]}, 0),
        ({"taints": [{"key": "ill", "value": "a", "effect": "NoSchedule"}]},
         {"tolerations": [{"key": "ill", "operator": "Equal", "value": "a"}]}, 1),
        ({"taints": [{"key": "ill", "effect": "NoSchedule"}]},
         {"tolerations": [{"key": "well", "operator": "Exists"}]}, 0),
        ({"taints": [{"key": "ill", "effect": "NoSchedule"}]},
         {"tolerations": [{"key": "ill", "operator": "Exists", "effect": "NoExecute"}]}, 0),
        ({"taints": [{"key": "ill", "effect": "NoExecute"}]},
         {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, 1),
        ({"consumesCounters": [{"counterSet": "s", "counters": {}}]}, {}, 0),
        ({"bindingConditions": ["Ready"]}, {}, 0),
    ],
    ids=[
        "a taint", "a stronger taint", "a note", "tolerated", "another value", "the value", "another taint",
        "another effect", "any taint of the effect", "a part", "not bound at once",
    ],
)  # fmt: skip
def test_devices_that_are_left_alone(device, request_, has):
    devices = a_node({"name": "a", **device})
    want(devices, "p", request(**request_))
    assert list(devices.count_devices("n").values()) in ([has], [] if not has else None)


def test_what_a_pod_holds_is_counted_in_every_selection():
    devices = a_node("a", large("b"), large("c"))
    want(devices, "other", request(selector="large"))
    pod = want(devices, "p", allocated=["a", "b"])
    assert devices.count_devices("n") == {GPUS: 1, LARGE: 1}  # nobody's yet
    assert devices.seat(pod, "n") == {"n"}
    assert devices.count_devices("n") == {GPUS: 3, LARGE: 2}
    assert dict(devices.held_by("p")) == {GPUS: 2, LARGE: 1}
    assert devices.unseat("p") == {"n"}
    assert devices.held_by("p") == ()
    assert devices.count_devices("n") == {GPUS: 1, LARGE: 1}
    assert devices.set_claim("ns/p", None) == {"n"}
    assert devices.count_devices("n") == {GPUS: 3, LARGE: 2}


def test_a_pod_asks_for_its_devices_and_for_those_of_wider_selections():
    devices = a_node("a", large("b"))
    any_ = want(devices, "any", request(2))
    some = want(devices, "some", request(selector="large"), request(name="s"))
    assert devices.ask(any_) == DeviceAsk(((GPUS, 2),))
    assert devices.ask(some) == DeviceAsk(((GPUS, 2), (LARGE, 1)))


def test_a_claim_that_says_no_number_wants_one():
    devices = a_node("a", "b")
    assert devices.ask(want(devices, "p", request(0))) == DeviceAsk(((GPUS, 1),))


def test_entries_of_a_pod_that_need_no_claim_are_passed_by():
    devices = a_node("a")
    pod = want(devices, "p")
    document: Any = msgspec.to_builtins(pod)
    spec, status = document["spec"], document["status"]
    spec["resourceClaims"] = [{"name": "b", "resourceClaimTemplateName": "t"}, *spec["resourceClaims"]]
    status["resourceClaimStatuses"] = [{"name": "b"}, *status["resourceClaimStatuses"]]
    assert devices.ask(msgspec.convert(document, Pod)) == DeviceAsk(((GPUS, 1),))


def test_devices_that_few_want_are_given_first():
    devices = a_node(large("a"), "b", large("c"))
    want(devices, "other", request(selector="large"))
    pod, both = want(devices, "p"), want(devices, "q", request(name="any"), request(selector="large"))
    assert devices.pick([(pod, "n")]) == ""
    assert picked(devices, pod) == ["b"]
    assert devices.pick([(both, "n")]) == ""
    assert devices.get_picks("q")["ns/q"] == (("r", ("d", "n", "a")), ("any", ("d", "n", "c")))


def test_what_is_picked_is_held_from_then_on_and_given_up_whole():
    devices = a_node("a", "b")
    pods = [want(devices, name) for name in "pqr"]
    assert devices.pick([(pod, "n") for pod in pods]) == "n"
    assert devices.count_devices("n") == {GPUS: 2}
    assert devices.pick([(pods[0], "n"), (pods[1], "n")]) == ""
    for pod in pods[:2]:
        devices.seat(pod, "n")
    assert [dict(devices.held_by(uid)) for uid in "pqr"] == [{GPUS: 1}, {GPUS: 1}, {}]
    assert devices.pick([(pods[2], "n")]) == "n"
    devices.unseat("p")
    assert devices.count_devices("n") == {GPUS: 2}
    assert devices.pick([(pods[2], "n")]) == ""
    assert picked(devices, pods[2]) == ["a"]


def test_what_is_picked_stays_held_while_its_claim_is_written():
    devices = a_node("a", "b")
    pod, other = want(devices, "p"), want(devices, "q")
    assert devices.pick([(pod, "n")]) == ""
    devices.seat(pod, "n")
    devices.set_claim("ns/p", claim("p"))  # an older state of it, such as with a finalizer and no devices
    assert devices.pick([(other, "n")]) == ""
    devices.seat(other, "n")
    assert picked(devices, other) == ["b"]
    devices.set_claim("ns/p", claim("p", allocated=["a"]))
    devices.unseat("p")
    assert devices.count_devices("n") == {GPUS: 1}  # until it is given back
    assert devices.list_allocated({"p": pod, "o": other}) == {"p": [claim("p", allocated=["a"])]}
    devices.set_claim("ns/p", claim("p"))
    assert devices.count_devices("n") == {GPUS: 2}


def test_all_devices_of_a_node():
    devices = a_node("a", "b")
    whole, one = want(devices, "w", request(allocationMode="All", count=0)), want(devices, "p")
    assert devices.count_devices("n") == {WHOLE: 1, GPUS: 2}
    assert devices.ask(whole) == DeviceAsk(((WHOLE, 1),))
    assert devices.pick([(one, "n")]) == ""
    devices.seat(one, "n")
    assert dict(devices.held_by("p")) == {GPUS: 1, WHOLE: 1}
    assert devices.pick([(whole, "n")]) == "n"
    devices.unseat("p")
    assert devices.pick([(whole, "n")]) == ""
    assert picked(devices, whole) == ["a", "b"]
    devices.seat(whole, "n")
    assert dict(devices.held_by("w")) == {WHOLE: 1, GPUS: 2}


CLAIM = 'cannot allocate the resource claim of "c":'


@pytest.mark.parametrize(
    ("requests", "unable"),
    [
        (None, f"{CLAIM} ResourceClaim not created yet"),
        ([request(deviceClassName="other")], f"{CLAIM} device class other does not exist"),
        ([request(adminAccess=True)], f"{CLAIM} request r asks for adminAccess, which this scheduler does not support"),
        ([request(capacity={"requests": {"memory": "1Gi"}})],
         f"{CLAIM} request r asks for a part of a device's capacity, which this scheduler does not support"),
        ([request(allocationMode="Some")],
         f"{CLAIM} request r has allocationMode Some, which this scheduler does not support"),
        ([{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}],
         f"{CLAIM} request r uses firstAvailable, which this scheduler does not support"),
    ],
    ids=["no claim", "no class", "to look at", "a part", "another mode", "several ways"],
)  # fmt: skip
def test_what_no_node_will_do_for(requests, unable):
    devices = a_node("a")
    pod = claiming("p") if requests is None else want(devices, "p", *requests)
    assert devices.ask(pod) == DeviceAsk(unable=unable)
    assert devices.pick([(pod, "n")]) == "n"


def constrained(name: str, *requests: Any, **constraint: Any) -> ResourceClaim:
    document = msgspec.to_builtins(claim(name, *requests))
    document["spec"]["devices"]["constraints"] = [constraint]
    return msgspec.convert(document, ResourceClaim)


def at(name: str, root: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"root": {"string": root}}}


def test_devices_that_must_have_an_attribute_in_common():
    devices = a_node(at("a", "x"), at("b", "y"), at("c", "y"), "d", at("e", "x"), at("f", "y"))
    pod = claiming("p")
    devices.set_claim("ns/p", constrained("p", request(2), request(name="s"), matchAttribute="d/root", requests=["r"]))
    assert devices.pick([(pod, "n")]) == ""
    chosen = {device for _, (_, _, device) in devices.get_picks("p")["ns/p"]}
    assert len(chosen) == 3
    assert {"a", "e"} <= chosen or {"b", "c"} <= chosen
    devices.set_claim("ns/q", constrained("q", request(2), matchAttribute="d/root"))
    assert devices.pick([(claiming("q"), "n")]) == ""
    devices.set_claim("ns/q", constrained("q", request(3), matchAttribute="d/root"))
    assert devices.pick([(claiming("q"), "n")]) == "n"


def test_devices_that_must_differ_are_refused():
    devices = a_node("a")
    devices.set_claim("ns/p", constrained("p", distinctAttribute="d/root"))
    assert devices.ask(claiming("p")).unable == (
        f"{CLAIM} the claim has a constraint distinctAttribute, which this scheduler does not support"
    )


def test_a_claim_is_awaited_once_a_pod_knows_its_name():
    devices = a_node("a")
    pod, theirs = claiming("p"), claim("p")
    assert not devices.is_awaited(theirs)
    nameless = msgspec.structs.replace(pod, status=PodStatus())
    devices.ask(nameless)
    assert not devices.is_awaited(theirs)
    devices.ask(pod)
    assert devices.is_awaited(theirs)
    devices.set_claim("ns/p", theirs)
    devices.ask(pod)
    assert not devices.is_awaited(theirs)
    devices.set_claim("ns/p", None)
    devices.ask(pod)
    devices.unseat("p")
    assert not devices.is_awaited(theirs)


def test_a_claim_of_another_pod_is_not_taken_for_its_own():
    devices = a_node("a")
    devices.set_claim("ns/p", msgspec.structs.replace(claim("p"), metadata=claim("q").metadata))
    assert devices.ask(claiming("p")).unable == f"{CLAIM} ResourceClaim not created yet"


def test_a_claim_has_at_most_32_devices():
    devices = a_node(*(f"d{number}" for number in range(40)))
    assert devices.ask(want(devices, "most", request(32))).unable == ""
    assert devices.ask(want(devices, "many", request(33))).unable == f"{CLAIM} the claim asks for more than 32 devices"
    two = want(devices, "two", request(16), request(17, name="s"))
    assert devices.ask(two).unable == f"{CLAIM} the claim asks for more than 32 devices"
    assert devices.pick([(want(devices, "all", request(0, allocationMode="All")), "n")]) == "n"


def share(number: int) -> str:
    """The namespace of a claim: one after the other has its share of selections."""
    return f"ns-{number // MOST_OF_NAMESPACE}"


def test_selections_are_bounded():
    devices = a_node("a")
    for number in range(MOST_SELECTIONS):
        devices.set_claim(f"{share(number)}/p{number}", claim(f"p{number}", request(selector=f"s{number}")))
    assert len(devices.count_devices("n")) == MOST_SELECTIONS
    assert devices.ask(want(devices, "last")).unable == (
        f"{CLAIM} more than {MOST_SELECTIONS} different selections of devices are in use, "
        f"or more than {MOST_OF_NAMESPACE} in the namespace"
    )


def test_selections_that_no_claim_has_any_more_make_room():
    devices = a_node("a")
    for number in range(MOST_SELECTIONS):
        devices.set_claim(f"{share(number)}/p{number}", claim(f"p{number}", request(selector=f"s{number}")))
    last = want(devices, "last", request(selector="d"))
    assert devices.ask(last).unable
    assert devices.set_claim("ns-0/p0", None) == {"n"}
    assert devices.ask(last) == DeviceAsk((("devices of class gpu with d", 1),))
    assert devices.count_devices("n")["devices of class gpu with d"] == 1
    for number in range(1, MOST_SELECTIONS):
        devices.set_claim(f"{share(number)}/p{number}", None)
    again = want(devices, "again")
    assert not devices.ask(again).unable
    assert set(devices.count_devices("n")) == {"devices of class gpu with d", GPUS}


def test_claims_that_no_pod_may_hold_need_no_selection():
    devices = a_node("a")
    nobodys = msgspec.structs.replace(claim("p"), metadata=msgspec.convert({"name": "p"}, ObjectMeta))
    assert devices.set_claim("ns/p", nobodys) == frozenset()
    assert devices.count_devices("n") == {}


def test_a_device_that_two_claims_have_stays_held_until_both_give_it_back():
    devices = a_node("a")
    devices.set_claim("ns/p", claim("p", allocated=["a"]))
    devices.set_claim("ns/q", claim("q", allocated=["a"]))
    devices.set_claim("ns/q", claim("q"))
    late = want(devices, "late")
    assert devices.pick([(late, "n")]) == "n"
    devices.set_claim("ns/p", claim("p"))
    assert devices.pick([(late, "n")]) == ""


def test_a_device_that_is_picked_stays_held_when_its_last_user_gives_it_back():
    """A claim was written and its pod not bound, and its event comes after another pod has picked the device."""
    devices = a_node("a")
    first, second = want(devices, "first"), want(devices, "second")
    assert devices.pick([(first, "n")]) == ""
    devices.unseat("first")
    assert devices.pick([(second, "n")]) == ""
    devices.set_claim("ns/first", claim("first", allocated=["a"]))
    devices.set_claim("ns/first", claim("first"))
    assert devices.pick([(want(devices, "third"), "n")]) == "n"


PODS, NODES = "pqr", "mn"
DEVICES = ["a", "b", large("c"), {"name": "d", "bindingConditions": ["Ready"]}]
REQUESTS = [request(), request(2), request(selector="large"), request(0, allocationMode="All")]

changes = st.lists(
    st.one_of(
        st.tuples(
            st.just("slice"),
            st.sampled_from(NODES),
            st.lists(st.sampled_from(DEVICES), unique_by=str),
            st.integers(1, 2),
            st.integers(1, 2),
            st.integers(1, 2),
        ),
        st.tuples(st.just("no slice"), st.sampled_from(NODES), st.integers(1, 2)),
        st.tuples(st.just("class"), st.sampled_from(["d", "large", None])),
        st.tuples(
            st.just("claim"),
            st.sampled_from(PODS),
            st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=2, unique_by=str),
            st.sampled_from(NODES),
            st.sets(st.sampled_from("abc"), max_size=2),
        ),
        st.tuples(st.just("no claim"), st.sampled_from(PODS)),
        st.tuples(st.just("seat"), st.sampled_from(PODS), st.sampled_from(NODES)),
        st.tuples(st.just("unseat"), st.sampled_from(PODS)),
    ),
    max_size=25,
)


# Both nodes have devices, and each pod has a claim and a node.
BEFORE: Any = [
    ("class", "d"),
    *(("slice", node, DEVICES[:3], 1, 1, 1) for node in NODES),
    *(("claim", name, REQUESTS[number::2], "m", set()) for number, name in enumerate(PODS[:2])),
    ("claim", "r", REQUESTS[:1], "n", {"a"}),
    *(("seat", name, "n") for name in "qr"),
]


def apply(devices: Devices, what: str, *about: Any) -> frozenset[str]:
    match what, about:
        case "slice", (node, listed, generation, parts, part):
            return put(devices, slice_(node, *listed, generation=generation, parts=parts, part=part))
        case "no slice", (node, part):
            return devices.set_slice(f"{node}-d-{part}", None)
        case "class", (expression,):
            return devices.set_class("gpu", None) if expression is None else gpu_class(devices, expression)
        case "claim", (name, requests, node, allocated):
            named = [{**one, "name": f"r{number}"} for number, one in enumerate(requests)]
            return devices.set_claim(f"ns/{name}", claim(name, *named, allocated=sorted(allocated), node=node))
        case "no claim", (name,):
            return devices.set_claim(f"ns/{name}", None)
        case "seat", (name, node):
            return devices.seat(claiming(name), node)
        case "unseat", (name,):
            return devices.unseat(name)
    raise AssertionError(what)


def of_nodes(devices: Devices) -> dict[str, Any]:
    """What is known of each node: its devices, and what the pods there hold."""
    return {
        node: (
            devices.count_devices(node),
            [(pod.metadata.uid, devices.held_by(pod.metadata.uid)) for pod, _ in seated],
        )
        for node in NODES
        for seated in [devices.seated_on([node])]
    }


@given(changes)
def test_what_is_known_is_what_it_would_be_if_it_was_read_anew_and_every_change_names_its_nodes(changes):
    """Slices, classes, claims and pods come, change and go; what no claim wants any more may still be followed."""
    devices, last = Devices(matches), dict[Any, Any]()
    for what, *about in (*BEFORE, *changes):
        key = what.removeprefix("no ").removeprefix("un"), *(about[:1] if what != "class" else ())
        key = (*key, about[-1]) if key[0] == "slice" else key
        last.pop(key, None)
        last[key] = what, about
        before = of_nodes(devices)
        touched = apply(devices, what, *about)
        changed = {node for node, known in of_nodes(devices).items() if known != before[node]}
        assert changed <= touched
        for pod in map(claiming, PODS):
            devices.ask(pod)
    seats = sorted((about[1], about[0]) for what, about in last.values() if what == "seat")
    assert [(node, pod.metadata.uid) for pod, node in devices.seated_on(sorted(NODES))] == seats
    anew = Devices(matches)
    for what, about in last.values():
        apply(anew, what, *about)
    followed = set(anew.count_devices("m")) | set(anew.count_devices("n"))
    for node, (equipment, held) in of_nodes(anew).items():
        known, holding = of_nodes(devices)[node]
        assert {key: number for key, number in known.items() if key in followed} == equipment
        assert [(uid, dict(amounts) | dict(had)) for (uid, amounts), (_, had) in zip(held, holding, strict=True)] == [
            (uid, dict(had)) for uid, had in holding
        ]
    for pod in map(claiming, PODS):
        asked, known = anew.ask(pod), devices.ask(pod)
        assert asked.unable == known.unable
        assert dict(asked.requests).items() <= dict(known.requests).items()
