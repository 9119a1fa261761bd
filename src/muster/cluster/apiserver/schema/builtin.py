"""The dialect of built-in kinds: it changes and refuses a document as Go's JSON decoder does.

The messages of Go's decoder name structs. So the schema of each object names its component.
"""

from collections.abc import Callable
from typing import Any

from muster.api.kinds import Kind
from muster.api.schema import DEFINITION, inline_with_names
from muster.cluster.apiserver.schema.formats import is_base64, is_date_time, is_micro_time
from muster.cluster.apiserver.schema.walk import (
    ABSENT,
    Check,
    Checker,
    Findings,
    Path,
    Schema,
    SchemaDialect,
    ValuePlace,
    checker_of,
    compile_check,
    type_of,
)

_BITS = {"int32": 32, "int64": 64}
# The value to which Go's decoder converts a null inside a list or a map, by OpenAPI type.
_ZEROES: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}


class DecodeError(ValueError):
    """A document that Go's decoder would refuse. The message is Go's."""


def compile_builtin(kind: Kind[Any]) -> Checker:
    """Return the checker of a built-in kind, which raises `DecodeError` at the first value of a wrong type."""
    return checker_of(compile_check(inline_with_names(kind), _DIALECT, ValuePlace(), member=True).check)


def _make_scalar_check(schema: Schema, field: ValuePlace) -> tuple[type | None, Check]:
    mismatch = _make_mismatch_check(schema, field)
    match _find_shape(schema):
        case "string":
            return _make_string_check(schema, mismatch)
        case "boolean":
            return bool, mismatch
        case "integer":
            return None, _make_integer_check(_BITS.get(schema.get("format", ""), 64), mismatch)
        case "number":
            return None, _make_type_check((int, float), mismatch)
        case "int-or-string":
            # A quantity has the same schema plus `oneOf`. The code that uses a quantity checks its notation.
            return None, _make_type_check(
                (str, int, float), mismatch
            ) if "oneOf" in schema else _make_int_or_string_check(mismatch)
        case _:
            return None, _accept_anything


def _make_mismatch_check(schema: Schema, field: ValuePlace) -> Check:
    names = ".".join(field.names)
    target = f"struct field {field.struct}.{names}" if names else "value"
    expected = _spell_go_type(schema)

    def refuse(value: Any, _path: Path, _findings: Findings) -> Any:
        raise DecodeError(
            f"json: cannot unmarshal {_spell_go_kind(value, expected)} into Go {target} of type {expected}"
        )

    return refuse


def _keeps_unknown(schema: Schema) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True or not (
        schema.get("properties") or schema.get("additionalProperties")
    )


def _omits_empty(schema: Schema) -> bool:
    """Return whether Go omits an empty field (`omitempty`), as it does for almost all lists and maps but no struct."""
    return type_of(schema) == "array" or bool(schema.get("additionalProperties"))


def _make_string_check(schema: Schema, mismatch: Check) -> tuple[type | None, Check]:
    match schema.get("format"):
        case "date-time":
            return None, _make_format_check(is_date_time, _explain_bad_time, mismatch)
        case "micro-time":
            return None, _make_format_check(is_micro_time, _explain_bad_micro_time, mismatch)
        case "byte":
            return None, _make_format_check(is_base64, lambda _: "illegal base64 data", mismatch)
        case _:
            return str, mismatch


def _make_format_check(fits: Callable[[str], bool], refusal: Callable[[str], str], mismatch: Check) -> Check:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not str:
            return mismatch(value, path, findings)
        if not fits(value):
            raise DecodeError(refusal(value))
        return value

    return check


def _explain_bad_time(text: str) -> str:
    return f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'


def _explain_bad_micro_time(text: str) -> str:
    if not is_date_time(text):
        return _explain_bad_time(text).replace("05Z", "05.000000Z", 1)
    rest = text[len("2006-01-02T15:04:05") :]
    return f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as ".000000"'


def _make_integer_check(bits: int, mismatch: Check) -> Check:
    limit = 1 << bits - 1

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is int and -limit <= value < limit:
            return value
        return mismatch(value, path, findings)

    return check


def _make_int_or_string_check(mismatch: Check) -> Check:
    """Return the check of an IntOrString. This Go type has its own decoder, whose messages name no field."""

    def of_number(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) in (int, float):
            raise DecodeError(f"json: cannot unmarshal number {value} into Go value of type int32")
        return mismatch(value, path, findings)

    integer = _make_integer_check(32, of_number)

    def check(value: Any, path: Path, findings: Findings) -> Any:
        return value if type(value) is str else integer(value, path, findings)

    return check


def _make_type_check(types: tuple[type, ...], mismatch: Check) -> Check:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        return value if type(value) in types else mismatch(value, path, findings)

    return check


def _accept_anything(value: Any, _path: Path, _findings: Findings) -> Any:
    return value


def _find_shape(schema: Schema) -> str:
    return "int-or-string" if "x-kubernetes-int-or-string" in schema or "oneOf" in schema else type_of(schema)


def _spell_go_type(schema: Schema) -> str:
    match _find_shape(schema):
        case "array":
            return f"[]{_spell_go_type(schema.get('items') or {})}"
        case "object" if DEFINITION in schema:
            version, _, name = str(schema[DEFINITION]).rpartition(".")
            return f"{version.rpartition('.')[2]}.{name}"
        case "object":
            return f"map[string]{_spell_go_type(schema.get('additionalProperties') or {})}"
        case "integer":
            return str(schema.get("format", "int64"))
        case "boolean":
            return "bool"
        case "number":
            return "float64"
        case "int-or-string":
            return "intstr.IntOrString"
        case "string":
            return "string"
        case _:
            return "interface {}"


def _spell_go_kind(value: Any, expected: str) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            # Go shows a number only if the field takes integers and this number has the wrong form or size.
            return f"number {value}" if expected.startswith("int") else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


_DIALECT = SchemaDialect(
    scalar=_make_scalar_check,
    mismatch=_make_mismatch_check,
    member_null=lambda _: ABSENT,
    element_null=lambda schema: _ZEROES.get(_find_shape(schema)),
    keeps_unknown=_keeps_unknown,
    omits_empty=_omits_empty,
)
