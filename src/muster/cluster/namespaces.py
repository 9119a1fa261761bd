"""The life of namespaces: what each has from the start, and how a deleted one is emptied before it goes."""

from collections.abc import Iterable
from typing import Any

import msgspec

from muster.api.core import NAMESPACE, POD, SERVICE_ACCOUNT, Namespace, ServiceAccount
from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta
from muster.api.status import ApiError
from muster.runtime.controller import Controller, Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.transport import Request

FINALIZER = "kubernetes"
# What is left in a namespace goes by itself (pods end, finalizers are met); look again this often.
RECHECK_SECONDS = 1.0


class NamespaceController:
    """Runs under a `Manager`; keys are namespaces."""

    name = "namespace-controller"

    def __init__(self, manager: Manager, kinds: Iterable[Kind[Any]]) -> None:
        self._client = manager.client
        self._kinds = [kind for kind in kinds if kind.namespaced]
        self._namespaces = manager.informer(NAMESPACE)
        self._controller = Controller(self.name, self._reconcile, manager.clock, manager.random, workers=4)
        self._controller.watch(self._namespaces)
        # Every pod names this account, so it comes back if it is deleted.
        manager.informer(SERVICE_ACCOUNT).on_change(self._account_changed)

    async def run(self) -> None:
        """Work until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Finish what is being written."""
        await self._controller.stop()

    def _account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        if new is None and old is not None and old.metadata.name == "default":
            self._controller.queue.add(old.metadata.namespace)

    async def _reconcile(self, name: str) -> Result:
        namespace = self._namespaces.get(name)
        if namespace is None:
            return None
        if namespace.metadata.deletion_timestamp is None:
            await self._ensure_account(name)
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        if await self._empty(name):
            await self._finalize(namespace)
            return None
        return RECHECK_SECONDS

    async def _ensure_account(self, namespace: str) -> None:
        try:
            await self._client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name="default")), namespace)
        except ApiError as error:
            # There already, or the namespace is going.
            if error.code not in (403, 404, 409):
                raise

    async def _empty(self, namespace: str) -> bool:
        """Ask for the deletion of everything in a namespace; whether nothing is left."""
        left = 0
        for kind in sorted(self._kinds, key=lambda kind: kind.resource != POD.resource):
            metadata_only: Kind[Object] = Kind(
                kind.group, kind.version, kind.kind, kind.plural, Object, namespaced=kind.namespaced
            )
            page = await self._client.page(metadata_only, namespace, limit=1)
            if page.items:
                await self._client.raw(Request("DELETE", kind.path(namespace)))
                page = await self._client.page(metadata_only, namespace, limit=1)
            left += len(page.items)
        return left == 0

    async def _finalize(self, namespace: Namespace) -> None:
        finalizers = [finalizer for finalizer in namespace.spec.finalizers if finalizer != FINALIZER]
        meta = {"name": namespace.metadata.name, "uid": namespace.metadata.uid}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": finalizers}}
        path = NAMESPACE.path(name=key_of(namespace), subresource="finalize")
        await self._client.raw(Request("PUT", path, body=msgspec.json.encode(body)))
