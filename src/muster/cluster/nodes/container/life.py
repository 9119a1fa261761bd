"""Monitor one running container: one task for each attempt runs its postStart hook and its probes.

The task only reports the outcomes; `pod/machine.py` decides how the pod reacts.
"""

import asyncio
from typing import Protocol

from muster.api.core import Probe
from muster.cluster.nodes.container import checks, probes
from muster.cluster.nodes.container.checks import CheckFailedError, Target
from muster.cluster.nodes.container.probes import LIVENESS, READINESS, STARTUP, ProbeResult
from muster.runtime.clock import Clock

# Upstream sets no limit for a postStart hook; a day is as good as none.
_HOOK_SECONDS = 86400.0


class Listener(Protocol):
    """A receiver of the outcomes of a container's probes and postStart hook."""

    def started(self, *, ready: bool) -> None:
        """Note that the postStart hook has finished and the startup probe has passed.

        ready: whether the container is ready.
        """
        ...

    def readiness(self, *, ready: bool) -> None:
        """Note that the container's readiness has changed. ready: the new readiness."""
        ...

    def condemned(self, why: str, grace_seconds: int | None) -> None:
        """Note that the container must be killed and restarted, because its hook or a probe failed.

        why: the message or reason for users.
        grace_seconds: the time to terminate; None for the pod's own grace period.
        """
        ...

    def warn(self, reason: str, message: str) -> None:
        """Report a warning for users."""
        ...


async def look_after(target: Target, clock: Clock, listener: Listener, *, fresh: bool, ready: bool) -> None:
    """Run the postStart hook of a container and then its probes, until cancelled.

    Return early if the hook or the startup probe fails, or if no liveness or readiness probe is left to run.

    fresh: whether the container was just started, so that its hook must run.
    ready: its last known readiness.
    """
    container = target.container
    began = clock.monotonic()
    if fresh and container.lifecycle is not None and container.lifecycle.post_start is not None:
        try:
            await checks.run_hook(container.lifecycle.post_start, target, clock, _HOOK_SECONDS)
        except CheckFailedError as error:
            listener.warn("FailedPostStartHook", f"PostStartHook failed: {error}")
            listener.condemned("FailedPostStartHook", None)
            return
    by_kind = probes.list_probes(container)
    if STARTUP in by_kind and not await _run_startup_probe(target, clock, listener, by_kind[STARTUP], began):
        return
    listener.started(ready=ready if READINESS in by_kind else True)
    async with asyncio.TaskGroup() as group:
        if LIVENESS in by_kind:
            group.create_task(_run_liveness_probe(target, clock, listener, by_kind[LIVENESS], began))
        if READINESS in by_kind:
            group.create_task(_run_readiness_probe(target, clock, listener, by_kind[READINESS], began))


async def _run_startup_probe(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> bool:
    tally = ProbeResult()
    await _wait_initial_delay(clock, probe, began)
    while tally.result is None:
        tally = await _check_once(STARTUP, probe, target, listener, tally)
        if tally.result is None:
            await clock.sleep(probes.period_seconds(probe))
    if not tally.result:
        _condemn(STARTUP, probe, target, listener)
    return tally.result


async def _run_liveness_probe(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> None:
    tally = ProbeResult()
    await _wait_initial_delay(clock, probe, began)
    while True:
        tally = await _check_once(LIVENESS, probe, target, listener, tally)
        if tally.result is False:
            _condemn(LIVENESS, probe, target, listener)
            return
        await clock.sleep(probes.period_seconds(probe))


async def _run_readiness_probe(target: Target, clock: Clock, listener: Listener, probe: Probe, began: float) -> None:
    tally = ProbeResult()
    await _wait_initial_delay(clock, probe, began)
    while True:
        before = tally.result
        tally = await _check_once(READINESS, probe, target, listener, tally)
        if tally.result is not None and tally.result != before:
            listener.readiness(ready=tally.result)
        await clock.sleep(probes.period_seconds(probe))


async def _wait_initial_delay(clock: Clock, probe: Probe, began: float) -> None:
    await clock.sleep(max(began + probe.initial_delay_seconds - clock.monotonic(), 0.0))


async def _check_once(kind: str, probe: Probe, target: Target, listener: Listener, tally: ProbeResult) -> ProbeResult:
    try:
        await checks.probe(probe, target)
    except CheckFailedError as error:
        listener.warn("Unhealthy", f"{kind} probe failed: {error}")
        return tally.after(probe, passed=False)
    return tally.after(probe, passed=True)


def _condemn(kind: str, probe: Probe, target: Target, listener: Listener) -> None:
    listener.condemned(probes.explain_condemnation(kind, target.container.name), probe.termination_grace_period_seconds)
