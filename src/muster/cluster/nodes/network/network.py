"""The network that all process nodes share: hands out addresses and keeps the hosts files of running pods.

All process nodes of a cluster are on this machine and share one `Network`. The hosts files of running pods follow the
pods that come and go: they are rewritten in place, for containers have that very file mounted. A pod whose gang is not
all bound yet finds even the missing ones in its file: their addresses are set aside for them.
"""

import asyncio
import logging
import os
from pathlib import Path

from muster.api.core import POD, SERVICE, Pod, Service
from muster.api.pods import is_finished
from muster.cluster.indexes import BY_NODE, by_node
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.hosts import Circle, Peer, render, shared_part
from muster.runtime.manager import Manager

# Files are rewritten once for all the changes within this time.
COALESCE_SECONDS = 0.05
_MACHINE = Path("/etc/hosts")
_UNBOUND, _LIVE = "network-unbound", "network-live"
_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

log = logging.getLogger(__name__)


class Network:
    """Addresses and hosts files. Runs under a `Manager`, before the nodes.

    pods: those that it knows of. only_node: the one node whose pods these are, where others are not to be seen.
    """

    name = "process-network"

    def __init__(
        self, manager: Manager, addresses: Addresses, *, only_node: str = "", machine_hosts: Path = _MACHINE
    ) -> None:
        self._clock = manager.clock
        indexes = {BY_NODE: by_node, _UNBOUND: _circle_if_unbound, _LIVE: _node_if_live}
        self.pods = manager.informer(POD, fields=f"spec.nodeName={only_node}" if only_node else "", indexes=indexes)
        self._services = manager.informer(SERVICE)
        self._addresses = addresses
        self._machine_hosts = machine_hosts
        self._nodes: set[str] = set()
        self._files: dict[str, tuple[Pod, Path]] = {}  # hosts files that are kept up to date, by pod uid
        self._shared: dict[Circle, str] = {}  # what is the same in the files of a circle, while nothing has changed
        self._changed = asyncio.Event()
        self._stopping = False
        self.pods.on_change(self._pod_changed)
        self._services.on_change(self._service_changed)

    def join(self, node: str) -> None:
        """The pods of this node are on this network."""
        self._nodes.add(node)
        self._invalidate()

    def restore(self, uid: str, address: str) -> None:
        """A pod from before the restart has this address."""
        self._addresses.restore(uid, address)

    def address(self, pod: Pod) -> str:
        """The pod's address, for as long as its object exists."""
        return self._addresses.get(pod.metadata.uid)

    def enter(self, pod: Pod, path: Path) -> None:
        """Write the pod's hosts file and keep it up to date. Raises OSError."""
        self._files[pod.metadata.uid] = (pod, path)
        _write(path, self._render(pod))

    def leave(self, uid: str) -> None:
        """The pod has ended: its hosts file is of no use any more."""
        self._files.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The pod is gone: another may get its address."""
        self.leave(uid)
        self._addresses.release(uid)

    async def run(self) -> None:
        """Rewrite files after changes, until `stop`."""
        while not self._stopping:
            await self._changed.wait()
            self._changed.clear()
            for pod, path in list(self._files.values()):
                try:
                    _write(path, self._render(pod))
                except OSError as error:
                    log.warning("hosts file of pod %s: %s", pod.metadata.name, error)
            await self._clock.sleep(COALESCE_SECONDS)

    async def stop(self) -> None:
        """End `run`."""
        self._stopping = True
        self._changed.set()

    def _render(self, pod: Pod) -> str:
        circle = Circle.of(pod)
        shared = self._shared.get(circle)
        if shared is None:
            shared = shared_part(circle, self._peers(circle), self._services.all(), self._machine_text())
            self._shared[circle] = shared
        return render(pod, self.address(pod), shared)

    def _peers(self, circle: Circle) -> list[Peer]:
        """The pods that are, or may soon be, on this network."""
        pods = [pod for node in sorted(self._nodes) for pod in self.pods.by(_LIVE, node)]
        pods += self.pods.by(_UNBOUND, f"{circle.namespace}/{circle.owner}")
        return [Peer(pod, self.address(pod)) for pod in pods if not is_finished(pod)]

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._invalidate()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None and old.spec.node_name not in self._nodes:
            self._addresses.release(old.metadata.uid)  # it may have been set aside
        if _what_matters(old) != _what_matters(new):
            self._invalidate()

    def _invalidate(self) -> None:
        self._shared.clear()
        if self._files:
            self._changed.set()

    def _machine_text(self) -> str:
        try:
            return self._machine_hosts.read_text(errors="replace")
        except OSError:
            return ""


def _circle_if_unbound(pod: Pod) -> tuple[str, ...]:
    """Where peers that are not bound yet are looked for: by a controller that names its pods."""
    circle = Circle.of(pod)
    unbound = circle.owner and pod.spec.hostname and not pod.spec.node_name
    return (f"{circle.namespace}/{circle.owner}",) if unbound else ()


def _node_if_live(pod: Pod) -> tuple[str, ...]:
    """Where those are found that have not ended: of a long sweep, few of its pods."""
    return (pod.spec.node_name,) if pod.spec.node_name and not is_finished(pod) else ()


def _what_matters(pod: Pod | None) -> object:
    """What hosts files say, or need, of a pod."""
    if pod is None or is_finished(pod):
        return None
    return pod.metadata.uid, pod.metadata.labels, pod.spec.hostname, pod.spec.subdomain, pod.spec.node_name


def _write(path: Path, text: str) -> None:
    """Overwrite a file in place: new content first, then the new length, so that readers never find it empty."""
    data = text.encode()
    descriptor = os.open(path, _WRITE, 0o644)
    try:
        if os.fstat(descriptor).st_size == len(data) and os.pread(descriptor, len(data), 0) == data:
            return
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)
