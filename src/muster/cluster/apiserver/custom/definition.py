"""The validation of definitions, including the parts that must be compiled: patterns, defaults and CEL rules.

The other rules are in `muster.api.validation.server.customresourcedefinition`, which this module calls first.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from muster.api.server.apiextensions import CustomResourceDefinition
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.server import customresourcedefinition as rules
from muster.api.validation.server.structuralschema import Schema, below
from muster.api.values.patterns import PatternError, compile_pattern
from muster.cluster.apiserver.cel import RuleError, compile_rules
from muster.cluster.apiserver.schema import compile_part

_JUNCTIONS = ("allOf", "anyOf", "oneOf")


def validate_create(definition: CustomResourceDefinition) -> Sequence[FieldError]:
    """Return the errors in a new definition that already has its defaults."""
    return rules.validate_create(definition) or list(_compiled(definition))


def validate_update(new: CustomResourceDefinition, old: CustomResourceDefinition) -> Sequence[FieldError]:
    """Return the errors in a changed definition. An unchanged spec is not compiled again."""
    errors = rules.validate_update(new, old)
    return errors if errors or new.spec == old.spec else list(_compiled(new))


def _compiled(definition: CustomResourceDefinition) -> Errors:
    for path, schema in rules.schemas(definition.spec.versions):
        broken = [*_patterns(path, schema), *_defaults(path, schema)]
        yield from broken
        if not broken:
            yield from _rules(path, schema)


def _patterns(path: str, schema: Schema) -> Errors:
    for where, each in _everywhere(path, schema):
        if "pattern" not in each:
            continue
        try:
            compile_pattern(each["pattern"])
        except PatternError as error:
            sentence = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{where}.pattern", each["pattern"], sentence)


def _everywhere(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    inner = [(where, each) for where, each, _ in below(path, schema)]
    for junction in _JUNCTIONS:
        inner += [(f"{path}.{junction}[{index}]", each) for index, each in enumerate(schema.get(junction) or ())]
    if schema.get("not"):
        inner.append((f"{path}.not", schema["not"]))
    for where, each in inner:
        yield from _everywhere(where, each)


def _defaults(path: str, schema: Schema) -> Errors:
    if "default" in schema:
        yield from _default(f"{path}.default", schema, schema["default"])
    for where, each, _ in below(path, schema):
        yield from _defaults(where, each)


def _default(path: str, schema: Schema, value: Any) -> Errors:
    if value is None and schema.get("nullable"):
        return
    checked = compile_part(schema)(value)
    for error in checked.errors:
        yield FieldError(f"{path}.{error.path}" if error.path else path, error.type, error.value, error.detail.strip())
    if checked.unknown:
        yield invalid(path, value, f"must not have unknown fields: {', '.join(checked.unknown)}")


def _rules(path: str, schema: Schema) -> Errors:
    try:
        compile_rules(schema)
    except RuleError as error:
        for each in error.errors:
            yield FieldError(f"{path}.{each.path}", each.type, each.value, each.detail)
