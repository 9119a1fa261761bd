"""Validation rules: when they run, what they say, what they refuse; the peers' rules as real input."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import PEERS, needs_the_peers

from muster.api.status import FieldError
from muster.cluster.apiserver.cel import RuleError, compile_rules

RULES = "x-kubernetes-validations"
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def obj(*rules: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **ruled(*rules)}


def ruled(*rules: Any) -> dict[str, Any]:
    return {RULES: [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]} if rules else {}


def spec(schema: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    """What is wrong with a resource whose `spec` has the schema."""
    validate = compile_rules({"type": "object", "properties": {"spec": schema}})
    assert validate is not None
    document = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "n"}, "spec": new}
    before = copy.deepcopy(document)
    errors = validate(document, None if old is None else {**document, "spec": old})
    assert document == before
    return list(map(str, errors))


NO_MATCH = "call arguments did not match a supported operator, function or macro signature"
A_IS_ONE = {"rule": "self.a == 1", "message": "must be one"}
STRINGS = {"type": "array", "items": STRING}
LIST_MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@pytest.mark.parametrize(
    ("schema", "new", "errors"),
    [
        (obj("self.a == 1", a=INTEGER), {"a": 1}, []),
        (obj("self.a == 1", a=INTEGER), {"a": 2}, ['spec: Invalid value: "object": failed rule: self.a == 1']),
        (obj(A_IS_ONE, a=INTEGER), {"a": 2}, ['spec: Invalid value: "object": must be one']),
        (obj(a={**INTEGER, **ruled("self > 1")}), {"a": 1},
         ['spec.a: Invalid value: "integer": failed rule: self > 1']),
        # What is absent, and what is null, is for the rules around it
        (obj(a={**INTEGER, **ruled("self > 1")}), {}, []),
        (obj(a={**INTEGER, "nullable": True, **ruled("self > 1")}), {"a": None}, []),
        (obj("self.a == null", a={**INTEGER, "nullable": True}), {"a": None}, []),
        # Where it is
        (obj(l={"type": "array", "items": {**STRING, **ruled("self != 'x'")}}), {"l": ["y", "x"]},
         ['spec.l[1]: Invalid value: "string": failed rule: self != \'x\'']),
        (obj(m={"type": "object", "additionalProperties": {**STRING, **ruled("self != 'x'")}}), {"m": {"k": "x"}},
         ['spec.m[k]: Invalid value: "string": failed rule: self != \'x\'']),
        (obj({**A_IS_ONE, "fieldPath": ".a"}, a=INTEGER), {"a": 2}, ['spec.a: Invalid value: "object": must be one']),
        (obj({"rule": "false", "message": "no", "fieldPath": ".m['k-1'].b"},
             m={"type": "object", "additionalProperties": obj(b=STRING)}), {},
         ['spec.m[k-1].b: Invalid value: "object": no']),
        # What it says
        (obj({**A_IS_ONE, "reason": "FieldValueForbidden"}, a=INTEGER), {"a": 2}, ["spec: Forbidden: must be one"]),
        (obj({**A_IS_ONE, "reason": "FieldValueRequired"}, a=INTEGER), {"a": 2}, ["spec: Required value: must be one"]),
        (obj({**A_IS_ONE, "reason": "FieldValueDuplicate"}, a=INTEGER), {"a": 2},
         ['spec: Duplicate value: "object": must be one']),
        (obj({**A_IS_ONE, "messageExpression": "'not ' + string(self.a)"}, a=INTEGER), {"a": 2},
         ['spec: Invalid value: "object": not 2']),
        (obj({**A_IS_ONE, "messageExpression": "string(1 / (self.a - 2))"}, a=INTEGER), {"a": 2},
         ['spec: Invalid value: "object": must be one']),
        (obj({**A_IS_ONE, "messageExpression": "'two\\nlines'"}, a=INTEGER), {"a": 2},
         ['spec: Invalid value: "object": must be one']),
        # What fails while it runs
        (obj("self.a == 1", a=INTEGER), {},
         ['spec: Invalid value: "object": no such key: a evaluating rule: self.a == 1']),
        (obj("self.a < 1", a={"x-kubernetes-int-or-string": True}), {"a": "x"},
         [f"spec: Invalid value: \"object\": 'no such overload: _<_(string, int)': {NO_MATCH} for rule: self.a < 1"]),
        # Types that JSON does not tell
        (obj("self.a < 5 || self.a == '1'", a={"x-kubernetes-int-or-string": True}), {"a": 3}, []),
        (obj("type(self.n) == double && self.n / 2.0 == 0.5 && self.n <= 1", n=NUMBER), {"n": 1}, []),
        (obj("type(self.i) == int && self.i / 2 == 1", i=INTEGER), {"i": 3.0}, []),
        (obj("self.t > timestamp('2026-01-01T00:00:00Z')", t={**STRING, "format": "date-time"}),
         {"t": "2026-01-02T00:00:00+01:00"}, []),
        (obj("self.ts.all(t, t.getFullYear() == 2026)", ts={"type": "array", "items": {**STRING, "format": "date"}}),
         {"ts": ["2026-01-02"]}, []),
        (obj("self.ts.filter(t, t.getFullYear() == 2026)[0].getDate() == 2 && self.ts[0].getDate() == 2",
             ts={"type": "array", "items": {**STRING, "format": "date"}}), {"ts": ["2026-01-02"]}, []),
        (obj("self.d <= duration('1h') && self.?d.value() == self.d", d={**STRING, "format": "duration"}),
         {"d": "60m"}, []),
        (obj("self.b == b'hi'", b={**STRING, "format": "byte"}), {"b": "aGk="}, []),
        (obj(d={**STRING, "format": "duration", **ruled("self < duration('1m')")}), {"d": "1h"},
         ['spec.d: Invalid value: "string": failed rule: self < duration(\'1m\')']),
        (obj("self.m.all(k, self.m[k] < duration('1m'))",
             m={"type": "object", "additionalProperties": {**STRING, "format": "duration"}}), {"m": {"a": "1s"}}, []),
        # Optionals of fields that have a type, and what is in them
        (obj("self.?m['a'].hasValue() && self.?m.a.value() == 'b' && self.m[?'z'].orValue('q') == 'q'",
             m={"type": "object", "additionalProperties": STRING}), {"m": {"a": "b"}}, []),
        # Sets have no order, lists do
        (obj("self.s == ['b', 'a'] && self.l != ['b', 'a'] && self.s != ['a'] && self.s != []",
             s={**STRINGS, "x-kubernetes-list-type": "set"}, l=STRINGS),
         {"s": ["a", "b"], "l": ["a", "b"]}, []),
        # Names that CEL could not read
        (obj("self.__namespace__ == 'a' && self.namespace == 'a'", namespace=STRING), {"namespace": "a"}, []),
        (obj("self.a__dash__b__dot__c__slash__d__underscores__e == 1", **{"a-b.c/d__e": INTEGER}),
         {"a-b.c/d__e": 1}, []),
        (obj("has(self.__if__) && !has(self.in__dash__x)", **{"if": STRING, "in-x": STRING}), {"if": ""}, []),
        # Whole objects
        ({**obj("self.kind == 'P' && self.metadata.name == 'n'"), "x-kubernetes-embedded-resource": True},
         {"apiVersion": "v1", "kind": "P", "metadata": {"name": "n"}}, []),
        # Objects that may have anything in them
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True, **ruled("self.x.y == 1")},
         {"x": {"y": 1}}, []),
    ],
)  # fmt: skip
def test_rule(schema: dict[str, Any], new: Any, errors: list[str]) -> None:
    assert spec(schema, new) == errors


@pytest.mark.parametrize(
    ("schema", "old", "new", "broken"),
    [
        (obj("self.a == oldSelf.a", a=INTEGER), {"a": 1}, {"a": 1}, 0),
        (obj("self.a == oldSelf.a", a=INTEGER), {"a": 1}, {"a": 2}, 1),
        (obj("self.a == oldSelf.a", a=INTEGER), None, {"a": 2}, 0),
        # A field that was not there before is no change
        (obj(a={**INTEGER, **ruled("self == oldSelf")}), {}, {"a": 2}, 0),
        (obj(a={**INTEGER, **ruled("self == oldSelf")}), {"a": 1}, {}, 0),
        # Items of list-maps and values of maps are known by their keys
        (obj(l={**LIST_MAP, "items": obj("self.v >= oldSelf.v", name=STRING, v=INTEGER)}),
         {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]},
         {"l": [{"name": "b", "v": 4}, {"name": "a", "v": 1}]}, 1),
        (obj(m={"type": "object", "additionalProperties": {**INTEGER, **ruled("self >= oldSelf")}}),
         {"m": {"a": 1, "b": 5}}, {"m": {"b": 6, "c": 0}}, 0),
        # optionalOldSelf
        (obj({"rule": "oldSelf.hasValue() || self.a == 1", "optionalOldSelf": True}, a=INTEGER), None, {"a": 2}, 1),
        (obj({"rule": "oldSelf.hasValue() || self.a == 1", "optionalOldSelf": True}, a=INTEGER), {"a": 2}, {"a": 3}, 0),
        (obj({"rule": "self.a == oldSelf.?a.orValue(7)", "optionalOldSelf": True}, a=INTEGER), None, {"a": 7}, 0),
        (obj({"rule": "!oldSelf.hasValue() || oldSelf.value().a < self.a", "optionalOldSelf": True}, a=INTEGER),
         {"a": 3}, {"a": 3}, 1),
        # Sets and list-maps are the same in any order
        (obj("self.s == oldSelf.s", s={"type": "array", "x-kubernetes-list-type": "set", "items": STRING}),
         {"s": ["a", "b"]}, {"s": ["b", "a"]}, 0),
        (obj("self == oldSelf", l={**LIST_MAP, "items": obj(name=STRING, v=INTEGER)}),
         {"l": [{"name": "a"}, {"name": "b"}]}, {"l": [{"name": "b"}, {"name": "a"}]}, 0),
        (obj("self == oldSelf", l={**LIST_MAP, "items": obj(name=STRING, v=INTEGER)}),
         {"l": [{"name": "a"}, {"name": "b"}]}, {"l": [{"name": "b"}, {"name": "a", "v": 1}]}, 1),
        # What was broken before, and has not changed, may stay
        (obj(A_IS_ONE, a=INTEGER), {"a": 2}, {"a": 2}, 0),
        (obj(A_IS_ONE, a=INTEGER), {"a": 2}, {"a": 3}, 1),
        (obj("self.a == 1", a=INTEGER), {}, {}, 0),
        (obj(p=obj(A_IS_ONE, a=INTEGER), q=INTEGER), {"p": {"a": 2}, "q": 1}, {"p": {"a": 2}, "q": 2}, 0),
        (obj(l={"type": "array", "items": {**INTEGER, **ruled("self > 0")}}), {"l": [0]}, {"l": [0]}, 0),
        (obj(l={"type": "array", "items": {**INTEGER, **ruled("self > 0")}}), {"l": [0]}, {"l": [0, 1]}, 1),
        (obj("self.a > oldSelf.a", a=INTEGER), {"a": 2}, {"a": 2}, 1),
    ],
)  # fmt: skip
def test_changes(schema: dict[str, Any], old: Any, new: Any, broken: int) -> None:
    assert len(spec(schema, new, old)) == broken


COSTLY = (
    "estimated rule cost exceeds budget by factor of {} (try simplifying the rule, or adding maxItems, maxProperties, "
    "and maxLength where arrays, maps, and strings are declared)"
)


@pytest.mark.parametrize(
    ("schema", "path", "error"),
    [
        # What the schema does not have
        (obj("self.b == 1", a=INTEGER), "0.rule", "1:5: undefined field 'b'\n | self.b == 1\n | ....^"),
        (obj("has(self.a.b)", a=STRING), "0.rule", "1:4: type 'string' does not support field selection"),
        # Syntax and types
        (obj("true", "self.a ==", a=INTEGER), "1.rule", "1:10: Syntax error"),
        (obj("self.a == 'x'", a=INTEGER), "0.rule",
         "1:8: found no matching overload for '_==_' applied to '(int, string)'"),
        (obj("self.l.all(x, x + self.a > 0)", l=STRINGS, a=INTEGER), "0.rule",
         "1:17: found no matching overload for '_+_' applied to '(string, int)'"),
        (obj("self.b && quantity(self.a) == quantity('1')", a=INTEGER, b={"type": "boolean"}), "0.rule",
         "1:19: found no matching overload for 'quantity' applied to '(int)'"),
        (obj("self.a", a=INTEGER), "0.rule", "cel expression must evaluate to a bool"),
        (obj({"rule": "true", "messageExpression": "1"}), "0.messageExpression",
         "messageExpression must evaluate to a string"),
    ],
)  # fmt: skip
def test_unsound_rules(schema: dict[str, Any], path: str, error: str) -> None:
    index, _, field = path.partition(".")
    found = unsound(schema)
    assert found.path == f"properties[spec].{RULES}[{index}].{field}"
    assert found.detail.removeprefix("compilation failed: ").removeprefix("ERROR: <input>:").startswith(error)


@pytest.mark.parametrize(
    ("schema", "path", "error"),
    [
        (obj({"rule": "true", "fieldPath": ".b"}, a=INTEGER), f"{RULES}[0].fieldPath",
         'Invalid value: ".b": fieldPath must be a valid path: does not refer to a valid field'),
        (obj(l={"type": "array", "items": {**STRING, **ruled("self == oldSelf")}}),
         f"properties[l].items.{RULES}[0].rule",
         'Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema'),
        (obj(m={"type": "object", "additionalProperties": {**STRING, **ruled("self")}}),
         f"properties[m].additionalProperties.{RULES}[0].rule",
         'Invalid value: "self": compilation failed: cel expression must evaluate to a bool'),
        (obj("self.l.all(x, self.l.all(y, x == y))", l=STRINGS), f"{RULES}[0].rule",
         f"Forbidden: {COSTLY.format('more than 100x')}"),
        (obj(o={"type": "array", "maxItems": 40, "items": obj(
            "self.l.all(x, self.l.all(y, x == y))", l={**STRINGS, "maxItems": 1000})}),
         f"properties[o].items.{RULES}[0].rule", f"Forbidden: {COSTLY.format('4.0x')}"),
    ],
)  # fmt: skip
def test_rules_in_the_wrong_place(schema: dict[str, Any], path: str, error: str) -> None:
    found = unsound(schema)
    assert (found.path, found.body) == (f"properties[spec].{path}", error)


def unsound(schema: dict[str, Any]) -> FieldError:
    """What is wrong with the only unsound rule of a schema."""
    with pytest.raises(RuleError) as raised:
        spec(schema, {})
    [error] = raised.value.errors
    return error


def test_rules_may_read_the_name_at_the_root_and_no_other_metadata() -> None:
    validate = compile_rules({"type": "object", **ruled("self.metadata.name == 'n'")})
    assert validate is not None
    assert not validate({"metadata": {"name": "n"}}, None)
    assert list(map(str, validate({"metadata": {"name": "o"}}, None))) == [
        "<nil>: Invalid value: \"object\": failed rule: self.metadata.name == 'n'"
    ]
    with pytest.raises(RuleError, match="undefined field 'labels'"):
        compile_rules({"type": "object", **ruled("has(self.metadata.labels)")})


def test_no_rules() -> None:
    assert compile_rules(obj(a=obj(b=STRING))) is None


def test_a_rule_that_costs_too_much_stops_the_others() -> None:
    schema = obj(
        {"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))", "message": "sums"},
        "false",
        l={"type": "array", "items": INTEGER, "maxItems": 200},
    )
    [error] = spec(schema, {"l": list(range(1, 200))})
    assert error == (
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation "
        "rules will be run due to call cost exceeds limit for rule: sums"
    )


def test_all_rules_together_have_a_budget() -> None:
    items = {"type": "array", "items": INTEGER, **ruled("self.all(x, x * x * x * x * x * x * x * x * x >= 0)")}
    rows = {"type": "array", "items": items}
    errors = spec(obj(rows=rows), {"rows": [[1] * 30_000] * 30})
    assert errors[-1].endswith(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )


def _rules_of_the_peers() -> list[Any]:
    """Each rule, with the schema that it stands in."""
    found: dict[tuple[str, str], Any] = {}

    def walk(schema: dict[str, Any]) -> None:
        for rule in schema.get(RULES, ()):
            found.setdefault((rule["rule"], rule["message"]), {**schema, RULES: [rule]})
        for member in schema.get("properties", {}).values():
            walk(member)
        for inner in ("items", "additionalProperties"):
            if isinstance(schema.get(inner), dict):
                walk(schema[inner])

    for path in sorted(PEERS.glob("crds/*/*.yaml")):
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            for version in (document or {}).get("spec", {}).get("versions", ()):
                walk(version["schema"]["openAPIV3Schema"])
    return list(found.values())


CASES = {
    (case["message"], case.get("with", "")): case
    for case in yaml.load((Path(__file__).parent / "peers.yaml").read_text(), yaml.CSafeLoader)
}
RULES_OF_THE_PEERS = _rules_of_the_peers()


@needs_the_peers
def test_there_are_cases_for_all_rules_of_the_peers() -> None:
    assert len(RULES_OF_THE_PEERS) == len(CASES) >= 42


@pytest.mark.parametrize(
    "schema", RULES_OF_THE_PEERS, ids=[schema[RULES][0]["message"][:50] for schema in RULES_OF_THE_PEERS]
)
def test_peers(schema: dict[str, Any]) -> None:
    [rule] = schema[RULES]
    [case] = [c for (message, part), c in CASES.items() if message == rule["message"] and part in rule["rule"]]
    validate = compile_rules(schema)
    assert validate is not None

    def broken(new: Any, old: Any) -> list[str]:
        return [error.detail for error in validate(new, old) if error.path == "<nil>"]

    for good in case["good"]:
        assert broken(good["self"], good.get("old")) == []
    for bad in case["bad"]:
        assert broken(bad["self"], bad.get("old")) == [rule["message"]]
