"""The table of built-in resources.

The table combines the functions for each kind from `preparation`, `views` and `muster.api`. Its rules follow
k8s.io/kubernetes (pkg/registry, with one strategy per kind): which kinds a PUT creates, which kinds need a version, and
which kinds a deletion returns.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from muster.api.batch import JOB
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
from muster.api.core.podoptions import PodAttachOptions, PodExecOptions, PodPortForwardOptions
from muster.api.groups.coordination import LEASE
from muster.api.groups.events import EVENTS_V1_EVENT
from muster.api.groups.policy import Eviction
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kinds import Kind
from muster.api.validation.core import (
    configmap,
    event,
    namespace,
    node,
    secret,
    service,
    serviceaccount,
)
from muster.api.validation.groups import (
    event_v1,
    lease,
    priorityclass,
)
from muster.api.validation.jobs import job
from muster.api.validation.pods import pod
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.admission import ADMISSION
from muster.cluster.apiserver.registry.apiextensions import APIEXTENSIONS
from muster.cluster.apiserver.registry.devices import DEVICES
from muster.cluster.apiserver.registry.entries import make_resource, make_status_subresource, map_to_same_names
from muster.cluster.apiserver.registry.jobset import JOB_SETS
from muster.cluster.apiserver.registry.kueue import KUEUE, VISIBILITY
from muster.cluster.apiserver.registry.metrics import METRICS
from muster.cluster.apiserver.registry.podgroups import POD_GROUPS
from muster.cluster.apiserver.registry.rbac import RBAC, TOKEN
from muster.cluster.apiserver.registry.resources import VERBS, VIEW_VERBS, Registry, Resource, Rules, Subresource, View
from muster.cluster.apiserver.registry.storedkinds import ALPHA, STORED_KINDS
from muster.cluster.apiserver.registry.volcano import VOLCANO_JOBS
from muster.cluster.apiserver.request.selection import FieldLabels

BINDING = Kind("", "v1", "Binding", "bindings", Binding)
EVICTION = Kind("policy", "v1", "Eviction", "evictions", Eviction)
POD_TUNNELS: Mapping[str, Kind[Any]] = {
    "attach": Kind("", "v1", "PodAttachOptions", "pods", PodAttachOptions),
    "exec": Kind("", "v1", "PodExecOptions", "pods", PodExecOptions),
    "portforward": Kind("", "v1", "PodPortForwardOptions", "pods", PodPortForwardOptions),
}

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


_POD_FIELDS = FieldLabels(
    map_to_same_names(
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
    map_to_same_names(
        "reason", "reportingComponent", "source", "type", *(f"involvedObject.{name}" for name in _INVOLVED)
    )
)
_EVENTS_V1_FIELDS = FieldLabels(
    map_to_same_names("reason", "type")
    | {"reportingController": "reportingComponent"}
    | {f"regarding.{name}": f"involvedObject.{name}" for name in _INVOLVED}
)
_JOB_FIELDS = FieldLabels(map_to_same_names("status.successful"), 'field label "{label}" not supported for batchv1.Job')


_NO_COLLECTION = tuple(verb for verb in VERBS if verb != "deletecollection")


PODS = make_resource(
    POD,
    (pod.validate_create, pod.validate_update),
    Rules(
        prepare_create=preparation.prepare_new_pod,
        has_generation=True,
        graceful=True,
        returns_deleted=True,
    ),
    Subresource("binding", BINDING, ("create",)),
    Subresource("eviction", EVICTION, ("create",)),
    *(Subresource(name, kind, ("create", "get")) for name, kind in POD_TUNNELS.items()),
    Subresource("log", POD, ("get",)),
    make_status_subresource(POD, pod.validate_status_update, views.take_pod_status),
    take=views.take_main,
    fields=_POD_FIELDS,
    short_names=("po",),
    categories=("all",),
)


def _make_job_resource(elastic: job.Elastic) -> Resource:
    """Return the resource of Jobs, with a rule for changes of an Indexed Job's completions (kubernetes KEP-3715)."""
    validate_update = partial(job.validate_update, elastic=elastic)
    return make_resource(
        JOB,
        (job.validate_create, validate_update),
        Rules(prepare_create=preparation.prepare_new_job, has_generation=True, propagation="Orphan"),
        Subresource("log", JOB, ("get",)),
        Subresource(
            "scale",
            views.SCALE,
            VIEW_VERBS,
            View(
                views.SCALE,
                views.show_scale,
                views.take_scale,
                validate_update=validate_update,
                take_config=views.apply_scale,
            ),
        ),
        make_status_subresource(JOB, job.validate_status_update),
        take=views.take_main,
        fields=_JOB_FIELDS,
        categories=("all",),
    )


NODES = make_resource(
    NODE,
    (node.validate_create, node.validate_update),
    Rules(),
    make_status_subresource(NODE, node.validate_status_update),
    take=views.take_main,
    fields=FieldLabels(map_to_same_names("spec.unschedulable")),
    short_names=("no",),
)

NAMESPACES = make_resource(
    NAMESPACE,
    (namespace.validate_create, namespace.validate_update),
    Rules(prepare_create=preparation.prepare_new_namespace),
    Subresource(
        "finalize",
        NAMESPACE,
        ("update",),
        View(NAMESPACE, take=views.take_main, validate_update=namespace.validate_finalize),
    ),
    make_status_subresource(NAMESPACE, namespace.validate_status_update),
    take=views.take_namespace,
    verbs=_NO_COLLECTION,
    fields=FieldLabels(map_to_same_names("status.phase")),
    short_names=("ns",),
)

SERVICES = make_resource(
    SERVICE,
    (service.validate_create, service.validate_update),
    Rules(
        prepare_create=preparation.prepare_new_service,
        prepare_update=preparation.keep_allocations,
        create_on_update=True,
        returns_deleted=True,
    ),
    make_status_subresource(SERVICE, service.validate_status_update),
    take=views.take_main,
    fields=FieldLabels(map_to_same_names("spec.clusterIP", "spec.type")),
    short_names=("svc",),
    categories=("all",),
)

EVENTS = make_resource(
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

CONFIG_MAPS = make_resource(
    CONFIG_MAP, (configmap.validate_create, configmap.validate_update), Rules(), short_names=("cm",)
)
SECRETS = make_resource(
    SECRET, (secret.validate_create, secret.validate_update), Rules(), fields=FieldLabels(map_to_same_names("type"))
)
SERVICE_ACCOUNTS = make_resource(
    SERVICE_ACCOUNT,
    (serviceaccount.validate_create, serviceaccount.validate_update),
    Rules(unconditional_update=False, returns_deleted=True),
    TOKEN,
    short_names=("sa",),
)
LEASES = make_resource(
    LEASE, (lease.validate_create, lease.validate_update), Rules(create_on_update=True, unconditional_update=False)
)
PRIORITY_CLASSES = make_resource(
    PRIORITY_CLASS,
    (priorityclass.validate_create, priorityclass.validate_update),
    Rules(has_generation=True),
    short_names=("pc",),
)

# The old form of a binding, which names the pod in its body.
BINDINGS = Resource(BINDING, POD, View(BINDING), verbs=("create",))


@cache
def make_builtin_resources(elastic: job.Elastic, alpha: tuple[str, ...] = ()) -> tuple[Resource, ...]:
    """Return all built-in resources.

    elastic: the rule for changes of an Indexed Job's completions (kubernetes KEP-3715).
    alpha: the alpha API versions (`group/v1alpha1`) whose resources the server also serves.
    """
    return (
        CONFIG_MAPS,
        EVENTS,
        NAMESPACES,
        NODES,
        PODS,
        SECRETS,
        SERVICE_ACCOUNTS,
        SERVICES,
        _make_job_resource(elastic),
        LEASES,
        EVENTS_V1,
        PRIORITY_CLASSES,
        BINDINGS,
        *RBAC,
        *STORED_KINDS,
        *DEVICES,
        *ADMISSION,
        *APIEXTENSIONS,
        *KUEUE,
        JOB_SETS,
        *POD_GROUPS,
        VOLCANO_JOBS,
        *VISIBILITY,
        *METRICS,
        *(resource for resource in ALPHA if resource.kind.api_version in alpha),
    )  # fmt: skip


BUILTIN = Registry(make_builtin_resources("kep", tuple(resource.kind.api_version for resource in ALPHA)))
