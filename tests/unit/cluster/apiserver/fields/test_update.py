"""Who manages what after creates, updates and patches; entries that clients send; managers' names."""

import copy
from typing import Any

import pytest

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.kinds import Kind
from muster.cluster.apiserver.fields import (
    FieldSchema,
    FieldSet,
    Writer,
    apply,
    default_manager,
    is_same_but_times,
    manager_errors,
    update_managers,
)
from muster.cluster.apiserver.fields.blank import make_blank
from muster.cluster.apiserver.fields.managers import cap_updaters, read_entries
from muster.cluster.apiserver.fields.sets import make_canonical
from muster.cluster.apiserver.fields.settle import settle_fields

SCHEMA = FieldSchema.of(
    {
        "type": "object",
        "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)
UPDATER = Writer("u", "v1")


def document(data: Any, entries: Any = None, **meta: Any) -> dict[str, Any]:
    managed = {"managedFields": entries} if entries else {}
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "uid": "1", **meta, **managed}, "data": data}


def entry(manager: str, fields: Any, time: str = "t0", operation: str = "Update", **more: str) -> dict[str, Any]:
    head = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": time}
    return head | {"fieldsType": "FieldsV1", "fieldsV1": fields} | more


def owned(*names: str) -> dict[str, Any]:
    return {"f:data": {f"f:{name}": {} for name in names}}


def noted(live: Any, new: Any, given: Any = None, writer: Writer = UPDATER, now: str = "t9", **options: Any) -> Any:
    update_managers(live, new, writer, now, SCHEMA, given, **options)
    return new["metadata"].get("managedFields", [])


def test_a_create_owns_all_that_is_not_the_servers():
    new = document({"a": "1"}, labels={"l": "1"}, resourceVersion="5", generation=1)
    assert noted(None, new) == [
        entry(
            "u",
            {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:data": {".": {}, "f:a": {}},
            },
            "t9",
        )
    ]


def test_an_update_keeps_what_it_had_and_takes_what_it_changed():
    live = document({"a": "1", "b": "1", "c": "1"}, [entry("u", owned("a")), entry("v", owned("b", "c"))])
    found = noted(live, document({"a": "1", "b": "2", "c": "1"}))
    assert found == [entry("v", owned("c")), entry("u", owned("a", "b"), "t9")]


def test_the_same_manager_through_another_subresource_or_version_is_another():
    live = document({"a": "1"}, [entry("u", owned("a"))])
    through_status = noted(live, document({"a": "2"}), writer=Writer("u", "v1", "status"))
    assert through_status == [entry("u", owned("a"), "t9", subresource="status")]
    in_other_version = noted(live, document({"a": "1", "b": "1"}), writer=Writer("u", "v2"))
    assert [e["apiVersion"] for e in in_other_version] == ["v1", "v2"]


def test_what_does_not_change_anything_is_not_noted():
    live = document({"a": "1"}, [entry("v", owned("a"))])
    new = document({"a": "1"}, resourceVersion="8")
    assert noted(live, new) is live["metadata"]["managedFields"]


def test_what_is_removed_is_nobodys_and_times_stay():
    live = document({"a": "1", "b": "1"}, [entry("u", owned("a")), entry("v", owned("a", "b"))])
    assert noted(live, document({"b": "1"})) == [entry("v", owned("b"))]


def test_fields_that_a_write_does_not_change_are_not_noted():
    new = document({"a": "1"}) | {"status": {"phase": "x"}}
    assert "f:status" not in noted(None, new, ignored={"f:status": {}})[0]["fieldsV1"]


def test_an_object_without_entries_stays_so():
    assert noted(document({"a": "1"}), document({"a": "2"})) == []


IGNORED: list[Any] = [
    None,
    [],
    [{"manager": "x"}],
    [{}, {}],
    [entry("x", owned("z"), operation="Sing")],
    [entry("x", owned("z")) | {"fieldsType": "FieldsV2"}],
    [entry("x", {"data": {}})],
    [entry("x", {"k:": {}})],
    [entry("x", {"k:5": {}})],
    [entry("x", {"v:{": {}})],
    [entry("x", {"q:1": {}})],
    [entry("x", {"f:data": 5})],
    [entry("x", {"v:" + "[" * 100_000: {}})],
    [entry("x", owned("z")) | {"manager": 5}],
    ["x"],
    "x",
    5,
]


@pytest.mark.parametrize("given", IGNORED, ids=lambda given: str(given)[:60])
def test_entries_that_make_no_sense_are_passed_over(given):
    live = document({"a": "1"}, [entry("v", owned("a"))])
    assert noted(live, document({"a": "1"}), given) == [entry("v", owned("a"))]


def test_entries_are_reset_and_replaced():
    live = document({"a": "1"}, [entry("v", owned("a"))])
    assert noted(live, document({"a": "2"}), [{}]) == []
    # What client-side apply had is made an applier's by the client itself (`kubectl apply --server-side` after it).
    given = [entry("kubectl", owned("a"), operation="Apply")]
    assert noted(live, document({"a": "1"}), given) == given
    assert noted(live, document({"a": "2"}), given) == [entry("u", owned("a"), "t9")]
    assert noted(live, document({"a": "1"}), given, Writer("u", "v1", "status")) == [entry("v", owned("a"))]


def test_sent_entries_get_their_one_right_form():
    sent = entry("x", {"f:l": {'k:{"b": 1, "a":"x"}': {".": {}}, 'v:"\\u0061"': {}}, ".": {}}) | {"bogus": 1}
    assert read_entries([sent]) == [entry("x", {"f:l": {'k:{"a":"x","b":1}': {}, 'v:"a"': {}}, ".": {}})]
    assert make_canonical({"f:a": {".": {}}}) == {"f:a": {}}
    assert read_entries([{"operation": "Update", "fieldsType": "FieldsV1"}]) == [
        {"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}}
    ]


def test_the_oldest_of_too_many_updaters_are_merged():
    data = {f"k{n}": "1" for n in range(13)}
    entries = [entry(f"m{n:02}", owned(f"k{n}"), f"t{n:02}") for n in range(13)]
    merged = cap_updaters([*entries, entry("a", owned("x"), operation="Apply")])
    assert len(merged) == 11
    ancient = next(e for e in merged if e["manager"] == "ancient-changes")
    assert ancient == entry("ancient-changes", owned("k0", "k1", "k2", "k3"), "t03")
    assert {e["manager"] for e in merged} == {"ancient-changes", "a", *(f"m{n:02}" for n in range(4, 13))}
    live = document(data, merged)
    later = noted(live, document(data | {"new": "1"}), writer=Writer("late", "v1"), now="t20")
    assert owned("k0", "k1", "k2", "k3", "k4")["f:data"] == later[1]["fieldsV1"]["f:data"]
    assert len(later) == 11


def test_updaters_of_different_versions_are_not_merged():
    entries = [entry(f"m{n:02}", owned(f"k{n}"), f"t{n:02}") | {"apiVersion": f"v{n}"} for n in range(12)]
    assert cap_updaters(entries) == entries


def test_appliers_come_first_then_the_oldest():
    live = document({"a": "1", "b": "1"}, [entry("z", owned("b"), "t5", "Apply"), entry("y", owned("a"), "t1")])
    found = noted(live, document({"a": "1", "b": "1", "c": "1"}), now="t0")
    assert [e["manager"] for e in found] == ["z", "u", "y"]


def test_versions_that_differ_in_times_only():
    old = document({"a": "1"}, [entry("v", owned("a"))])
    later = document({"a": "1"}, [entry("v", owned("a"), "t5")])
    assert is_same_but_times(old, later)
    assert is_same_but_times(old, copy.deepcopy(old))
    assert not is_same_but_times(old, document({"a": "2"}, [entry("v", owned("a"))]))
    assert not is_same_but_times(old, document({"a": "1"}, [entry("w", owned("a"))]))
    assert not is_same_but_times(old, document({"a": "1"}))
    assert not is_same_but_times(document({"a": [1]}), document({"a": [True]}))


def test_times_change_only_if_something_does():
    config = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": {"a": "1"}}
    first = apply(None, config, Writer("a", "v1"), "t1", SCHEMA, force=False)
    assert apply(first, config, Writer("a", "v1"), "t2", SCHEMA, force=False) == first
    other = apply(first, config, Writer("b", "v1"), "t3", SCHEMA, force=False)
    assert [e["time"] for e in other["metadata"]["managedFields"]] == ["t1", "t3"]
    more = apply(other, config | {"data": {"a": "1", "b": "1"}}, Writer("a", "v1"), "t4", SCHEMA, force=False)
    assert [(e["manager"], e["time"]) for e in more["metadata"]["managedFields"]] == [("b", "t3"), ("a", "t4")]


def test_an_applier_stays_the_same_in_another_version():
    config = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}}
    first = apply(None, config, Writer("a", "v1"), "t1", SCHEMA, force=False)
    later = apply(
        first, config | {"apiVersion": "v2", "data": {"a": "1"}}, Writer("a", "v2"), "t2", SCHEMA, force=False
    )
    assert later["data"] == {"a": "1"}
    assert later["metadata"]["managedFields"] == [entry("a", owned("a"), "t2", "Apply") | {"apiVersion": "v2"}]


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.31.0 (linux/amd64) kubernetes/9edcffc", "kubectl"),
        ("manager", "manager"),
        ("", ""),
        ("a\x00b\u200bc/1", "abc"),
        ("x" * 200, "x" * 128),
        ("é" * 100, "é" * 64),
    ],
)
def test_the_user_agent_names_the_manager(agent, manager):
    assert default_manager(agent) == manager


@pytest.mark.parametrize(
    ("manager", "required", "errors"),
    [
        ("me", True, []),
        ("", False, []),
        ("", True, ["fieldManager: Required value: is required for apply patch"]),
        ("x" * 129, False, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("a\nb", True, ['fieldManager: Invalid value: "a\\nb": should only contain printable characters']),
    ],
)
def test_names_of_managers(manager, required, errors):
    assert [str(error) for error in manager_errors(manager, required=required)] == errors


def test_what_became_atomic_is_owned_as_a_whole():
    schema = FieldSchema.of(
        {
            "type": "object",
            "properties": {"s": {"type": "object", "x-kubernetes-map-type": "atomic"}, "l": {"type": "array"}},
        }
    )
    old: FieldSet = {"f:s": {".": {}, "f:a": {}}, "f:l": {'v:"x"': {}}, "f:gone": {"f:a": {}}}
    assert settle_fields(old, schema) == {"f:s": {}, "f:l": {}, "f:gone": {"f:a": {}}}
    new: FieldSet = {"f:s": {}, "f:metadata": {"f:labels": {"f:a": {}}}}
    assert settle_fields(new, schema) is new


def test_nobody_manages_what_every_object_has():
    assert make_blank(POD) == {"metadata": {}, "spec": {"containers": None}, "status": {}}
    assert make_blank(JOB)["spec"]["template"] == {"metadata": {}, "spec": {"containers": None}}
    assert make_blank(Kind("example.com", "v1", "Widget", "widgets", dict)) == {}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
    update_managers(None, pod, UPDATER, "t0", FieldSchema.of_kind(POD), None)
    assert pod["metadata"]["managedFields"][0]["fieldsV1"] == {  # type: ignore[index]
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                }
            }
        }
    }


def test_a_reference_to_an_owner_is_owned_as_a_whole():
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
    pod: dict[str, Any] = {"metadata": {"name": "p", "ownerReferences": [owner]}, "spec": {"containers": []}}
    update_managers(None, pod, UPDATER, "t0", FieldSchema.of_kind(POD), None)
    assert pod["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] == {
        "f:ownerReferences": {".": {}, 'k:{"uid":"1"}': {}}
    }
