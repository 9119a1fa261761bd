"""The served resources of CustomResourceDefinitions, and the fields that the server sets in them.

The write of a definition also decides whether it is established. So its kind is served as soon as the client gets the
response. `custom` makes the resources that a definition adds.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.server.apiextensions import (
    CLEANUP_FINALIZER,
    CUSTOM_RESOURCE_DEFINITION,
    TERMINATING,
    CustomResourceDefinition,
)
from muster.api.status import FieldError
from muster.api.validation.server.customresourcedefinition import validate_status_update
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.custom import definition as rules
from muster.cluster.apiserver.custom import v1beta1
from muster.cluster.apiserver.custom.names import settle_names
from muster.cluster.apiserver.custom.schemaform import read_schema
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects import views
from muster.cluster.apiserver.objects.conditions import set_condition
from muster.cluster.apiserver.objects.metadata import format_timestamp, meta_of
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.schema import Checked, Checker, compile_builtin
from muster.cluster.store import Store
from muster.runtime.clock import Clock


def _compile(kind: Kind[Any]) -> Checker:
    """Return the checker of definitions, which also reads the schemas in them."""
    check = compile_builtin(kind)

    def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        checked = check(document, sound)
        unknown: list[str] = []
        value = _read_schemas(checked.value, unknown)
        return Checked(value, (*checked.unknown, *unknown), checked.errors)

    return checker


def _read_schemas(document: Document, unknown: list[str]) -> Document:
    versions = (document.get("spec") or {}).get("versions")
    if not versions:
        return document
    read = [_read_version_schema(version, f"spec.versions[{index}]", unknown) for index, version in enumerate(versions)]
    return document | {"spec": document["spec"] | {"versions": read}}


def _read_version_schema(version: Document, path: str, unknown: list[str]) -> Document:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return version
    where = f"{path}.schema.openAPIV3Schema"
    return version | {"schema": {"openAPIV3Schema": read_schema(schema, where, unknown)}}


def _reset_status(definition: Document) -> None:
    """Set the status of a new definition, in place: empty, except for the version in which objects will be stored."""
    definition["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
    _record_storage_version(definition, definition)


def _record_storage_version(definition: Document, stored: Document) -> None:
    """Add the storage version of a definition to its `storedVersions`, in place.

    stored: the definition whose status is the base; the definition itself if it is new.
    """
    status = dict(stored.get("status") or {})
    known = list(status.get("storedVersions") or ())
    for name in _list_storage_names(definition):
        if name not in known:
            definition["status"] = status | {"storedVersions": [*known, name]}


def _list_storage_names(definition: Document) -> Iterator[str]:
    for version in definition["spec"].get("versions") or ():
        if version.get("storage"):
            yield version.get("name", "")


def _begin_deletion(definition: Document, now: str) -> None:
    """Set the finalizer and the condition of a definition at its first deletion request, in place.

    The finalizer keeps the definition until the last object of its kind is deleted.

    now: the current time as RFC 3339.
    """
    finalizers = meta_of(definition).setdefault("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    sentence = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    status = definition.setdefault("status", {})
    set_condition(status, TERMINATING, "True", now, reason="InstanceDeletionPending", message=sentence)


CUSTOM_RESOURCE_DEFINITIONS = Resource(
    kind=CUSTOM_RESOURCE_DEFINITION,
    stored=CUSTOM_RESOURCE_DEFINITION,
    view=View(
        CUSTOM_RESOURCE_DEFINITION,
        take=views.take_main,
        validate_create=rules.validate_create,
        validate_update=rules.validate_update,
        compile=_compile,
    ),
    rules=Rules(
        default=DEFAULTS[CUSTOM_RESOURCE_DEFINITION.resource],
        prepare_create=_reset_status,
        prepare_update=_record_storage_version,
        begin_deletion=_begin_deletion,
        has_generation=True,
        unconditional_update=False,
    ),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(
        Subresource(
            "status",
            CUSTOM_RESOURCE_DEFINITION,
            VIEW_VERBS,
            View(
                CUSTOM_RESOURCE_DEFINITION,
                take=views.take_status,
                validate_update=validate_status_update,
                compile=_compile,
            ),
        ),
    ),
)

_V1BETA1 = Kind(
    CUSTOM_RESOURCE_DEFINITION.group,
    "v1beta1",
    CUSTOM_RESOURCE_DEFINITION.kind,
    CUSTOM_RESOURCE_DEFINITION.plural,
    CustomResourceDefinition,
    namespaced=False,
)


def _compile_v1beta1(_kind: Kind[Any]) -> Checker:
    """Return the checker of v1beta1 definitions. It checks their v1 form, and returns the document unchanged.

    `_take_v1beta1` removes the unknown fields.
    """
    check = CUSTOM_RESOURCE_DEFINITIONS.view.checker

    def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        del sound  # the v1 form is a new document, so it shares no part with the stored one
        checked = check(v1beta1.to_v1(v1beta1.require_shape(document)))
        return Checked(document, checked.unknown, checked.errors)

    return checker


def _take_v1beta1(take: Callable[[Document, Document], Document], stored: Document, written: Document) -> Document:
    return take(stored, CUSTOM_RESOURCE_DEFINITIONS.view.checker(v1beta1.to_v1(written)).value)


def _select_v1beta1_errors(errors: Sequence[FieldError]) -> list[FieldError]:
    """Return the errors of a v1 definition that are also errors in v1beta1.

    v1beta1 may preserve unknown fields and needs no approval.
    """
    return [
        error for error in errors if error.path != "spec.preserveUnknownFields" and "annotations[" not in error.path
    ]


CUSTOM_RESOURCE_DEFINITIONS_V1BETA1 = replace(
    CUSTOM_RESOURCE_DEFINITIONS,
    kind=_V1BETA1,
    view=View(
        _V1BETA1,
        v1beta1.to_v1beta1,
        partial(_take_v1beta1, views.take_main),
        lambda new: _select_v1beta1_errors(rules.validate_create(new)),
        lambda new, old: _select_v1beta1_errors(rules.validate_update(new, old)),
        compile=_compile_v1beta1,
    ),
    subresources=(
        Subresource(
            "status",
            _V1BETA1,
            VIEW_VERBS,
            View(
                _V1BETA1,
                v1beta1.to_v1beta1,
                partial(_take_v1beta1, views.take_status),
                validate_update=validate_status_update,
                compile=_compile_v1beta1,
            ),
        ),
    ),
    deprecation=(
        "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; "
        "use apiextensions.k8s.io/v1 CustomResourceDefinition"
    ),
)


class _Status(msgspec.Struct, frozen=True):
    accepted_names: dict[str, Any] = msgspec.field(default={}, name="acceptedNames")


class _Named(msgspec.Struct, frozen=True):
    status: _Status = _Status()


# A definition may be big. Other definitions need only its accepted names.
_named = msgspec.json.Decoder(_Named)

APIEXTENSIONS: tuple[Resource, ...] = (CUSTOM_RESOURCE_DEFINITIONS, CUSTOM_RESOURCE_DEFINITIONS_V1BETA1)


class NameSettlement:
    """The last admission plugin before the write of a definition, which accepts or rejects the definition's names."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Set the accepted names and their conditions in a definition, in place. Do nothing for any other write."""
        key = CUSTOM_RESOURCE_DEFINITION.resource
        if attempt.resource.key != key or attempt.operation not in ("CREATE", "UPDATE"):
            return
        suffix = "." + attempt.document["spec"]["group"]
        others = (
            _named.decode(entry.body).status.accepted_names
            for entry in store.latest_list(key).entries
            if entry.key.name.endswith(suffix) and entry.key.name != attempt.name
        )
        settle_names(attempt.document, others, format_timestamp(self._clock.now()))
