"""List all documents to install, in an order in which they may be applied. Pure: they depend only on the options."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from muster.api.core import CONFIG_MAP, NAMESPACE, SERVICE, SERVICE_ACCOUNT
from muster.api.groups.apps import DEPLOYMENT
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.kinds import Kind
from muster.api.server.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    WebhookClientConfig,
)
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.server.apiregistration import API_SERVICE
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from muster.install import deployment
from muster.install.alerts import PROMETHEUS_RULE
from muster.install.certmanager import CERTIFICATE, ISSUER, certificate_documents, inject
from muster.install.crds import make_definitions
from muster.install.dashboard import dashboard_documents
from muster.install.monitoring import SERVICE_MONITOR, monitoring_documents
from muster.install.options import NAME, PART_OF, Json, Options
from muster.install.people import make_user_roles
from muster.install.rights import engine_rights
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.endpoints import CONVERTING, ServiceEndpoint

_KINDS: Final[tuple[Kind[Any], ...]] = (
    NAMESPACE, CUSTOM_RESOURCE_DEFINITION, SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING,
    CONFIG_MAP, SERVICE, DEPLOYMENT, POD_DISRUPTION_BUDGET, MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION, API_SERVICE, ISSUER, CERTIFICATE, SERVICE_MONITOR,
    PROMETHEUS_RULE,
)  # fmt: skip
_BY_NAME: Final = {kind.kind: kind.seen_as(dict) for kind in _KINDS}


def kind_of(document: Json) -> Kind[Json]:
    """Return the kind of one of these documents, by its apiVersion and kind."""
    return _BY_NAME[document["kind"]]


def make_documents(options: Options) -> list[Json]:
    """Return the documents of an installation with these options, each after the documents that it needs.

    Raises `BadAddressError`.
    """
    return [inject(document, options) for document in _yield_documents(options)]


def _yield_documents(options: Options) -> Iterator[Json]:
    """Yield all documents, each after the documents that it needs."""
    yield deployment.make_namespace(options)
    yield from map(_add_label, make_definitions(_make_conversion(options), options.kinds))
    yield deployment.service_account(options)
    yield from engine_rights(options)
    yield from make_user_roles()
    yield deployment.config_map(options)
    yield from deployment.make_services(options)
    yield deployment.make_deployment(options)
    yield deployment.make_disruption_budget(options)
    if options.webhooks:
        yield from map(_add_label, webhook_configurations(options.settings, service_account=NAME))
    if options.visibility:
        yield from deployment.api_services(options)
    if options.cert_manager:
        yield from certificate_documents(options)
    if options.dashboard:
        yield from dashboard_documents(options)
    if options.monitoring:
        yield from monitoring_documents(options)


def _make_conversion(options: Options) -> WebhookClientConfig | None:
    """Return the webhook that converts Kueue's kinds; None for an installation without webhooks."""
    if not options.webhooks:
        return None
    service = ServiceEndpoint(options.namespace, options.settings.internal_cert_management.webhook_service_name)
    return msgspec.convert(service.client(CONVERTING), WebhookClientConfig)


def _add_label(document: Json) -> Json:
    """Return the document with the label that marks all of Muster's objects."""
    meta = document["metadata"]
    return document | {"metadata": meta | {"labels": (meta.get("labels") or {}) | PART_OF}}
