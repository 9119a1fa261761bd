"""Make the served resources of stored-only kinds: the server stores their objects, and no controller acts on them.

Charts and operators create such objects. This module takes the kinds from `storedkinds.json`, joins them with their
types and rules, if any, and makes resources. When a client creates an object, the server warns about the effects that
the object would have on a Kubernetes cluster and does not have here.
"""

from typing import Any

from msgspec.structs import replace

from muster.api import core
from muster.api.batch import CRON_JOB
from muster.api.groups import apps, autoscaling_v2, discovery, networking, policy, runtimeclass, storage
from muster.api.groups.scheduling_v1alpha2 import POD_GROUP
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.server.apiregistration import API_SERVICE
from muster.api.validation import podgroups as podgroup_rules
from muster.api.validation.groups import apps as app_rules
from muster.api.validation.groups import networking as network_rules
from muster.api.validation.groups import nodes as node_rules
from muster.api.validation.groups import scaling
from muster.api.validation.groups import storage as storage_rules
from muster.api.validation.server import apiservice as api_service_rules
from muster.api.validation.standard import Standard
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry import autoscalers
from muster.cluster.apiserver.registry.entries import make_resource, make_status_subresource, map_to_same_names
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.storedkinds import StoredKind, read_stored_kinds
from muster.cluster.apiserver.tables import storedkinds as tables

# The kinds with rules of their own. For all other kinds, validation checks only the metadata.
_RULED: dict[str, tuple[Kind[Any], Standard]] = {
    kind.resource: (kind, standard)
    for kind, standard in (
        (API_SERVICE, api_service_rules.API_SERVICE),
        (CRON_JOB, app_rules.CRON_JOB),
        (POD_GROUP, podgroup_rules.NATIVE),
        (apps.CONTROLLER_REVISION, app_rules.CONTROLLER_REVISION),
        (apps.DAEMON_SET, app_rules.DAEMON_SET),
        (apps.DEPLOYMENT, app_rules.DEPLOYMENT),
        (apps.REPLICA_SET, app_rules.REPLICA_SET),
        (apps.STATEFUL_SET, app_rules.STATEFUL_SET),
        (autoscaling_v2.HORIZONTAL_POD_AUTOSCALER, scaling.AUTOSCALER),
        (core.ENDPOINTS, network_rules.ENDPOINTS),
        (core.PERSISTENT_VOLUME, storage_rules.PERSISTENT_VOLUME),
        (core.PERSISTENT_VOLUME_CLAIM, storage_rules.PERSISTENT_VOLUME_CLAIM),
        (core.POD_TEMPLATE, app_rules.POD_TEMPLATE),
        (core.REPLICATION_CONTROLLER, app_rules.REPLICATION_CONTROLLER),
        (discovery.ENDPOINT_SLICE, network_rules.ENDPOINT_SLICE),
        (networking.INGRESS, network_rules.INGRESS),
        (networking.INGRESS_CLASS, network_rules.INGRESS_CLASS),
        (networking.NETWORK_POLICY, network_rules.NETWORK_POLICY),
        (policy.POD_DISRUPTION_BUDGET, scaling.DISRUPTION_BUDGET),
        (runtimeclass.RUNTIME_CLASS, node_rules.RUNTIME_CLASS),
        (storage.STORAGE_CLASS, storage_rules.STORAGE_CLASS),
        (storage.VOLUME_ATTRIBUTES_CLASS, storage_rules.VOLUME_ATTRIBUTES_CLASS),
    )
}


def _make_resource(name: str, stored: StoredKind) -> Resource:
    kind, standard = _RULED.get(name) or (_make_kind(name, stored), Standard(namespaced=stored.namespaced))
    subresources = [_make_scale_subresource(standard)] if stored.scales else []
    if stored.has_status:
        subresources.append(make_status_subresource(kind, standard.update_status))
    return make_resource(
        kind,
        (standard.create, standard.update),
        _make_rules(stored, kind.plural),
        *subresources,
        take=views.take_main if stored.has_status else views.take_all,
        fields=FieldLabels(map_to_same_names(*stored.fields)) if stored.fields else NO_FIELDS,
        short_names=stored.short_names,
        categories=stored.categories,
    )


def _make_kind(name: str, stored: StoredKind) -> Kind[Object]:
    group, _, version = stored.api_version.rpartition("/")
    return Kind(group, version, stored.kind, name.partition(".")[0], Object, namespaced=stored.namespaced)


def _make_rules(stored: StoredKind, plural: str) -> Rules:
    rules = Rules(
        has_generation=stored.has_generation,
        create_on_update=stored.create_on_update,
        unconditional_update=stored.unconditional_update,
        propagation=stored.propagation,
        returns_deleted=stored.returns_deleted,
        warning=f"this cluster keeps {plural} but {stored.but}" if stored.but else "",
    )
    if stored.counts_all:
        return replace(
            rules, prepare_create=preparation.prepare_new_without_spec, prepare_update=preparation.count_change
        )
    if stored.new_status is not None:
        return replace(rules, prepare_create=preparation.make_status_setter(**stored.new_status))
    return rules


def _make_scale_subresource(standard: Standard) -> Subresource:
    view = View(
        views.SCALE,
        views.show_replicas,
        views.take_replicas,
        validate_update=standard.update,
        take_config=views.apply_replicas,
    )
    return Subresource("scale", views.SCALE, VIEW_VERBS, view)


def _add_approval(requests: Resource) -> Resource:
    """Return CertificateSigningRequests with an unchangeable spec and the subresource `approval`."""
    [observed] = requests.subresources
    return replace(
        requests,
        rules=replace(requests.rules, prepare_update=preparation.restore_spec),
        subresources=(replace(observed, name="approval"), observed),
    )


def _show_as_v1(scalers: Resource) -> Resource:
    """Return the resource that serves HorizontalPodAutoscalers in `autoscaling/v1`, from the stored objects in v2."""
    kind, standard = autoscalers.V1, scaling.AUTOSCALER
    printer = tables.printer_of("horizontalpodautoscalers.autoscaling/v1")
    main = View(
        kind, autoscalers.convert_to_v1, autoscalers.convert_from_v1, standard.create, standard.update, printer=printer
    )
    observed = View(kind, autoscalers.convert_to_v1, autoscalers.take_status, validate_update=standard.update_status)
    return replace(scalers, kind=kind, view=main, subresources=(Subresource("status", kind, VIEW_VERBS, observed),))


_SERVED = {name: _make_resource(name, stored) for name, stored in read_stored_kinds().items() if stored.kind}
_SERVED |= {
    "certificatesigningrequests.certificates.k8s.io": _add_approval(
        _SERVED["certificatesigningrequests.certificates.k8s.io"]
    )
}

# The server serves these resources only if the caller of `make_builtin_resources` lists their version.
ALPHA: tuple[Resource, ...] = tuple(each for each in _SERVED.values() if each.kind.version.startswith("v1alpha"))
STORED_KINDS: tuple[Resource, ...] = (
    *(each for each in _SERVED.values() if each not in ALPHA),
    _show_as_v1(_SERVED[autoscaling_v2.HORIZONTAL_POD_AUTOSCALER.resource]),
)
