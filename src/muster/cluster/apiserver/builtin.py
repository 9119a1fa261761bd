"""The table of what is served. Per-kind behaviour is in `preparation`, `views` and `muster.api`; here it is joined.

Which kinds may be created by PUT, may be updated without a version, answer deletion with the object, and so on, is
as in k8s.io/kubernetes (pkg/registry, one strategy per kind).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from muster.api.batch import JOB
from muster.api.coordination import LEASE
from muster.api.core import (
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Binding,
)
from muster.api.defaults import DEFAULTS
from muster.api.events import EVENTS_V1_EVENT
from muster.api.kinds import Kind
from muster.api.policy import Eviction
from muster.api.scheduling import PRIORITY_CLASS
from muster.api.status import FieldError
from muster.api.validation import (
    configmap,
    event,
    event_v1,
    job,
    lease,
    namespace,
    node,
    pod,
    priorityclass,
    secret,
    service,
    serviceaccount,
)
from muster.cluster.apiserver import preparation, views
from muster.cluster.apiserver.builtin_kueue import KUEUE, VISIBILITY
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry import VERBS, Registry, Resource, Rules, Subresource, View
from muster.cluster.apiserver.selection import NO_FIELDS, FieldLabels

BINDING = Kind("", "v1", "Binding", "bindings", Binding)
EVICTION = Kind("policy", "v1", "Eviction", "evictions", Eviction)

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_POD_FIELDS = FieldLabels(
    _same(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    | {"spec.host": "spec.nodeName", "status.podIPs": "status.podIP"}
)
_EVENT_FIELDS = FieldLabels(
    _same("reason", "reportingComponent", "source", "type", *(f"involvedObject.{name}" for name in _INVOLVED))
)
_EVENTS_V1_FIELDS = FieldLabels(
    _same("reason", "type")
    | {"reportingController": "reportingComponent"}
    | {f"regarding.{name}": f"involvedObject.{name}" for name in _INVOLVED}
)
_JOB_FIELDS = FieldLabels(_same("status.successful"), 'field label "{label}" not supported for batchv1.Job')


# The rules of a kind, for new objects and for changes.
_Validation = tuple[Callable[[Any], Sequence[FieldError]], Callable[[Any, Any], Sequence[FieldError]]]

_NO_COLLECTION = tuple(verb for verb in VERBS if verb != "deletecollection")


def _served(
    kind: Kind[Any],
    validation: _Validation,
    rules: Rules,
    *subresources: Subresource,
    take: Callable[[Document, Document], Document] = views.take_all,
    fields: FieldLabels = NO_FIELDS,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
) -> Resource:
    """A resource that is stored as it is seen; `take` is what a write of it may change."""
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


def _status(
    kind: Kind[Any],
    validate: Callable[[Any, Any], Sequence[FieldError]],
    take: Callable[[Document, Document], Document] = views.take_status,
) -> Subresource:
    view = View(kind, take=take, validate_update=validate)
    return Subresource("status", kind, ("get", "patch", "update"), view)


PODS = _served(
    POD,
    (pod.validate_create, pod.validate_update),
    Rules(
        prepare_create=preparation.new_pod,
        has_generation=True,
        graceful=True,
        returns_deleted=True,
    ),
    Subresource("binding", BINDING, ("create",)),
    Subresource("eviction", EVICTION, ("create",)),
    Subresource("log", POD, ("get",)),
    _status(POD, pod.validate_status_update, views.take_pod_status),
    take=views.take_main,
    fields=_POD_FIELDS,
    short_names=("po",),
    categories=("all",),
)


def _jobs(elastic: job.Elastic) -> Resource:
    """Jobs, with one of the two rules for a change of an Indexed Job's completions."""
    validate_update = partial(job.validate_update, elastic=elastic)
    return _served(
        JOB,
        (job.validate_create, validate_update),
        Rules(prepare_create=preparation.new_job, has_generation=True, propagation="Orphan"),
        Subresource(
            "scale",
            views.SCALE,
            ("get", "patch", "update"),
            View(views.SCALE, views.show_scale, views.take_scale, validate_update=validate_update),
        ),
        _status(JOB, job.validate_status_update),
        take=views.take_main,
        fields=_JOB_FIELDS,
        categories=("all",),
    )


NODES = _served(
    NODE,
    (node.validate_create, node.validate_update),
    Rules(),
    _status(NODE, node.validate_status_update),
    take=views.take_main,
    fields=FieldLabels(_same("spec.unschedulable")),
    short_names=("no",),
)

NAMESPACES = _served(
    NAMESPACE,
    (namespace.validate_create, namespace.validate_update),
    Rules(prepare_create=preparation.new_namespace),
    Subresource(
        "finalize",
        NAMESPACE,
        ("update",),
        View(NAMESPACE, take=views.take_main, validate_update=namespace.validate_finalize),
    ),
    _status(NAMESPACE, namespace.validate_status_update),
    take=views.take_namespace,
    verbs=_NO_COLLECTION,
    fields=FieldLabels(_same("status.phase")),
    short_names=("ns",),
)

SERVICES = _served(
    SERVICE,
    (service.validate_create, service.validate_update),
    Rules(
        prepare_create=preparation.new_service,
        prepare_update=preparation.changed_service,
        create_on_update=True,
        returns_deleted=True,
    ),
    _status(SERVICE, service.validate_status_update),
    take=views.take_main,
    fields=FieldLabels(_same("spec.clusterIP", "spec.type")),
    short_names=("svc",),
    categories=("all",),
)

EVENTS = _served(
    EVENT,
    (event.validate_create, event.validate_update),
    Rules(create_on_update=True, propagation=None),
    fields=_EVENT_FIELDS,
    short_names=("ev",),
)

EVENTS_V1 = replace(
    EVENTS,
    kind=EVENTS_V1_EVENT,
    view=View(
        EVENTS_V1_EVENT,
        views.show_event,
        views.take_event,
        event_v1.validate_create,
        event_v1.validate_update,
        validates_shown=True,
    ),
    fields=_EVENTS_V1_FIELDS,
)

CONFIG_MAPS = _served(CONFIG_MAP, (configmap.validate_create, configmap.validate_update), Rules(), short_names=("cm",))
SECRETS = _served(SECRET, (secret.validate_create, secret.validate_update), Rules(), fields=FieldLabels(_same("type")))
SERVICE_ACCOUNTS = _served(
    SERVICE_ACCOUNT,
    (serviceaccount.validate_create, serviceaccount.validate_update),
    Rules(unconditional_update=False, returns_deleted=True),
    short_names=("sa",),
)
LEASES = _served(
    LEASE, (lease.validate_create, lease.validate_update), Rules(create_on_update=True, unconditional_update=False)
)
PRIORITY_CLASSES = _served(
    PRIORITY_CLASS,
    (priorityclass.validate_create, priorityclass.validate_update),
    Rules(has_generation=True),
    short_names=("pc",),
)

# The old way of binding: the pod is named in the body.
BINDINGS = Resource(BINDING, POD, View(BINDING), verbs=("create",))


@cache
def builtin(elastic: job.Elastic) -> tuple[Resource, ...]:
    """All that is served; `elastic` says which changes of an Indexed Job's completions are."""
    return (
        CONFIG_MAPS,
        EVENTS,
        NAMESPACES,
        NODES,
        PODS,
        SECRETS,
        SERVICE_ACCOUNTS,
        SERVICES,
        _jobs(elastic),
        LEASES,
        EVENTS_V1,
        PRIORITY_CLASSES,
        BINDINGS,
        *KUEUE,
        *VISIBILITY,
    )  # fmt: skip


BUILTIN = Registry(builtin("kep"))
