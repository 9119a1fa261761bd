"""The served resources of kept kinds: the server stores and shows their objects, and no controller acts on them.

Charts and operators bring such objects along. This module takes the kinds from `kept.json`, joins them with types and
rules where there are any, and gives resources. The answer to a creation warns the user about effects that the kind has
on a full cluster and not here.
"""

from dataclasses import replace
from typing import Any

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
from muster.cluster.apiserver.kept import KeptKind, read_kept
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry import autoscalers
from muster.cluster.apiserver.registry.entries import same, served, status
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.tables import kept as tables

# The kinds with rules of their own. For all others, validation checks the metadata alone.
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


def _make_resource(name: str, kept: KeptKind) -> Resource:
    kind, standard = _RULED.get(name) or (_make_kind(name, kept), Standard(namespaced=kept.namespaced))
    subresources = [_make_scale(standard)] if kept.scales else []
    if kept.has_status:
        subresources.append(status(kind, standard.update_status))
    return served(
        kind,
        (standard.create, standard.update),
        _make_rules(kept, kind.plural),
        *subresources,
        take=views.take_main if kept.has_status else views.take_all,
        fields=FieldLabels(same(*kept.fields)) if kept.fields else NO_FIELDS,
        short_names=kept.short_names,
        categories=kept.categories,
    )


def _make_kind(name: str, kept: KeptKind) -> Kind[Object]:
    group, _, version = kept.api_version.rpartition("/")
    return Kind(group, version, kept.kind, name.partition(".")[0], Object, namespaced=kept.namespaced)


def _make_rules(kept: KeptKind, plural: str) -> Rules:
    rules = Rules(
        has_generation=kept.has_generation,
        create_on_update=kept.create_on_update,
        unconditional_update=kept.unconditional_update,
        propagation=kept.propagation,
        returns_deleted=kept.returns_deleted,
        warning=f"this cluster keeps {plural} but {kept.but}" if kept.but else "",
    )
    if kept.counts_all:
        return replace(rules, prepare_create=preparation.new_counted, prepare_update=preparation.changed_counted)
    if kept.new_status is not None:
        return replace(rules, prepare_create=preparation.new_with(**kept.new_status))
    return rules


def _make_scale(standard: Standard) -> Subresource:
    view = View(
        views.SCALE,
        views.show_replicas,
        views.take_replicas,
        validate_update=standard.update,
        applied=views.apply_replicas,
    )
    return Subresource("scale", views.SCALE, VIEW_VERBS, view)


def _add_approval(requests: Resource) -> Resource:
    """Return CertificateSigningRequests with an unchangeable spec and the subresource `approval`."""
    [observed] = requests.subresources
    return replace(
        requests,
        rules=replace(requests.rules, prepare_update=preparation.unchangeable),
        subresources=(replace(observed, name="approval"), observed),
    )


def _show_as_v1(scalers: Resource) -> Resource:
    """Return HorizontalPodAutoscalers with the view of `autoscaling/v1`."""
    kind, standard = autoscalers.V1, scaling.AUTOSCALER
    printer = tables.printer_of("horizontalpodautoscalers.autoscaling/v1")
    main = View(kind, autoscalers.show, autoscalers.take, standard.create, standard.update, printer=printer)
    observed = View(kind, autoscalers.show, autoscalers.take_status, validate_update=standard.update_status)
    return replace(scalers, kind=kind, view=main, subresources=(Subresource("status", kind, VIEW_VERBS, observed),))


_SERVED = {name: _make_resource(name, kept) for name, kept in read_kept().items() if kept.kind}
_SERVED |= {
    "certificatesigningrequests.certificates.k8s.io": _add_approval(
        _SERVED["certificatesigningrequests.certificates.k8s.io"]
    )
}

# Served only if the caller of `builtin` names their version.
ALPHA: tuple[Resource, ...] = tuple(each for each in _SERVED.values() if each.kind.version.startswith("v1alpha"))
KEPT: tuple[Resource, ...] = (
    *(each for each in _SERVED.values() if each not in ALPHA),
    _show_as_v1(_SERVED[autoscaling_v2.HORIZONTAL_POD_AUTOSCALER.resource]),
)
