"""Run the stages of admission, which complete and validate an object before it is stored.

A plugin takes a `WriteAttempt` and the store, so it may read other objects. It changes the attempt's document in place,
or raises `ApiError`. The stages run in this order:

1. The changing plugins complete the document, then the mutating webhooks.
2. The judging plugins see the object as it will be stored and may refuse it, then the validating webhooks.
3. The last plugins check what must hold at the moment of the write, such as quota. Other requests may have written
   while the webhooks were called, so no `await` separates this stage from the write.

The module also contains the plugins for namespaces, priorities and default tolerations.
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

# Namespaces that nobody may delete, because other components rely on them.
PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class WriteAttempt(Struct, frozen=True):
    """An object that a request is about to write or delete, as input of admission.

    old: the stored object; None for a new one.
    document: the object to store; for a DELETE, the stored one.
    view: the form of the object that the writer uses.
    options: the request's options for writing.
    annotations: annotations for the audit log, to which each stage of admission adds.
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
        """The new object and the old object; None for an object that does not exist."""
        if self.operation == "DELETE":
            return None, self.document if self.old is None else self.old
        return self.document, self.old

    def make_refusal(self, why: str) -> ApiError:
        """Return the 403 error by which admission refuses this write. why: the reason."""
        name = self.resource.name
        return forbidden(f'{name} "{self.name}" is forbidden: {why}', resource=name, name=self.name)


Plugin = Callable[[WriteAttempt, Store], None]

# Returns a warning for the writer, sent with the response; "" for no warning.
Remark = Callable[[WriteAttempt], str]


class Webhooks(Protocol):
    """The webhooks to call about a write. If none matches, both methods return without suspending."""

    async def change(self, attempt: WriteAttempt, warnings: list[str]) -> bool:
        """Let the webhooks change the document in place; return whether any changed it.

        Raises `ApiError` if a webhook refuses the write.
        """
        ...

    async def judge(self, attempt: WriteAttempt, warnings: list[str]) -> None:
        """Raise `ApiError` if a webhook refuses the write."""
        ...


class NoWebhooks:
    """The webhooks of a server without any."""

    async def change(self, attempt: WriteAttempt, warnings: list[str]) -> bool:  # noqa: ARG002  (the protocol's signature)
        """Change nothing, and return False."""
        return False

    async def judge(self, attempt: WriteAttempt, warnings: list[str]) -> None:
        """Refuse nothing."""


class AdmissionChain(Struct, frozen=True):
    """The stages of admission, in their order.

    changing: plugins that may change the document.
    judging: plugins that see the object to be stored, and may refuse it.
    last: plugins that run right before the write, and check limits such as quota.
    remarks: functions that return warnings about a write that is allowed.
    """

    changing: tuple[Plugin, ...]
    judging: tuple[Plugin, ...] = ()
    last: tuple[Plugin, ...] = ()
    remarks: tuple[Remark, ...] = ()
    webhooks: Webhooks = field(default_factory=NoWebhooks)

    async def change(self, attempt: WriteAttempt, store: Store, warnings: list[str]) -> bool:
        """Run the changing plugins and webhooks on the document, in place; return whether a webhook changed it.

        Raises `ApiError` if one of them refuses the write.
        """
        self.complete(attempt, store)
        return await self.webhooks.change(attempt, warnings)

    def complete(self, attempt: WriteAttempt, store: Store) -> None:
        """Run only the changing plugins; the server does so again after a webhook's change. Raises `ApiError`."""
        for plugin in self.changing:
            plugin(attempt, store)

    async def judge(self, attempt: WriteAttempt, store: Store, warnings: list[str]) -> None:
        """Raise `ApiError` if a judging plugin or a webhook refuses the object."""
        for plugin in self.judging:
            plugin(attempt, store)
        self.remark(attempt, warnings)
        await self.webhooks.judge(attempt, warnings)

    def remark(self, attempt: WriteAttempt, warnings: list[str]) -> None:
        """Add the warnings about this write to `warnings`, which the client gets with the response."""
        warnings += filter(None, (remark(attempt) for remark in self.remarks))

    def settle(self, attempt: WriteAttempt, store: Store) -> None:
        """Run the plugins of the stage `last`, right before the write. Raises `ApiError` if one refuses the write."""
        for plugin in self.last:
            plugin(attempt, store)


def check_namespace(attempt: WriteAttempt, store: Store) -> None:
    """Refuse new objects in a missing or terminating namespace, and the deletion of a permanent namespace."""
    if attempt.resource.key == NAMESPACE.resource:
        if attempt.operation == "DELETE" and attempt.name in PERMANENT_NAMESPACES:
            raise attempt.make_refusal("this namespace may not be deleted")
        return
    if attempt.operation != "CREATE" or not attempt.namespace:
        return
    namespace = store.latest(Key(NAMESPACE.resource, "", attempt.namespace))
    if namespace is None:
        raise not_found("namespaces", attempt.namespace)
    if namespace.header.deleting:
        raise _make_terminating_error(attempt)


def _make_terminating_error(attempt: WriteAttempt) -> ApiError:
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


def keep(attempt: WriteAttempt, *fields: str) -> None:
    """Restore fields of the spec that an update leaves out, so that the original manifest can be applied again.

    fields: the names of these fields.
    """
    spec, old = attempt.document["spec"], (attempt.old or {}).get("spec", {})
    for name in fields:
        if name in old:
            spec.setdefault(name, old[name])


def set_priority(attempt: WriteAttempt, store: Store) -> None:
    """Set the priority of a new pod from its PriorityClass or the default class, and protect the classes themselves.

    At most one class may be the default, and system classes may not be deleted. If an update leaves out the priority of
    a pod, the stored priority stays.
    """
    if attempt.resource.key == PRIORITY_CLASS.resource:
        if attempt.operation != "DELETE":
            _require_one_default(attempt, store)
        elif attempt.name in SYSTEM_CLASSES:
            raise attempt.make_refusal("this is a system priority class and cannot be deleted")
    elif attempt.resource.key == "pods" and attempt.operation == "CREATE":
        _set_priority(attempt, store)
    elif attempt.resource.key == "pods" and attempt.operation == "UPDATE":
        keep(attempt, "priority", "preemptionPolicy")


def _set_priority(attempt: WriteAttempt, store: Store) -> None:
    spec: dict[str, Any] = attempt.document["spec"]
    name = spec.get("priorityClassName")
    if name:
        entry = store.latest(Key(PRIORITY_CLASS.resource, "", name))
        if entry is None:
            raise attempt.make_refusal(f"no PriorityClass with name {name} was found")
    else:
        entry = _find_default(store.list(PRIORITY_CLASS.resource).entries)
    priority_class = PRIORITY_CLASS.decode(entry.body) if entry else PriorityClass()
    policy = priority_class.preemption_policy or "PreemptLowerPriority"
    if spec.get("priority", priority_class.value) != priority_class.value:
        raise attempt.make_refusal(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority_class.value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise attempt.make_refusal(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    if entry:
        spec["priorityClassName"] = entry.key.name
    spec["priority"] = priority_class.value
    spec["preemptionPolicy"] = policy


def _find_default(entries: Iterable[Entry]) -> Entry | None:
    return next((entry for entry in entries if entry.header.fields.get("globalDefault")), None)


def _require_one_default(attempt: WriteAttempt, store: Store) -> None:
    if not attempt.document.get("globalDefault"):
        return
    # Uncommitted classes count, so that of several classes created at once only one becomes the default.
    current = _find_default(store.latest_list(PRIORITY_CLASS.resource).entries)
    if current is not None and current.key.name != attempt.name:
        message = f"PriorityClass {current.key.name} is already marked as default. Only one default can exist"
        raise attempt.make_refusal(message)


def add_default_tolerations(seconds: int) -> Plugin:
    """Return the plugin that adds tolerations to new or changed pods, so that they stay on a lost node for `seconds`.

    A pod's own tolerations of these taints stay as they are.
    """

    def plugin(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
        if attempt.resource.key != "pods" or attempt.subresource or attempt.operation not in ("CREATE", "UPDATE"):
            return
        tolerations = attempt.document["spec"].get("tolerations") or ()
        keys = {one.get("key", "") for one in tolerations if one.get("effect", "") in ("", NO_EXECUTE)}
        missing = [key for key in (NOT_READY, UNREACHABLE) if not keys & {"", key}]
        if missing:
            added = (_make_toleration(key, seconds) for key in missing)
            attempt.document["spec"]["tolerations"] = [*tolerations, *added]

    return plugin


def _make_toleration(key: str, seconds: int) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}


PLUGINS: tuple[Plugin, ...] = (check_namespace, set_priority)
