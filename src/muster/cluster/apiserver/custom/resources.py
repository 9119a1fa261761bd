"""The resources of a definition: one `Resource` for each served version.

Schemas and CEL rules are costly, so they are compiled when a request first needs them. The rules of custom resources
follow upstream's strategy (k8s.io/apiextensions-apiserver/pkg/registry/customresource). `registration` registers the
resources.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.members import value_at
from muster.api.meta import Object
from muster.api.schema import make_inlined_schema
from muster.api.server.apiextensions import (
    ESTABLISHED,
    NAMESPACED,
    TERMINATING,
    CustomResourceDefinition,
    CustomResourceDefinitionVersion,
    storage_version,
)
from muster.api.status import INVALID, NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, FieldError
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.cluster.apiserver.custom.columns import make_printer
from muster.cluster.apiserver.custom.conversion import Convert
from muster.cluster.apiserver.custom.jsonpath import simple_names
from muster.cluster.apiserver.custom.ratcheting import remove_old_errors
from muster.cluster.apiserver.custom.scale import scale_subresource
from muster.cluster.apiserver.custom.versions import CustomVersion, Stored
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.discovery import make_version_key
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.resources import VERBS, VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.request.selection import FieldLabels
from muster.cluster.apiserver.schema import (
    Checked,
    Checker,
    Schema,
    compile_builtin,
    compile_form,
    compile_judgement,
    whole_object,
)

# While a definition is deleted, clients may still update its objects, for example to remove finalizers.
_TERMINATING_VERBS = tuple(verb for verb in VERBS if verb != "create")
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NOT_CHECKED = FieldError(
    "<nil>",
    INVALID,
    "null",
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def resources_of(definition: CustomResourceDefinition, convert: Convert, since: int, stored: Stored) -> list[Resource]:
    """Return the resources of a definition; an empty list unless the definition is established.

    since: the revision up to which an older definition may have stored objects.
    stored: the rules of storage, shared by all resources of the definition; this function updates them.
    """
    storage = storage_version(definition)
    if storage is None or not is_true(definition.status.conditions, ESTABLISHED):
        return []
    group = definition.spec.group
    versions = [_Version(definition, version) for version in definition.spec.versions]
    stored.version = f"{group}/{storage.name}"
    stored.forms = {version.kind.api_version: version.form for version in versions}
    stored.convert, stored.since = convert, since
    served = [version for version in versions if version.version.served]
    if not served and is_true(definition.status.conditions, TERMINATING):
        # The deletion of the definition deletes its objects, so one version must stay reachable.
        served = [version for version in versions if version.version.storage]
    return [version.resource(stored) for version in served]


class _Version(Struct, frozen=True, eq=False, dict=True):
    """One version of a definition, with the checks that are compiled from it."""

    definition: CustomResourceDefinition
    version: CustomResourceDefinitionVersion

    @cached_property
    def kind(self) -> Kind[dict[str, Any]]:
        spec = self.definition.spec
        return Kind(
            spec.group,
            self.version.name,
            spec.names.kind,
            spec.names.plural,
            dict,
            namespaced=spec.scope == NAMESPACED,
        )

    @cached_property
    def schema(self) -> Schema:
        declared = self.version.schema
        return _ANYTHING if declared is None or declared.open_api_v3_schema is None else declared.open_api_v3_schema

    @cached_property
    def _form(self) -> Checker:
        return compile_form(self.schema, prune=not self.definition.spec.preserve_unknown_fields)

    @cached_property
    def _judge(self) -> Callable[[Any], list[FieldError]]:
        return compile_judgement(self.schema)

    @cached_property
    def _rules(self) -> Callable[[Any, Any], Sequence[FieldError]] | None:
        from muster.cluster.apiserver.cel.rules import compile_rules

        return compile_rules(self.schema)

    def form(self, document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:  # noqa: ARG002  (another schema)
        """Prune a document and fill in its defaults.

        sound: ignored, because another schema may have checked those parts.
        """
        return self._form(document)

    def resource(self, stored: Stored) -> Resource:
        """Return the resource that serves this version.

        stored: the version in which objects are stored.
        """
        accepted = self.definition.status.accepted_names or self.definition.spec.names
        terminating = is_true(self.definition.status.conditions, TERMINATING)
        subresources = self.version.subresources
        has_status = subresources is not None and subresources.status is not None
        return Resource(
            kind=self.kind,
            stored=self.kind,
            view=self._make_view(views.take_main if has_status else views.take_all),
            rules=Rules(
                prepare_create=preparation.reset_status if has_status else _leave_unchanged,
                prepare_update=partial(preparation.count_change, status=not has_status),
                has_generation=True,
                unconditional_update=False,
            ),
            verbs=_TERMINATING_VERBS if terminating else VERBS,
            short_names=accepted.short_names,
            categories=accepted.categories,
            fields=self._make_field_labels(),
            subresources=self._make_subresources(has_status=has_status),
            deprecation=self._find_deprecation_warning(),
            schema=make_served_schema(self.schema),
            storage=CustomVersion(stored, self.kind.api_version),
            singular_name=accepted.singular,
            list_kind=accepted.list_kind,
        )

    def _make_view(self, take: Callable[[Document, Document], Document]) -> View:
        return View(
            self.kind,
            take=take,
            validate_create=self._validate_create,
            validate_update=self._validate_update,
            compile=self._compile,
            printer=make_printer(self.version.additional_printer_columns),
        )

    def _make_subresources(self, *, has_status: bool) -> tuple[Subresource, ...]:
        subresources = []
        if has_status:
            subresources.append(Subresource("status", self.kind, VIEW_VERBS, self._make_view(views.take_only_status)))
        scale = self.version.subresources.scale if self.version.subresources is not None else None
        if scale is not None:
            subresources.append(scale_subresource(scale, self._validate_update))
        return tuple(subresources)

    def _find_deprecation_warning(self) -> str:
        if not self.version.deprecated:
            return ""
        return self.version.deprecation_warning or self._make_default_deprecation()

    def _make_default_deprecation(self) -> str:
        """Return the warning about a deprecated version, which names the preferred newer version if there is one."""
        kind, group = self.kind.kind, self.kind.group
        better = [
            version.name
            for version in self.definition.spec.versions
            if version.served
            and not version.deprecated
            and make_version_key(version.name) < make_version_key(self.version.name)
        ]
        use = f"; use {group}/{min(better, key=make_version_key)} {kind}" if better else ""
        return f"{self.kind.api_version} {kind} is deprecated{use}"

    def _make_field_labels(self) -> FieldLabels:
        paths = {field.json_path.removeprefix("."): field.json_path for field in self.version.selectable_fields}
        if not paths:
            return FieldLabels({})
        names_by_label = {name: simple_names(path) for name, path in paths.items()}
        return FieldLabels({name: name for name in names_by_label}, read=partial(_read_fields, names_by_label))

    def _compile(self, kind: Kind[Any]) -> Checker:
        """Compile the checker of request bodies.

        The checker prunes the body and fills in its defaults. The checker treats the metadata like those of a built-in
        kind.
        """
        check_meta = compile_builtin(kind.seen_as(Object))

        def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
            # An older schema may have checked the stored object, so only its metadata count as sound.
            body = self._form(document)
            metadata = document.get("metadata") if isinstance(document, dict) else None
            if metadata is None:
                return body
            meta = check_meta({"metadata": metadata}, sound)
            value = body.value if meta.value["metadata"] is metadata else body.value | meta.value
            return Checked(value, (*meta.unknown, *body.unknown), ())

        return checker

    def _validate_create(self, document: Document) -> Sequence[FieldError]:
        meta = msgspec.convert(document, Object).metadata
        of_meta = new_metadata(meta, names.dns_subdomain, namespaced=self.kind.namespaced, custom=True)
        errors = [*of_meta, *self._judge(document)]
        return errors + self._find_broken_rules(document, None, errors)

    def _validate_update(self, document: Document, old: Document) -> Sequence[FieldError]:
        new_meta, old_meta = msgspec.convert(document, Object).metadata, msgspec.convert(old, Object).metadata
        judged = self._judge(document)
        of_meta = changed_metadata(new_meta, old_meta, custom=True)
        errors = [*of_meta, *(remove_old_errors(judged, document, old) if judged else ())]
        return errors + self._find_broken_rules(document, old, errors)

    def _find_broken_rules(
        self, document: Document, old: Document | None, errors: Sequence[FieldError]
    ) -> list[FieldError]:
        """Return the errors of the CEL rules.

        If an earlier error means that the document lacks the shape that the rules expect, the rules do not run, and the
        result is an error that says so.
        """
        if self._rules is None:
            return []
        return [_NOT_CHECKED] if any(_is_blocking(error) for error in errors) else list(self._rules(document, old))


def make_served_schema(schema: Schema) -> Schema:
    """Return the schema of a version with the metadata that every object has."""
    whole = whole_object(schema)
    return {**whole, "properties": {**whole["properties"], "metadata": _METADATA}}


_METADATA: Schema = make_inlined_schema(Kind("", "v1", "Object", "objects", Object))["properties"]["metadata"]


def _leave_unchanged(document: Document) -> None:
    """Leave a new object unchanged, because the client may set the status if it is no subresource."""


def _is_blocking(error: FieldError) -> bool:
    return error.type in (REQUIRED, TOO_LONG, TOO_MANY, NOT_SUPPORTED) or " must be of type " in error.detail


def _read_fields(paths: Mapping[str, tuple[str, ...]], body: bytes) -> Mapping[str, str]:
    document = msgspec.json.decode(body)
    values = {name: value_at(document, path) for name, path in paths.items()}
    return {name: _format_as_text(value) for name, value in values.items() if value is not None}


def _format_as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
