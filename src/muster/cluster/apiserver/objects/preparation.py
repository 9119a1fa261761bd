"""Prepare new and changed objects: set the fields that the server sets beyond metadata and defaults.

The functions change documents in place and do no I/O. Their rules are PrepareForCreate and PrepareForUpdate of the
strategies of k8s.io/kubernetes (pkg/registry).
"""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec

from muster.api.core import PodSpec
from muster.api.defaults import generate_selector, keep_allocated
from muster.api.meta import NAMESPACE_FINALIZER
from muster.api.patch.json import is_equal
from muster.api.pods import qos_class
from muster.api.values.quantity import QuantityError
from muster.cluster.apiserver.decode import Document

# The members of an object that are no part of its desired state.
_NOT_DESIRED = frozenset({"apiVersion", "kind", "metadata", "status"})


def reset_status(document: Document) -> None:
    """Remove the status of a new object, because no controller has observed the object yet."""
    document.pop("status", None)


def prepare_new_without_spec(document: Document) -> None:
    """Prepare a new object of a kind without a spec: remove its status, and set its generation to 1.

    `count_change` increases the generation later.
    """
    reset_status(document)
    document["metadata"]["generation"] = 1


def count_change(document: Document, stored: Document, *, status: bool = False) -> None:
    """Set the generation to the stored one plus 1 if a member of the desired state changed, in the spec or outside it.

    status: whether the status counts as part of the desired state.
    """
    members = (document.keys() | stored.keys()) - _NOT_DESIRED
    if status:
        members.add("status")
    if not all(is_equal(document.get(member), stored.get(member)) for member in members):
        document["metadata"]["generation"] = stored["metadata"].get("generation", 0) + 1


def make_status_setter(**status: Any) -> Callable[[Document], None]:
    """Return a function that sets the status of a new object, for kinds whose stored status always has these fields."""

    def prepare(document: Document) -> None:
        document["status"] = deepcopy(status)

    return prepare


def restore_spec(document: Document, stored: Document) -> None:
    """Restore the stored spec, for kinds whose spec no update may change. The client gets no error."""
    document["spec"] = stored["spec"]


def prepare_new_pod(pod: Document) -> None:
    """Prepare a new pod: replace its status by the phase Pending and the QoS class.

    A pod with scheduling gates also gets the condition that reports them. A negative grace period becomes 1 second.
    """
    spec = pod["spec"]
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status = {"phase": "Pending"}
    with suppress(QuantityError, msgspec.ValidationError):  # the later validation reports this error
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


def prepare_new_job(job: Document) -> None:
    """Prepare a new Job: empty its status, and generate a selector for its own pods, unless its selector is manual."""
    generate_selector(job, job["metadata"]["uid"])
    job["status"] = {}


def prepare_new_namespace(namespace: Document) -> None:
    """Prepare a new namespace: set the phase Active, and add the finalizer that keeps it until it is empty."""
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        finalizers.append(NAMESPACE_FINALIZER)
    namespace["status"] = {"phase": "Active"}


def prepare_new_service(service: Document) -> None:
    """Prepare a new Service: give it an empty status. It gets no cluster IP, because no proxy would serve it."""
    service["status"] = {"loadBalancer": {}}


def keep_allocations(service: Document, stored: Document) -> None:
    """Copy the allocated addresses and node ports of a Service from the stored one where an update omits them."""
    keep_allocated(service, stored)
