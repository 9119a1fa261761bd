"""Admission: what else must be so, and is filled in, before an object is stored; it may look at other objects.

A plugin gets an `Attempt` and may change its document in place or raise `ApiError`. They run in order: those that
change, then, on the object as it will be stored, those that only refuse; each time webhooks come last. What webhooks
say takes time, in which others write: what must be true at the very moment of the write (quota) is asked once more,
at the end, and nothing waits between that and the write.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct, field

from muster.api.core import NAMESPACE
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.meta import DeleteOptions
from muster.api.nodes import NO_EXECUTE, NOT_READY, UNREACHABLE
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, forbidden, not_found
from muster.api.validation.groups.priorityclass import SYSTEM_CLASSES
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request.requestinfo import WriteOptions
from muster.cluster.store import Entry, Key, Store

# Namespaces that are never deleted: others count on them.
PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class Attempt(Struct, frozen=True):
    """One object that a request is about to write; `old` is the stored one, None for a new object.

    document: as it is to be stored; of a DELETE, the stored one.
    view: how the writer sees it.
    options: what the request said of how to write.
    annotations: what is to be said of it in the audit log; each stage adds to them.
    """

    resource: Resource
    operation: str  # CREATE, UPDATE, DELETE, CONNECT
    namespace: str
    name: str
    user: User
    document: Document
    view: View
    old: Document | None = None
    subresource: str = ""
    options: WriteOptions | DeleteOptions = field(default_factory=WriteOptions)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def objects(self) -> tuple[Document | None, Document | None]:
        """The new object and the old one, None for one that there is not."""
        if self.operation == "DELETE":
            return None, self.document if self.old is None else self.old
        return self.document, self.old

    def refused(self, why: str) -> ApiError:
        """403, in the words of admission."""
        name = self.resource.name
        return forbidden(f'{name} "{self.name}" is forbidden: {why}', resource=name, name=self.name)


Plugin = Callable[[Attempt, Store], None]

# What the writer is told with the answer; "" if there is nothing to tell.
Remark = Callable[[Attempt], str]


class Webhooks(Protocol):
    """Those outside who are asked too. Where none is concerned, the answer is there without waiting."""

    async def change(self, attempt: Attempt, warnings: list[str]) -> bool:
        """Let them change the document, in place; whether any did. Raises `ApiError` if one refuses."""
        ...

    async def judge(self, attempt: Attempt, warnings: list[str]) -> None:
        """Raises `ApiError` if one refuses."""
        ...


class NoWebhooks:
    """No webhook is asked."""

    async def change(self, attempt: Attempt, warnings: list[str]) -> bool:  # noqa: ARG002  (it is the protocol's)
        """Nothing changes."""
        return False

    async def judge(self, attempt: Attempt, warnings: list[str]) -> None:
        """Nothing is refused."""


class Admission(Struct, frozen=True):
    """All that is asked before a write, in its order.

    changing: may change the document.
    judging: see what is to be stored, and may refuse it.
    last: asked when nothing is left to wait for; they keep account of what is written next.
    remarks: what there is to say of what is allowed.
    """

    changing: tuple[Plugin, ...]
    judging: tuple[Plugin, ...] = ()
    last: tuple[Plugin, ...] = ()
    remarks: tuple[Remark, ...] = ()
    webhooks: Webhooks = field(default_factory=NoWebhooks)

    async def change(self, attempt: Attempt, store: Store, warnings: list[str]) -> bool:
        """Complete the document in place; whether a webhook changed it. Raises `ApiError`."""
        self.complete(attempt, store)
        return await self.webhooks.change(attempt, warnings)

    def complete(self, attempt: Attempt, store: Store) -> None:
        """The part of it that is the server's own: done again for what a webhook adds. Raises `ApiError`."""
        for plugin in self.changing:
            plugin(attempt, store)

    async def judge(self, attempt: Attempt, store: Store, warnings: list[str]) -> None:
        """Raise `ApiError` if a stage refuses."""
        for plugin in self.judging:
            plugin(attempt, store)
        self.remark(attempt, warnings)
        await self.webhooks.judge(attempt, warnings)

    def remark(self, attempt: Attempt, warnings: list[str]) -> None:
        """Tell the writer what there is to say."""
        warnings += filter(None, (remark(attempt) for remark in self.remarks))

    def settle(self, attempt: Attempt, store: Store) -> None:
        """Raise `ApiError` if it must not be written now."""
        for plugin in self.last:
            plugin(attempt, store)


def namespace_lifecycle(attempt: Attempt, store: Store) -> None:
    """Nothing new appears in a namespace that is missing or going; some namespaces never go."""
    if attempt.resource.key == NAMESPACE.resource:
        if attempt.operation == "DELETE" and attempt.name in PERMANENT_NAMESPACES:
            raise attempt.refused("this namespace may not be deleted")
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


def keep(attempt: Attempt, *fields: str) -> None:
    """What admission once filled in stays where a change leaves it out: a manifest can be applied as it was."""
    spec, old = attempt.document["spec"], (attempt.old or {}).get("spec", {})
    for name in fields:
        if name in old:
            spec.setdefault(name, old[name])


def priority(attempt: Attempt, store: Store) -> None:
    """A pod's priority is that of its class, or of the default class; only the server says how much that is."""
    if attempt.resource.key == PRIORITY_CLASS.resource:
        if attempt.operation != "DELETE":
            _one_default(attempt, store)
        elif attempt.name in SYSTEM_CLASSES:
            raise attempt.refused("this is a system priority class and cannot be deleted")
    elif attempt.resource.key == "pods" and attempt.operation == "CREATE":
        _set_priority(attempt, store)
    elif attempt.resource.key == "pods" and attempt.operation == "UPDATE":
        keep(attempt, "priority", "preemptionPolicy")


def _set_priority(attempt: Attempt, store: Store) -> None:
    spec: dict[str, Any] = attempt.document["spec"]
    name = spec.get("priorityClassName")
    if name:
        entry = store.latest(Key(PRIORITY_CLASS.resource, "", name))
        if entry is None:
            raise attempt.refused(f"no PriorityClass with name {name} was found")
    else:
        entry = _default_among(store.list(PRIORITY_CLASS.resource).entries)
    found = PRIORITY_CLASS.decode(entry.body) if entry else PriorityClass()
    policy = found.preemption_policy or "PreemptLowerPriority"
    if spec.get("priority", found.value) != found.value:
        raise attempt.refused(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise attempt.refused(
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
        raise attempt.refused(message)


def default_tolerations(seconds: int) -> Plugin:
    """Return the plugin that lets a pod leave a lost node after so many seconds, unless the pod says something else."""

    def plugin(attempt: Attempt, store: Store) -> None:  # noqa: ARG001  (it is a plugin)
        if attempt.resource.key != "pods" or attempt.subresource or attempt.operation not in ("CREATE", "UPDATE"):
            return
        said = attempt.document["spec"].get("tolerations") or ()
        keys = {one.get("key", "") for one in said if one.get("effect", "") in ("", NO_EXECUTE)}
        missing = [key for key in (NOT_READY, UNREACHABLE) if not keys & {"", key}]
        if missing:
            added = (_toleration(key, seconds) for key in missing)
            attempt.document["spec"]["tolerations"] = [*said, *added]

    return plugin


def _toleration(key: str, seconds: int) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}


PLUGINS: tuple[Plugin, ...] = (namespace_lifecycle, priority)
