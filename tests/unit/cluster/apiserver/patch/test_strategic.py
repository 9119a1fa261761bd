"""Strategic merge patch: cases in the manner of upstream's tables, its refusals, and laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.patch import strategic

_CONTAINER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}}},
            "x-kubernetes-patch-merge-key": "containerPort",
            "x-kubernetes-patch-strategy": "merge",
        },
        "env": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        },
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "containers": {
            "type": "array",
            "items": _CONTAINER,
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        },
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "volumes": {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge,retainKeys",
        },
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys"},
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "spec": {"type": "object", "properties": {"containers": {"type": "array"}, "n": {"type": "integer"}}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "keyless": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge"},
    },
}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "scalars are set and removed": ({"a": 1, "b": 2}, {"a": 3, "b": None, "c": 4}, {"a": 3, "c": 4}),
    "maps merge": (
        {"labels": {"x": "1", "y": "2"}},
        {"labels": {"x": None, "z": "3"}},
        {"labels": {"y": "2", "z": "3"}},
    ),
    "nulls of what was not there vanish": ({}, {"labels": {"x": None, "y": "1"}}, {"labels": {"y": "1"}}),
    "lists without a strategy are replaced": ({"plain": ["a"]}, {"plain": ["b"]}, {"plain": ["b"]}),
    "lists of maps merge by key": (
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
        {"containers": [{"name": "b", "image": "3"}]},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]},
    ),
    "an item that was not there comes first, as upstream has it": (
        {"containers": named("a")},
        {"containers": [{"name": "b", "image": None}]},
        {"containers": named("b", "a")},
    ),
    "lists nest": (
        {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "TCP"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 81, "protocol": "UDP"}, {"containerPort": 82}]}]},
        {
            "containers": [
                {
                    "name": "a",
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}, {"containerPort": 82}],
                }
            ]
        },
    ),
    "an item is deleted": (
        {"containers": named("a", "b", "c")},
        {"containers": [{"name": "b", "$patch": "delete"}]},
        {"containers": named("a", "c")},
    ),
    "deleting what is not there does nothing": (
        {"containers": named("a")},
        {"containers": [{"name": "b", "$patch": "delete"}]},
        {"containers": named("a")},
    ),
    "a merged list is replaced": (
        {"containers": named("a", "b")},
        {"containers": [{"name": "c"}, {"$patch": "replace"}]},
        {"containers": named("c")},
    ),
    "a map is replaced": (
        {"spec": {"n": 1, "m": 2}},
        {"spec": {"$patch": "replace", "k": 3}},
        {"spec": {"k": 3}},
    ),
    "a map that was not there is replaced": ({}, {"spec": {"$patch": "replace", "k": 3}}, {"spec": {"k": 3}}),
    "a map is emptied": ({"spec": {"n": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}),
    "deleting a map that is not there leaves nothing": ({}, {"spec": {"$patch": "delete"}}, {}),
    "merge is what happens anyway": (
        {"spec": {"n": 1}},
        {"spec": {"$patch": "merge", "m": 2}},
        {"spec": {"n": 1, "m": 2}},
    ),
    "a map with the replace strategy": ({"whole": {"a": 1, "b": 2}}, {"whole": {"a": 3}}, {"whole": {"a": 3}}),
    "scalars merge as a set": ({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, {"finalizers": ["a", "b", "c"]}),
    "scalars are deleted": (
        {"finalizers": ["a", "b", "c"]},
        {"$deleteFromPrimitiveList/finalizers": ["b", "x"]},
        {"finalizers": ["a", "c"]},
    ),
    "scalars are deleted from nothing": ({}, {"$deleteFromPrimitiveList/finalizers": ["b"]}, {}),
    "scalars are added and deleted": (
        {"finalizers": ["a", "b"]},
        {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["c", "b"]},
    ),
    "scalars are ordered": (
        {"finalizers": ["a", "b", "c"]},
        {"$setElementOrder/finalizers": ["c", "a"]},
        {"finalizers": ["b", "c", "a"]},
    ),
    "scalars are deleted and ordered": (
        {"finalizers": ["a", "b", "c"]},
        {"$setElementOrder/finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]},
        {"finalizers": ["c", "a"]},
    ),
    "maps are ordered, with an addition": (
        {"containers": named("a", "b", "c")},
        {"$setElementOrder/containers": named("d", "c", "a"), "containers": [{"name": "d", "image": "x"}]},
        {"containers": [{"name": "d", "image": "x"}, *named("b", "c", "a")]},
    ),
    "items of the server keep their place": (
        {"containers": named("a", "server", "b")},
        {"$setElementOrder/containers": named("a", "b", "c"), "containers": named("c")},
        {"containers": named("a", "server", "b", "c")},
    ),
    "maps are deleted and ordered": (
        {"containers": named("a", "b", "c")},
        {"$setElementOrder/containers": named("c", "a"), "containers": [{"name": "b", "$patch": "delete"}]},
        {"containers": named("c", "a")},
    ),
    "a list is made in order": (
        {},
        {"$setElementOrder/containers": named("b", "a"), "containers": named("b", "a")},
        {"containers": named("b", "a")},
    ),
    "the order of nothing": ({}, {"$setElementOrder/containers": named("b", "a")}, {}),
    "the order of what is removed": (
        {"containers": named("a")},
        {"$setElementOrder/containers": [], "containers": None},
        {},
    ),
    "retained keys": (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "retained keys of an item": (
        {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ),
    "directives do not reach a new object": (
        {},
        {
            "spec": {
                "$retainKeys": ["containers"],
                "$setElementOrder/containers": named("a"),
                "$deleteFromPrimitiveList/x": ["y"],
                "containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}],
                "gone": {"$patch": "delete"},
            }
        },
        {"spec": {"containers": named("a")}},
    ),
    "a value of another type replaces": (
        {"spec": {"n": 1}, "a": [1]},
        {"spec": 1, "a": {"b": 2}},
        {"spec": 1, "a": {"b": 2}},
    ),
    "fields that the schema does not know": (
        {"odd": {"x": 1, "l": [1]}},
        {"odd": {"y": 2, "l": [2]}},
        {"odd": {"x": 1, "y": 2, "l": [2]}},
    ),
    "one is not true": ({"finalizers": [1]}, {"finalizers": [True]}, {"finalizers": [1, True]}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_apply(case: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    document, patch, expected = copy.deepcopy(case)
    assert strategic.apply(document, patch, SCHEMA) == expected
    assert (document, patch) == case[:2]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ([], 400, "invalid JSON document"),
        ({"spec": {"$patch": "frob"}}, 422, "unknown patch type: frob"),
        ({"spec": {"$patch": {"x": 1}}}, 422, "unknown patch type"),
        ({"containers": [{"name": "a", "$patch": "frob"}]}, 422, "unknown patch type: frob"),
        ({"containers": [{"name": "a", "$patch": "merge"}]}, 422, "merging lists cannot yet be specified in the patch"),
        ({"containers": [{"image": "x"}]}, 422, "does not contain declared merge key: name"),
        ({"containers": [{"$patch": "delete"}]}, 422, "does not contain declared merge key: name"),
        ({"containers": [{"name": {"x": 1}}]}, 422, "merge key name is not a scalar"),
        ({"containers": ["a"]}, 422, "list element types are not identical"),
        ({"finalizers": [["a"]]}, 422, "lists of lists are not supported"),
        ({"finalizers": [{"a": 1}]}, 422, "list element types are not identical"),
        ({"keyless": [{"a": 1}]}, 422, "cannot merge lists without merge key"),
        ({"$deleteFromPrimitiveList/finalizers": "a"}, 400, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveList": ["a"]}, 400, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveList/finalizers": [["a"]]}, 422, "lists of lists are not supported"),
        ({"$deleteFromPrimitiveList/containers": ["a"]}, 422, "list element types are not identical"),
        ({"$setElementOrder/containers": "a"}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/containers": [{"x": 1}]}, 422, "does not contain declared merge key: name"),
        ({"$setElementOrder/containers": ["a"]}, 422, "list element types are not identical"),
        ({"$setElementOrder/keyless": [{"x": 1}]}, 422, "cannot merge lists without merge key"),
        ({"$setElementOrder/": []}, 400, "invalid patch format of setElementOrder list"),
        (
            {"$setElementOrder/containers": named("a", "b"), "containers": named("b", "a")},
            422,
            "doesn't match $setElementOrder list",
        ),
        ({"strategy": {"$retainKeys": ["type"], "other": 1}}, 400, "invalid patch format of retainKeys"),
        ({"strategy": {"$retainKeys": "type"}}, 400, "invalid patch format of retainKeys"),
    ],
)
def test_refusals(patch: Any, code: int, message: str) -> None:
    document = {
        "containers": named("a", "b"),
        "finalizers": ["a"],
        "spec": {"n": 1},
        "strategy": {"type": "x"},
        "keyless": [{"a": 1}],
    }
    with pytest.raises(ApiError) as error:
        strategic.apply(document, patch, SCHEMA)
    assert error.value.code == code
    assert message in error.value.status.message


_names = st.sampled_from("abcd")
_containers = st.lists(
    st.fixed_dictionaries({"name": _names}, optional={"image": _names, "args": st.lists(_names, max_size=2)}),
    unique_by=lambda container: container["name"],
    max_size=4,
)
_documents = st.fixed_dictionaries(
    {},
    optional={
        "containers": _containers,
        "finalizers": st.lists(_names, unique=True, max_size=4),
        "labels": st.dictionaries(_names, _names),
        "plain": st.lists(_names, max_size=3),
    },
)


@given(_documents)
def test_an_empty_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert strategic.apply(document, {}, SCHEMA) == document


@given(_documents)
def test_an_object_as_its_own_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert strategic.apply(document, document, SCHEMA) == document


@given(_documents, _documents)
def test_applying_twice_is_applying_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    once = strategic.apply(document, patch, SCHEMA)
    assert strategic.apply(once, patch, SCHEMA) == once
    assert (document, patch) == before


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The patch that kubectl would compute for `containers`, `finalizers` and `labels`."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        patch[key] = value
        if before and key == "containers":
            kept = {item["name"] for item in value}
            deleted = [{"name": item["name"], "$patch": "delete"} for item in before if item["name"] not in kept]
            members = {item["name"]: item for item in before}
            changed = [dict.fromkeys(members.get(item["name"], {})) | item for item in value]
            patch[key] = [*changed, *deleted]
            patch[f"$setElementOrder/{key}"] = [{"name": item["name"]} for item in value]
        elif before and key == "finalizers":
            patch[f"$deleteFromPrimitiveList/{key}"] = [item for item in before if item not in value]
            patch[f"$setElementOrder/{key}"] = value
        elif before and key == "labels":
            patch[key] = dict.fromkeys(before) | value
    return patch


@given(_documents, _documents)
def test_the_patch_of_a_difference_yields_the_target(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert strategic.apply(old, _difference(old, new), SCHEMA) == new


_hostile = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "delete", "replace", "merge"]),
    lambda value: st.lists(value, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "name", "containers", "finalizers", "spec", "labels", "env", "$patch", "$retainKeys", "plain",
                "$setElementOrder/containers", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers",
            ]
        ),
        value,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["containers", "finalizers", "spec", "labels"]), _hostile), _hostile)
def test_nonsense_is_refused_and_never_crashes(document: dict[str, Any], patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert _answer(document, patch) in (200, 400, 422)
    assert (document, patch) == before


def _answer(document: dict[str, Any], patch: Any) -> int:
    try:
        strategic.apply(document, patch, SCHEMA)
    except ApiError as error:
        return error.code
    return 200
