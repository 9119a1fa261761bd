"""Publish placement results: events, and a condition on each waiting pod."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from muster.api.core import POD, Pod
from muster.controllers.gangs import is_marked
from muster.controllers.scheduler.carrier import Carrier
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# The maximum number of conditions to write concurrently.
AT_ONCE = 64

# The maximum number of nodes to name in an event.
_NAMED = 5


class Teller:
    """The writer of events and conditions on why gangs wait and to which nodes they are bound."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def publish_wait(self, pods: Sequence[Pod], carrier: Carrier | None, sentence: str) -> None:
        """Publish that these pods of a gang wait for room: events on the carrier and the first pod, and conditions.

        Each pod gets the condition PodScheduled=False; of pods that already have it, only the first is updated.
        Autoscalers add nodes for pods with the condition, so it reports nothing but a lack of room.
        """
        self.warn("FailedScheduling", pods[0], carrier, sentence)
        now = self._clock.now().replace(microsecond=0)
        limit = asyncio.Semaphore(AT_ONCE)

        async def mark(pod: Pod, **time: datetime) -> None:
            async with limit:
                await self._mark_unschedulable(pod, sentence, **time)

        marks = [mark(pod, lastTransitionTime=now) for pod in pods if not is_marked(pod)]
        if is_marked(pods[0]):
            marks.append(mark(pods[0], lastProbeTime=now))
        await asyncio.gather(*marks)

    def warn(self, reason: str, pod: Pod, carrier: Carrier | None, sentence: str) -> None:
        """Record a warning event on the gang's carrier, if it has one, and on one of its pods."""
        if carrier is not None:
            self._recorder.event(carrier.reference, "Warning", reason, sentence)
        self._recorder.event(make_reference(POD, pod), "Warning", reason, sentence)

    def report_bindings(self, bindings: Sequence[tuple[Pod, str]], carrier: Carrier | None) -> None:
        """Record to which nodes pods were bound: one event on the carrier for several pods, otherwise one on each pod.

        carrier: None for pods without one.
        """
        if carrier is not None and len(bindings) > 1:
            nodes = sorted({node for _, node in bindings})
            node_names = ", ".join(nodes[:_NAMED]) + (", ..." if len(nodes) > _NAMED else "")
            message = f"Bound {len(bindings)} pods together to {len(nodes)} nodes: {node_names}"
            self.record_event("Scheduled", carrier, message, type="Normal")
            return
        for pod, node in bindings:
            message = f"Successfully assigned {key_of(pod)} to {node}"
            self._recorder.event(make_reference(POD, pod), "Normal", "Scheduled", message)

    def record_event(
        self, reason: str, carrier: Carrier, message: str, type: Literal["Normal", "Warning"] = "Warning"
    ) -> None:
        """Record an event on a gang's carrier."""
        self._recorder.event(carrier.reference, type, reason, message)

    async def _mark_unschedulable(self, pod: Pod, sentence: str, **time: datetime) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": sentence} | time
        patch = {"status": {"conditions": [condition]}}
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
