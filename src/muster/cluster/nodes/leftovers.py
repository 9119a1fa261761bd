"""What is left of nodes that are no more: processes of a killed server, directories and objects of nodes not used now.

Works without a server: `muster down` ends the containers that a killed one has left, by looking at their directories.
"""

import asyncio
import logging
import shutil
from collections.abc import Collection
from pathlib import Path

from muster.api.core import NODE
from muster.api.status import ApiError
from muster.cluster.nodes import launching, node_object, shims
from muster.cluster.nodes.shims import Shim
from muster.cluster.nodes.storage import Storage
from muster.runtime.client import Client

# Where in its home a cluster keeps what its nodes know.
NODES = "nodes"
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
    storages = [Storage(path) for path in _absent(state, spare)]
    ended = await asyncio.gather(*(end_pod(storage, record.uid) for storage in storages for record in storage.pods()))
    return sum(ended)


async def forget_absent(client: Client, state: Path, present: Collection[str]) -> None:
    """End and forget the nodes that are not there any more: containers, directories, Node objects. Raises `ApiError`.

    Their pods are then collected as pods of lost nodes.
    """
    await end_everything(state, spare=present)
    for path in _absent(state, present):
        await asyncio.to_thread(_remove, path)
    for node in (await client.list(NODE, labels=node_object.KIND_LABEL)).items:
        if node.metadata.name not in present:
            log.info("node %s is not there any more", node.metadata.name)
            try:
                await client.delete(NODE, node.metadata.name, uid=node.metadata.uid)
            except ApiError as error:
                if error.code != 404:  # somebody's webhook refuses it: it stays until another start
                    log.warning("node %s could not be removed: %s", node.metadata.name, error)


def _remove(path: Path) -> None:
    storage = Storage(path)
    for record in storage.pods():
        storage.of(record.uid).remove()
    shutil.rmtree(path)


def _absent(state: Path, present: Collection[str]) -> list[Path]:
    """The directories of nodes that are not there."""
    found = sorted(state.iterdir()) if state.is_dir() else []
    return [path for path in found if path.is_dir() and path.name not in present]


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
