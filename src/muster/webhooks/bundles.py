"""Write `caBundle`, the certificates of the authorities that sign Muster's serving certificate, to API objects.

The field is in the webhook configurations, in the definitions of Kueue's kinds, and in the APIServices. Applying a
manifest may remove it, so the leader writes it again whenever it is missing.
"""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS
from muster.api.kueue.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS
from muster.api.meta import ObjectMeta, Struct
from muster.api.server.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, CustomResourceConversion
from muster.api.server.apiregistration import API_SERVICE, APIService
from muster.api.status import ApiError
from muster.runtime.control.manager import Manager
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import run_until_first
from muster.runtime.transport import TransportError
from muster.webhooks.endpoints import CONVERTING, MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from muster.webhooks.keeping import Certificates

RETRY_SECONDS: Final = 10.0

WEAKER: Final = (
    "no webhooks are installed: queued Jobs have to be created suspended, defaults and rules are those of the schemas"
    " alone, and v1beta1 objects are stored as they are; muster manifests prints the configurations"
)

# The end of that warning: an installation may apply the configurations a moment after the first replica starts.
INSTALLED: Final = "webhooks are installed now"

log = logging.getLogger(__name__)

Operations = list[dict[str, Any]]


class _Spec(Struct):
    conversion: CustomResourceConversion | None = None


class Definition(Struct):
    """A CustomResourceDefinition as this module caches it: without its schemas, which are large."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


_DEFINITION = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


class BundleTarget(NamedTuple):
    """An API object that must contain the bundle: the certificates of the authorities that sign Muster's certificate.

    edits: returns the JSON patch that writes the bundle, for the object, the bundle and our host names.
    weaker: the warning to log at the start if none of the targets with this warning is installed; "" for no warning.
    """

    kind: Kind[Any]
    name: str
    edits: Callable[[Any, bytes, Collection[str]], Operations]
    weaker: str = ""


def of_configuration(
    configuration: MutatingWebhookConfiguration | ValidatingWebhookConfiguration,
    bundle: bytes,
    names: Collection[str],  # noqa: ARG001  (all are told alike)
) -> Operations:
    """Return the JSON patch that sets the CA bundle of one of our webhook configurations.

    The patch is empty if there is nothing to change.

    names: our host names.
    """
    hooks = enumerate(configuration.webhooks)
    return [_put(f"/webhooks/{i}/clientConfig", bundle) for i, hook in hooks if hook.client_config.ca_bundle != bundle]


def of_definition(definition: Definition, bundle: bytes, names: Collection[str]) -> Operations:
    """Return the JSON patch that sets the CA bundle of a CustomResourceDefinition whose objects we convert.

    The patch is empty if there is nothing to change.

    names: our host names.
    """
    how = definition.spec.conversion
    client = how.webhook.client_config if how is not None and how.webhook is not None else None
    if client is None or client.ca_bundle == bundle or not _is_ours(client, names):
        return []
    return [_put("/spec/conversion/webhook/clientConfig", bundle)]


def of_service(service_object: APIService, bundle: bytes, names: Collection[str]) -> Operations:
    """Return the JSON patch that sets the CA bundle of an APIService whose group we serve.

    The patch is empty if there is nothing to change.

    names: our host names.
    """
    spec, service = service_object.spec, service_object.spec.service
    if service is None or spec.ca_bundle == bundle or f"{service.name}.{service.namespace}.svc" not in names:
        return []
    checked = [{"op": "remove", "path": "/spec/insecureSkipTLSVerify"}] if spec.insecure_skip_tls_verify else []
    return [*checked, _put("/spec", bundle)]


def _is_ours(client: WebhookClientConfig, names: Collection[str]) -> bool:
    """Return whether a webhook's clientConfig calls our conversion path. names: the host names in our certificate."""
    if (service := client.service) is not None:
        return f"{service.name}.{service.namespace}.svc" in names and service.path == CONVERTING
    try:
        url = urlsplit(client.url or "")
    except ValueError:
        return False
    return url.hostname in names and url.path == CONVERTING


def _put(path: str, bundle: bytes) -> dict[str, Any]:
    return {"op": "add", "path": f"{path}/caBundle", "value": b64encode(bundle).decode()}


WEBHOOKS: Final[Sequence[BundleTarget]] = (
    BundleTarget(MUTATING_WEBHOOK_CONFIGURATION, MUTATING_CONFIGURATION, of_configuration, WEAKER),
    BundleTarget(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_CONFIGURATION, of_configuration, WEAKER),
    *(BundleTarget(_DEFINITION, kind.resource, of_definition) for kind in KUEUE_KINDS),
)
VISIBILITY: Final[Sequence[BundleTarget]] = tuple(
    BundleTarget(API_SERVICE, f"{version}.{VISIBILITY_GROUP}", of_service) for version in VISIBILITY_VERSIONS
)


class Bundles:
    """The component that writes the authorities (`caBundle`) into the objects that call Muster.

    It writes only while this replica leads. A `Manager` runs it.
    """

    name = "certificate-bundles"

    def __init__(
        self, manager: Manager, certificates: Certificates, leads: asyncio.Event, targets: Sequence[BundleTarget]
    ) -> None:
        """Watch the objects into which the bundle is written. leads: set when this replica leads, or is about to."""
        self._client, self._clock = manager.client, manager.clock
        self._certificates = certificates
        self._leads = leads
        self._targets = [(each, manager.informer(each.kind, fields=f"metadata.name={each.name}")) for each in targets]
        self._changed, self._stopping = asyncio.Event(), asyncio.Event()
        certificates.on_renewed(self._changed.set)
        for _, informer in self._targets:
            informer.on_change(lambda _old, _new: self._changed.set())

    async def run(self) -> None:
        """When this replica leads, write the bundle to each target that lacks it, until `stop`."""
        await run_until_first(self._leads.wait(), self._stopping.wait())
        if self._stopping.is_set():
            return
        missing = self._list_missing()
        for weaker in missing:
            log.warning(weaker)
        self._changed.set()
        while not self._stopping.is_set():
            await self._changed.wait()
            self._changed.clear()
            if missing and not self._list_missing():
                log.info(INSTALLED)
                missing = []
            try:
                await self._put_all()
            except (ApiError, TransportError) as error:
                log.warning("caBundle could not be written to the webhooks' objects, and is retried: %s", error)
                await run_until_first(self._clock.sleep(RETRY_SECONDS), self._stopping.wait())
                self._changed.set()

    async def stop(self) -> None:
        """Ask `run` to return soon."""
        self._stopping.set()
        self._changed.set()

    def _list_missing(self) -> list[str]:
        """Return the warnings of the targets that are not installed, each once."""
        warnings = dict.fromkeys(each.weaker for each, _ in self._targets if each.weaker)
        present = {each.weaker for each, informer in self._targets if informer.all()}
        return [weaker for weaker in warnings if weaker not in present]

    async def _put_all(self) -> None:
        bundle = self._certificates.bundle
        for kind, obj, edits in self._list_edits(bundle) if bundle else ():
            with ignoring("Conflict", "NotFound"):  # the object has changed, and the informer will tell
                await self._client.edit_object(kind, obj, edits)
                log.debug("%s %s has the authority", kind.kind, obj.metadata.name)

    def _list_edits(self, bundle: bytes) -> Iterator[tuple[Kind[Any], Any, Operations]]:
        for each, informer in self._targets:
            for obj in informer.all():
                if edits := each.edits(obj, bundle, self._certificates.names):
                    yield each.kind, obj, edits
