"""Looks after one running container: its postStart hook and its probes. One task for each attempt.

It only tells what it sees; what follows from that is decided in `pod/machine.py`.
"""

import asyncio
from typing import Protocol

from muster.api.core import Probe
from muster.cluster.nodes.container import checks, probes
from muster.cluster.nodes.container.checks import CheckFailedError, Target
from muster.cluster.nodes.container.probes import LIVENESS, READINESS, STARTUP, Tally
from muster.runtime.clock import Clock

# Upstream lets a postStart hook run for ever; a day is as good.
_HOOK_SECONDS = 86400.0


class Listener(Protocol):
    """Who hears of what is seen."""

    def started(self, *, ready: bool) -> None:
        """The hook is done and the startup probe has passed."""
        ...

    def readiness(self, *, ready: bool) -> None:
        """The readiness probe says so now."""
        ...

    def condemned(self, why: str, grace_seconds: int | None) -> None:
        """The container must be ended and started again."""
        ...

    def warn(self, reason: str, message: str) -> None:
        """Something that users should know."""
        ...


async def look_after(target: Target, clock: Clock, listener: Listener, *, fresh: bool, ready: bool) -> None:
    """Until cancelled or the container is condemned.

    fresh: the container has just been started: its hook is due.
    ready: what its readiness was, as far as we know.
    """
    container = target.container
    began = clock.monotonic()
    if fresh and container.lifecycle is not None and container.lifecycle.post_start is not None:
        try:
            await checks.hook(container.lifecycle.post_start, target, clock, _HOOK_SECONDS)
        except CheckFailedError as error:
            listener.warn("FailedPostStartHook", f"PostStartHook failed: {error}")
            listener.condemned("FailedPostStartHook", None)
            return
    wanted = probes.of(container)
    if STARTUP in wanted and not await _startup(target, clock, listener, wanted[STARTUP], began):
        return
    listener.started(ready=ready if READINESS in wanted else True)
    async with asyncio.TaskGroup() as group:
        if LIVENESS in wanted:
            group.create_task(_liveness(target, clock, listener, wanted[LIVENESS], began))
        if READINESS in wanted:
            group.create_task(_readiness(target, clock, listener, wanted[READINESS], began))


async def _startup(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> bool:
    tally = Tally()
    await _initial_delay(clock, probe, began)
    while tally.result is None:
        tally = await _check(STARTUP, probe, target, listener, tally)
        if tally.result is None:
            await clock.sleep(probes.period_seconds(probe))
    if not tally.result:
        _condemn(STARTUP, probe, target, listener)
    return tally.result


async def _liveness(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> None:
    tally = Tally()
    await _initial_delay(clock, probe, began)
    while True:
        tally = await _check(LIVENESS, probe, target, listener, tally)
        if tally.result is False:
            _condemn(LIVENESS, probe, target, listener)
            return
        await clock.sleep(probes.period_seconds(probe))


async def _readiness(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> None:
    tally = Tally()
    await _initial_delay(clock, probe, began)
    while True:
        before = tally.result
        tally = await _check(READINESS, probe, target, listener, tally)
        if tally.result is not None and tally.result != before:
            listener.readiness(ready=tally.result)
        await clock.sleep(probes.period_seconds(probe))


async def _initial_delay(clock: Clock, probe: Probe, began: float) -> None:
    await clock.sleep(max(began + probe.initial_delay_seconds - clock.monotonic(), 0.0))


async def _check(kind: str, probe: Probe, target: Target, listener: Listener, tally: Tally) -> Tally:
    try:
        await checks.probe(probe, target)
    except CheckFailedError as error:
        listener.warn("Unhealthy", f"{kind} probe failed: {error}")
        return tally.after(probe, passed=False)
    return tally.after(probe, passed=True)


def _condemn(kind: str, probe: Probe, target: Target, listener: Listener) -> None:
    listener.condemned(probes.condemnation(kind, target.container.name), probe.termination_grace_period_seconds)
