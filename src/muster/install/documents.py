"""All that is installed, in the order in which it may be applied. Pure: the same options make the same documents."""

from collections.abc import Iterator

import msgspec

from muster.api.server.admissionregistration import WebhookClientConfig
from muster.install import deployment
from muster.install.crds import definitions
from muster.install.options import NAME, PART_OF, Json, Options
from muster.install.people import peoples_rights
from muster.install.rights import engine_rights
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.places import CONVERTING, ServiceAt


def documents(options: Options) -> list[Json]:
    """What others need stands before them. Raises `BadAddressError` for a bind address that is none."""
    return list(_documents(options))


def _documents(options: Options) -> Iterator[Json]:
    yield deployment.namespace(options)
    yield from map(_ours, definitions(_conversion(options), options.kinds))
    yield deployment.service_account(options)
    yield from engine_rights(options)
    yield from peoples_rights()
    yield deployment.config_map(options)
    yield from deployment.services(options)
    yield deployment.deployment(options)
    yield deployment.budget(options)
    if options.webhooks:
        yield from map(_ours, webhook_configurations(options.settings, service_account=NAME))
    if options.visibility:
        yield from deployment.api_services(options)


def _conversion(options: Options) -> WebhookClientConfig | None:
    """Who converts Kueue's kinds."""
    if not options.webhooks:
        return None
    service = ServiceAt(options.namespace, options.settings.internal_cert_management.webhook_service_name)
    return msgspec.convert(service.client(CONVERTING), WebhookClientConfig)


def _ours(document: Json) -> Json:
    """With the label by which people find it."""
    meta = document["metadata"]
    return document | {"metadata": meta | {"labels": (meta.get("labels") or {}) | PART_OF}}
