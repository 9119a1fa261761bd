"""The sessions of this process: with the clusters that it was told of, or with one of its own."""

import asyncio
import logging
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from muster.actions.home import Home
from muster.actions.session import Session, Target, connect, has_cluster, own_cluster

log = logging.getLogger("muster")

_OWN = "its own"


class Connections:
    """Each session is opened once, and held until `close`. All of it happens on one loop."""

    def __init__(self) -> None:
        self._opened: dict[object, asyncio.Future[Session]] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()
        self._roots: set[Path] = set()

    async def session(self, target: Target) -> Session:
        """The session with the cluster that is meant; without one, with a cluster inside this process.

        Once there is such a cluster, it is meant where none is named: the jobs of this program stay together. Raises
        what `connect` raises.
        """
        key: object = _OWN
        if (target.kubeconfig or _OWN not in self._opened) and has_cluster(target):
            home = Home.find(os.environ)
            # A server that was started anew is another one.
            key = target, os.environ.get("KUBECONFIG", ""), home.path, home.server_pid()
        if key not in self._opened:
            self._open(key, own_cluster() if key == _OWN else connect(target, log.warning))
        return await asyncio.shield(self._opened[key])  # others may want it who do not go

    def files(self, session: Session) -> tuple[Path, bool]:
        """Where those of a session lie, and whether that is asked for the first time. Raises `UserError`."""
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
        """Leave all; a cluster of this process ends at once."""
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
        """Hold a session: what it is made of is left by the task that has entered it."""
        opened = self._opened[key]
        try:
            async with way as session:
                opened.set_result(session)
                await self._closing.wait()
        except BaseException as error:
            if opened.done():
                raise
            del self._opened[key]  # the next one tries again
            opened.set_exception(error)
