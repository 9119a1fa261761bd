"""Give each namespace its initial objects, and empty deleted namespaces.

Each object in the namespace is deleted once, pods first. While the namespace has pods, everything that pods need
(network policies, secrets, accounts) stays. Some deletions take time: pods terminate, and finalizers are removed. The
controller checks again when the last object of a kind is deleted, and at intervals. The namespace's conditions report
the remaining objects.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from muster.api.core import NAMESPACE, POD, SERVICE_ACCOUNT, Namespace, ServiceAccount
from muster.api.kinds import Kind
from muster.api.meta import NAMESPACE_FINALIZER, Object, ObjectMeta
from muster.cluster.controllers.lifetimes.customkinds import follow_custom_kinds
from muster.cluster.controllers.lifetimes.remainders import make_conditions
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.informer import Informer
from muster.runtime.objects import BY_NAMESPACE, by_namespace, key_of
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

# For objects that the informers had not yet received when the contents were deleted.
RECHECK_SECONDS = 5.0


class NamespaceController(Reconciler):
    """The controller that gives namespaces the service account `default`, and empties deleted namespaces.

    A `Manager` runs it; its keys are namespaces.
    """

    name = "namespace-controller"

    def __init__(self, manager: Manager, kinds: Iterable[Kind[Any]]) -> None:
        """Make the controller.

        kinds: the built-in kinds. The controller also follows each custom kind as long as the server serves it.
        """
        super().__init__(manager, workers=4)
        self._manager = manager
        self._contents: dict[str, Informer[Object]] = {}
        self._namespaces = manager.informer(NAMESPACE)
        self._controller.watch(self._namespaces)
        kinds = [kind.seen_as(Object) for kind in sorted(kinds, key=lambda kind: kind.resource != POD.resource)]
        for kind in kinds:  # pods first: they take longest
            self._follow(kind)
        follow_custom_kinds(manager, kinds, self._on_kind_changed)
        # Every pod names this account, so it is created again if it is deleted.
        manager.informer(SERVICE_ACCOUNT).on_change(self._on_account_changed)

    def _follow(self, kind: Kind[Object]) -> None:
        if not kind.namespaced:
            return
        informer = self._manager.informer(kind, indexes={BY_NAMESPACE: by_namespace})
        self._contents[kind.resource] = informer
        informer.on_change(lambda old, new: self._on_content_changed(informer, old, new))

    def _on_kind_changed(self, old: Kind[Object] | None, new: Kind[Object] | None) -> None:
        if old is not None:
            self._manager.forget(old)
            self._contents.pop(old.resource, None)
        if new is not None:
            self._follow(new)

    def _on_account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        if new is None and old is not None and old.metadata.name == "default":
            self._controller.queue.add(old.metadata.namespace)

    def _on_content_changed(self, informer: Informer[Object], old: Object | None, new: Object | None) -> None:
        """Queue a terminating namespace when its last object of a kind is deleted."""
        if new is not None or old is None:
            return
        name = old.metadata.namespace
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return
        if not informer.by(BY_NAMESPACE, name):
            self._controller.queue.add(name)

    async def _reconcile(self, name: str) -> Result:
        namespace = self._namespaces.get(name)
        if namespace is None:
            return None
        if namespace.metadata.deletion_timestamp is None:
            await self._ensure_account(name)
            return None
        if NAMESPACE_FINALIZER not in namespace.spec.finalizers:
            return None
        if await self._delete_contents(name):
            await self._finalize(namespace)
            return None
        await self._write_conditions(namespace)
        return RECHECK_SECONDS

    async def _ensure_account(self, namespace: str) -> None:
        with ignoring("AlreadyExists", "Forbidden", "NotFound"):  # or the namespace is going
            await self._client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name="default")), namespace)

    async def _delete_contents(self, namespace: str) -> bool:
        """Delete each object of a namespace that is not being deleted yet; return whether the namespace is empty."""
        is_empty = True
        for informer in list(self._contents.values()):
            kind = informer.kind
            if not await self._has_any(kind, namespace):
                continue
            known = informer.by(BY_NAMESPACE, namespace)
            if not known or any(obj.metadata.deletion_timestamp is None for obj in known):
                await self._client.raw(Request("DELETE", kind.path(namespace)))
                is_empty = is_empty and not await self._has_any(kind, namespace)
            else:
                is_empty = False
            if not is_empty and kind.resource == POD.resource:
                return False
        return is_empty

    async def _write_conditions(self, namespace: Namespace) -> None:
        name, before = namespace.metadata.name, namespace.status.conditions
        left = {resource: informer.by(BY_NAMESPACE, name) for resource, informer in self._contents.items()}
        now = make_conditions(left, before, self._manager.clock.now())
        if now == before:
            return
        with ignoring("NotFound"):
            await self._client.patch(NAMESPACE, name, {"status": {"conditions": now}}, subresource="status")

    async def _has_any(self, kind: Kind[Object], namespace: str) -> bool:
        """Return whether the namespace has an object of this kind.

        Ask the server, because informers may be behind.
        """
        return bool((await self._client.page(kind, namespace, limit=1)).items)

    async def _finalize(self, namespace: Namespace) -> None:
        finalizers = [finalizer for finalizer in namespace.spec.finalizers if finalizer != NAMESPACE_FINALIZER]
        meta = {"name": namespace.metadata.name, "uid": namespace.metadata.uid}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": finalizers}}
        path = NAMESPACE.path(name=key_of(namespace), subresource="finalize")
        await self._client.raw(Request("PUT", path, body=msgspec.json.encode(body)))
