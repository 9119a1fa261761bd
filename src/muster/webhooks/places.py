"""Names the addresses and paths of the webhooks and the visibility API. Pure."""

from typing import Any, Final

from msgspec import Struct

MUTATING: Final = "/mutate"
VALIDATING: Final = "/validate"
CONVERTING: Final = "/convert"

MUTATING_CONFIGURATION: Final = "muster-mutating-webhook-configuration"
VALIDATING_CONFIGURATION: Final = "muster-validating-webhook-configuration"

# Not the name of Kueue's Service, which selects Kueue's pods where Kueue is still installed.
VISIBILITY_SERVICE: Final = "muster-visibility-server"


class ServiceAt(Struct, frozen=True):
    """A place behind a Service, as in a cluster."""

    namespace: str
    name: str
    port: int = 443

    def client(self, path: str) -> dict[str, Any]:
        """Return a clientConfig without a bundle of authorities."""
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}


class UrlAt(Struct, frozen=True):
    """A place at a URL (`https://127.0.0.1:9443`), for a server that reaches no Services: one without nodes."""

    url: str

    def client(self, path: str) -> dict[str, Any]:
        """Return a clientConfig without a bundle of authorities."""
        return {"url": f"{self.url}{path}"}


Place = ServiceAt | UrlAt


def conversion(place: Place) -> dict[str, Any]:
    """Return `spec.conversion` for the definitions of Kueue's kinds."""
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": place.client(CONVERTING), "conversionReviewVersions": ["v1"]},
    }
