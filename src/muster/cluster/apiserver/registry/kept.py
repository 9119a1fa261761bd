"""Kinds that are kept and shown as upstream does, and that nothing here acts on: charts and operators bring them along.

Where a user may count on something happening, the answer to a creation warns that it will not. Names, categories and
rules of writing are those of k8s.io/kubernetes (pkg/registry, one strategy per kind).
"""

from dataclasses import replace
from typing import Any

from muster.api import (
    core,
)
from muster.api.batch import CRON_JOB
from muster.api.groups import (
    apps,
    autoscaling,
    autoscaling_v2,
    discovery,
    networking,
    policy,
    resource,
    runtimeclass,
    scheduling_v1alpha2,
    storage,
)
from muster.api.kinds import Kind
from muster.api.server import (
    apiregistration,
    certificates,
    flowcontrol,
)
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
from muster.cluster.apiserver.registry.entries import same, served, status
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Resource, Rules, Subresource, View
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.tables.apps import AUTOSCALERS_V1 as PRINTER_V1

_ALL = ("all",)
_PENDING = preparation.new_with(phase="Pending")
_NO_PODS = "makes no pods for them"
_COUNTED = Rules(prepare_create=preparation.new_counted, prepare_update=preparation.changed_counted)
_PLAIN = Rules(prepare_create=preparation.new_with())
_SPEC = Rules(prepare_create=preparation.new_with(), has_generation=True)
_SPEC_ALONE = Rules(has_generation=True)
_REPLICAS = preparation.new_with(replicas=0)


def _kept(
    kind: Kind[Any],
    validation: Standard,
    rules: Rules,
    *short_names: str,
    but: str = "",
    has_status: bool = True,
    scales: bool = False,
    fields: FieldLabels = NO_FIELDS,
    categories: tuple[str, ...] = (),
) -> Resource:
    """A kind; `but` is what does not happen here."""
    subresources = [_scale(validation)] if scales else []
    if has_status:
        subresources.append(status(kind, validation.update_status))
    return served(
        kind,
        (validation.create, validation.update),
        replace(rules, warning=f"this cluster keeps {kind.plural} but {but}") if but else rules,
        *subresources,
        take=views.take_main if has_status else views.take_all,
        fields=fields,
        short_names=short_names,
        categories=categories,
    )


def _scale(validation: Standard) -> Subresource:
    view = View(
        views.SCALE,
        views.show_replicas,
        views.take_replicas,
        validate_update=validation.update,
        applied=views.apply_replicas,
    )
    return Subresource("scale", views.SCALE, VIEW_VERBS, view)


_NAMESPACED = Standard()
_CLUSTER = Standard(namespaced=False)
_GIVEN_BACK = Rules(returns_deleted=True)
_STRICT = Rules(returns_deleted=True, unconditional_update=False)

WORKLOADS = (
    _kept(apps.DEPLOYMENT, app_rules.DEPLOYMENT, _SPEC, "deploy", but=_NO_PODS, scales=True, categories=_ALL),
    _kept(
        apps.REPLICA_SET,
        app_rules.REPLICA_SET,
        replace(_SPEC, prepare_create=_REPLICAS),
        "rs",
        but=_NO_PODS,
        scales=True,
        fields=FieldLabels(same("status.replicas")),
        categories=_ALL,
    ),
    _kept(
        apps.STATEFUL_SET,
        app_rules.STATEFUL_SET,
        replace(_SPEC, prepare_create=preparation.new_with(replicas=0, availableReplicas=0)),
        "sts",
        but=_NO_PODS,
        scales=True,
        categories=_ALL,
    ),
    _kept(
        apps.DAEMON_SET,
        app_rules.DAEMON_SET,
        replace(
            _SPEC,
            prepare_create=preparation.new_with(
                currentNumberScheduled=0, desiredNumberScheduled=0, numberMisscheduled=0, numberReady=0
            ),
        ),
        "ds",
        but=_NO_PODS,
        categories=_ALL,
    ),
    _kept(apps.CONTROLLER_REVISION, app_rules.CONTROLLER_REVISION, Rules(), has_status=False),
    _kept(CRON_JOB, app_rules.CRON_JOB, _SPEC, "cj", but="makes no Jobs from them", categories=_ALL),
    _kept(
        core.REPLICATION_CONTROLLER,
        app_rules.REPLICATION_CONTROLLER,
        replace(_SPEC, prepare_create=_REPLICAS, propagation="Orphan"),
        "rc",
        but=_NO_PODS,
        scales=True,
        fields=FieldLabels(same("status.replicas")),
        categories=_ALL,
    ),
    _kept(
        core.POD_TEMPLATE,
        app_rules.POD_TEMPLATE,
        replace(_COUNTED, create_on_update=True, returns_deleted=True),
        has_status=False,
    ),
    _kept(
        policy.POD_DISRUPTION_BUDGET,
        scaling.DISRUPTION_BUDGET,
        replace(
            _SPEC,
            prepare_create=preparation.new_with(
                currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0
            ),
            unconditional_update=False,
        ),
        "pdb",
    ),
)

AUTOSCALERS = _kept(
    autoscaling_v2.HORIZONTAL_POD_AUTOSCALER,
    scaling.AUTOSCALER,
    Rules(prepare_create=preparation.new_with(currentReplicas=0, desiredReplicas=0)),
    "hpa",
    but="scales nothing by them",
    categories=_ALL,
)
_V1 = autoscaling.HORIZONTAL_POD_AUTOSCALER_V1
AUTOSCALERS_V1 = replace(
    AUTOSCALERS,
    kind=_V1,
    view=View(
        _V1,
        autoscalers.show,
        autoscalers.take,
        scaling.AUTOSCALER.create,
        scaling.AUTOSCALER.update,
        printer=PRINTER_V1,
    ),
    subresources=(
        Subresource(
            "status",
            _V1,
            VIEW_VERBS,
            View(_V1, autoscalers.show, autoscalers.take_status, validate_update=scaling.AUTOSCALER.update_status),
        ),
    ),
)

NETWORK = (
    _kept(
        networking.NETWORK_POLICY,
        network_rules.NETWORK_POLICY,
        _SPEC_ALONE,
        "netpol",
        but="filters no traffic by them",
        has_status=False,
    ),
    _kept(
        networking.INGRESS,
        network_rules.INGRESS,
        replace(_SPEC, prepare_create=preparation.new_with(loadBalancer={})),
        "ing",
        but="leads no traffic through them",
    ),
    _kept(networking.INGRESS_CLASS, network_rules.INGRESS_CLASS, _SPEC_ALONE, has_status=False),
    _kept(networking.IP_ADDRESS, _CLUSTER, Rules(), "ip", has_status=False),
    _kept(networking.SERVICE_CIDR, _CLUSTER, _PLAIN, but="gives services no addresses from them"),
    _kept(core.ENDPOINTS, network_rules.ENDPOINTS, Rules(create_on_update=True), "ep", has_status=False),
    _kept(discovery.ENDPOINT_SLICE, network_rules.ENDPOINT_SLICE, _COUNTED, has_status=False),
)

STORAGE = (
    _kept(
        core.PERSISTENT_VOLUME,
        storage_rules.PERSISTENT_VOLUME,
        Rules(prepare_create=_PENDING, returns_deleted=True),
        "pv",
        but="mounts none of them",
    ),
    _kept(
        core.PERSISTENT_VOLUME_CLAIM,
        storage_rules.PERSISTENT_VOLUME_CLAIM,
        Rules(prepare_create=_PENDING, returns_deleted=True),
        "pvc",
        but="binds no storage to them",
    ),
    _kept(storage.STORAGE_CLASS, storage_rules.STORAGE_CLASS, _GIVEN_BACK, "sc", has_status=False),
    _kept(storage.VOLUME_ATTACHMENT, _CLUSTER, replace(_STRICT, prepare_create=preparation.new_with(attached=False))),
    _kept(storage.CSI_DRIVER, _CLUSTER, replace(_STRICT, has_generation=True), has_status=False),
    _kept(storage.CSI_NODE, _CLUSTER, _STRICT, has_status=False),
    _kept(storage.CSI_STORAGE_CAPACITY, _NAMESPACED, _STRICT, has_status=False),
    _kept(storage.VOLUME_ATTRIBUTES_CLASS, storage_rules.VOLUME_ATTRIBUTES_CLASS, _GIVEN_BACK, "vac", has_status=False),
)

CERTIFICATES = served(
    certificates.CERTIFICATE_SIGNING_REQUEST,
    (_CLUSTER.create, _CLUSTER.update),
    replace(
        _PLAIN,
        prepare_update=preparation.unchangeable,
        warning="this cluster keeps certificatesigningrequests but signs nothing for them",
    ),
    Subresource(
        "approval",
        certificates.CERTIFICATE_SIGNING_REQUEST,
        VIEW_VERBS,
        View(certificates.CERTIFICATE_SIGNING_REQUEST, take=views.take_status, validate_update=_CLUSTER.update_status),
    ),
    status(certificates.CERTIFICATE_SIGNING_REQUEST, _CLUSTER.update_status),
    take=views.take_main,
    fields=FieldLabels(same("spec.signerName")),
    short_names=("csr",),
)

OTHERS = (
    CERTIFICATES,
    _kept(
        apiregistration.API_SERVICE,
        api_service_rules.API_SERVICE,
        replace(_PLAIN, unconditional_update=False),
        but="passes no requests on to them",
        categories=("api-extensions",),
    ),
    _kept(flowcontrol.FLOW_SCHEMA, _CLUSTER, _SPEC),
    _kept(flowcontrol.PRIORITY_LEVEL_CONFIGURATION, _CLUSTER, _SPEC),
    _kept(runtimeclass.RUNTIME_CLASS, node_rules.RUNTIME_CLASS, Rules(unconditional_update=False), has_status=False),
    _kept(
        resource.RESOURCE_CLAIM,
        node_rules.RESOURCE_CLAIM,
        replace(_PLAIN, returns_deleted=True),
        but="allocates no devices to them",
    ),
    _kept(resource.RESOURCE_CLAIM_TEMPLATE, node_rules.RESOURCE_CLAIM_TEMPLATE, _GIVEN_BACK, has_status=False),
    _kept(
        resource.RESOURCE_SLICE,
        _CLUSTER,
        replace(_GIVEN_BACK, has_generation=True),
        has_status=False,
        fields=FieldLabels(same("spec.nodeName", "spec.driver")),
    ),
    _kept(resource.DEVICE_CLASS, _CLUSTER, replace(_GIVEN_BACK, has_generation=True), has_status=False),
)

# Served on request only.
ALPHA: tuple[Resource, ...] = (
    _kept(scheduling_v1alpha2.WORKLOAD, _NAMESPACED, _SPEC_ALONE, has_status=False),
    _kept(scheduling_v1alpha2.POD_GROUP, podgroup_rules.NATIVE, _SPEC),
)

KEPT: tuple[Resource, ...] = (*WORKLOADS, AUTOSCALERS, AUTOSCALERS_V1, *NETWORK, *STORAGE, *OTHERS)
