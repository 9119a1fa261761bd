"""Structural schemas of custom resources: everything that is wrong is reported, in the words of upstream's validator.

The rules are those of `apiextensions.k8s.io/v1`: fields that are not specified are pruned unless
`x-kubernetes-preserve-unknown-fields` says otherwise; a null that may not be is pruned, and replaced by the default if
there is one; defaults come before validation; `metadata` is the API server's own and is left to it, here as in every
`x-kubernetes-embedded-resource`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.api.status import FieldError
from muster.api.validation.server.structuralschema import EMBEDDED, INT_OR_STRING, INTEGER_OR_STRING, PRESERVE
from muster.cluster.apiserver.schema.constraints import constraints_of, invalid, not_valid
from muster.cluster.apiserver.schema.walk import (
    ABSENT,
    REFUSED,
    Check,
    Checker,
    Constraint,
    Dialect,
    Field,
    Findings,
    Path,
    Schema,
    checker_of,
    compile_check,
    render,
    type_of,
)

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "integer,string": (int, str),
}
_NAMES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null",
}  # fmt: skip


def compile_custom(schema: Schema, *, fill: bool = True) -> Checker:
    """The checker of a custom resource, from a version's `openAPIV3Schema`. Raises `PatternError`.

    Unless it shall `fill` in defaults, members that have one may stay absent.
    """
    dialect = _DIALECT if fill else _UNFILLED
    return checker_of(compile_check(whole_object(schema), dialect, Field(), member=True).check)


def compile_form(schema: Schema, *, prune: bool = True) -> Checker:
    """Of `compile_custom` the first half: what is not specified goes, defaults come, and nothing is judged.

    Unless it shall `prune`, what the schema does not know stays.
    """
    dialect = _FORM if prune else replace(_FORM, keeps_unknown=lambda _: True)
    return checker_of(compile_check(whole_object(schema), dialect, Field(), member=True).check)


def compile_judgement(schema: Schema) -> Callable[[Any], list[FieldError]]:
    """The other half: what is wrong with a document that has the form. Raises `PatternError`."""
    check = compile_check(whole_object(schema), _JUDGEMENT, Field(), member=True).check

    def judge(document: Any) -> list[FieldError]:
        findings = Findings()
        check(document, None, findings)
        return findings.errors

    return judge


def compile_part(schema: Schema) -> Checker:
    """The checker of a value within a custom resource: a default. Raises `PatternError`."""
    return checker_of(compile_check(_prepared(schema), _DIALECT, Field(), member=False).check)


def whole_object(schema: Schema) -> Schema:
    """The schema of a custom resource with what is the same for all: type, metadata, embedded resources."""
    return _with_type_meta(_prepared(schema))


def _scalar(schema: Schema, field: Field) -> tuple[type | None, Check]:
    allowed = _TYPES.get(_type_name(schema))
    constraints = _constraints(schema)
    if allowed is None:
        return None, _only(constraints)
    plain = allowed[0] if len(allowed) == 1 and not constraints else None
    if allowed == (str,) and constraints:
        return None, _text(constraints, _mismatch(schema, field))
    return plain, _typed(allowed, constraints, _mismatch(schema, field))


def _mismatch(schema: Schema, _field: Field) -> Check:
    type_ = _type_name(schema)

    def report(value: Any, path: Path, findings: Findings) -> Any:
        found = _NAMES[type(value)]
        findings.errors.append(invalid(path, found, f'must be of type {type_}: "{found}"'))
        return value

    return report


def _type_name(schema: Schema) -> str:
    return "integer,string" if schema.get(INT_OR_STRING) else type_of(schema)


def _default(schema: Schema) -> Callable[[], Any] | None:
    if "default" not in schema:
        return None
    # Defaults inside the default's own members are filled in once, here.
    value = compile_check(schema, _DIALECT, Field(), member=True).check(schema["default"], None, Findings())
    return (lambda: copy.deepcopy(value)) if isinstance(value, dict | list) else (lambda: value)


def _constraints(schema: Schema) -> tuple[Constraint, ...]:
    return constraints_of(schema) + tuple(_junctions(schema))


def _junctions(schema: Schema) -> Iterator[Constraint]:
    """The checks of a value by other schemas."""
    if "allOf" in schema:
        yield _all_of(schema["allOf"])
    any_of = schema.get("anyOf") or ()
    if any_of and not (schema.get(INT_OR_STRING) and list(any_of) == INTEGER_OR_STRING):
        yield _any_of(any_of)
    if "oneOf" in schema:
        yield _one_of(schema["oneOf"])
    if "not" in schema:
        yield _not(schema["not"])


def _all_of(schemas: Sequence[Schema]) -> Constraint:
    judge = _judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        broken = [errors for errors in judge(value, path) if errors]
        for errors in broken:
            findings.errors += errors
        if broken:
            none = ". None validated" if len(broken) == len(schemas) else ""
            findings.errors.append(not_valid(path, f'"{render(path)}" must validate all the schemas (allOf){none}'))

    return constraint


def _any_of(schemas: Sequence[Schema]) -> Constraint:
    judge = _judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        found = judge(value, path)
        if all(found):
            findings.errors.append(not_valid(path, f'"{render(path)}" must validate at least one schema (anyOf)'))
            findings.errors += found[0]

    return constraint


def _one_of(schemas: Sequence[Schema]) -> Constraint:
    judge = _judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        found = judge(value, path)
        holding = sum(not errors for errors in found)
        if holding == 1:
            return
        count = f"{holding} valid alternatives" if holding else "none valid"
        sentence = f'"{render(path)}" must validate one and only one schema (oneOf). Found {count}'
        findings.errors.append(not_valid(path, sentence))
        if found and not holding:
            findings.errors += found[0]

    return constraint


def _not(schema: Schema) -> Constraint:
    judge = _judges([schema])

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        if not judge(value, path)[0]:
            findings.errors.append(not_valid(path, f'"{render(path)}" must not validate the schema (not)'))

    return constraint


def _judges(schemas: Sequence[Schema]) -> Callable[[Any, Path], list[list[FieldError]]]:
    """What each of the schemas finds wrong with a value."""
    checks = [_judge(schema) for schema in schemas]

    def judge(value: Any, path: Path) -> list[list[FieldError]]:
        found = []
        for check in checks:
            findings = Findings()
            check(value, path, findings)
            found.append(findings.errors)
        return found

    return judge


def _judge(schema: Schema) -> Check:
    return compile_check(schema, _JUDGING, Field(), member=True).check


_INT64 = 2.0**63


def _typed(types: tuple[type, ...], constraints: tuple[Constraint, ...], mismatch: Check) -> Check:
    whole = int in types and float not in types

    def check(value: Any, path: Path, findings: Findings) -> Any:
        # JSON does not tell 1.0 from 1. What no 64 bits hold is no whole number.
        if type(value) not in types and not (
            whole and type(value) is float and value.is_integer() and abs(value) < _INT64
        ):
            return mismatch(value, path, findings)
        for constraint in constraints:
            constraint(value, path, findings)
        return value

    return check


# Of so many short texts it is remembered that they are good: reasons and times come again and again.
_REMEMBERED, _SHORT = 256, 64


def _text(constraints: tuple[Constraint, ...], mismatch: Check) -> Check:
    good: set[str] = set()

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not str:
            return mismatch(value, path, findings)
        if value in good:
            return value
        errors = len(findings.errors)
        for constraint in constraints:
            constraint(value, path, findings)
        if len(findings.errors) == errors and len(value) <= _SHORT:
            if len(good) >= _REMEMBERED:
                good.clear()
            good.add(value)
        return value

    return check


def _only(constraints: tuple[Constraint, ...]) -> Check:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        for constraint in constraints:
            constraint(value, path, findings)
        return value

    return check


def _as_it_is(value: Any, _path: Path, _findings: Findings) -> Any:
    return value


def _prepared(schema: Schema) -> Schema:
    """The schema with what `x-kubernetes-embedded-resource` means spelled out in it."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _prepared(member) for name, member in schema["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), Mapping):
            result[inner] = _prepared(schema[inner])
    return _with_type_meta(result, required=True) if schema.get(EMBEDDED) else result


_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_EMBEDDED_METADATA: dict[str, Schema] = {
    **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), _STRING),
    **dict.fromkeys(("labels", "annotations"), _STRINGS),
    "finalizers": {"type": "array", "items": _STRING},
}


def _with_type_meta(schema: Schema, *, required: bool = False) -> Schema:
    """The schema of an object that is a whole resource: it keeps its type and metadata, whatever the schema says."""
    properties = dict(schema.get("properties") or {})
    metadata = {"type": "object", **(properties.get("metadata") or {}), PRESERVE: True}
    if required:  # nothing else looks at the metadata of what is embedded
        metadata["properties"] = {**_EMBEDDED_METADATA, **(metadata.get("properties") or {})}
    properties |= {"apiVersion": _STRING, "kind": _STRING, "metadata": metadata}
    names = [*(schema.get("required") or ()), *(("apiVersion", "kind") if required else ())]
    return {**schema, "type": "object", "properties": properties, "required": names}


_DIALECT = Dialect(
    scalar=_scalar,
    mismatch=_mismatch,
    member_null=lambda schema: None if schema.get("nullable") else ABSENT,
    element_null=lambda schema: None if schema.get("nullable") else schema.get("default", REFUSED),
    keeps_unknown=lambda schema: schema.get(PRESERVE) is True or schema.get("additionalProperties") is True,
    default=_default,
    required=lambda schema: tuple(schema.get("required") or ()),
    constraints=_constraints,
)
# Within `allOf`, `anyOf`, `oneOf` and `not`, values are judged and never changed.
_JUDGING = replace(
    _DIALECT,
    member_null=lambda _: None,
    element_null=lambda _: None,
    keeps_unknown=lambda _: True,
    default=lambda _: None,
)
# Form only: values are judged elsewhere.
_FORM = replace(
    _DIALECT,
    scalar=lambda schema, _: (next(iter(_TYPES.get(_type_name(schema), ())), None), _as_it_is),
    mismatch=lambda _, __: _as_it_is,
    required=lambda _: (),
    constraints=lambda _: (),
)
# Values only: what had to go has gone, and defaults are there.
_JUDGEMENT = replace(_DIALECT, keeps_unknown=lambda _: True, default=lambda _: None)
# Defaults are filled in elsewhere, later.
_UNFILLED = replace(
    _DIALECT,
    default=lambda _: None,
    required=lambda schema: tuple(
        name for name in schema.get("required") or () if "default" not in schema.get("properties", {}).get(name, {})
    ),
)
