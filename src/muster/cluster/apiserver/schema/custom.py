"""The dialect of custom resources: it prunes, fills in defaults, and reports all errors in upstream's words.

The rules follow `apiextensions.k8s.io/v1`:

- Undeclared fields are pruned unless `x-kubernetes-preserve-unknown-fields` is set.
- A null is pruned if the field is not nullable. The default replaces it if there is one.
- Defaults are filled in before the validation.
- The checks leave `metadata` to the API server. In an `x-kubernetes-embedded-resource` they check the types of its
  common members.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from muster.api.status import FieldError
from muster.api.validation.server.structuralschema import EMBEDDED, INT_OR_STRING, INTEGER_OR_STRING, PRESERVE
from muster.cluster.apiserver.schema.constraints import constraints_of, invalid, not_valid
from muster.cluster.apiserver.schema.walk import (
    ABSENT,
    REFUSED,
    Check,
    Checker,
    Constraint,
    Findings,
    Path,
    Schema,
    SchemaDialect,
    ValuePlace,
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
    """Return the checker of a custom resource, compiled from the `openAPIV3Schema` of a version.

    Raises `PatternError` for an invalid `pattern`. The checker raises it for the pattern of a member, when a document
    first has the member.

    fill: whether to fill in defaults. If not, required members with a default may be absent.
    """
    dialect = _DIALECT if fill else _UNFILLED
    return checker_of(compile_check(whole_object(schema), dialect, ValuePlace(), member=True).check)


def compile_form(schema: Schema, *, prune: bool = True) -> Checker:
    """Return the first half of `compile_custom`: the checker prunes and fills in defaults, and validates nothing.

    prune: whether to remove the members that the schema does not declare.
    """
    dialect = _FORM if prune else replace(_FORM, keeps_unknown=lambda _: True)
    return checker_of(compile_check(whole_object(schema), dialect, ValuePlace(), member=True).check)


def compile_judgement(schema: Schema) -> Callable[[Any], list[FieldError]]:
    """Return the second half of `compile_custom`: a function that returns the errors of a pruned document.

    Raises `PatternError` as `compile_custom` and its checker do.
    """
    check = compile_check(whole_object(schema), _JUDGEMENT, ValuePlace(), member=True).check

    def judge(document: Any) -> list[FieldError]:
        findings = Findings()
        check(document, None, findings)
        return findings.errors

    return judge


def compile_part(schema: Schema) -> Checker:
    """Return the checker of a value inside a custom resource, such as a default.

    Raises `PatternError` as `compile_custom` and its checker do.
    """
    return checker_of(compile_check(_prepare_schema(schema), _DIALECT, ValuePlace(), member=False).check)


def whole_object(schema: Schema) -> Schema:
    """Return the schema of a custom resource, completed by the type and metadata of it and of embedded resources."""
    return _add_type_meta(_prepare_schema(schema))


def _make_scalar_check(schema: Schema, field: ValuePlace) -> tuple[type | None, Check]:
    allowed = _TYPES.get(_find_type_name(schema))
    constraints = _list_constraints(schema)
    if allowed is None:
        return None, _make_constraints_check(constraints)
    plain = allowed[0] if len(allowed) == 1 and not constraints else None
    if allowed == (str,) and constraints:
        return None, _make_text_check(constraints, _make_mismatch_check(schema, field))
    return plain, _make_typed_check(allowed, constraints, _make_mismatch_check(schema, field))


def _make_mismatch_check(schema: Schema, _field: ValuePlace) -> Check:
    type_ = _find_type_name(schema)

    def report(value: Any, path: Path, findings: Findings) -> Any:
        actual = _NAMES[type(value)]
        findings.errors.append(invalid(path, actual, f'must be of type {type_}: "{actual}"'))
        return value

    return report


def _find_type_name(schema: Schema) -> str:
    return "integer,string" if schema.get(INT_OR_STRING) else type_of(schema)


def _make_default(schema: Schema) -> Callable[[], Any] | None:
    if "default" not in schema:
        return None
    # The default may lack members that have defaults themselves: they are filled in here, once.
    value = compile_check(schema, _DIALECT, ValuePlace(), member=True).check(schema["default"], None, Findings())
    return (lambda: copy.deepcopy(value)) if isinstance(value, dict | list) else (lambda: value)


def _list_constraints(schema: Schema) -> tuple[Constraint, ...]:
    return constraints_of(schema) + tuple(_list_junctions(schema))


def _list_junctions(schema: Schema) -> Iterator[Constraint]:
    """Yield the checks of a value against the schemas in `allOf`, `anyOf`, `oneOf` and `not`."""
    if "allOf" in schema:
        yield _make_all_of_constraint(schema["allOf"])
    any_of = schema.get("anyOf") or ()
    if any_of and not (schema.get(INT_OR_STRING) and list(any_of) == INTEGER_OR_STRING):
        yield _make_any_of_constraint(any_of)
    if "oneOf" in schema:
        yield _make_one_of_constraint(schema["oneOf"])
    if "not" in schema:
        yield _make_negation(schema["not"])


def _make_all_of_constraint(schemas: Sequence[Schema]) -> Constraint:
    judge = _make_judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        broken = [errors for errors in judge(value, path) if errors]
        for errors in broken:
            findings.errors += errors
        if broken:
            none = ". None validated" if len(broken) == len(schemas) else ""
            findings.errors.append(not_valid(path, f'"{render(path)}" must validate all the schemas (allOf){none}'))

    return constraint


def _make_any_of_constraint(schemas: Sequence[Schema]) -> Constraint:
    judge = _make_judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        errors_by_schema = judge(value, path)
        if all(errors_by_schema):
            findings.errors.append(not_valid(path, f'"{render(path)}" must validate at least one schema (anyOf)'))
            findings.errors += errors_by_schema[0]

    return constraint


def _make_one_of_constraint(schemas: Sequence[Schema]) -> Constraint:
    judge = _make_judges(schemas)

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        errors_by_schema = judge(value, path)
        holding = sum(not errors for errors in errors_by_schema)
        if holding == 1:
            return
        count = f"{holding} valid alternatives" if holding else "none valid"
        sentence = f'"{render(path)}" must validate one and only one schema (oneOf). Found {count}'
        findings.errors.append(not_valid(path, sentence))
        if errors_by_schema and not holding:
            findings.errors += errors_by_schema[0]

    return constraint


def _make_negation(schema: Schema) -> Constraint:
    judge = _make_judges([schema])

    def constraint(value: Any, path: Path, findings: Findings) -> None:
        if not judge(value, path)[0]:
            findings.errors.append(not_valid(path, f'"{render(path)}" must not validate the schema (not)'))

    return constraint


def _make_judges(schemas: Sequence[Schema]) -> Callable[[Any, Path], list[list[FieldError]]]:
    """Return a function that returns the errors of a value for each of the schemas."""
    checks = [_judge(schema) for schema in schemas]

    def judge(value: Any, path: Path) -> list[list[FieldError]]:
        errors_by_schema = []
        for check in checks:
            findings = Findings()
            check(value, path, findings)
            errors_by_schema.append(findings.errors)
        return errors_by_schema

    return judge


def _judge(schema: Schema) -> Check:
    return compile_check(schema, _JUDGING, ValuePlace(), member=True).check


_INT64 = 2.0**63


def _make_typed_check(types: tuple[type, ...], constraints: tuple[Constraint, ...], mismatch: Check) -> Check:
    whole = int in types and float not in types

    def check(value: Any, path: Path, findings: Findings) -> Any:
        # JSON does not distinguish 1.0 from 1, so an integer may be a float that fits into 64 bits.
        if type(value) not in types and not (
            whole and type(value) is float and value.is_integer() and abs(value) < _INT64
        ):
            return mismatch(value, path, findings)
        for constraint in constraints:
            constraint(value, path, findings)
        return value

    return check


# The number and the maximum length of the valid texts that a check caches: reasons and times repeat often.
_REMEMBERED, _SHORT = 256, 64


def _make_text_check(constraints: tuple[Constraint, ...], mismatch: Check) -> Check:
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


def _make_constraints_check(constraints: tuple[Constraint, ...]) -> Check:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        for constraint in constraints:
            constraint(value, path, findings)
        return value

    return check


def _return_unchanged(value: Any, _path: Path, _findings: Findings) -> Any:
    return value


def _prepare_schema(schema: Schema) -> Schema:
    """Return the schema with the members that every `x-kubernetes-embedded-resource` in it implies."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _prepare_schema(member) for name, member in schema["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), Mapping):
            result[inner] = _prepare_schema(schema[inner])
    return _add_type_meta(result, required=True) if schema.get(EMBEDDED) else result


_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}
_EMBEDDED_METADATA: dict[str, Schema] = {
    **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), _STRING),
    **dict.fromkeys(("labels", "annotations"), _STRINGS),
    "finalizers": {"type": "array", "items": _STRING},
}


def _add_type_meta(schema: Schema, *, required: bool = False) -> Schema:
    """Return the schema of a whole resource, completed by the type and metadata that every resource has.

    required: whether `apiVersion` and `kind` are required and the metadata is checked, as in an embedded resource.
    """
    properties = dict(schema.get("properties") or {})
    metadata = {"type": "object", **(properties.get("metadata") or {}), PRESERVE: True}
    if required:  # the API server checks the metadata of the resource itself, but not of embedded ones
        metadata["properties"] = {**_EMBEDDED_METADATA, **(metadata.get("properties") or {})}
    properties |= {"apiVersion": _STRING, "kind": _STRING, "metadata": metadata}
    names = [*(schema.get("required") or ()), *(("apiVersion", "kind") if required else ())]
    return {**schema, "type": "object", "properties": properties, "required": names}


_DIALECT = SchemaDialect(
    scalar=_make_scalar_check,
    mismatch=_make_mismatch_check,
    member_null=lambda schema: None if schema.get("nullable") else ABSENT,
    element_null=lambda schema: None if schema.get("nullable") else schema.get("default", REFUSED),
    keeps_unknown=lambda schema: schema.get(PRESERVE) is True or schema.get("additionalProperties") is True,
    default=_make_default,
    required=lambda schema: tuple(schema.get("required") or ()),
    constraints=_list_constraints,
)
# The schemas in `allOf`, `anyOf`, `oneOf` and `not` validate values and never change them.
_JUDGING = replace(
    _DIALECT,
    member_null=lambda _: None,
    element_null=lambda _: None,
    keeps_unknown=lambda _: True,
    default=lambda _: None,
)
# The first half: it prunes and fills in defaults, and validates nothing.
_FORM = replace(
    _DIALECT,
    scalar=lambda schema, _: (next(iter(_TYPES.get(_find_type_name(schema), ())), None), _return_unchanged),
    mismatch=lambda _, __: _return_unchanged,
    required=lambda _: (),
    constraints=lambda _: (),
)
# The second half: it validates a document that is already pruned and has its defaults.
_JUDGEMENT = replace(_DIALECT, keeps_unknown=lambda _: True, default=lambda _: None)
# The dialect for documents whose defaults are filled in later, so that members with a default may be absent.
_UNFILLED = replace(
    _DIALECT,
    default=lambda _: None,
    required=lambda schema: tuple(
        name for name in schema.get("required") or () if "default" not in schema.get("properties", {}).get(name, {})
    ),
)
