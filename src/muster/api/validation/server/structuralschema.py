"""The rules of a custom resource's schema: it is structural, and its keywords are consistent.

The rules and messages follow k8s.io/apiextensions-apiserver (pkg/apiserver/schema/validation.go and
pkg/apis/apiextensions/validation). A schema is structural if the tree of its `properties`, `items` and
`additionalProperties` alone defines the type of every value. `allOf`, `anyOf`, `oneOf` and `not` only validate values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.validation.fields import Errors, forbidden, invalid, required, unsupported

Schema = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
RULES = "x-kubernetes-validations"
# The reasons of a broken rule.
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_ROOT, _ITEM, _FIELD = (
    "must not be empty at the root",
    "must not be empty for specified array items",
    "must not be empty for specified object fields",
)
_UNSUPPORTED = ("definitions", "dependencies", "additionalItems", "patternProperties", "id", "$schema", "$ref")
_JUNCTIONS = ("allOf", "anyOf", "oneOf")
# The keywords that define or change a value, which schemas that only validate may not have.
_NOT_IN_JUDGEMENTS: dict[str, str] = {
    "additionalProperties": "must be undefined to be structural",
    "type": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    PRESERVE: "must be undefined to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    LIST_TYPE: "must be undefined to be structural",
    LIST_KEYS: "must be empty to be structural",
    MAP_TYPE: "must be undefined to be structural",
    RULES: "must be empty to be structural",
}
# The redundant schemas that generators write beside `x-kubernetes-int-or-string`.
INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def validate_schema(path: str, schema: Schema) -> Errors:
    """Yield the errors in the schema of a whole object."""
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    yield from _validate_node(path, schema, _ROOT)


def list_inner_schemas(path: str, schema: Schema) -> Iterator[tuple[str, Schema, str]]:
    """Yield each schema directly inside a schema: its path, the schema, and the message if its type is missing."""
    for name, member in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", member, _FIELD
    if isinstance(schema.get("items"), Mapping):
        yield f"{path}.items", schema["items"], _ITEM
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield f"{path}.additionalProperties", schema["additionalProperties"], _FIELD


def _validate_node(path: str, schema: Schema, untyped: str) -> Errors:
    yield from _validate_keywords(path, schema)
    yield from _validate_type(path, schema, untyped)
    yield from _validate_shape(path, schema, root=untyped == _ROOT)
    if untyped == _ROOT or schema.get(EMBEDDED):
        yield from _validate_type_meta(path, schema)
    yield from _validate_int_or_string(path, schema)
    yield from _list(path, schema)
    yield from _validate_map(path, schema)
    # As in upstream, the structure must declare the fields of validating schemas only at the root.
    yield from _validate_judgements(path, schema, schema if untyped == _ROOT else None)
    yield from _validate_rules(path, schema)
    for inner_path, inner, word in list_inner_schemas(path, schema):
        yield from _validate_node(inner_path, inner, word)


def _validate_keywords(path: str, schema: Schema) -> Errors:
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        sentence = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", sentence)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")


def _validate_type(path: str, schema: Schema, untyped: str) -> Errors:
    type_, root = schema.get("type", ""), untyped == _ROOT
    if schema.get(EMBEDDED) and type_ != "object":
        detail = f"must be object if {EMBEDDED} is true"
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)
    elif not type_:
        if root or not (schema.get(INT_OR_STRING) or schema.get(PRESERVE)):
            yield required(f"{path}.type", untyped)
    elif type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif type_ not in TYPES:
        yield unsupported(f"{path}.type", type_, TYPES)
    elif root and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")


def _validate_shape(path: str, schema: Schema, *, root: bool) -> Errors:
    others = schema.get("additionalProperties")
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if others is not None and root:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if others not in (None, True) and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if schema.get(EMBEDDED):
        if others is not None:
            yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
        if not schema.get(PRESERVE) and not schema.get("properties"):
            yield required(f"{path}.properties", f"must not be empty if {EMBEDDED} is true without {PRESERVE}")


def _validate_type_meta(path: str, schema: Schema) -> Errors:
    properties = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        type_ = properties.get(name, {}).get("type", "string")
        if type_ != "string":
            yield invalid(f"{path}.properties[{name}].type", type_, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{where}.type", metadata.get("type", ""), "must be object")
    if (metadata.get("properties") or {}).keys() - {"name", "generateName"} or "additionalProperties" in metadata:
        sentence = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(where, sentence)


def _validate_int_or_string(path: str, schema: Schema) -> Errors:
    if not schema.get(INT_OR_STRING):
        return
    for other in (PRESERVE, EMBEDDED):
        if schema.get(other):
            yield invalid(f"{path}.{other}", True, f"must be false if {INT_OR_STRING} is true")


def _list(path: str, schema: Schema) -> Errors:
    kind, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or ()
    if kind is None:
        if keys:
            yield required(f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty")
        return
    if kind not in ("atomic", "set", "map"):
        yield unsupported(f"{path}.{LIST_TYPE}", kind, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        detail = f"must be array if {LIST_TYPE} is specified"
        yield (
            invalid(f"{path}.type", schema["type"], detail) if schema.get("type") else required(f"{path}.type", detail)
        )
    items = schema.get("items")
    items = items if isinstance(items, Mapping) else {}
    if kind in ("set", "map") and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {LIST_TYPE} is {kind}")
    if kind == "set":
        yield from _validate_set_items(f"{path}.items", items)
    if kind == "map":
        yield from _map_items(path, keys, items)
    elif keys:
        yield invalid(f"{path}.{LIST_TYPE}", kind, f"must be map if {LIST_KEYS} is non-empty")


def _validate_set_items(path: str, items: Schema) -> Errors:
    if items.get("type") == "object" and items.get(MAP_TYPE, "granular") == "granular":
        yield invalid(
            f"{path}.{MAP_TYPE}", items.get(MAP_TYPE), f"must be atomic as item of a list with {LIST_TYPE}=set"
        )
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield invalid(
            f"{path}.{LIST_TYPE}", items.get(LIST_TYPE), f"must be atomic as item of a list with {LIST_TYPE}=set"
        )


def _map_items(path: str, keys: Any, items: Schema) -> Errors:
    if not keys:
        yield required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if not items:
        yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        yield invalid(
            f"{path}.items.type", items.get("type", ""), f"must be object if parent array's {LIST_TYPE} is map"
        )
    if len(set(keys)) != len(keys):
        yield invalid(f"{path}.{LIST_KEYS}", list(keys), "must not contain duplicate entries")
    properties = items.get("properties") or {}
    for key in keys:
        member = properties.get(key)
        if member is None:
            yield invalid(f"{path}.{LIST_KEYS}", list(keys), "entries must all be names of item properties")
            continue
        where = f"{path}.items.properties[{key}]"
        if member.get("type") in ("array", "object"):
            sentence = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{where}.type", member["type"], sentence)
        if member.get("nullable"):
            yield forbidden(f"{where}.nullable", f"this property is in {LIST_KEYS}, so it cannot be nullable")
        if key not in (items.get("required") or ()) and "default" not in member:
            sentence = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(f"{where}.default", sentence)


def _validate_rules(path: str, schema: Schema) -> Errors:
    """Check the fields around CEL rules. The compiler checks the rules themselves."""
    for index, rule in enumerate(schema.get(RULES) or ()):
        where, text = f"{path}.{RULES}[{index}]", str(rule.get("rule", "")).strip()
        message = str(rule.get("message", ""))
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif "\n" in text and not message:
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason", REASONS[0]) not in REASONS:
            yield unsupported(f"{where}.reason", rule["reason"], REASONS)


def _validate_map(path: str, schema: Schema) -> Errors:
    kind = schema.get(MAP_TYPE)
    if kind is None:
        return
    if kind not in ("atomic", "granular"):
        yield unsupported(f"{path}.{MAP_TYPE}", kind, ("atomic", "granular"))
    if schema.get("type") != "object":
        detail = f"must be object if {MAP_TYPE} is specified"
        type_ = schema.get("type", "")
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)


def _validate_judgements(path: str, schema: Schema, structure: Schema | None) -> Errors:
    """Yield the errors in the schemas under `allOf`, `anyOf`, `oneOf` and `not`, which only validate a value.

    structure: the structural schema of the value; None if the validating schemas may also have fields that it lacks.
    """
    for junction in _JUNCTIONS:
        judges = schema.get(junction) or ()
        if junction == "anyOf" and schema.get(INT_OR_STRING) and list(judges) == INTEGER_OR_STRING:
            continue
        for index, judge in enumerate(judges):
            if _repeats_int_or_string(schema, junction, index, judge):
                continue
            yield from _validate_judgement(f"{path}.{junction}[{index}]", judge, structure)
    if isinstance(schema.get("not"), Mapping):
        yield from _validate_judgement(f"{path}.not", schema["not"], structure)


def _repeats_int_or_string(schema: Schema, junction: str, index: int, judge: Schema) -> bool:
    """Return whether the first schema of `allOf` repeats `anyOf` integer and string."""
    return (
        junction == "allOf"
        and index == 0
        and bool(schema.get(INT_OR_STRING))
        and judge.get("anyOf") == INTEGER_OR_STRING
    )


def _validate_judgement(path: str, judge: Schema, structure: Schema | None) -> Errors:
    for keyword, sentence in _NOT_IN_JUDGEMENTS.items():
        if keyword in judge and judge[keyword] not in (None, False, "", [], {}):
            yield forbidden(f"{path}.{keyword}", sentence)
    for where, member, inner in _list_judged_schemas(path, judge, structure):
        if structure is not None and inner is None:
            yield required(_find_structural_path(where), f"because it is defined in {where}")
        else:
            yield from _validate_judgement(where, member, inner)
    yield from _validate_judgements(path, judge, structure)


def _list_judged_schemas(
    path: str, judge: Schema, structure: Schema | None
) -> Iterator[tuple[str, Schema, Schema | None]]:
    """Yield the validating schemas inside a schema: path, schema, and the structural schema there."""
    known: Schema = structure or {}
    for name, member in (judge.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", member, (known.get("properties") or {}).get(name)
    if isinstance(judge.get("items"), Mapping):
        items = known.get("items")
        yield f"{path}.items", judge["items"], items if isinstance(items, Mapping) else None


def _find_structural_path(path: str) -> str:
    """Return a path without its parts `allOf[0]` and the like: the path of the value in the structural schema."""
    steps = [step for step in path.split(".") if not step.startswith(("allOf[", "anyOf[", "oneOf[")) and step != "not"]
    return ".".join(steps)
