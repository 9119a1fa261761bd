"""The constraints of a structural schema beyond types, such as `minimum` and `pattern`.

`constraints_of` takes a schema and returns its checks, whose errors have the words of upstream's validator. `custom`
handles schemas in `allOf`, `anyOf`, `oneOf` and `not`.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from muster.api.status import DUPLICATE, INVALID, NOT_SUPPORTED, TOO_LONG, TOO_MANY, FieldError
from muster.api.values.patterns import compile_pattern
from muster.cluster.apiserver.schema.formats import FORMATS
from muster.cluster.apiserver.schema.walk import Constraint, Findings, Path, Schema, render

_INT32 = 1 << 31

_ABSENT = object()

# Takes the value of a keyword and the schema around it, and returns the check.
_Maker: TypeAlias = Callable[[Any, Schema], Constraint]


def constraints_of(schema: Schema) -> tuple[Constraint, ...]:
    """Return the checks of a value that has the type of the schema. Raises `PatternError` for an invalid `pattern`."""
    return tuple(_yield_constraints(schema))


def _yield_constraints(schema: Schema) -> Iterator[Constraint]:
    for keyword, make in _KEYWORDS.items():
        if keyword in schema:
            yield make(schema[keyword], schema)
    if schema.get("format") == "int32":
        yield _check_int32
    elif fits := FORMATS.get(schema.get("format", "")):
        yield _make_text_constraint(fits, f"must be of type {schema['format']}", quoted=True)
    match schema.get("x-kubernetes-list-type"):
        case "set":
            yield _make_unique(make_identity_key, lambda item: item)
        case "map":
            yield _make_unique_constraint(schema["x-kubernetes-list-map-keys"])


def invalid(path: Path, value: Any, rule: str) -> FieldError:
    """Return the error of a field whose value breaks a rule.

    rule: the end of the message, such as `must be of type ...` or `should be ...`.
    """
    name = render(path)
    return FieldError(name, INVALID, value, f"{name} in body {rule}")


def not_valid(path: Path, sentence: str) -> FieldError:
    """Return an error without a field name, because upstream's message contains the path."""
    return FieldError("<nil>", INVALID, "", sentence, place=render(path))


def _check_int32(value: Any, path: Path, findings: Findings) -> None:
    if isinstance(value, int | float) and not -_INT32 <= value < _INT32:
        sentence = f"Checked value must be of type integer with format int32 in {render(path)}"
        findings.errors.append(not_valid(path, sentence))


def _make_number_constraint(holds: Callable[[Any], bool], rule: str) -> Constraint:
    def check(value: Any, path: Path, findings: Findings) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and not holds(value):
            findings.errors.append(invalid(path, value, rule))

    return check


def _make_minimum(least: float, schema: Schema) -> Constraint:
    if schema.get("exclusiveMinimum"):
        return _make_number_constraint(lambda n: n > least, f"should be greater than {least}")
    return _make_number_constraint(lambda n: n >= least, f"should be greater than or equal to {least}")


def _make_maximum(most: float, schema: Schema) -> Constraint:
    if schema.get("exclusiveMaximum"):
        return _make_number_constraint(lambda n: n < most, f"should be less than {most}")
    return _make_number_constraint(lambda n: n <= most, f"should be less than or equal to {most}")


def _make_multiple_constraint(factor: float, _schema: Schema) -> Constraint:
    return _make_number_constraint(lambda n: _is_multiple(n, factor), f"should be a multiple of {factor}")


def _is_multiple(number: float, factor: float) -> bool:
    """Return whether a number is a multiple of a factor, apart from the rounding of floats; no number is one of 0."""
    if not factor:
        return False
    if isinstance(number, int) and isinstance(factor, int):
        return number % factor == 0
    quotient = number / factor
    return math.isfinite(quotient) and math.isclose(quotient, round(quotient), rel_tol=1e-9)


def _make_text_constraint(holds: Callable[[str], bool], rule: str, *, quoted: bool = False) -> Constraint:
    def check(value: Any, path: Path, findings: Findings) -> None:
        if isinstance(value, str) and not holds(value):
            findings.errors.append(invalid(path, value, f"{rule}: {json.dumps(value)}" if quoted else rule))

    return check


def _make_longest(most: int, _schema: Schema) -> Constraint:
    def check(value: Any, path: Path, findings: Findings) -> None:
        if isinstance(value, str) and len(value) > most:
            bytes_ = "byte" if most == 1 else "bytes"
            findings.errors.append(FieldError(render(path), TOO_LONG, None, f"may not be more than {most} {bytes_}"))

    return check


def _make_fewest(type_: type[list[Any] | dict[str, Any]], noun: str) -> _Maker:
    def make(least: int, _schema: Schema) -> Constraint:
        def check(value: Any, path: Path, findings: Findings) -> None:
            if isinstance(value, type_) and len(value) < least:
                findings.errors.append(invalid(path, len(value), f"should have at least {least} {noun}"))

        return check

    return make


def _make_most(type_: type[list[Any] | dict[str, Any]]) -> _Maker:
    def make(most: int, _schema: Schema) -> Constraint:
        detail = f"must have at most {most} {'item' if most == 1 else 'items'}"

        def check(value: Any, path: Path, findings: Findings) -> None:
            if isinstance(value, type_) and len(value) > most:
                findings.errors.append(FieldError(render(path), TOO_MANY, len(value), detail))

        return check

    return make


def _make_enum(values: Sequence[Any], _schema: Schema) -> Constraint:
    allowed = {make_identity_key(value) for value in values}
    shown = ", ".join(json.dumps(v if isinstance(v, str) else json.dumps(v)) for v in values)

    def check(value: Any, path: Path, findings: Findings) -> None:
        if make_identity_key(value) not in allowed:
            findings.errors.append(FieldError(render(path), NOT_SUPPORTED, value, f"supported values: {shown}"))

    return check


_KEYWORDS: dict[str, _Maker] = {
    "enum": _make_enum,
    "minimum": _make_minimum,
    "maximum": _make_maximum,
    "multipleOf": _make_multiple_constraint,
    "minLength": lambda least, _: _make_text_constraint(
        lambda t: len(t) >= least, f"should be at least {least} chars long"
    ),
    "maxLength": _make_longest,
    "pattern": lambda pattern, _: _make_text_constraint(compile_pattern(pattern), f"should match '{pattern}'"),
    "minItems": _make_fewest(list, "items"),
    "maxItems": _make_most(list),
    "minProperties": _make_fewest(dict, "properties"),
    "maxProperties": _make_most(dict),
}


def _make_unique(name_of: Callable[[Any], Any], show: Callable[[Any], Any]) -> Constraint:
    """Return the check that no two items have the same name. It reports only the first repetition of each name.

    name_of: returns the name of an item.
    show: returns the value of an item for the error.
    """

    def check(value: Any, path: Path, findings: Findings) -> None:
        if len(value) < 2:
            return
        names = [name_of(item) for item in value]
        if len(set(names)) == len(names):
            return
        seen: dict[Any, int] = {}
        for index, name in enumerate(names):
            seen[name] = seen.get(name, 0) + 1
            if seen[name] == 2:
                findings.errors.append(FieldError(f"{render(path)}[{index}]", DUPLICATE, show(value[index])))

    return check


def _make_unique_constraint(keys: Sequence[str]) -> Constraint:
    first, *others = keys

    def name_of(item: Any) -> Any:
        if not isinstance(item, dict):
            return object()  # equals no other name: the wrong type of the item is reported elsewhere
        name = item.get(first, _ABSENT)
        if type(name) is not str:
            name = make_identity_key(name)
        return (name, *(make_identity_key(item.get(key, _ABSENT)) for key in others)) if others else name

    return _make_unique(name_of, lambda item: {key: item[key] for key in keys if key in item})


def make_identity_key(value: Any) -> Any:
    """Return a hashable key that only equal JSON values share: `1` equals `1.0` and differs from `true`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, int | float):
        return ("number", value)
    return value if value is _ABSENT else ("json", json.dumps(value, sort_keys=True))
