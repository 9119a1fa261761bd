"""The rules of CustomResourceDefinitions (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation).

`structuralschema` checks the schemas. The server checks their patterns, defaults and CEL rules, because it compiles
them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.conditions import is_true
from muster.api.server.apiextensions import (
    CLUSTER,
    ESTABLISHED,
    NAMESPACED,
    NO_CONVERSION,
    WEBHOOK_CONVERSION,
    CustomResourceColumnDefinition,
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
    SelectableField,
)
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
    validate_immutable,
)
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.server.structuralschema import validate_schema
from muster.api.validation.server.webhooks import validate_client_config, validate_review_versions

MAX_WARNING_BYTES = 256
MAX_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("int32", "int64", "float", "double", "byte", "date", "date-time", "password")
# The groups that need a review before kinds may be added.
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"
_MUST_BE_APPROVED = f'protected groups must have approval annotation "{_APPROVAL}"'
_WHY_APPROVED = "see https://github.com/kubernetes/enhancements/pull/1111"


def validate_create(definition: CustomResourceDefinition) -> list[FieldError]:
    """Return the errors in a new definition with its defaults."""
    return [*validate_new_metadata(definition), *_validate_new_definition(definition)]


def validate_new_metadata(definition: CustomResourceDefinition) -> Errors:
    """Yield the errors in the metadata of a new definition."""
    yield from new_metadata(definition.metadata, names.dns_subdomain, namespaced=False, custom=True)


def validate_update(new: CustomResourceDefinition, old: CustomResourceDefinition) -> list[FieldError]:
    """Return the errors in a change of a definition."""
    return [*changed_metadata(new.metadata, old.metadata, custom=True), *_validate_changed_definition(new, old)]


def validate_status_update(new: CustomResourceDefinition, old: CustomResourceDefinition) -> list[FieldError]:
    """Return the errors in a change of a definition's status."""
    return [*changed_metadata(new.metadata, old.metadata, custom=True), *_validate_stored_versions(new)]


def _validate_new_definition(definition: CustomResourceDefinition) -> Errors:
    if definition.metadata.name != f"{definition.spec.names.plural}.{definition.spec.group}":
        yield invalid("metadata.name", definition.metadata.name, 'must be spec.names.plural+"."+spec.group')
    yield from _validate_spec(definition.spec)
    yield from _validate_pruning(definition.spec)
    yield from _validate_approval(definition)


def _validate_changed_definition(new: CustomResourceDefinition, old: CustomResourceDefinition) -> Errors:
    yield from _validate_spec(new.spec)
    if not old.spec.preserve_unknown_fields:
        yield from _validate_pruning(new.spec)
    if is_true(old.status.conditions, ESTABLISHED):
        yield from validate_immutable("spec.scope", new.spec.scope, old.spec.scope)
        yield from validate_immutable("spec.names.kind", new.spec.names.kind, old.spec.names.kind)
    yield from validate_immutable("spec.group", new.spec.group, old.spec.group)
    yield from validate_immutable("spec.names.plural", new.spec.names.plural, old.spec.names.plural)
    yield from _validate_stored_versions(new)


def _validate_approval(definition: CustomResourceDefinition) -> Errors:
    """Check that kinds in the community's groups have an annotation of their approval."""
    group = definition.spec.group
    if not (group in ("k8s.io", "kubernetes.io") or group.endswith(_PROTECTED)):
        return
    value = definition.metadata.annotations.get(_APPROVAL, "")
    path = f"metadata.annotations[{_APPROVAL}]"
    if not value:
        yield required(path, f"{_MUST_BE_APPROVED}, {_WHY_APPROVED}")
    elif not value.startswith(("unapproved", "http://", "https://")):
        sentence = f'{_MUST_BE_APPROVED} with either a URL or a reason starting with "unapproved", {_WHY_APPROVED}'
        yield invalid(path, value, sentence)


def _validate_stored_versions(definition: CustomResourceDefinition) -> Errors:
    known = {version.name for version in definition.spec.versions}
    for index, name in enumerate(definition.status.stored_versions):
        if name not in known:
            yield invalid(
                f"status.storedVersions[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions",
            )


def _validate_spec(spec: CustomResourceDefinitionSpec) -> Errors:
    if not spec.group:
        yield required("spec.group")
    elif messages := names.dns_subdomain(spec.group):
        yield invalid("spec.group", spec.group, ",".join(messages))
    elif "." not in spec.group:
        yield invalid("spec.group", spec.group, "should be a domain with at least one dot")
    if not spec.scope:
        yield required("spec.scope")
    elif spec.scope not in (CLUSTER, NAMESPACED):
        yield unsupported("spec.scope", spec.scope, (CLUSTER, NAMESPACED))
    yield from _validate_names("spec.names", spec.names)
    yield from _validate_versions(spec.versions)
    yield from _validate_conversion(spec.conversion)


def _validate_pruning(spec: CustomResourceDefinitionSpec) -> Errors:
    if spec.preserve_unknown_fields:
        sentence = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema"
        yield invalid("spec.preserveUnknownFields", True, f"{sentence} instead")


def _validate_names(path: str, crd_names: CustomResourceDefinitionNames) -> Errors:
    for field, value in (("plural", crd_names.plural), ("singular", crd_names.singular)):
        if not value:
            yield required(f"{path}.{field}")
        elif messages := names.dns_1035_label(value):
            yield invalid(f"{path}.{field}", value, ",".join(messages))
    for field, value in (("kind", crd_names.kind), ("listKind", crd_names.list_kind)):
        if not value:
            yield required(f"{path}.{field}")
        elif messages := names.dns_1035_label(value.lower()):
            sentence = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            yield invalid(f"{path}.{field}", value, sentence)
    for field, values in (("shortNames", crd_names.short_names), ("categories", crd_names.categories)):
        for index, value in enumerate(values):
            if messages := names.dns_1035_label(value):
                yield invalid(f"{path}.{field}[{index}]", value, ",".join(messages))
    if crd_names.kind and crd_names.kind == crd_names.list_kind:
        yield invalid(f"{path}.listKind", crd_names.list_kind, "kind and listKind may not be the same")


def _validate_versions(versions: tuple[CustomResourceDefinitionVersion, ...]) -> Errors:
    if not versions:
        yield required("spec.versions", "must have at least one version")
        return
    if len({version.name for version in versions}) != len(versions):
        yield invalid("spec.versions", [version.name for version in versions], "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        sentence = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", [version.name for version in versions], sentence)
    for index, version in enumerate(versions):
        yield from _validate_version(f"spec.versions[{index}]", version)
    for path, schema in list_schemas(versions):
        yield from validate_schema(path, schema)
    for path, subresources in _list_field_values(versions, "subresources", "subresources"):
        yield from _validate_subresources(path, subresources)
    for path, columns in _list_field_values(versions, "additional_printer_columns", "additionalPrinterColumns"):
        for index, column in enumerate(columns):
            yield from _validate_column(f"{path}[{index}]", column)
    for path, fields in _list_field_values(versions, "selectable_fields", "selectableFields"):
        yield from _validate_selectable_fields(path, fields)
    for index, version in enumerate(versions):
        if version.schema is not None and version.schema.open_api_v3_schema is not None:
            alike = f"spec.versions[{index}]" if len(versions) > 1 else "spec"
            yield from _validate_selectable_types(alike, version.selectable_fields, version.schema.open_api_v3_schema)


def list_schemas(versions: tuple[CustomResourceDefinitionVersion, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Return the schemas of versions with their paths. A schema of all versions appears once, with upstream's path."""
    schemas_by_path = [
        (f"spec.versions[{index}].schema.openAPIV3Schema", version.schema.open_api_v3_schema)
        for index, version in enumerate(versions)
        if version.schema is not None and version.schema.open_api_v3_schema is not None
    ]
    if len(schemas_by_path) == len(versions) and all(schema == schemas_by_path[0][1] for _, schema in schemas_by_path):
        return [("spec.validation.openAPIV3Schema", schemas_by_path[0][1])] if schemas_by_path else []
    return schemas_by_path


def _list_field_values(
    versions: tuple[CustomResourceDefinitionVersion, ...], field: str, name: str
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a field of the versions, with their paths.

    If all versions have the same value, it appears once as a field of the spec, as in upstream's internal form.
    """
    values = [getattr(version, field) for version in versions]
    if all(value == values[0] for value in values):
        if values[0]:
            yield f"spec.{name}", values[0]
        return
    for index, value in enumerate(values):
        if value:
            yield f"spec.versions[{index}].{name}", value


def _validate_version(path: str, version: CustomResourceDefinitionVersion) -> Errors:
    if messages := names.dns_1035_label(version.name):
        yield invalid(f"{path}.name", version.name, ",".join(messages))
    if version.schema is None or version.schema.open_api_v3_schema is None:
        yield required(f"{path}.schema.openAPIV3Schema")
    warning = version.deprecation_warning
    if warning is None:
        return
    where = f"{path}.deprecationWarning"
    if not version.deprecated:
        yield invalid(where, warning, "can only be set for deprecated versions")
    if len(warning.encode()) > MAX_WARNING_BYTES:
        yield invalid(where, warning, f"must be <= {MAX_WARNING_BYTES} characters long")
    if not warning:
        yield invalid(where, warning, "must not be an empty string")
    for index, character in enumerate(warning):
        if not character.isprintable():
            sentence = f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
            yield invalid(where, warning, sentence)
            break


def _validate_subresources(path: str, subresources: CustomResourceSubresources) -> Errors:
    scale = subresources.scale
    if scale is None:
        return
    if not scale.spec_replicas_path:
        yield required(f"{path}.scale.specReplicasPath")
    else:
        yield from _validate_prefix(
            f"{path}.scale.specReplicasPath", scale.spec_replicas_path, (".spec.",), "under .spec"
        )
    if not scale.status_replicas_path:
        yield required(f"{path}.scale.statusReplicasPath")
    else:
        yield from _validate_prefix(
            f"{path}.scale.statusReplicasPath", scale.status_replicas_path, (".status.",), "under .status"
        )
    if scale.label_selector_path:
        where = f"{path}.scale.labelSelectorPath"
        yield from _validate_prefix(
            where, scale.label_selector_path, (".spec.", ".status."), "under either .status or .spec"
        )


def _validate_prefix(path: str, value: str, prefixes: tuple[str, ...], where: str) -> Errors:
    errors = list(_validate_simple_path(path, value))
    yield from errors
    if not errors and not value.startswith(prefixes):
        yield invalid(path, value, f"should be a json path {where}")


def _validate_simple_path(path: str, value: str) -> Errors:
    """Yield the errors in a path of names, such as `.spec.replicas`."""
    if not value.startswith("."):
        yield invalid(path, value, "must be a simple json path starting with .")
    elif any(character in value for character in "[]{}*?()@$'\" ") or "" in value[1:].split("."):
        yield invalid(path, value, "must be a simple json path in the dot notation, without array notation")


def _validate_column(path: str, column: CustomResourceColumnDefinition) -> Errors:
    if not column.name:
        yield required(f"{path}.name")
    if not column.type:
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif column.type not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column.type, f"must be one of {','.join(_COLUMN_TYPES)}")
    if column.format and column.format not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.json_path:
        yield required(f"{path}.JSONPath")
    elif not column.json_path.startswith("."):
        yield invalid(f"{path}.JSONPath", column.json_path, "must be a simple json path starting with .")


def _validate_selectable_fields(path: str, fields: tuple[SelectableField, ...]) -> Errors:
    if len(fields) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(fields), MAX_SELECTABLE_FIELDS)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where = f"{path}[{index}].jsonPath"
        if not field.json_path:
            yield required(where)
            continue
        yield from _validate_simple_path(where, field.json_path)
        if field.json_path in seen:
            yield duplicate(where, field.json_path)
        seen.add(field.json_path)


def _validate_selectable_types(path: str, fields: tuple[SelectableField, ...], schema: Mapping[str, Any]) -> Errors:
    """Check that selectable fields exist and have scalar values."""
    for index, field in enumerate(fields):
        where = f"{path}.selectableFields[{index}].jsonPath"
        subschema: Mapping[str, Any] | None = schema
        for name in field.json_path.split(".")[1:]:
            subschema = None if subschema is None else (subschema.get("properties") or {}).get(name)
        if subschema is None:
            yield invalid(where, field.json_path, "is an invalid path: does not refer to a valid field")
            continue
        if field.json_path.startswith(".metadata"):
            yield invalid(where, field.json_path, "must not point to fields in metadata")
        if subschema.get("type") not in _SELECTABLE_TYPES:
            sentence = "must point to a field of type string, boolean or integer. "
            yield invalid(where, field.json_path, f"{sentence}{_SELECTABLE_STRINGS}")


_SELECTABLE_TYPES = ("string", "boolean", "integer")
_SELECTABLE_STRINGS = "Enum string fields and strings with formats are allowed."


def _validate_conversion(conversion: CustomResourceConversion | None) -> Errors:
    if conversion is None:
        return
    path, strategy, webhook = "spec.conversion", conversion.strategy, conversion.webhook
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in (NO_CONVERSION, WEBHOOK_CONVERSION):
        yield unsupported(f"{path}.strategy", strategy, (NO_CONVERSION, WEBHOOK_CONVERSION))
    if strategy != WEBHOOK_CONVERSION:
        if webhook is not None:
            yield forbidden(f"{path}.webhook", "should not be set when strategy is not set to Webhook")
        return
    config = webhook.client_config if webhook is not None else None
    versions = webhook.conversion_review_versions if webhook is not None else ()
    where = f"{path}.webhookClientConfig"
    if config is None:
        yield required(where, "required when strategy is set to Webhook")
    else:
        yield from validate_client_config(where, config)
    if not versions:
        yield required(f"{path}.conversionReviewVersions")
    else:
        yield from validate_review_versions(f"{path}.conversionReviewVersions", versions)
