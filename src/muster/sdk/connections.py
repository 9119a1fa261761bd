"""The sessions of this process: with the clusters that the caller names, or with a cluster inside this process."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from muster.actions.server.home import Home
from muster.actions.server.session import Session, Target, connect, has_cluster, own_cluster

log = logging.getLogger("muster")

_OWN = "its own"


class Connections:
    """The open sessions of this process, one per cluster. A session stays open until `close`.

    All work runs on one event loop.
    """

    def __init__(self) -> None:
        self._opened: dict[object, asyncio.Future[Session]] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()
        self._roots: set[Path] = set()

    async def session(self, target: Target) -> Session:
        """Return the session with the cluster that the target names, or with a cluster inside this process.

        Once a cluster runs inside this process, a target that names no cluster selects it, so that all jobs of the
        program are in one cluster. Raises the errors of `connect`.
        """
        key: object = _OWN
        if (target.kubeconfig or _OWN not in self._opened) and has_cluster(target):
            home = Home.find(os.environ)
            # A restarted server needs a new session.
            key = target, os.environ.get("KUBECONFIG", ""), home.path, home.server_pid()
        if key not in self._opened:
            self._open(key, own_cluster() if key == _OWN else _connect(target))
        return await asyncio.shield(self._opened[key])  # a cancelled caller must not cancel the opening for the others

    def files(self, session: Session) -> tuple[Path, bool]:
        """Return the directory for files of a session's jobs, and whether this process uses it for the first time.

        Raises `UserError`.
        """
        if session.files is None:
            home = Home.find(os.environ)
            home.make()
            root = home.path / "calls"
        else:
            root = session.files / "calls"
        is_first = root not in self._roots
        self._roots.add(root)
        return root, is_first

    async def close(self) -> None:
        """Close all sessions. A cluster inside this process ends immediately."""
        for opened in self._opened.values():
            if opened.done():
                opened.result().leave()
        self._closing.set()
        if self._keepers:
            await asyncio.wait(self._keepers)

    def _open(self, key: object, way: AbstractAsyncContextManager[Session]) -> None:
        self._opened[key] = asyncio.get_running_loop().create_future()
        self._keepers.append(asyncio.create_task(self._keep(key, way), name="session"))

    async def _keep(self, key: object, way: AbstractAsyncContextManager[Session]) -> None:
        """Open a session and keep it open until `close`. If opening fails, all callers that wait for it get the error.

        key: the key of the session's cluster.
        way: the context manager that opens the session.

        The same task has to open and close the session.
        """
        opened = self._opened[key]
        try:
            async with way as session:
                opened.set_result(session)
                await self._closing.wait()
        except BaseException as error:
            if opened.done():
                raise
            del self._opened[key]  # the next caller tries again
            opened.set_exception(error)


@asynccontextmanager
async def _connect(target: Target) -> AsyncIterator[Session]:
    """Open a session with the cluster that the target names; log the cluster if KUBECONFIG has selected it.

    Raises the errors of `connect`.
    """
    async with connect(target, log.warning) as session:
        if session.where and os.environ.get("KUBECONFIG") and not target.kubeconfig:
            log.warning("%s", session.describe_cluster())
        yield session
