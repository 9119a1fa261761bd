"""Name the endpoints and paths of the webhooks and the visibility API. Pure."""

from typing import Any, Final

from msgspec import Struct

MUTATING: Final = "/mutate"
VALIDATING: Final = "/validate"
CONVERTING: Final = "/convert"

MUTATING_CONFIGURATION: Final = "muster-mutating-webhook-configuration"
VALIDATING_CONFIGURATION: Final = "muster-validating-webhook-configuration"

# Not the name of Kueue's Service, which selects Kueue's pods where Kueue is still installed.
VISIBILITY_SERVICE: Final = "muster-visibility-server"


class ServiceEndpoint(Struct, frozen=True):
    """The address of the webhooks, behind a Service of the cluster."""

    namespace: str
    name: str
    port: int = 443

    def client(self, path: str) -> dict[str, Any]:
        """Return the clientConfig of a webhook at this path, without `caBundle`."""
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}


class UrlEndpoint(Struct, frozen=True):
    """The address of the webhooks as a URL (`https://127.0.0.1:9443`), for a server that cannot reach Services."""

    url: str

    def client(self, path: str) -> dict[str, Any]:
        """Return the clientConfig of a webhook at this path, without `caBundle`."""
        return {"url": f"{self.url}{path}"}


Endpoint = ServiceEndpoint | UrlEndpoint


def make_conversion(endpoint: Endpoint) -> dict[str, Any]:
    """Return `spec.conversion` for the definitions of Kueue's kinds."""
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": endpoint.client(CONVERTING), "conversionReviewVersions": ["v1"]},
    }
