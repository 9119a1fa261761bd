"""Kill and remove leftovers of earlier servers: containers, unused directories and Node objects.

The module works without a server: `muster down` kills the containers of a killed server by their directories.
"""

import asyncio
import logging
import os
import stat
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from muster.api.core import NODE
from muster.api.ours.embedded import NODE_IDENTITY, SERVER_MACHINE
from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.disk import plainfiles, removal
from muster.cluster.nodes.disk.removal import RemovalError
from muster.cluster.nodes.disk.storage import PodStorage, Storage, seed_of
from muster.cluster.nodes.machine import cgroups
from muster.cluster.nodes.shims import Shim
from muster.runtime.client import Client
from muster.runtime.process.ownership import NotOursError, require_way

# The directory in a cluster's home for the state of its nodes.
NODES = "nodes"
# The same directory for pods of other accounts under a system server, because they could not access the superuser's
# home.
_SHARED = Path("/var/lib/muster")
# The directory in a cluster's home for the directories of jobs.
STATES = "state"
# The directory in a cluster's home for persistent volumes.
VOLUMES = "volumes"
# How long a shim may take to kill its container before the shim itself is killed.
_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


def reap(home: Path) -> int:
    """Kill the containers that a killed server left behind; return their number. No server may be running."""
    return sum(asyncio.run(end_everything(state)) for state in (home / NODES, find_shared(home) / NODES))


def find_shared(home: Path) -> Path:
    """Return the directory for the files of pods, under a system server with this home."""
    return _SHARED / f"{seed_of(home):08x}"


def prepare_for_accounts(state: Path) -> None:
    """Make the directory for the nodes of a system server, which other accounts may traverse.

    This process drops its supplementary groups, because they would count when it acts as an account. Raises
    `NotOursError` if other users could change programs that run as the superuser, and OSError.
    """
    for place in (sys.executable, shims.__file__, *sys.path):
        _require_program(Path(place).absolute())
    os.umask(0o022)  # accounts read the hosts files of their pods
    os.setgroups([])
    state.parent.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if require_way(state.parent.parent).st_uid != os.geteuid():
        raise NotOursError(f"{state.parent.parent} belongs to another user: remove it")
    for directory in (state.parent, state):
        directory.mkdir(mode=0o711, exist_ok=True)
        directory.chmod(0o711)


def _require_program(path: Path) -> None:
    """Raise `NotOursError` if other users can change a program, or a directory of programs. Raises OSError."""
    try:
        status = require_way(path)
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotOursError(f"other users can change {path}, from where root runs programs: install Muster as root")


async def end_everything(state: Path, *, spare: Collection[str] = ()) -> int:
    """Kill all containers of the nodes below a directory, except the nodes in `spare`; return how many were killed.

    Remove the cgroups, too. The files on disk stay, so that the next server can read how the containers exited.
    """
    storages = {path: storage for path in _find_absent(state, spare) if (storage := _open_storage(path)) is not None}
    ended = await asyncio.gather(
        *(end_pod(storage, record.uid) for storage in storages.values() for record in storage.pods())
    )
    for path, storage in storages.items():
        name = cgroups.name_group(path.name, seed_of(path))
        cgroups.remove_leftovers(name, [record.uid for record in storage.pods()])
    return sum(ended)


async def forget_absent(client: Client, state: Path, present: Collection[str]) -> None:
    """Remove the server's nodes that are not in `present`: their containers, directories and Node objects.

    Nodes of machines that have joined stay, and so do nodes that `muster nodes` simulates. The pods of removed nodes
    are then garbage-collected like pods of lost nodes. The next start retries failed removals. Raises `ApiError`.
    """
    await end_everything(state, spare=present)
    for path in _find_absent(state, present):
        for trouble in await asyncio.to_thread(_remove_node, path):
            log.warning("%s", trouble)
    for node in (await client.list(NODE, labels=SERVER_MACHINE)).items:
        if node.metadata.name not in present and NODE_IDENTITY not in node.metadata.annotations:
            log.info("node %s is no longer configured: removing it", node.metadata.name)
            try:
                await client.delete_object(NODE, node)
            except ApiError as error:
                if error.code != 404:  # a user's webhook may refuse it: the Node stays until another start
                    log.warning("node %s could not be removed: %s", node.metadata.name, error)


def remove_all(home: Path, state: Path) -> list[str]:
    """Remove a stopped cluster, with all files of its nodes, wherever the files are.

    Return the failures, as sentences.
    """
    troubles = [trouble for path in _find_absent(state, ()) for trouble in _remove_outside(path)]
    return troubles + _remove_paths([home])


def _remove_node(path: Path) -> list[str]:
    return _remove_outside(path) + _remove_paths([path])


def _remove_outside(path: Path) -> list[str]:
    """Remove the files of a node's pods outside the node's directory; return the failures, as sentences."""
    storage = _open_storage(path)
    if storage is None:
        return []
    removed = [where for record in storage.pods() for where in storage.of(record.uid).remove()]
    return _remove_paths(where for where in (*removed, *storage.left_over()) if not where.is_relative_to(path))


def _open_storage(path: Path) -> Storage | None:
    try:
        return Storage(path)
    except OSError as error:
        log.warning("%s cannot be opened: %s", path, error)
        return None


def _remove_paths(paths: Iterable[Path]) -> list[str]:
    """Remove these paths; return the failures, as sentences."""
    troubles = []
    for path in paths:
        try:
            removal.remove(path)
        except RemovalError as error:
            troubles.append(str(error))
    return troubles


def _find_absent(state: Path, present: Collection[str]) -> list[Path]:
    """Return the directories of nodes that are not in `present`. Ignore directory entries that are not Muster's."""
    paths = (state / name for name in plainfiles.list_names(state) if name not in present and not name.startswith("."))
    return [path for path in paths if (path / "pods").is_dir() and not path.is_symlink()]


async def end_pod(storage: Storage, uid: str) -> int:
    """Kill the containers of a pod; return how many were killed.

    Their exit codes do not count as failures afterwards.
    """
    place = storage.of(uid)
    if any(
        shims.is_alive(place.attempt(name, number)) for name in place.containers() for number in place.attempts(name)
    ):
        _mark_ended(place)
    count = 0
    for container in place.containers():
        for number in place.attempts(container):
            directory = place.attempt(container, number)
            shim, record = shims.find(directory), shims.read_record(directory)
            if shim is not None:
                count += 1
                await _end_shim(shim)
            elif record is not None and not record.finished and directory.stat().st_uid == os.geteuid():
                # Containers of accounts exit with their shims. Root does not search processes by a mark that any user
                # can set.
                await asyncio.to_thread(shims.kill_marked, launching.make_mark(uid, container).encode())
    return count


def _mark_ended(place: PodStorage) -> None:
    try:
        place.mark_ended()
    except OSError as error:  # a full disk must not prevent an end
        log.warning("%s: the node cannot record that the pod is asked to end: %s", place.root.name, error)


async def _end_shim(shim: Shim) -> None:
    """Ask a shim to terminate its container; kill the shim if it does not exit in time."""
    shim.end()
    ended = asyncio.create_task(shim.wait_for_end())
    _, late = await asyncio.wait([ended], timeout=_PATIENCE_SECONDS)
    if late:
        shim.destroy()
        await ended
