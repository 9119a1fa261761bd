"""Keep the Service `kubernetes`, by which programs find the server: set its port, and create it again when deleted.

The Service has no endpoints: the server listens on loopback, and endpoints may not have loopback addresses.
"""

from muster.api.core import SERVICE, Service
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.transport import APPLY_PATCH

_NAMESPACE, _NAME = "default", "kubernetes"
_KEY = f"{_NAMESPACE}/{_NAME}"


class ServerService(Reconciler):
    """The controller that creates the API server's Service `kubernetes`, and creates it again if it is deleted.

    A `Manager` runs it; its only key is the Service's.
    """

    name = "kubernetes-service"

    def __init__(self, manager: Manager, port: int) -> None:
        super().__init__(manager)
        self._port = port
        self._services = manager.informer(SERVICE)
        self._services.on_change(self._on_service_changed)

    async def run(self) -> None:
        """Apply the Service now, and again whenever it is deleted, until `stop`."""
        self._controller.queue.add(_KEY)
        await super().run()

    def _on_service_changed(self, old: Service | None, new: Service | None) -> None:
        """Queue the Service if it was deleted. As upstream, changes by users stay until the next start."""
        if new is None and old is not None and key_of(old) == _KEY:
            self._controller.queue.add(_KEY)

    async def _reconcile(self, key: str) -> Result:  # noqa: ARG002  (there is only one)
        port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": self._port}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": _NAME,
                "namespace": _NAMESPACE,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {"ports": [port], "type": "ClusterIP", "sessionAffinity": "None"},
        }
        kind = SERVICE.seen_as(dict)
        await self._client.patch(kind, _NAME, service, _NAMESPACE, type=APPLY_PATCH, force=True)
        return None
