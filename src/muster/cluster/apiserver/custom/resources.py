"""From a definition to what is served: one `Resource` for each version.

What is costly (schemas, CEL rules) is compiled when it is first needed. The rules of custom resources are those of
upstream's strategy for them (k8s.io/apiextensions-apiserver/pkg/registry/customresource).
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.schema import inlined
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
from muster.cluster.apiserver.cel import compile_rules
from muster.cluster.apiserver.custom.columns import printer
from muster.cluster.apiserver.custom.conversion import Convert
from muster.cluster.apiserver.custom.jsonpath import at, simple_names
from muster.cluster.apiserver.custom.ratcheting import without_old_errors
from muster.cluster.apiserver.custom.scale import scale_subresource
from muster.cluster.apiserver.custom.versions import CustomVersion, Stored
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.discovery import preference
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

# Of a definition that is being deleted: what there is may still be let go of its finalizers.
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
    """What is to be served of a definition: nothing unless it is established. `stored` becomes what it says.

    Of what was stored up to the revision `since`, the form is not known.
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
    if not served and is_true(
        definition.status.conditions, TERMINATING
    ):  # what is there has to go: it must stay within reach
        served = [version for version in versions if version.version.storage]
    return [version.resource(stored) for version in served]


@dataclass(frozen=True, eq=False)
class _Version:
    """One version of a definition, with what is compiled from it."""

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
        given = self.version.schema
        return _ANYTHING if given is None or given.open_api_v3_schema is None else given.open_api_v3_schema

    @cached_property
    def _form(self) -> Checker:
        return compile_form(self.schema, prune=not self.definition.spec.preserve_unknown_fields)

    @cached_property
    def _judge(self) -> Callable[[Any], list[FieldError]]:
        return compile_judgement(self.schema)

    @cached_property
    def _rules(self) -> Callable[[Any, Any], Sequence[FieldError]] | None:
        return compile_rules(self.schema)

    def form(self, document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:  # noqa: ARG002  (another schema)
        """The document pruned and filled in."""
        return self._form(document)

    def resource(self, stored: Stored) -> Resource:
        accepted = self.definition.status.accepted_names or self.definition.spec.names
        terminating = is_true(self.definition.status.conditions, TERMINATING)
        subresources = self.version.subresources
        has_status = subresources is not None and subresources.status is not None
        return Resource(
            kind=self.kind,
            stored=self.kind,
            view=self._view(views.take_main if has_status else views.take_all),
            rules=Rules(
                prepare_create=preparation.new if has_status else _as_it_is,
                prepare_update=partial(preparation.changed_counted, status=not has_status),
                has_generation=True,
                unconditional_update=False,
            ),
            verbs=_TERMINATING_VERBS if terminating else VERBS,
            short_names=accepted.short_names,
            categories=accepted.categories,
            fields=self._fields(),
            subresources=self._subresources(has_status=has_status),
            deprecation=self._deprecation(),
            schema=served_schema(self.schema),
            storage=CustomVersion(stored, self.kind.api_version),
            singular_name=accepted.singular,
            list_kind=accepted.list_kind,
        )

    def _view(self, take: Callable[[Document, Document], Document]) -> View:
        return View(
            self.kind,
            take=take,
            validate_create=self._validate_create,
            validate_update=self._validate_update,
            compile=self._compile,
            printer=printer(self.version.additional_printer_columns),
        )

    def _subresources(self, *, has_status: bool) -> tuple[Subresource, ...]:
        found = []
        if has_status:
            found.append(Subresource("status", self.kind, VIEW_VERBS, self._view(views.take_only_status)))
        scale = self.version.subresources.scale if self.version.subresources is not None else None
        if scale is not None:
            found.append(scale_subresource(scale, self._validate_update))
        return tuple(found)

    def _deprecation(self) -> str:
        if not self.version.deprecated:
            return ""
        return self.version.deprecation_warning or self._default_deprecation()

    def _default_deprecation(self) -> str:
        """What is said of a deprecated version, and the best newer one to use instead."""
        kind, group = self.kind.kind, self.kind.group
        better = [
            version.name
            for version in self.definition.spec.versions
            if version.served and not version.deprecated and preference(version.name) < preference(self.version.name)
        ]
        use = f"; use {group}/{min(better, key=preference)} {kind}" if better else ""
        return f"{self.kind.api_version} {kind} is deprecated{use}"

    def _fields(self) -> FieldLabels:
        paths = {field.json_path.removeprefix("."): field.json_path for field in self.version.selectable_fields}
        if not paths:
            return FieldLabels({})
        found = {name: simple_names(path) for name, path in paths.items()}
        return FieldLabels({name: name for name in found}, read=partial(_read_fields, found))

    def _compile(self, kind: Kind[Any]) -> Checker:
        """The checker of bodies: their form, and that of the metadata, which is everybody's."""
        check_meta = compile_builtin(kind.seen_as(Object))

        def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
            # What is stored may have been checked by another schema, but for the metadata.
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
        found = [*of_meta, *self._judge(document)]
        return found + self._broken_rules(document, None, found)

    def _validate_update(self, document: Document, old: Document) -> Sequence[FieldError]:
        new_meta, old_meta = msgspec.convert(document, Object).metadata, msgspec.convert(old, Object).metadata
        judged = self._judge(document)
        of_meta = changed_metadata(new_meta, old_meta, custom=True)
        found = [*of_meta, *(without_old_errors(judged, document, old) if judged else ())]
        return found + self._broken_rules(document, old, found)

    def _broken_rules(self, document: Document, old: Document | None, found: Sequence[FieldError]) -> list[FieldError]:
        """What CEL says of a document, unless it is too far from what the rules are written for."""
        if self._rules is None:
            return []
        return [_NOT_CHECKED] if any(_blocks(error) for error in found) else list(self._rules(document, old))


def served_schema(schema: Schema) -> Schema:
    """The schema of a version with the metadata that every object has."""
    whole = whole_object(schema)
    return {**whole, "properties": {**whole["properties"], "metadata": _METADATA}}


_METADATA: Schema = inlined(Kind("", "v1", "Object", "objects", Object))["properties"]["metadata"]


def _as_it_is(document: Document) -> None:
    """Nothing is the server's to set."""


def _blocks(error: FieldError) -> bool:
    return error.type in (REQUIRED, TOO_LONG, TOO_MANY, NOT_SUPPORTED) or " must be of type " in error.detail


def _read_fields(paths: Mapping[str, tuple[str, ...]], body: bytes) -> Mapping[str, str]:
    document = msgspec.json.decode(body)
    found = {name: at(document, path) for name, path in paths.items()}
    return {name: _as_text(value) for name, value in found.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
