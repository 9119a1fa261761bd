"""Make entries of the registry: a function takes a kind with its rules and returns a `Resource` or `Subresource`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.status import FieldError
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.resources import VERBS, VIEW_VERBS, Resource, Rules, Subresource, View, no_errors
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.schema import compile_structural

_Update = Callable[[Any, Any], Sequence[FieldError]]

# The validation of a kind: for new objects, and for changes.
Validation = tuple[Callable[[Any], Sequence[FieldError]], _Update]


def map_to_same_names(*names: str) -> dict[str, str]:
    """Return a map of each name to itself, for fields of selectors that have the same name in `objects.headers`."""
    return {name: name for name in names}


def make_resource(
    kind: Kind[Any],
    validation: Validation,
    rules: Rules,
    *subresources: Subresource,
    take: Callable[[Document, Document], Document] = views.take_all,
    fields: FieldLabels = NO_FIELDS,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
) -> Resource:
    """Return a resource whose objects are stored in the form that clients write.

    rules: the rules of the kind. Their `default` counts only if `DEFAULTS` has no function for the kind.
    take: see `View.take`.
    """
    default = DEFAULTS.get(kind.resource, rules.default)
    return Resource(
        kind=kind,
        stored=kind,
        view=View(kind, None, take, *validation),
        rules=replace(rules, default=default),
        verbs=verbs,
        short_names=short_names,
        categories=categories,
        fields=fields,
        subresources=subresources,
    )


def make_status_subresource(
    kind: Kind[Any], validate: _Update = no_errors, take: Callable[[Document, Document], Document] = views.take_status
) -> Subresource:
    """Return the subresource `status`. By default, its writes change the status, labels, annotations and finalizers.

    validate: returns the errors in a change, from the new object and the old one.
    take: see `View.take`.
    """
    view = View(kind, take=take, validate_update=validate)
    return Subresource("status", kind, VIEW_VERBS, view)


def make_custom_resource(
    kind: Kind[Any],
    validation: Validation,
    update_status: _Update,
    *short_names: str,
    prepare_create: Callable[[Document], None] = preparation.reset_status,
) -> Resource:
    """Return a resource with a status subresource for a kind that has a CRD upstream, and is built in here.

    As for custom resources, the body of a write is pruned by a structural schema, and an update needs a version.

    update_status: returns the errors in a change of the status, from the new object and the old one.
    """
    view = View(
        kind,
        take=views.take_only_status,
        validate_update=update_status,
        compile=partial(compile_structural, status=True),
    )
    return Resource(
        kind=kind,
        stored=kind,
        view=View(kind, None, views.take_main, *validation, compile=compile_structural),
        rules=Rules(
            default=DEFAULTS[kind.resource],
            prepare_create=prepare_create,
            prepare_update=preparation.count_change,
            has_generation=True,
            unconditional_update=False,
        ),
        short_names=short_names,
        subresources=(Subresource("status", kind, VIEW_VERBS, view),),
    )
