"""What is left of nodes that are no more: processes of a killed server, directories and objects of nodes not used now.

Works without a server: `muster down` ends the containers that a killed one has left, by looking at their directories.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from pathlib import Path

from muster.api.core import NODE
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL
from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.disk import plainfiles, removal
from muster.cluster.nodes.disk.removal import RemovalError
from muster.cluster.nodes.disk.storage import Storage
from muster.cluster.nodes.shims import Shim
from muster.runtime.client import Client

# Where in its home a cluster keeps what its nodes know.
NODES = "nodes"
# And beside that what jobs keep for themselves.
STATES = "state"
# A shim that is told to end everything takes a moment; one that does not is killed.
_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


def reap(home: Path) -> int:
    """End the containers that a killed server has left; returns how many there were. No server may be running."""
    return asyncio.run(end_everything(home / NODES))


async def end_everything(state: Path, *, spare: Collection[str] = ()) -> int:
    """Kill all containers of the nodes below a directory, but for some nodes; returns how many there were.

    What is on disk stays: the next server learns from it how they ended.
    """
    storages = [storage for path in _absent(state, spare) if (storage := _storage(path)) is not None]
    ended = await asyncio.gather(*(end_pod(storage, record.uid) for storage in storages for record in storage.pods()))
    return sum(ended)


async def forget_absent(client: Client, state: Path, present: Collection[str]) -> None:
    """End and forget the nodes that are not there any more: containers, directories, Node objects. Raises `ApiError`.

    Machines that have joined stay. Pods of those that are forgotten are then collected as pods of lost nodes. What
    cannot be removed is tried again at another start.
    """
    await end_everything(state, spare=present)
    for path in _absent(state, present):
        for trouble in await asyncio.to_thread(_remove, path):
            log.warning("%s", trouble)
    for node in (await client.list(NODE, labels=NODE_KIND_LABEL)).items:
        if node.metadata.name not in present and NODE_IDENTITY not in node.metadata.annotations:
            log.info("node %s is not there any more", node.metadata.name)
            try:
                await client.delete_object(NODE, node)
            except ApiError as error:
                if error.code != 404:  # a user's webhook refuses it: it stays until another start
                    log.warning("node %s could not be removed: %s", node.metadata.name, error)


def remove_all(home: Path, state: Path) -> list[str]:
    """Remove a cluster that has ended, with all that its nodes have anywhere; what could not be removed, in words."""
    troubles = [trouble for path in _absent(state, ()) for trouble in _remove_memory(path)]
    return troubles + _removed([home])


def _remove(path: Path) -> list[str]:
    return _remove_memory(path) + _removed([path])


def _remove_memory(path: Path) -> list[str]:
    """What the pods of a node have that is not below its directory."""
    storage = _storage(path)
    if storage is None:
        return []
    gone = [where for record in storage.pods() for where in storage.of(record.uid).remove()]
    return _removed(where for where in (*gone, *storage.left_over()) if not where.is_relative_to(path))


def _storage(path: Path) -> Storage | None:
    try:
        return Storage(path)
    except OSError as error:
        log.warning("%s cannot be looked at: %s", path, error)
        return None


def _removed(paths: Iterable[Path]) -> list[str]:
    """Remove these; what could not be, in words."""
    troubles = []
    for path in paths:
        try:
            removal.remove(path)
        except RemovalError as error:
            troubles.append(str(error))
    return troubles


def _absent(state: Path, present: Collection[str]) -> list[Path]:
    """The directories of nodes that are not there. What else lies beside them is not ours."""
    found = (state / name for name in plainfiles.names(state) if name not in present and not name.startswith("."))
    return [path for path in found if (path / "pods").is_dir() and not path.is_symlink()]


async def end_pod(storage: Storage, uid: str) -> int:
    """Kill what runs of a pod; returns how many containers it was."""
    place = storage.of(uid)
    count = 0
    for container in place.containers():
        for number in place.attempts(container):
            directory = place.attempt(container, number)
            shim, record = shims.find(directory), shims.read_record(directory)
            if shim is not None:
                count += 1
                await _end(shim)
            elif record is not None and not record.finished:
                await asyncio.to_thread(shims.kill_marked, launching.mark(uid, container).encode())
    return count


async def _end(shim: Shim) -> None:
    """Have a shim end everything, or kill it if it does not."""
    shim.end()
    ended = asyncio.create_task(shim.ended())
    _, late = await asyncio.wait([ended], timeout=_PATIENCE_SECONDS)
    if late:
        shim.destroy()
        await ended
