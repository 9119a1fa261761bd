"""Structural schemas: pruning, defaults, nulls, and the words of every rule; the peers' CRDs as real input."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import documents, needs_the_peers

from muster.cluster.apiserver.schema import Checked, compile_custom, compile_form, compile_judgement


def spec(schema: dict[str, Any], value: Any) -> Checked:
    """The value checked as the `spec` of a resource; the result without what is around it."""
    document = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "n"}, "spec": value}
    before = copy.deepcopy(document)
    checked = compile_custom({"type": "object", "properties": {"spec": schema}})(document)
    assert document == before
    return checked._replace(value=checked.value.get("spec"))


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def array(items: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **rules}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ONE_OF = '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found'
LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "value", "kept", "unknown"),
    [
        (obj(a=STRING), {"a": "x"}, {"a": "x"}, []),
        (obj(a=STRING), {"a": "x", "b": 1}, {"a": "x"}, ["spec.b"]),
        (obj(), {"b": {"c": 1}}, {}, ["spec.b"]),
        (array(obj(a=STRING)), [{"a": "x"}, {"b": 1}], [{"a": "x"}, {}], ["spec[1].b"]),
        ({"type": "object", "additionalProperties": obj(a=STRING)}, {"k": {"b": 1}}, {"k": {}}, ["spec.k.b"]),
        ({"type": "object", "additionalProperties": STRING}, {"k": "v"}, {"k": "v"}, []),
        ({"type": "object", **PRESERVE}, {"b": {"c": None}}, {"b": {"c": None}}, []),
        (PRESERVE, {"b": 1}, {"b": 1}, []),
        (
            {**obj(a=obj(b=STRING)), **PRESERVE},
            {"x": 1, "a": {"b": "", "c": 1}},
            {"x": 1, "a": {"b": ""}},
            ["spec.a.c"],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
            {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {}},
            {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {}},
            [],
        ),
        (
            {**obj(spec=obj()), "x-kubernetes-embedded-resource": True},
            {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {"y": 1}, "z": 1},
            {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {}},
            ["spec.spec.y", "spec.z"],
        ),
    ],
)
def test_pruning(schema: dict[str, Any], value: Any, kept: Any, unknown: list[str]) -> None:
    assert spec(schema, value) == (kept, tuple(unknown), ())


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        (obj(a={**STRING, "default": "d"}), {}, {"a": "d"}),
        (obj(a={**STRING, "default": "d"}), {"a": "x"}, {"a": "x"}),
        (obj(a={**STRING, "default": "d"}), {"a": None}, {"a": "d"}),
        (obj(a={**STRING, "default": "d", "nullable": True}), {"a": None}, {"a": None}),
        (obj(a=STRING), {"a": None}, {}),
        (obj(a={**STRING, "nullable": True}), {"a": None}, {"a": None}),
        (obj(a={**obj(b={**INTEGER, "default": 1}), "default": {}}), {}, {"a": {"b": 1}}),
        (obj(a=obj(b={**INTEGER, "default": 1})), {}, {}),
        (obj(a=obj(b={**INTEGER, "default": 1})), {"a": {}}, {"a": {"b": 1}}),
        (array(obj(b={**INTEGER, "default": 1})), [{}, {"b": 2}], [{"b": 1}, {"b": 2}]),
        (array({**INTEGER, "default": 1}), [None, 2], [1, 2]),
        (array({**INTEGER, "nullable": True}), [None, 2], [None, 2]),
        ({**obj(a={**INTEGER, "default": 1}), "required": ["a"]}, {}, {"a": 1}),
        (obj(a={**array(STRING), "default": ["x"]}), {}, {"a": ["x"]}),
    ],
)
def test_defaults_and_nulls(schema: dict[str, Any], value: Any, kept: Any) -> None:
    assert spec(schema, value) == (kept, (), ())


def test_a_default_is_not_shared() -> None:
    check = compile_custom(obj(a={**array(STRING), "default": ["x"]}))
    check({}).value["a"].append("y")
    assert check({}).value == {"a": ["x"]}


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (STRING, 1, ['spec: Invalid value: "integer": spec in body must be of type string: "integer"']),
        (INTEGER, "x", ['spec: Invalid value: "string": spec in body must be of type integer: "string"']),
        (INTEGER, True, ['spec: Invalid value: "boolean": spec in body must be of type integer: "boolean"']),
        (INTEGER, 1.5, ['spec: Invalid value: "number": spec in body must be of type integer: "number"']),
        (INTEGER, 2.0, []),
        ({"type": "number"}, 1, []),
        ({"type": "boolean"}, None, []),
        (obj(), [], ['spec: Invalid value: "array": spec in body must be of type object: "array"']),
        (array(STRING), {}, ['spec: Invalid value: "object": spec in body must be of type array: "object"']),
        (array(STRING), ["", None], ['spec[1]: Invalid value: "null": spec[1] in body must be of type string: "null"']),
        ({**obj(a=STRING), "required": ["a"]}, {}, ["spec.a: Required value"]),
        ({**obj(a=STRING), "required": ["a"]}, {"a": None}, ["spec.a: Required value"]),
        ({"x-kubernetes-int-or-string": True}, "1", []),
        ({"x-kubernetes-int-or-string": True}, 1, []),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            True,
            ['spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean"'],
        ),
        ({**STRING, "enum": ["A", "B"]}, "A", []),
        ({**STRING, "enum": ["A", "B"]}, "C", ['spec: Unsupported value: "C": supported values: "A", "B"']),
        ({**INTEGER, "enum": [1, 2]}, 3, ['spec: Unsupported value: 3: supported values: "1", "2"']),
        ({**INTEGER, "minimum": 1}, 0, ["spec: Invalid value: 0: spec in body should be greater than or equal to 1"]),
        (
            {**INTEGER, "minimum": 1, "exclusiveMinimum": True},
            1,
            ["spec: Invalid value: 1: spec in body should be greater than 1"],
        ),
        ({**INTEGER, "maximum": 9}, 10, ["spec: Invalid value: 10: spec in body should be less than or equal to 9"]),
        (
            {**INTEGER, "maximum": 9, "exclusiveMaximum": True},
            9,
            ["spec: Invalid value: 9: spec in body should be less than 9"],
        ),
        ({**INTEGER, "multipleOf": 2}, 3, ["spec: Invalid value: 3: spec in body should be a multiple of 2"]),
        ({**INTEGER, "multipleOf": 0}, 3, ["spec: Invalid value: 3: spec in body should be a multiple of 0"]),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        ({"type": "number", "multipleOf": 0.5}, 3, []),
        (
            {"type": "number", "multipleOf": 0.1},
            0.25,
            ["spec: Invalid value: 0.25: spec in body should be a multiple of 0.1"],
        ),
        (
            {"type": "number", "multipleOf": 1e-300},
            1e300,
            ["spec: Invalid value: 1e+300: spec in body should be a multiple of 1e-300"],
        ),
        (
            {**INTEGER, "format": "int32"},
            2**31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec'],
        ),
        ({**STRING, "minLength": 1}, "", ['spec: Invalid value: "": spec in body should be at least 1 chars long']),
        ({**STRING, "maxLength": 1}, "ab", ["spec: Too long: may not be more than 1 byte"]),
        ({**STRING, "pattern": "^[a-z]+$"}, "abc", []),
        ({**STRING, "pattern": "^[a-z]+$"}, "A", ["spec: Invalid value: \"A\": spec in body should match '^[a-z]+$'"]),
        (
            {**STRING, "pattern": "^[a-z]+$"},
            "a\n",
            ["spec: Invalid value: \"a\\n\": spec in body should match '^[a-z]+$'"],
        ),
        (
            {**STRING, "format": "date-time"},
            "now",
            ['spec: Invalid value: "now": spec in body must be of type date-time: "now"'],
        ),
        (array(STRING, minItems=1), [], ["spec: Invalid value: 0: spec in body should have at least 1 items"]),
        (array(STRING, maxItems=1), ["", ""], ["spec: Too many: 2: must have at most 1 item"]),
        ({**obj(), **PRESERVE, "maxProperties": 1}, {"a": 1, "b": 2}, ["spec: Too many: 2: must have at most 1 item"]),
        (
            {**obj(), **PRESERVE, "minProperties": 1},
            {},
            ["spec: Invalid value: 0: spec in body should have at least 1 properties"],
        ),
        (
            array(STRING, **{"x-kubernetes-list-type": "set"}),
            ["a", "b", "a", "a"],
            ['spec[2]: Duplicate value: "a"'],
        ),
        (array(INTEGER, **{"x-kubernetes-list-type": "set"}), [1, 2, 1.0], ["spec[2]: Duplicate value: 1.0"]),
        (
            array(obj(name=STRING), **LIST_MAP),
            [{"name": "a"}, {"name": "b"}, {"name": "a"}],
            ['spec[2]: Duplicate value: {"name":"a"}'],
        ),
        (array(obj(name=STRING), **LIST_MAP), [{}, {}], ["spec[1]: Duplicate value: {}"]),
        (
            {**INTEGER, "anyOf": [{"minimum": 5}, {"enum": [1]}]},
            3,
            [
                '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
                "spec: Invalid value: 3: spec in body should be greater than or equal to 5",
            ],
        ),
        ({**INTEGER, "anyOf": [{"minimum": 5}, {"enum": [1]}]}, 1, []),
        (
            {**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "", "b": ""},
            [f"{ONE_OF} 2 valid alternatives"],
        ),
        (
            {**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                f"{ONE_OF} none valid",
                "spec.a: Required value",
            ],
        ),
        ({**INTEGER}, 1e30, ['spec: Invalid value: "number": spec in body must be of type integer: "number"']),
        ({**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": ""}, []),
        (
            {**STRING, "not": {"enum": ["x"]}},
            "x",
            ['<nil>: Invalid value: "": "spec" must not validate the schema (not)'],
        ),
        (
            {**obj(a=INTEGER), "allOf": [{"properties": {"a": {"minimum": 2}}}]},
            {"a": 1},
            [
                "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 2",
                '<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated',
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
            {"kind": 1},
            [
                'spec.kind: Invalid value: "integer": spec.kind in body must be of type string: "integer"',
                "spec.apiVersion: Required value",
            ],
        ),
    ],
)
def test_rules(schema: dict[str, Any], value: Any, errors: list[str]) -> None:
    assert [str(error) for error in spec(schema, value).errors] == errors


def test_a_text_is_judged_alike_each_time() -> None:
    check = compile_custom(obj(spec=obj(a={**STRING, "pattern": "^[a-z0-9]+$", "maxLength": 8})))
    for text in ("good", "Bad", "toolongtobe", *(f"x{number}" for number in range(600)), "Bad", "good", "toolongtobe"):
        errors = check({"apiVersion": "x/v1", "kind": "X", "metadata": {}, "spec": {"a": text}}).errors
        assert bool(errors) == (text in ("Bad", "toolongtobe")), text


def test_metadata_belongs_to_the_server_but_its_name_may_be_ruled() -> None:
    check = compile_custom(obj(metadata=obj(name={**STRING, "maxLength": 3})))
    checked = check({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "long", "labels": {"a": "b"}}})
    assert checked.value["metadata"] == {"name": "long", "labels": {"a": "b"}}
    assert [str(error) for error in checked.errors] == ["metadata.name: Too long: may not be more than 3 bytes"]


_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "b"]),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), value, max_size=3),
    max_leaves=10,
)
_rules = st.fixed_dictionaries(
    {},
    optional={
        "nullable": st.booleans(),
        "minimum": st.integers(0, 3),
        "enum": st.lists(st.integers(0, 2), min_size=1),
        "maxItems": st.integers(0, 2),
        "minLength": st.integers(0, 2),
    },
)
_schemas: Any = st.recursive(
    st.builds(dict.__or__, _rules, st.sampled_from([{"type": t} for t in ("string", "integer", "boolean", "number")])),
    lambda schema: (
        st.builds(lambda items, rules: {**rules, **array(items)}, schema, _rules)
        | st.builds(lambda members: obj(**members), st.dictionaries(st.sampled_from(["a", "b"]), schema))
        | st.builds(lambda items: {**array(items), "x-kubernetes-list-type": "set"}, schema)
    ),
    max_leaves=6,
)


@given(_schemas, _values)
def test_whatever_it_is_checking_settles_it(schema: dict[str, Any], value: Any) -> None:
    document = {"spec": value}
    before = copy.deepcopy(document)
    check = compile_custom(obj(spec=schema))
    once = check(document)
    twice = check(once.value)
    assert document == before
    assert twice.value is once.value
    assert twice.unknown == ()
    assert twice.errors == once.errors


@needs_the_peers
def test_the_peers_manifests_fit_their_crds() -> None:
    checkers = {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]): compile_custom(
            version["schema"]["openAPIV3Schema"]
        )
        for _, crd in documents("crds/*/*.yaml")
        for version in crd["spec"].get("versions", ())
    }
    assert len(checkers) > 10
    checked = 0
    errors = set()
    for name, document in documents("manifests/*/*.yaml"):
        if check := checkers.get((document["apiVersion"], document["kind"])):
            result = check(document)
            assert (name, result.unknown) == (name, ())
            assert check(document | {"nonsense": 1}).unknown == ("nonsense",)
            errors |= {f"{document['kind']} {error}" for error in result.errors}
            checked += 1
    assert checked > 10
    # JobSet's webhook names the rules that have no name.
    assert errors == {"JobSet spec.failurePolicy.rules[0].name: Required value"}


HALVES = obj(
    a={"type": "string", "default": "x", "maxLength": 2},
    b={"type": "integer", "minimum": 1},
    c=array(obj(d=STRING) | {"required": ["d"]}, maxItems=2),
    e={"type": "string", "nullable": True},
) | {"required": ["a", "b"]}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"b": 1, "z": 1},
        {"a": "long", "b": 0},
        {"a": None, "b": None, "e": None},
        {"b": "1", "c": [{"d": "x"}, {"z": 1}, None]},
        {"b": 1, "c": {"d": "x"}},
        {"b": 1.0, "c": None},
    ],
)
def test_the_two_halves_say_what_the_whole_says(value):
    document = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "n"}, "spec": value}
    schema = {"type": "object", "properties": {"spec": HALVES}}
    whole = compile_custom(schema)(document)
    form = compile_form(schema)(document)
    assert (form.value, form.unknown) == (whole.value, whole.unknown)
    assert tuple(compile_judgement(schema)(form.value)) == whole.errors
    assert compile_form(schema)(form.value).value == form.value
    unpruned = compile_form(schema, prune=False)(document)
    assert not unpruned.unknown
