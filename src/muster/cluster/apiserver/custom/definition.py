"""Validate definitions, including the parts that must be compiled: patterns, defaults and CEL rules.

The other rules are in `muster.api.validation.server.customresourcedefinition`, which this module calls first.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from muster.api.server.apiextensions import CustomResourceDefinition
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.server import customresourcedefinition as rules
from muster.api.validation.server.structuralschema import Schema, list_inner_schemas
from muster.api.values.patterns import PatternError, compile_pattern
from muster.cluster.apiserver.cel import RuleError, compile_rules
from muster.cluster.apiserver.schema import compile_part

_JUNCTIONS = ("allOf", "anyOf", "oneOf")


def validate_create(definition: CustomResourceDefinition) -> Sequence[FieldError]:
    """Return the errors in a new definition that already has its defaults."""
    return rules.validate_create(definition) or list(_validate_compiled_rules(definition))


def validate_update(new: CustomResourceDefinition, old: CustomResourceDefinition) -> Sequence[FieldError]:
    """Return the errors in a changed definition. An unchanged spec is not compiled again."""
    errors = rules.validate_update(new, old)
    return errors if errors or new.spec == old.spec else list(_validate_compiled_rules(new))


def _validate_compiled_rules(definition: CustomResourceDefinition) -> Errors:
    for path, schema in rules.list_schemas(definition.spec.versions):
        broken = [*_validate_patterns(path, schema), *_validate_defaults(path, schema)]
        yield from broken
        if not broken:
            yield from _validate_cel_rules(path, schema)


def _validate_patterns(path: str, schema: Schema) -> Errors:
    for where, each in _walk_schemas(path, schema):
        if "pattern" not in each:
            continue
        try:
            compile_pattern(each["pattern"])
        except PatternError as error:
            sentence = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{where}.pattern", each["pattern"], sentence)


def _walk_schemas(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    inner = [(where, each) for where, each, _ in list_inner_schemas(path, schema)]
    for junction in _JUNCTIONS:
        inner += [(f"{path}.{junction}[{index}]", each) for index, each in enumerate(schema.get(junction) or ())]
    if schema.get("not"):
        inner.append((f"{path}.not", schema["not"]))
    for where, each in inner:
        yield from _walk_schemas(where, each)


def _validate_defaults(path: str, schema: Schema) -> Errors:
    if "default" in schema:
        yield from _validate_default(f"{path}.default", schema, schema["default"])
    for where, each, _ in list_inner_schemas(path, schema):
        yield from _validate_defaults(where, each)


def _validate_default(path: str, schema: Schema, value: Any) -> Errors:
    if value is None and schema.get("nullable"):
        return
    checked = compile_part(schema)(value)
    for error in checked.errors:
        yield FieldError(f"{path}.{error.path}" if error.path else path, error.type, error.value, error.detail.strip())
    if checked.unknown:
        yield invalid(path, value, f"must not have unknown fields: {', '.join(checked.unknown)}")


def _validate_cel_rules(path: str, schema: Schema) -> Errors:
    try:
        compile_rules(schema)
    except RuleError as error:
        for each in error.errors:
            yield FieldError(f"{path}.{each.path}", each.type, each.value, each.detail)
