"""The served resources of Kueue: v1beta2 is stored, and v1beta1 is another view of the same objects.

Upstream they are CRDs with webhooks, and they behave so here:

- A structural schema checks the form of a body.
- A write of the status changes only the status.
- A finalizer keeps a ClusterQueue or ResourceFlavor until its controller removes the finalizer.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from muster.api.kueue.conversion import to_v1beta1, to_v1beta2
from muster.api.kueue.v1beta1 import V1BETA1_KINDS
from muster.api.kueue.visibility import VISIBILITY_VERSIONS, cluster_queues, kind_of_summaries, local_queues
from muster.api.managed.protection import HELD_KINDS, hold_while_used
from muster.api.validation.kueue import VALIDATIONS, Create, Update
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.request.selection import FieldLabels
from muster.cluster.apiserver.schema import compile_structural

_DEPRECATED = "This version is deprecated. Use v1beta2 instead."
_NO_FIELDS = FieldLabels({})
_WORKLOAD_FIELDS = FieldLabels({"status.admission.clusterQueue": "status.admission.clusterQueue"})

_Take = Callable[[Document, Document], Document]


def _make_resources(
    kind: Kind[Any],
    *short_names: str,
    has_status: bool = False,
    fields: FieldLabels = _NO_FIELDS,
    deprecated: bool = True,
) -> tuple[Resource, Resource]:
    """Return the resources of a kind in both versions, the stored version first.

    short_names: the short names for kubectl.
    has_status: whether the status is a subresource.
    fields: the fields of selectors in the stored version.
    deprecated: whether responses in the old version warn that it is deprecated.
    """
    validation = VALIDATIONS[kind.resource]
    rules = Rules(
        default=DEFAULTS[kind.resource],
        prepare_create=_prepare_held if kind in HELD_KINDS else preparation.reset_status,
        prepare_update=preparation.count_change,
        has_generation=True,
        unconditional_update=False,
    )
    take = views.take_main if has_status else views.take_all

    def make_resource(version: Kind[Any], fields: FieldLabels, deprecation: str = "") -> Resource:
        status = _make_view(kind, version, views.take_only_status, validation.create, validation.status, status=True)
        return Resource(
            kind=version,
            stored=kind,
            view=_make_view(kind, version, take, validation.create, validation.update),
            rules=rules,
            short_names=short_names,
            fields=fields,
            subresources=(Subresource("status", version, VIEW_VERBS, status),) if has_status else (),
            deprecation=deprecation,
        )

    old = make_resource(V1BETA1_KINDS[kind.resource], _NO_FIELDS, _DEPRECATED if deprecated else "")
    return make_resource(kind, fields), old


def _make_view(
    stored: Kind[Any],
    kind: Kind[Any],
    take: _Take,
    validate_create: Create,
    validate_update: Update,
    *,
    status: bool = False,
) -> View:
    """Return a view of stored objects in one version. Validation always gets the stored version."""
    show = None
    if kind is not stored:
        show = partial(to_v1beta1, stored.resource)
        take = partial(_take_converted, stored.resource, take)
    return View(kind, show, take, validate_create, validate_update, compile=partial(compile_structural, status=status))


def _take_converted(resource: str, take: _Take, stored: Document, written: Document) -> Document:
    return take(stored, to_v1beta2(resource, written))


def _prepare_held(document: Document) -> None:
    """Remove a new object's status, and add the finalizer that its controller removes when the object is unused."""
    preparation.reset_status(document)
    hold_while_used(document)


KUEUE: tuple[Resource, ...] = (
    *_make_resources(ADMISSION_CHECK, "ac", has_status=True),
    *_make_resources(CLUSTER_QUEUE, "cq", has_status=True),
    *_make_resources(COHORT, "co", has_status=True),
    *_make_resources(LOCAL_QUEUE, "queue", "queues", "lq", has_status=True),
    *_make_resources(MULTI_KUEUE_CLUSTER, "mkc", has_status=True),
    *_make_resources(MULTI_KUEUE_CONFIG, "mkconf", deprecated=False),
    *_make_resources(PROVISIONING_REQUEST_CONFIG, "prc"),
    *_make_resources(RESOURCE_FLAVOR, "flavor", "flavors", "rf"),
    *_make_resources(TOPOLOGY, "topo"),
    *_make_resources(WORKLOAD, "kwl", "kueueworkload", "kueueworkloads", has_status=True, fields=_WORKLOAD_FIELDS),
    *_make_resources(WORKLOAD_PRIORITY_CLASS, "wpc"),
)


def _make_visibility_resources(version: str) -> tuple[Resource, ...]:
    """Return the resources of Kueue's visibility group in one version: pending workloads, which are not stored."""
    pending = Subresource("pendingworkloads", kind_of_summaries(version), ("get",))
    shown: tuple[tuple[Kind[Any], Kind[Any]], ...] = (
        (cluster_queues(version), CLUSTER_QUEUE),
        (local_queues(version), LOCAL_QUEUE),
    )
    return tuple(Resource(kind, stored, View(kind), verbs=(), subresources=(pending,)) for kind, stored in shown)


VISIBILITY: tuple[Resource, ...] = tuple(
    resource for version in VISIBILITY_VERSIONS for resource in _make_visibility_resources(version)
)
