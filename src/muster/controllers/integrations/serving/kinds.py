"""List the serving kinds, whose pods queue instead of the objects, as data. The source is Kueue's integrations."""

from typing import Any, Final

from msgspec import Struct

from muster.api.config import Configuration
from muster.api.config.frameworks import FRAMEWORKS
from muster.api.kinds import Kind
from muster.api.kueue.names import POD_SUSPENDING_PARENT
from muster.controllers.integrations.external.documents import ExternalJob, Path, text_at


class Serving(Struct, frozen=True):
    """A kind whose objects serve without an end, and whose pods queue.

    templates: the paths of its pod templates; an object need not have all of them.
    busy: the number in the status that forbids a change of the queue while it is not 0.
    marks_pods: whether labels in the templates suffice for pods to queue. Otherwise each pod gets labels at its
    creation, because the labels depend on the pod.
    optional: whether a server may lack the kind.
    size: the path of the field that may only change from 0 and to 0.
    group_size: the path of the field that never changes.
    """

    name: str
    kind: Kind[ExternalJob]
    templates: tuple[Path, ...]
    busy: str
    marks_pods: bool = False
    optional: bool = False
    size: Path = ()
    group_size: Path = ()

    def holds_pods(self, job: ExternalJob) -> bool:
        """Return whether pods of the object wait for quota, by its templates.

        They do not if an object of another kind owns it.
        """
        return self.parent(job) == self.name

    def parent(self, job: ExternalJob) -> str:
        """Return the framework whose object makes the pods wait for quota, by the template's annotation; "" if none."""
        return text_at({"spec": job.spec}, *self.templates[-1], "metadata", "annotations", POD_SUSPENDING_PARENT)


def _make_kind(name: str, plural: str) -> Kind[ExternalJob]:
    group, version, kind = FRAMEWORKS[name]
    return Kind(group, version, kind, plural, ExternalJob)


DEPLOYMENT: Final = Serving(
    name="deployment",
    kind=_make_kind("deployment", "deployments"),
    templates=(("spec", "template"),),
    busy="readyReplicas",
    marks_pods=True,
)
STATEFUL_SET: Final = Serving(
    name="statefulset",
    kind=_make_kind("statefulset", "statefulsets"),
    templates=(("spec", "template"),),
    busy="replicas",
    size=("spec", "replicas"),
)
LEADER_WORKER_SET: Final = Serving(
    name="leaderworkerset.x-k8s.io/leaderworkerset",
    kind=_make_kind("leaderworkerset.x-k8s.io/leaderworkerset", "leaderworkersets"),
    templates=(("spec", "leaderWorkerTemplate", "leaderTemplate"), ("spec", "leaderWorkerTemplate", "workerTemplate")),
    busy="replicas",
    optional=True,
    group_size=("spec", "leaderWorkerTemplate", "size"),
)

SERVING: Final = (LEADER_WORKER_SET, STATEFUL_SET, DEPLOYMENT)


def select_serving(configuration: Configuration) -> tuple[Serving, ...]:
    """Return the serving kinds that the Configuration names; none if pods do not queue."""
    named = configuration.integrations.frameworks
    return tuple(one for one in SERVING if one.name in named) if "pod" in named else ()


def by_resource(serving: tuple[Serving, ...]) -> dict[str, Serving]:
    """Return the serving kinds by the plural name in API paths."""
    return {one.kind.resource: one for one in serving}


def kinds_of(serving: tuple[Serving, ...]) -> list[Kind[Any]]:
    """Return the `Kind` of each of these serving kinds."""
    return [one.kind for one in serving]
