"""What the server sets in new and changed objects of some kinds, beyond metadata and defaults. Pure, in place.

These are the strategies of k8s.io/kubernetes (pkg/registry): PrepareForCreate and PrepareForUpdate.
"""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec

from muster.api.core import PodSpec
from muster.api.defaults import generate_selector, keep_allocated
from muster.api.meta import NAMESPACE_FINALIZER
from muster.api.patch.json import equal
from muster.api.pods import qos_class
from muster.api.values.quantity import QuantityError
from muster.cluster.apiserver.decode import Document

# Members of an object that say nothing of what is wanted.
_NOT_DESIRED = frozenset({"apiVersion", "kind", "metadata", "status"})


def new(document: Document) -> None:
    """Nothing was observed yet."""
    document.pop("status", None)


def new_counted(document: Document) -> None:
    """An object without a spec counts its changes too."""
    new(document)
    document["metadata"]["generation"] = 1


def changed_counted(document: Document, stored: Document, *, status: bool = False) -> None:
    """What a kind has beside a spec counts for the generation as that does; `status`: that too."""
    members = (document.keys() | stored.keys()) - _NOT_DESIRED
    if status:
        members.add("status")
    if not all(equal(document.get(member), stored.get(member)) for member in members):
        document["metadata"]["generation"] = stored["metadata"].get("generation", 0) + 1


def new_with(**status: Any) -> Callable[[Document], None]:
    """Begins with this status: what the kind's status always has, whichever controller watches over it."""

    def prepare(document: Document) -> None:
        document["status"] = deepcopy(status)

    return prepare


def unchangeable(document: Document, stored: Document) -> None:
    """The spec stays as it was, without a word."""
    document["spec"] = stored["spec"]


def new_pod(pod: Document) -> None:
    """A pod begins Pending; one with scheduling gates says so."""
    spec = pod["spec"]
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status = {"phase": "Pending"}
    with suppress(QuantityError, msgspec.ValidationError):  # validation names it
        status["qosClass"] = qos_class(msgspec.convert(spec, PodSpec))
    pod["status"] = status
    if spec.get("schedulingGates"):
        pod["status"] = status | {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        }


def new_job(job: Document) -> None:
    """A Job's pods are known by labels that only they have."""
    generate_selector(job, job["metadata"]["uid"])
    job["status"] = {}


def new_namespace(namespace: Document) -> None:
    """A namespace is held until it is empty."""
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        finalizers.append(NAMESPACE_FINALIZER)
    namespace["status"] = {"phase": "Active"}


def new_service(service: Document) -> None:
    """A service has no state yet. It gets no address: nothing here would answer on it."""
    service["status"] = {"loadBalancer": {}}


def changed_service(service: Document, stored: Document) -> None:
    """What was given stays."""
    keep_allocated(service, stored)
