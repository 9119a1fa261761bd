"""Create the volumes of a pod before it starts, and keep their content up to date afterwards."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.status import ApiError
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.container.environment import ConfigError
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.pod.tokens import PodTokens
from muster.cluster.nodes.volumes.contents import VolumeError, list_requested_tokens
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes
from muster.runtime.events.recorder import EventType
from muster.runtime.transport import TransportError

# The pause before a failed read is retried; an event about the missing object shortens the pause.
RETRY_SECONDS = 10.0
# The minimum time between two refreshes of volumes.
REFRESH_SECONDS = 1.0

# An event of the pod: its type, reason and message, and the container that it is about ("" for the pod itself).
Tell: TypeAlias = Callable[[EventType, str, str, str], None]
# Starts a named task that runs as long as the pod is managed.
Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]], str], object]


class RefreshedVolumes:
    """The volumes of one pod, rewritten when the objects in them change.

    pod: returns the current object of the pod. The volumes in its spec never change.
    """

    def __init__(self, kit: Kit, pod: Callable[[], Pod], tell: Tell, spawn: Spawn) -> None:
        self._kit = kit
        self._pod = pod
        self._record_event = tell
        self._spawn = spawn
        self.names = PodVolumes.references(pod())
        self.volumes = PodVolumes(kit.storage.of(pod().metadata.uid), launching.volume_group(kit, pod()))
        self._tokens = PodTokens(kit.client, kit.clock)
        self._is_stale = False
        self._turn = asyncio.Lock()

    async def put(self) -> None:
        """Write the current content of the volumes. Raises `VolumeError`, `ApiError`, `TransportError`, OSError."""
        pod = self._pod()
        tokens = await self._tokens.get_tokens(pod)
        async with self._kit.object_slots.hold(pod, None):
            try:
                objects = await launching.fetch(self._kit.client, pod.metadata.namespace, self.names)
            except ConfigError as error:
                raise VolumeError(str(error)) from None
            await self.volumes.put(pod, replace(objects, tokens=tokens), self._kit.surroundings(pod))

    def soon_refresh(self) -> None:
        """Schedule a refresh of the volumes, now or after the current refresh. Several calls cause one refresh."""
        was_stale, self._is_stale = self._is_stale, True
        if not was_stale:
            self._spawn(self._refresh_and_pause, "refresh")

    async def keep_tokens(self) -> None:
        """Renew the tokens in volumes before they expire, until cancelled. Return at once if the pod requests none."""
        while list_requested_tokens(self._pod()):
            due = self._tokens.due
            pause = RETRY_SECONDS if due is None else max(due - self._kit.clock.monotonic(), RETRY_SECONDS)
            await self._kit.clock.sleep(pause)
            if (due := self._tokens.due) is None or due <= self._kit.clock.monotonic():
                await self._refresh_volumes()

    async def _refresh_and_pause(self) -> None:
        async with self._turn:
            self._is_stale = False
            await self._refresh_volumes()
            await self._kit.clock.sleep(REFRESH_SECONDS)

    async def _refresh_volumes(self) -> None:
        """Refresh the volumes. If content cannot be read, keep the old content and record an event with the error."""
        try:
            await self.put()
        except (VolumeError, ApiError, TransportError) as error:
            self._record_event("Warning", "FailedMount", str(error), "")
