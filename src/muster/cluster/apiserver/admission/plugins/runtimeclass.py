"""Give a pod the overhead and node selector of its RuntimeClass, and refuse a pod that contradicts its class.

The rules and messages follow k8s.io/kubernetes (plugin/pkg/admission/runtimeclass).
"""

from typing import Any

import msgspec

from muster.api.core import POD
from muster.api.groups.runtimeclass import RUNTIME_CLASS, RuntimeClass, Scheduling
from muster.api.pods import parse_amounts
from muster.api.values.quantity import QuantityError, ResourceList
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.store import Key, Store


def follow_runtime_class(attempt: WriteAttempt, store: Store) -> None:
    """Set the overhead, node selector and tolerations of a new pod from its RuntimeClass, in place.

    Raises `ApiError` (403) if the class is missing, or the pod states other values.
    """
    if (runtime := _find_runtime_class(attempt, store)) is None:
        return
    spec = attempt.document["spec"]
    if runtime.overhead is not None:
        overhead = spec.get("overhead") or dict(runtime.overhead.pod_fixed)
        _require_same(attempt, overhead, runtime.overhead.pod_fixed)
        spec["overhead"] = overhead
    if runtime.scheduling is not None:
        _restrict_to_nodes(attempt, spec, runtime.scheduling)


def require_overhead_of_class(attempt: WriteAttempt, store: Store) -> None:
    """Raise `ApiError` (403) if a new pod's overhead differs from the overhead of its RuntimeClass.

    A pod without a class, or with a class that has no overhead, may have none.
    """
    if not _is_new_pod(attempt):
        return
    runtime, overhead = _find_runtime_class(attempt, store), attempt.document["spec"].get("overhead") or {}
    if runtime is not None and runtime.overhead is not None:
        _require_same(attempt, overhead, runtime.overhead.pod_fixed)
    elif overhead:
        raise attempt.make_refusal("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _is_new_pod(attempt: WriteAttempt) -> bool:
    return attempt.resource.key == POD.resource and attempt.operation == "CREATE" and not attempt.subresource


def _find_runtime_class(attempt: WriteAttempt, store: Store) -> RuntimeClass | None:
    name = attempt.document["spec"].get("runtimeClassName") if _is_new_pod(attempt) else None
    if not name:
        return None
    entry = store.latest(Key(RUNTIME_CLASS.resource, "", name))
    if entry is None:
        raise attempt.make_refusal(f'pod rejected: RuntimeClass "{name}" not found')
    return RUNTIME_CLASS.decode(entry.body)


def _require_same(attempt: WriteAttempt, overhead: ResourceList, defined: ResourceList) -> None:
    try:
        same = parse_amounts(overhead) == parse_amounts(defined)
    except QuantityError:  # validation refuses the pod, and names the field
        return
    if not same:
        raise attempt.make_refusal("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")


def _restrict_to_nodes(attempt: WriteAttempt, spec: dict[str, Any], scheduling: Scheduling) -> None:
    selector = spec.get("nodeSelector") or {}
    for label, value in scheduling.node_selector.items():
        if selector.get(label, value) != value:
            raise attempt.make_refusal(
                f"conflict: runtimeClass.scheduling.nodeSelector[{label}] = {value}; "
                f"pod.spec.nodeSelector[{label}] = {selector[label]}"
            )
    if scheduling.node_selector:
        spec["nodeSelector"] = selector | scheduling.node_selector
    tolerations = spec.get("tolerations") or []
    if more := [one for each in scheduling.tolerations if (one := msgspec.to_builtins(each)) not in tolerations]:
        spec["tolerations"] = [*tolerations, *more]
