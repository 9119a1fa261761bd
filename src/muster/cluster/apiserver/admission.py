"""Admission: what else must be so, and is filled in, before an object is stored; it may look at other objects.

A plugin gets an `Attempt` and may change its document in place or raise `ApiError`. They run in order: first those
that change, then those that only refuse. Built in are the namespace life cycle, priorities and service accounts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.core import NAMESPACE
from muster.api.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, forbidden, not_found
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry import Resource
from muster.cluster.apiserver.users import User
from muster.cluster.store import Entry, Key, Store

# Namespaces that nobody deletes: others count on them.
PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One object that somebody is about to write; `old` is the stored one, None for a new object."""

    resource: Resource
    operation: str  # CREATE, UPDATE, DELETE
    namespace: str
    name: str
    user: User
    document: Document
    old: Document | None = None
    subresource: str = ""


Plugin = Callable[[Attempt, Store], None]


def admit(attempt: Attempt, store: Store, plugins: Sequence[Plugin]) -> None:
    """Run all plugins. Raises `ApiError` from the first that refuses."""
    for plugin in plugins:
        plugin(attempt, store)


def namespace_lifecycle(attempt: Attempt, store: Store) -> None:
    """Nothing new appears in a namespace that is missing or going; some namespaces never go."""
    if attempt.resource.key == NAMESPACE.resource:
        if attempt.operation == "DELETE" and attempt.name in PERMANENT_NAMESPACES:
            message = f'namespaces "{attempt.name}" is forbidden: this namespace may not be deleted'
            raise forbidden(message, resource="namespaces", name=attempt.name)
        return
    if attempt.operation != "CREATE" or not attempt.namespace:
        return
    namespace = store.latest(Key(NAMESPACE.resource, "", attempt.namespace))
    if namespace is None:
        raise not_found("namespaces", attempt.namespace)
    if namespace.header.deleting:
        raise _terminating(attempt)


def _terminating(attempt: Attempt) -> ApiError:
    namespace = attempt.namespace
    kind = attempt.resource.kind
    message = (
        f'{attempt.resource.name} "{attempt.name}" is forbidden: '
        f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = StatusCause(
        reason="NamespaceTerminating", message=f"namespace {namespace} is being terminated", field="metadata.namespace"
    )
    details = StatusDetails(name=attempt.name, group=kind.group, kind=kind.plural, causes=(cause,))
    return ApiError(Status(status="Failure", code=403, reason="Forbidden", message=message, details=details))


def service_account(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
    """A pod runs as somebody: the namespace's default account if it does not say."""
    if attempt.resource.key != "pods":
        return
    if attempt.operation == "CREATE":
        spec = attempt.document["spec"]
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    elif attempt.operation == "UPDATE":
        _keep(attempt, "serviceAccountName", "serviceAccount")


def _keep(attempt: Attempt, *fields: str) -> None:
    """What admission once filled in stays where a change leaves it out: a manifest can be applied as it was."""
    spec, old = attempt.document["spec"], (attempt.old or {}).get("spec", {})
    for field in fields:
        if field in old:
            spec.setdefault(field, old[field])


def priority(attempt: Attempt, store: Store) -> None:
    """A pod's priority is that of its class, or of the default class; only the server says how much that is."""
    if attempt.resource.key == PRIORITY_CLASS.resource and attempt.operation != "DELETE":
        _one_default(attempt, store)
    elif attempt.resource.key == "pods" and attempt.operation == "CREATE":
        _set_priority(attempt, store)
    elif attempt.resource.key == "pods" and attempt.operation == "UPDATE":
        _keep(attempt, "priority", "preemptionPolicy")


def _set_priority(attempt: Attempt, store: Store) -> None:
    spec: dict[str, Any] = attempt.document["spec"]
    name = spec.get("priorityClassName")
    if name:
        entry = store.latest(Key(PRIORITY_CLASS.resource, "", name))
        if entry is None:
            raise _refused(attempt, f"no PriorityClass with name {name} was found")
    else:
        entry = _default_among(store.list(PRIORITY_CLASS.resource).entries)
    found = PRIORITY_CLASS.decode(entry.body) if entry else PriorityClass()
    policy = found.preemption_policy or "PreemptLowerPriority"
    if spec.get("priority", found.value) != found.value:
        raise _refused(
            attempt,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise _refused(
            attempt,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    if entry:
        spec["priorityClassName"] = entry.key.name
    spec["priority"] = found.value
    spec["preemptionPolicy"] = policy


def _default_among(entries: Iterable[Entry]) -> Entry | None:
    return next((entry for entry in entries if entry.header.fields.get("globalDefault")), None)


def _one_default(attempt: Attempt, store: Store) -> None:
    if not attempt.document.get("globalDefault"):
        return
    # Those that are not on disk yet count: of several that are made at once, one becomes the default.
    current = _default_among(store.latest_list(PRIORITY_CLASS.resource).entries)
    if current is not None and current.key.name != attempt.name:
        message = f"PriorityClass {current.key.name} is already marked as default. Only one default can exist"
        raise _refused(attempt, message)


def _refused(attempt: Attempt, why: str) -> ApiError:
    name = attempt.resource.name
    return forbidden(f'{name} "{attempt.name}" is forbidden: {why}', resource=name, name=attempt.name)


PLUGINS: tuple[Plugin, ...] = (namespace_lifecycle, service_account, priority)
