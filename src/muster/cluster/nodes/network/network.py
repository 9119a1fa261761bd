"""Run the network of all process nodes: assign addresses and maintain the hosts files of running pods.

All process nodes of a cluster are on this machine and share one `Network`. Hosts files are rewritten in place when pods
are created and deleted, because containers have the file itself mounted. If only some pods of a gang are bound, their
hosts files already contain the unbound peers, whose addresses are reserved.

Pods from before a restart keep their addresses. Nodes pass their recorded addresses when they join, and the pods'
statuses contain the other addresses. Both are known before any pod runs, and so before a pod gets a new address.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from muster.api.core import POD, SERVICE, Pod, Service
from muster.api.pods import is_finished
from muster.cluster.indexes import BY_NODE, by_node
from muster.cluster.nodes.disk.complaints import naming_path
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.hosts import Circle, Peer, render, shared_part
from muster.runtime.control.manager import Manager
from muster.runtime.tasks import run_until_first

# Changes within this time lead to one rewrite of the files.
COALESCE_SECONDS = 0.05
_MACHINE = Path("/etc/hosts")
NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})
_UNBOUND, _LIVE = "network-unbound", "network-live"
_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

log = logging.getLogger(__name__)


class Network:
    """The addresses of pods and their hosts files. A `Manager` runs it, before the nodes.

    pods: the informer of pods.
    only_node: the only node whose pods the network may read; "" if it may read all pods.
    apart: whether the hosts files of a namespace omit the names of other namespaces, which belong to other users.
    """

    name = "process-network"

    def __init__(
        self,
        manager: Manager,
        addresses: Addresses,
        *,
        only_node: str = "",
        machine_hosts: Path = _MACHINE,
        apart: bool = False,
    ) -> None:
        self._clock = manager.clock
        indexes = {BY_NODE: by_node, _UNBOUND: _find_circle_of_unbound, _LIVE: _find_node_of_unfinished}
        self.pods = manager.informer(POD, fields=f"spec.nodeName={only_node}" if only_node else "", indexes=indexes)
        self._services = manager.informer(SERVICE)
        self._addresses = addresses
        self._machine_hosts = machine_hosts
        self._apart = apart
        self._nodes: set[str] = set()
        self._files: dict[str, tuple[Pod, Path]] = {}  # hosts files that are kept up to date, by pod uid
        self._shared: dict[Circle, str] = {}  # the shared lines of a circle's files, until something changes
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self.pods.on_change(self._on_pod_changed)
        self._services.on_change(self._on_service_changed)

    def join(self, node: str, addresses: Mapping[str, str] = NO_ADDRESSES) -> None:
        """Add a node.

        Call it before the manager runs.

        addresses: the recorded addresses of earlier pods, by pod UID.
        """
        self._nodes.add(node)
        for uid, address in addresses.items():
            self._addresses.restore(uid, address)
        self._invalidate()

    def address(self, pod: Pod) -> str:
        """Return the pod's address, which stays the same as long as its object exists."""
        return self._addresses.get(pod.metadata.uid)

    def enter(self, pod: Pod, path: Path) -> None:
        """Write the pod's hosts file to `path`, and update it from now on. Raises OSError."""
        self._files[pod.metadata.uid] = (pod, path)
        _overwrite(path, self._render(pod))

    def leave(self, uid: str) -> None:
        """Stop updating the hosts file of a terminated pod."""
        self._files.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Release the address of a pod whose object is deleted."""
        self.leave(uid)
        self._addresses.release(uid)

    async def run(self) -> None:
        """Rewrite the hosts files after changes of pods and Services, until `stop`."""
        while not self._stopping.is_set():
            await self._changed.wait()
            self._changed.clear()
            for pod, path in list(self._files.values()):
                try:
                    _overwrite(path, self._render(pod))
                except OSError as error:
                    log.warning("hosts file of pod %s: %s", pod.metadata.name, error)
            await run_until_first(self._clock.sleep(COALESCE_SECONDS), self._stopping.wait())

    async def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._changed.set()

    def _render(self, pod: Pod) -> str:
        circle = Circle.of(pod)
        shared = self._shared.get(circle)
        if shared is None:
            peers, services = self._list_peers(circle), self._services.all()
            if self._apart:
                peers = [peer for peer in peers if peer.pod.metadata.namespace == circle.namespace]
                services = [service for service in services if service.metadata.namespace == circle.namespace]
            shared = shared_part(circle, peers, services, self._read_machine_hosts())
            self._shared[circle] = shared
        return render(pod, self.address(pod), shared)

    def _list_peers(self, circle: Circle) -> list[Peer]:
        """Return the live pods of this network's nodes, and the unbound pods of a circle, with their addresses."""
        pods = [pod for node in sorted(self._nodes) for pod in self.pods.by(_LIVE, node)]
        pods += self.pods.by(_UNBOUND, f"{circle.namespace}/{circle.owner}")
        return [Peer(pod, self.address(pod)) for pod in pods if not is_finished(pod)]

    def _on_service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._invalidate()

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and new.spec.node_name in self._nodes and not is_finished(new):
            self._addresses.restore(new.metadata.uid, new.status.pod_ip)
        if new is None and old is not None and old.spec.node_name not in self._nodes:
            self._addresses.release(old.metadata.uid)  # the address may have been reserved
        if _select_hosts_facts(old) != _select_hosts_facts(new):
            self._invalidate()

    def _invalidate(self) -> None:
        self._shared.clear()
        if self._files:
            self._changed.set()

    def _read_machine_hosts(self) -> str:
        try:
            return self._machine_hosts.read_text(errors="replace")
        except OSError:
            return ""


def _find_circle_of_unbound(pod: Pod) -> tuple[str, ...]:
    """Return the index key of an unbound pod whose controller sets host names; () for other pods."""
    circle = Circle.of(pod)
    unbound = circle.owner and pod.spec.hostname and not pod.spec.node_name
    return (f"{circle.namespace}/{circle.owner}",) if unbound else ()


def _find_node_of_unfinished(pod: Pod) -> tuple[str, ...]:
    """Return the index key, its node, of a pod that has not finished; () for other pods.

    In a long sweep of jobs, most pods have finished.
    """
    return (pod.spec.node_name,) if pod.spec.node_name and not is_finished(pod) else ()


def _select_hosts_facts(pod: Pod | None) -> object:
    """Return the fields of a pod that hosts files depend on; None for a pod that is finished or deleted."""
    if pod is None or is_finished(pod):
        return None
    return pod.metadata.uid, pod.metadata.labels, pod.spec.hostname, pod.spec.subdomain, pod.spec.node_name


def _overwrite(path: Path, text: str) -> None:
    """Overwrite a file in place: the content first, then the length, so that readers never find the file empty."""
    data = text.encode()
    descriptor = os.open(path, _WRITE, 0o644)
    try:
        if os.fstat(descriptor).st_size == len(data) and os.pread(descriptor, len(data), 0) == data:
            return
        with naming_path(path):
            os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)
