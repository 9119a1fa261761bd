"""Decode settings strictly, and report every unknown field.

`read` walks through the document along the type, so one pass finds all problems with their paths. A field with an
invalid value keeps its default, so that the rules can check the other fields.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, inspect

from muster.api.config.types import DURATION, EMPTY_IS_UNSET, ONLY_IN
from muster.api.validation.fields import unsupported
from muster.api.values import durations

_SHOWN = 100  # characters of a value or key in a message

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Problem(NamedTuple):
    """A problem in the document, with its path."""

    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}" if self.path else self.sentence


class _Unusable(Exception):  # noqa: N818  (a signal: the problem is noted already)
    """A field with an invalid value, for which a `Problem` was recorded already."""


def read(document: Mapping[str, Any], type_: type[S], version: str) -> tuple[S, list[Problem]]:
    """Return the document as a struct, and all problems in it. A field with a problem keeps its default."""
    reader = _Reader(version)
    form = _describe(type_)
    assert isinstance(form, inspect.StructType)
    return reader.struct(document, form, ""), reader.problems


# To describe a type takes longer than to read a document.
_describe = cache(inspect.type_info)


class _Reader:
    def __init__(self, version: str) -> None:
        self._version = version
        self.problems: list[Problem] = []

    def struct(self, members: Mapping[str, Any], type_: inspect.StructType, path: str) -> Any:
        fields = {field.encode_name: field for field in type_.fields}
        values = {}
        for name, member in members.items():
            inside = f"{path}.{make_printable(name)}" if path else make_printable(name)
            field = fields.get(name)
            if field is None:
                self._add_problem(inside, "unknown field")
                continue
            inner, extra = _strip_optional(field.type)
            if extra.get(ONLY_IN, self._version) != self._version:
                self._add_problem(inside, f"unknown field in {self._version} (it is one of {extra[ONLY_IN]})")
            elif member is not None:
                try:
                    value = self._decode_value(member, inner, extra, inside)
                except _Unusable:
                    continue
                if value or not extra.get(EMPTY_IS_UNSET):
                    values[field.name] = value
        return type_.cls(**values)

    def _decode_value(self, value: Any, type_: inspect.Type, extra: Mapping[str, Any], path: str) -> Any:
        if extra.get(DURATION):
            return self._decode_duration(value, path)
        match type_:
            case inspect.StructType():
                return self.struct(self._of(dict, value, path, "a mapping"), type_, path)
            case inspect.VarTupleType():
                items = self._of(list, value, path, "a list")
                return tuple(self._decode_items(items, type_, path))
            case inspect.DictType():
                return self._decode_map(self._of(dict, value, path, "a mapping"), type_, path)
            case inspect.LiteralType():
                if value not in type_.values:
                    raise self._record_problem(path, unsupported("", value, map(str, type_.values)).body)
                return value
            case _:
                return self._decode_scalar(value, type_, path)

    def _decode_items(self, items: list[Any], type_: inspect.VarTupleType, path: str) -> list[Any]:
        inner, extra = _strip_optional(type_.item_type)
        decoded = []
        for i, item in enumerate(items):
            try:
                decoded.append(self._decode_value(item, inner, extra, f"{path}[{i}]"))
            except _Unusable:
                continue
        return decoded

    def _decode_map(self, members: Mapping[str, Any], type_: inspect.DictType, path: str) -> dict[str, Any]:
        inner, extra = _strip_optional(type_.value_type)
        decoded = {}
        for name, member in members.items():
            try:
                decoded[name] = self._decode_value(member, inner, extra, f"{path}[{make_printable(name)}]")
            except _Unusable:
                continue
        return decoded

    def _decode_duration(self, value: Any, path: str) -> int:
        if not isinstance(value, str):
            raise self._record_problem(path, f"must be a duration such as 5m or 1h30m, not {_show(value)}")
        try:
            return durations.parse(value)
        except durations.DurationError:
            raise self._record_problem(path, f"must be a duration such as 5m or 1h30m, not {_show(value)}") from None

    def _decode_scalar(self, value: Any, type_: inspect.Type, path: str) -> Any:
        match type_:
            case inspect.BoolType():
                return self._of(bool, value, path, "true or false")
            case inspect.StrType():
                return self._of(str, value, path, "a string")
            case inspect.IntType(ge=least, le=most):
                if isinstance(value, bool) or not isinstance(value, int):
                    raise self._record_problem(path, f"must be a whole number, not {_show(value)}")
                if not (-(2**63) if least is None else least) <= value <= (2**63 - 1 if most is None else most):
                    raise self._record_problem(path, f"{_show(value)} is too large a number")
                return value
            case inspect.FloatType():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise self._record_problem(path, f"must be a number, not {_show(value)}")
                return float(value)
            case _:  # a quantity
                if isinstance(value, bool) or not isinstance(value, str | int | float):
                    raise self._record_problem(path, f"must be a quantity such as 500m or 2Gi, not {_show(value)}")
                return value

    def _of(self, type_: type[T], value: Any, path: str, expected: str) -> T:
        if not isinstance(value, type_):
            raise self._record_problem(path, f"must be {expected}, not {_show(value)}")
        return value

    def _record_problem(self, path: str, sentence: str) -> _Unusable:
        self._add_problem(path, sentence)
        return _Unusable()

    def _add_problem(self, path: str, sentence: str) -> None:
        self.problems.append(Problem(path, sentence))


def _strip_optional(type_: inspect.Type) -> tuple[inspect.Type, Mapping[str, Any]]:
    """Return a type without `| None` and without its annotations, and the annotations."""
    extra: dict[str, Any] = {}
    while True:
        if isinstance(type_, inspect.Metadata):
            extra |= type_.extra or {}
            type_ = type_.type
        elif isinstance(type_, inspect.UnionType) and type_.includes_none and len(type_.types) == 2:
            type_ = next(option for option in type_.types if not isinstance(option, inspect.NoneType))
        else:
            return type_, extra


def make_printable(key: str) -> str:
    """Return a key as paths show it: long keys are cut, and keys with special characters are quoted."""
    short = key if len(key) <= _SHOWN else f"{key[:_SHOWN]}..."
    return short if short.isprintable() else json.dumps(short)


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
