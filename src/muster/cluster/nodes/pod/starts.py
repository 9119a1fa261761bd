"""Starts the containers of a pod: reads what they refer to, works out what their shims must know, and makes those."""

import asyncio
import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

from muster.api.core import Container, Pod
from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.container.environment import ConfigError, Environment, TooLongError, references
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.pod.reserves import Reserves
from muster.cluster.nodes.pod.shown import Shown, Tell
from muster.cluster.nodes.shim.spec import Command
from muster.cluster.nodes.shims import ClaimedError, Shim, ShimError
from muster.cluster.nodes.volumes.contents import VolumeError, relocated
from muster.runtime.transport import TransportError

T = TypeVar("T")

log = logging.getLogger(__name__)


class HeldUpError(Exception):
    """A container cannot be created for now; `reason` is upstream's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Starts:
    """Of one pod, whose object is asked for anew each time."""

    def __init__(self, kit: Kit, pod: Callable[[], Pod], shown: Shown, tell: Tell) -> None:
        self._kit = kit
        self._pod = pod
        self._shown = shown
        self._tell = tell
        self._storage = kit.storage.of(pod().metadata.uid)
        self._environments: dict[str, Environment] = {}
        self.reserves = Reserves(kit)

    async def begin(self, container: Container, number: int) -> Shim | None:
        """One attempt, up to where it runs; None if it has ended already. Raises `HeldUpError`, `TooLongError`."""
        try:
            return await self._launch(container, number)
        except TooLongError:
            raise
        except ConfigError as error:
            raise HeldUpError(error.reason, str(error)) from error
        except VolumeError as error:
            raise HeldUpError("CreateContainerConfigError", str(error)) from error
        except (ApiError, TransportError) as error:
            raise HeldUpError("CreateContainerConfigError", f"cannot read what it refers to: {error}") from error
        except ShimError as error:
            raise HeldUpError("RunContainerError", str(error)) from error
        except OSError as error:
            raise HeldUpError("CreateContainerError", words(error)) from error
        except Exception as error:  # a bug of ours must not leave the pod in the middle of a start for ever
            log.exception("container %s of pod %s could not be started", container.name, self._pod().metadata.name)
            raise HeldUpError("CreateContainerError", f"{type(error).__name__}: {error}") from error

    async def command(self, container: Container, argv: Sequence[str], defaults: Mapping[str, str]) -> Command:
        """A command to run in a container, as its own processes run. Raises `ShimError`."""
        try:
            found = self._environments.get(container.name) or await self._environment(container)
            cgroups, pod = self._kit.cgroups, self._pod()
            cgroup = str(cgroups.path(pod.metadata.uid, container.name)) if cgroups else ""
            variables = {**defaults, **found.variables}
            arguments = (self._kit, pod, container, list(argv), variables, cgroup, self._shown.volumes)
            return await _worked_out(container, partial(launching.command_of, *arguments))
        except (ConfigError, VolumeError, ApiError, TransportError) as error:
            raise ShimError(str(error)) from error

    async def _launch(self, container: Container, number: int) -> Shim | None:
        environment = await self._environment(container)
        directory = self._storage.begin(container.name, number)
        self._kit.remover.add(self._storage.remove_old(container.name, number))
        arguments = (self._kit, self._pod(), container, self._shown.volumes, environment, directory)
        spec = await _worked_out(container, partial(launching.spec, *arguments))
        reserve = self.reserves.take(container.name)
        if reserve is None:
            async with self._kit.starting:  # a pod may have thousands: others are served between any two
                await asyncio.sleep(0)
        try:
            return await shims.start(spec, reserve)
        except ClaimedError:  # by a shim that the server before us had sent on its way
            return shims.find(directory)

    async def _environment(self, container: Container) -> Environment:
        """The container's variables, read anew for every start, with its volumes in place."""
        volumes = self._shown.volumes
        if not volumes.complete(self._pod()):  # they were made by the server before us
            await self._shown.put()
        names = references(container)
        async with self._kit.showing if names else nullcontext():  # what holds nothing waits for no turn
            objects = await launching.fetch(self._kit.client, self._pod().metadata.namespace, names)
            found = launching.variables(self._kit, self._pod(), container, objects)
        if self._kit.isolation.kind == "none":
            mounts = volumes.mounts(container, found.variables)
            places = {mount.path: posixpath.normpath(f"{mount.source}/{mount.within}") for mount in mounts}
            found = replace(found, variables=relocated(found.variables, places))
        for where, keys in found.skipped:
            message = (
                f"Keys [{', '.join(keys)}] from the EnvFrom {where} were skipped since they are considered invalid"
            )
            self._tell("Warning", "InvalidVariableNames", f"{message} environment variable names.", container.name)
        self._environments[container.name] = found
        return found


def words(error: OSError) -> str:
    """An error of the system for users; our own have no file, and say all themselves."""
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


async def _worked_out(container: Container, work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work) if launching.takes_long(container) else work()
