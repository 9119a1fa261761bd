"""Hold the options of `muster manifests`, and the names and labels that its documents share."""

from typing import Any, Final

from msgspec import Struct

from muster.api.config import Configuration
from muster.api.config.frameworks import BUILT_IN
from muster.api.config.types import NAMESPACE
from muster.install.crds import FAMILIES

Json = dict[str, Any]

# The common name of the Deployment, its ServiceAccount and its rights.
NAME: Final = "muster-controller-manager"
IMAGE: Final = "muster:latest"
REPLICAS: Final = 2
# The label of every installed object, for users to select by. Removal goes by names, because others may use the label.
PART_OF: Final = {"app.kubernetes.io/part-of": "muster"}
# Appended to the Configuration if cert-manager makes the certificates.
WITH_CERT_MANAGER: Final = "internalCertManagement:\n  enable: false\n"
# The labels of the engine's pods.
SELECTED: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "controller"}


class Options(Struct, frozen=True):
    """The options of an installation.

    text: the Configuration as text, for the ConfigMap.
    settings: the same Configuration, parsed.
    webhooks: whether the API server sends writes to the engine's webhooks.
    kinds: the kinds whose definitions are installed, or removed, with the engine.
    cert_manager: whether cert-manager makes the certificates, as the Configuration says.
    monitoring: whether Prometheus scrapes the engine.
    dashboard: whether the dashboard is installed, too.
    """

    text: str
    settings: Configuration
    image: str = IMAGE
    replicas: int = REPLICAS
    webhooks: bool = True
    kinds: tuple[str, ...] = tuple(FAMILIES)
    cert_manager: bool = False
    monitoring: bool = False
    dashboard: bool = False

    @property
    def namespace(self) -> str:
        """The engine's namespace."""
        return self.settings.namespace

    @property
    def visibility(self) -> bool:
        """Whether the API server forwards requests for pending workloads to the engine."""
        return self.settings.features.is_enabled("VisibilityOnDemand")

    @property
    def lease_namespace(self) -> str:
        """The namespace of the leader's Lease."""
        return self.settings.leader_election.resource_namespace or self.namespace


def most_replicas(settings: Configuration) -> int | None:
    """Return how many replicas may run; None for any number.

    Without an election, all replicas would work and undo each other's writes.
    """
    return None if settings.leader_election.leader_elect else 1


def make_default_configuration(namespace: str = NAMESPACE) -> str:
    """Return the default Configuration, with all kinds of jobs that come with the engine queued."""
    frameworks = "".join(f"  - {name}\n" for name in BUILT_IN)
    return (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        f"namespace: {namespace}\nintegrations:\n  frameworks:\n{frameworks}"
    )


def make_metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    """Return the metadata of an installed object. namespace: "" for a cluster-wide object."""
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": PART_OF | (labels or {})}
