"""JSON patch: the cases of RFC 6902's appendix A, kube-apiserver's refusals, and laws against a simple reference."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.patch import json as json_patch
from muster.api.patch.limits import MAX_COPIED_BYTES, MAX_DEPTH, MAX_OPERATIONS
from muster.api.status import ApiError


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["a"]}], {"foo": ["bar", ["a"]]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/1", "value": 1}], {"foo": ["bar", 1]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/foo", "value": True}], {"baz": "qux", "foo": True}),
        ({"foo": [1, 2]}, [{"op": "replace", "path": "/foo/1", "value": 3}], {"foo": [1, 3]}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"baz": "qux", "foo": ["a", 2, "c"]}, [{"op": "test", "path": "/foo/1", "value": 2}], None),
        ({"n": 1}, [{"op": "test", "path": "/n", "value": 1.0}], None),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], None),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
        ({"": {"": 1}}, [{"op": "replace", "path": "//", "value": 2}], {"": {"": 2}}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "copy", "from": "", "path": "/b"}], {"a": 1, "b": {"a": 1}}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": None}], {"a": 1, "b": None}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 1, "extra": "ignored"}], {"a": 1, "b": 1}),
        ({"a": 1}, [], None),
    ],
)
def test_apply(document: dict[str, Any], operations: list[Any], expected: dict[str, Any] | None) -> None:
    before, patch_before = copy.deepcopy(document), copy.deepcopy(operations)
    assert json_patch.apply(document, operations) == (before if expected is None else expected)
    assert document == before
    assert operations == patch_before


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({"op": "add"}, 400, "cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("nonsense", 400, "jsonpatch.Patch"),
        ([1], 400, "jsonpatch.Operation"),
        ([{"op": "frob", "path": "/a"}], 422, "Unexpected kind: frob"),
        ([{"op": ["add"], "path": "/a"}], 422, "Unexpected kind: "),
        ([{"path": "/a"}], 422, "Unexpected kind: "),
        ([{"op": "remove"}], 422, "remove operation failed to decode path: missing value"),
        ([{"op": "remove", "path": 7}], 422, "remove operation failed to decode path: missing value"),
        ([{"op": "move", "path": "/a"}], 422, "move operation failed to decode from: missing value"),
        ([{"op": "add", "path": "/a"}], 422, 'add operation has no "value"'),
        ([{"op": "test", "path": "/a", "value": 2}], 422, "testing value /a failed: test failed"),
        ([{"op": "test", "path": "/a", "value": True}], 422, "testing value /a failed: test failed"),
        ([{"op": "test", "path": "/l", "value": [1, 2]}], 422, "testing value /l failed: test failed"),
        ([{"op": "test", "path": "/x", "value": 1}], 422, "doc is missing path: /x: missing value"),
        ([{"op": "remove", "path": "/x"}], 422, "Unable to remove nonexistent key: x: missing value"),
        ([{"op": "remove", "path": "/x/y"}], 422, 'doc is missing path: "/x/y": missing value'),
        ([{"op": "remove", "path": ""}], 422, "the whole document cannot be removed"),
        ([{"op": "add", "path": "/x/y", "value": 1}], 422, 'doc is missing path: "/x/y": missing value'),
        ([{"op": "add", "path": "/a/b/c", "value": 1}], 422, 'doc is missing path: "/a/b/c": missing value'),
        ([{"op": "add", "path": "/l/3", "value": 1}], 422, "Unable to access invalid index: 3"),
        ([{"op": "add", "path": "/l/01", "value": 1}], 422, "Unable to access invalid index: 01"),
        ([{"op": "add", "path": "/l/-1", "value": 1}], 422, "Unable to access invalid index: -1"),
        ([{"op": "add", "path": f"/l/{'9' * 5000}", "value": 1}], 422, "Unable to access invalid index: 999"),
        ([{"op": "remove", "path": "/l/-"}], 422, "Unable to access invalid index: -"),
        ([{"op": "replace", "path": "/l/2", "value": 1}], 422, "Unable to access invalid index: 2"),
        ([{"op": "replace", "path": "/x/y", "value": 1}], 422, "doc is missing path: /x/y: missing value"),
        ([{"op": "copy", "from": "/x", "path": "/y"}], 422, "doc is missing from path: /x: missing value"),
        ([{"op": "move", "from": "/x/y", "path": "/y"}], 422, "doc is missing from path: /x/y: missing value"),
        ([{"op": "move", "from": "/o", "path": "/o/p/q"}], 422, "/o/p/q is inside /o"),
        ([{"op": "add", "path": "a", "value": 1}], 422, "is no JSON pointer"),
        ([{"op": "add", "path": "/a~2", "value": 1}], 422, "is no JSON pointer"),
        ([{"op": "replace", "path": "", "value": [1]}], 422, "the patched document is an array, not an object"),
        ([{"op": "test", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1), 413, "is 10000, got 10001"),
    ],
)
def test_refusals(operations: Any, code: int, message: str) -> None:
    with pytest.raises(ApiError) as error:
        json_patch.apply({"a": 1, "l": [1, True], "o": {"p": {}}}, operations)
    assert error.value.code == code
    assert message in error.value.status.message
    assert len(error.value.status.message) < 1000


def test_copying_is_bounded() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{n}"} for n in range(40)]
    with pytest.raises(ApiError, match=f"exceeding the limit {MAX_COPIED_BYTES}"):
        json_patch.apply({"a": {"b": "x" * 1000}}, doubling)


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = {"a": deep}
    with pytest.raises(ApiError, match="patch nests deeper"):
        json_patch.apply({}, [{"op": "add", "path": "/a", "value": deep}])
    with pytest.raises(ApiError, match="document nests deeper"):
        json_patch.apply(deep, [])
    nesting = [
        operation
        for _ in range(3000)
        for operation in (
            {"op": "add", "path": "/b", "value": {}},
            {"op": "move", "from": "/a", "path": "/b/a"},
            {"op": "move", "from": "/b", "path": "/a"},
        )
    ]
    with pytest.raises(ApiError, match="patched document nests deeper"):
        json_patch.apply({"a": 1}, nesting)


def test_a_value_that_was_added_is_not_shared_with_the_patch() -> None:
    shared: dict[str, Any] = {"list": []}
    operations = [
        {"op": "add", "path": "/a", "value": shared},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/list/-", "value": 1},
    ]
    assert json_patch.apply({}, operations) == {"a": {"list": [1]}, "b": {"list": []}}
    assert shared == {"list": []}


_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "~", "/"])
_keys = st.sampled_from(["a", "b", "", "~", "x/y", "0"])
_values = st.recursive(
    _scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(_keys, v, max_size=3), max_leaves=8
)
_documents = st.dictionaries(_keys, _values, max_size=4)


def _pointers(value: Any, prefix: str = "") -> list[str]:
    """Every pointer into a value, and one past the end of every list."""
    found = [prefix]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _pointers(item, f"{prefix}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _pointers(item, f"{prefix}/{index}")
        found.append(f"{prefix}/-")
    return found


def _reference(document: Any, operation: dict[str, Any]) -> Any:
    """One operation, as the RFC's words have it, on a copy; `LookupError` when it does not apply."""
    document = copy.deepcopy(document)
    verb, path = operation["op"], operation["path"]
    if verb == "test":
        if repr(_get(document, path)) != repr(operation["value"]):
            raise LookupError
        return document
    if verb == "move" and path.startswith(operation["from"] + "/"):
        raise LookupError
    value = operation["value"] if "value" in operation else copy.deepcopy(_get(document, operation["from"]))
    if verb == "move":
        document = _without(document, operation["from"])
    if verb == "replace":  # of an object's member that is not there: added, as kube-apiserver does
        if not path or isinstance(_get(document, _split(path)[0]), list):
            _get(document, path)
            document = _without(document, path) if path else None
        document = _with(document, path, value)
    elif verb != "remove":
        document = _with(document, path, value)
    return document


def _split(path: str) -> tuple[str, str]:
    head, _, last = path.rpartition("/")
    return head, last.replace("~1", "/").replace("~0", "~")


def _get(document: Any, path: str) -> Any:
    if not path:
        return document
    head, last = _split(path)
    parent = _get(document, head)
    if isinstance(parent, list):
        if last == "-":
            raise LookupError
        return parent[int(last)]
    if isinstance(parent, dict):
        return parent[last]
    raise LookupError


def _without(document: Any, path: str) -> Any:
    _get(document, path)
    if not path:
        raise LookupError
    head, last = _split(path)
    parent = _get(document, head)
    del parent[int(last) if isinstance(parent, list) else last]
    return document


def _with(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    head, last = _split(path)
    parent = _get(document, head)
    if isinstance(parent, dict):
        parent[last] = value
        return document
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if index <= len(parent):
            parent.insert(index, value)
            return document
    raise LookupError


@given(st.data())
def test_operations_agree_with_the_reference(data: st.DataObject) -> None:
    document = data.draw(_documents)
    current: Any = document
    operations = []
    for _ in range(data.draw(st.integers(1, 4))):
        pointers = st.sampled_from(_pointers(current))
        verb = data.draw(st.sampled_from(["add", "replace", "move", "copy", "test"]))
        operation: dict[str, Any] = {"op": verb, "path": data.draw(pointers)}
        if verb in ("move", "copy"):
            operation["from"] = data.draw(pointers)
        else:
            operation["value"] = data.draw(_values)
        try:
            changed = _reference(current, operation)
        except LookupError:
            continue
        if isinstance(changed, dict):
            current = changed
            operations.append(operation)
    before = copy.deepcopy((document, operations))
    assert json_patch.apply(document, operations) == current
    assert (document, operations) == before


_hostile = st.recursive(
    _scalars,
    lambda v: st.lists(v) | st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), v),
    max_leaves=10,
)


@given(
    _documents, st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(["op", "path", "from", "value"], _hostile)))
)
def test_nonsense_is_refused_and_never_crashes(document: dict[str, Any], operations: list[Any]) -> None:
    assert _answer(document, operations) in (200, 400, 422)


def _answer(document: dict[str, Any], operations: list[Any]) -> int:
    try:
        json_patch.apply(document, operations)
    except ApiError as error:
        return error.code
    return 200
