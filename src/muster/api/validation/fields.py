"""The errors of fields, in the words of k8s.io/apimachinery/pkg/util/validation/field.

A rule is a generator of `FieldError`s: it yields all errors in order, and its callers collect them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from muster.api.status import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NO_VALUE,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    FieldError,
)

Errors = Iterator[FieldError]

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a missing required value."""
    return FieldError(path, REQUIRED, detail=detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return FieldError(path, INVALID, format_value(value), detail)


def unsupported(path: str, value: Any, values: Iterable[str]) -> FieldError:
    """Return the error of a value that is not one of the allowed ones."""
    supported = ", ".join(f'"{value}"' for value in values)
    return FieldError(path, NOT_SUPPORTED, value, f"supported values: {supported}" if supported else "")


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error of a value that is forbidden."""
    return FieldError(path, FORBIDDEN, detail=detail)


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a duplicate value."""
    return FieldError(path, DUPLICATE, format_value(value), detail)


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a value that names a missing object."""
    return FieldError(path, NOT_FOUND, value, detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error of a value that has too many bytes."""
    return FieldError(path, TOO_LONG, detail=f"may not be more than {limit} bytes")


def too_many(path: str, number: int, limit: int) -> FieldError:
    """Return the error of a list that has too many items."""
    return FieldError(path, TOO_MANY, number, f"must have at most {limit} items")


def make_errors(path: str, value: Any, messages: Iterable[str]) -> Errors:
    """Yield an error for every message of a rule of `names`."""
    for message in messages:
        yield invalid(path, value, message)


def validate_not_negative(path: str, value: int | None) -> Errors:
    """Check that the number, if it is set, is 0 or more."""
    if value is not None and value < 0:
        yield invalid(path, value, NOT_NEGATIVE)


def validate_positive(path: str, value: int) -> Errors:
    """Check that the number is 1 or more."""
    if value <= 0:
        yield invalid(path, value, "must be greater than zero")


def validate_immutable(path: str, new: Any, old: Any) -> Errors:
    """Check that the value never changes."""
    if new != old:
        yield invalid(path, new, IMMUTABLE)


def format_value(value: Any) -> Any:
    """Return a value as messages show it: a scalar unchanged, an object as JSON values with sorted members."""
    if value is NO_VALUE or isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {key: format_value(value[key]) for key in sorted(value)}
    return msgspec.to_builtins(value)
