"""Start the containers of a pod.

It reads the objects that the containers refer to, builds the specs of their shims, and starts the shims.
"""

import asyncio
import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from muster.api.core import Container, Pod
from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.container.environment import ConfigError, Environment, TooLongError, list_references
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.disk.complaints import describe_os_error
from muster.cluster.nodes.pod.reserves import Reserves
from muster.cluster.nodes.pod.volumerefresh import RefreshedVolumes, Tell
from muster.cluster.nodes.shim.spec import ProgramSpec
from muster.cluster.nodes.shims import ClaimedError, Shim, ShimError
from muster.cluster.nodes.volumes.contents import VolumeError, relocate_variables
from muster.runtime.transport import TransportError

T = TypeVar("T")

log = logging.getLogger(__name__)


class HeldUpError(Exception):
    """A container that cannot be created now; `reason` is the kubelet's reason for a waiting container."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Starts:
    """The starter of one pod's containers. `pod` returns the current version of the pod's object."""

    def __init__(self, kit: Kit, pod: Callable[[], Pod], volumes: RefreshedVolumes, tell: Tell) -> None:
        self._kit = kit
        self._pod = pod
        self._volumes = volumes
        self._record_event = tell
        self._storage = kit.storage.of(pod().metadata.uid)
        self._environments: dict[str, Environment] = {}
        self.reserves = Reserves(kit)

    async def begin(self, container: Container, number: int) -> Shim | None:
        """Start one attempt of a container, and wait until it runs. Raises `HeldUpError`, `TooLongError`.

        Return None if the attempt has exited already.
        """
        try:
            return await self._launch_in_turn(container, number)
        except TooLongError:
            raise
        except ConfigError as error:
            raise HeldUpError(error.reason, str(error)) from error
        except VolumeError as error:
            raise HeldUpError("CreateContainerConfigError", str(error)) from error
        except (ApiError, TransportError) as error:
            raise HeldUpError(
                "CreateContainerConfigError", f"cannot read the objects that the container refers to: {error}"
            ) from error
        except ShimError as error:
            raise HeldUpError("RunContainerError", str(error)) from error
        except OSError as error:
            raise HeldUpError("CreateContainerError", describe_os_error(error)) from error
        except Exception as error:  # a bug here must not leave a start unfinished for ever
            log.exception("container %s of pod %s could not be started", container.name, self._pod().metadata.name)
            raise HeldUpError("CreateContainerError", f"{type(error).__name__}: {error}") from error

    async def command(self, container: Container, argv: Sequence[str], defaults: Mapping[str, str]) -> ProgramSpec:
        """Return a command to run in a container, with the rights of the container's own processes. Raises `ShimError`.

        defaults: variables for a container that does not set them.
        """
        try:
            environment = self._environments.get(container.name) or await self._make_environment(container)
            cgroups, pod = self._kit.cgroups, self._pod()
            groups = cgroups.paths(pod.metadata.uid, container.name) if cgroups else ()
            variables = {**defaults, **environment.variables}
            arguments = (self._kit, pod, container, list(argv), variables, groups, self._volumes.volumes)
            return await _compute(container, partial(launching.command_of, *arguments))
        except (ConfigError, VolumeError, ApiError, TransportError) as error:
            raise ShimError(str(error)) from error

    async def _launch_in_turn(self, container: Container, number: int) -> Shim | None:
        if container.name in self.reserves:  # the container's process exists already
            return await self._launch_now(container, number)
        async with self._kit.start_slots.hold(self._pod()):
            return await self._launch_now(container, number)

    async def _launch_now(self, container: Container, number: int) -> Shim | None:
        environment = await self._make_environment(container)
        directory = self._storage.begin(container.name, number)
        if account := self._kit.account_of(self._pod()):
            self._storage.hand_over(account, container.name, number)
        self._kit.remover.add(self._storage.remove_old(container.name, number))
        arguments = (self._kit, self._pod(), container, self._volumes.volumes, environment, directory)
        spec = await _compute(container, partial(launching.make_spec, *arguments))
        try:
            return await shims.start(spec, self.reserves.take(container.name))
        except ClaimedError:  # a shim of an earlier server has claimed the attempt
            return shims.find(directory)

    async def _make_environment(self, container: Container) -> Environment:
        """Return the container's environment, computed anew for every start, after its volumes are set up."""
        volumes = self._volumes.volumes
        if not volumes.is_complete(self._pod()):  # an earlier server made them
            await self._volumes.put()
        names = list_references(container)
        # A container that refers to no objects needs no slot.
        async with self._kit.object_slots.hold(self._pod(), None) if names else nullcontext():
            objects = await launching.fetch(self._kit.client, self._pod().metadata.namespace, names)
            environment = launching.build_environment(self._kit, self._pod(), container, objects)
        if self._kit.isolation.kind == "none":
            mounts = volumes.mounts(container, environment.variables)
            places = {mount.path: posixpath.normpath(f"{mount.source}/{mount.within}") for mount in mounts}
            environment = replace(environment, variables=relocate_variables(environment.variables, places))
        for where, keys in environment.skipped:
            message = (
                f"Keys [{', '.join(keys)}] from the EnvFrom {where} were skipped since they are considered invalid"
            )
            self._record_event(
                "Warning", "InvalidVariableNames", f"{message} environment variable names.", container.name
            )
        self._environments[container.name] = environment
        return environment


async def _compute(container: Container, work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work) if launching.takes_long(container) else work()
