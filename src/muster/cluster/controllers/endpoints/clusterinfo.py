"""Keep the ConfigMap `cluster-info`, which tells other machines the server's address, where kubeadm keeps it.

`muster cluster invite` reads it. It contains no secret, but a user who may not list ConfigMaps does not see it.
"""

from muster.api.core import CONFIG_MAP, ConfigMap
from muster.api.meta import ObjectMeta
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring

NAMESPACE, NAME = "kube-public", "cluster-info"
KUBECONFIG = "kubeconfig"  # the key in the ConfigMap's data
_KEY = f"{NAMESPACE}/{NAME}"


class ClusterInfo(Reconciler):
    """The controller that creates the ConfigMap `kube-public/cluster-info`, and restores its kubeconfig after a change.

    The kubeconfig has no user.

    A `Manager` runs it; its only key is the key of that ConfigMap.
    """

    name = "cluster-info"

    def __init__(self, manager: Manager, kubeconfig: str) -> None:
        super().__init__(manager)
        self._data = {KUBECONFIG: kubeconfig}
        self._maps = manager.informer(CONFIG_MAP, fields=f"metadata.name={NAME}")
        self._maps.on_change(self._on_map_changed)

    async def run(self) -> None:
        """Queue the ConfigMap, then work until `stop`."""
        self._controller.queue.add(_KEY)
        await super().run()

    def _on_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        changed = new or old
        if changed is not None and key_of(changed) == _KEY:
            self._controller.queue.add(_KEY)

    async def _reconcile(self, key: str) -> Result:
        present = self._maps.get(key)
        with ignoring("AlreadyExists", "Forbidden", "NotFound"):  # the informer will see it, or the namespace is gone
            if present is None:
                wanted = ConfigMap(metadata=ObjectMeta(name=NAME), data=self._data)
                await self._client.create(CONFIG_MAP, wanted, NAMESPACE)
            elif not self._data.items() <= present.data.items():
                await self._client.patch(CONFIG_MAP, NAME, {"data": self._data}, NAMESPACE)
        return None
