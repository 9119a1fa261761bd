"""What `muster manifests` was told, and the words that its documents share."""

from typing import Any, Final

from msgspec import Struct

from muster.api.config import Configuration
from muster.api.config.frameworks import BUILT_IN
from muster.api.config.types import NAMESPACE
from muster.install.crds import FAMILIES

Json = dict[str, Any]

# A name for what there is one of: the Deployment, its ServiceAccount, its rights.
NAME: Final = "muster-controller-manager"
IMAGE: Final = "muster:latest"
REPLICAS: Final = 2
# On all that is printed, for people to find it by. What is removed goes by its name: others may have this, too.
PART_OF: Final = {"app.kubernetes.io/part-of": "muster"}
# On the pods of the engine.
SELECTED: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "controller"}


class Options(Struct, frozen=True):
    """What is installed where.

    text: the Configuration as it was written, for the ConfigMap; settings: what it says.
    webhooks: whether the API server asks the engine about what is written.
    kinds: whose definitions come with it, or go with it.
    """

    text: str
    settings: Configuration
    image: str = IMAGE
    replicas: int = REPLICAS
    webhooks: bool = True
    kinds: tuple[str, ...] = tuple(FAMILIES)

    @property
    def namespace(self) -> str:
        """Where the engine is."""
        return self.settings.namespace

    @property
    def visibility(self) -> bool:
        """Whether the API server passes on to the engine who asks for who waits."""
        return self.settings.features.enabled("VisibilityOnDemand")

    @property
    def lease_namespace(self) -> str:
        """Where the Lease of the leader is."""
        return self.settings.leader_election.resource_namespace or self.namespace


def most_replicas(settings: Configuration) -> int | None:
    """How many may run; None: any number. Without an election each would work, and undo what another does."""
    return None if settings.leader_election.leader_elect else 1


def plain(namespace: str = NAMESPACE) -> str:
    """The Configuration of those who have none: all kinds queue that come with the engine."""
    frameworks = "".join(f"  - {name}\n" for name in BUILT_IN)
    return (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        f"namespace: {namespace}\nintegrations:\n  frameworks:\n{frameworks}"
    )


def metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    """Of an object that is installed; an empty namespace: it is in none."""
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": PART_OF | (labels or {})}
