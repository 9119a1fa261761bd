"""Elect a leader: of many candidates, at most one works (client-go's algorithm on a Lease).

A candidate takes the Lease when it is free, or when the candidate has seen no renewal for a whole lease duration. Only
its own clock counts, never the times written in the object. The holder renews the Lease every few seconds.

There are never two leaders. A leader counts its time from *before* it sent the last renewal that succeeded; other
candidates count theirs from after they saw the renewal. At the renewal limit the leader stops, and its `fence` blocks
all writes that it still tries. Writes that were already sent then have the rest of the lease duration to arrive or be
lost. Clocks may differ, but must run at about the same speed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

import msgspec

from muster.api.groups.coordination import LEASE, Lease, LeaseSpec, micro_time
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.transport import ClosedError, Request, Response, Transport, TransportError

# Candidates try for a free Lease at random between one and 2.2 times the retry period (client-go).
_JITTER = 1.2
# A standby reads the Lease this many times in a retry period, plus a jitter of a fifth. The lease's time begins for the
# standby when it sees a renewal, so a late read delays a take-over by as much.
_LOOKS, _LOOK_JITTER = 2, 0.2
# A read at the very end of a lease might come before that end.
_AFTER = 0.01

log = logging.getLogger(__name__)


class LeadershipLostError(Exception):
    """A loss of leadership: the leader could not renew its Lease in time, or another candidate has taken the Lease."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The duration of a lease, the time limit of its renewal, and the interval between attempts, in seconds."""

    lease: float = 15.0
    renew_limit: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew_limit > self.retry * _JITTER > 0:
            raise ValueError("the lease must last longer than the renewal limit, and that longer than 1.2 retries")


def make_claim(lease: Lease | None, identity: str, unchanged: float, now: datetime, timing: Timing) -> LeaseSpec | None:
    """Return the spec that a candidate writes to take or renew the Lease; None while another candidate holds it.

    lease: the current Lease; None if it does not exist.
    unchanged: for how many seconds the candidate has seen the Lease without a change.
    """
    spec = lease.spec if lease else LeaseSpec()
    mine = spec.holder_identity == identity
    duration = spec.lease_duration_seconds or 0
    if spec.holder_identity and not mine and unchanged < duration:
        return None
    stamp = micro_time(now)
    return msgspec.structs.replace(
        spec,
        holder_identity=identity,
        lease_duration_seconds=ceil(timing.lease),
        acquire_time=spec.acquire_time if mine else stamp,
        renew_time=stamp,
        lease_transitions=(spec.lease_transitions or 0) + (0 if mine or lease is None else 1),
    )


class Election:
    """One candidate's part in the election for one Lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing = Timing(),
    ) -> None:
        self.identity = identity
        self._client = client
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._trouble = ""  # why the last try failed
        self._renewed_at: float | None = None  # when the last renewal that succeeded was sent

    @property
    def is_leading(self) -> bool:
        """Whether this candidate leads for long enough that a request sent now arrives before another can lead."""
        return self._renewed_at is not None and self._clock.monotonic() < self._renewed_at + self._timing.renew_limit

    def fence(self, transport: Transport) -> Transport:
        """Return a transport whose writes, including retries, fail unless this candidate leads."""
        return _Fence(transport, lambda: self.is_leading)

    async def run(
        self, work: Callable[[], Coroutine[Any, Any, None]], hang_up: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Wait for the Lease, run `work` while holding it, and release the Lease when `work` returns or is cancelled.

        hang_up: called when the Lease is lost, before `work` is cancelled, so that `work` need not wait for a server
        that may not respond.

        Raises `LeadershipLostError` when the Lease is lost; `work` was cancelled and has stopped by then.
        """
        while not await self._try():
            await self._clock.sleep(self._compute_seconds_until_next_try())
        log.info("%s leads (%s/%s)", self.identity, self._namespace, self._name)
        working = asyncio.create_task(work(), name=f"work-of-{self.identity}")
        renewing = asyncio.create_task(self._renew(), name=f"lease-of-{self.identity}")
        try:
            ended, _ = await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if renewing.done():
                self._renewed_at = None
                if hang_up is not None:
                    await hang_up()
            await _end_task(working)
            await _end_task(renewing)
            await self._release()
        if working in ended:
            return working.result()
        renewing.result()
        raise LeadershipLostError(f"{self.identity} could not renew lease {self._namespace}/{self._name} in time")

    def _compute_seconds_until_next_try(self) -> float:
        """Return the seconds until the next attempt to take the Lease: at the latest just after it expires."""
        if self._seen is None or not self._seen.spec.holder_identity:
            return self._random.jitter(self._timing.retry, _JITTER)
        pause = self._random.jitter(self._timing.retry / _LOOKS, _LOOK_JITTER)
        left = self._seen_at + (self._seen.spec.lease_duration_seconds or 0) - self._clock.monotonic()
        return min(pause, left + _AFTER) if left > 0 else pause

    async def _renew(self) -> None:
        """Renew the Lease until it is lost."""
        assert self._renewed_at is not None
        while True:
            await self._clock.sleep(self._timing.retry)
            give_up_at = self._renewed_at + self._timing.renew_limit
            try:
                async with asyncio.timeout(give_up_at - self._clock.monotonic()):
                    while not await self._try():
                        if self._seen and self._seen.spec.holder_identity != self.identity:
                            return
                        await self._clock.sleep(self._timing.retry)
            except TimeoutError:
                return

    async def _try(self) -> bool:
        """Try once to take or renew the Lease; return whether this candidate leads now.

        A request without a response, as over a silently broken connection, is cancelled early enough for another
        attempt.
        """
        patience = self._timing.renew_limit / 2
        try:
            async with asyncio.timeout(patience):
                return await self._claim_lease()
        except TimeoutError:
            self._note_problem(f"no answer within {patience:g} s")
        except (ApiError, TransportError) as error:
            lost_a_race = isinstance(error, ApiError) and error.code == 409
            self._note_problem("" if lost_a_race else str(error))  # a lost race is no problem
        return False

    async def _claim_lease(self) -> bool:
        """Read the Lease, and write it if this candidate may hold it; return whether this candidate holds it now."""
        started = self._clock.monotonic()
        await self._read_lease()
        spec = make_claim(self._seen, self.identity, started - self._seen_at, self._clock.now(), self._timing)
        if spec is not None:
            # Not from `started`: others can see only renewals that were sent after now.
            sent_at = self._clock.monotonic()
            await self._write(spec)
            self._renewed_at = sent_at
        self._trouble = ""
        return spec is not None and self.is_leading  # an answer that came too late is useless

    def _note_problem(self, problem: str) -> None:
        """Log a problem unless the previous attempt had the same problem. problem: "" for none, which logs nothing."""
        if problem and problem != self._trouble:
            log.warning("lease %s/%s: %s", self._namespace, self._name, problem)
        self._trouble = problem

    async def _read_lease(self) -> None:
        lease = await self._client.find(LEASE, self._name, self._namespace)
        if lease and (self._seen is None or self._seen.metadata.resource_version != lease.metadata.resource_version):
            self._seen_at = self._clock.monotonic()
        self._seen = lease

    async def _write(self, spec: LeaseSpec) -> None:
        if self._seen is None:
            lease = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
            self._seen = await self._client.create(LEASE, lease)
        else:
            # The update names the resource version: of two candidates only one succeeds.
            self._seen = await self._client.update(LEASE, msgspec.structs.replace(self._seen, spec=spec))
        self._seen_at = self._clock.monotonic()

    async def _release(self) -> None:
        """Write to the Lease that no candidate holds it, if this one does, so that another can take it at once.

        A failure is only logged.
        """
        if not self.is_leading or self._seen is None:
            return
        spec = LeaseSpec(
            holder_identity="", lease_duration_seconds=1, lease_transitions=self._seen.spec.lease_transitions
        )
        self._renewed_at = None
        try:
            async with asyncio.timeout(self._timing.retry):
                await self._write(spec)
        except (ApiError, TransportError, TimeoutError) as error:
            log.warning("lease %s/%s was not given back: %s", self._namespace, self._name, error)


class _Fence:
    def __init__(self, transport: Transport, open: Callable[[], bool]) -> None:
        self._transport = transport
        self._open = open

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._transport.request(request)
        if not self._open():
            raise ClosedError(f"{request.method} {request.path} was not sent: this process no longer leads")
        return await self._transport.request(msgspec.structs.replace(request, allowed=self._open))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


async def _end_task(task: asyncio.Task[None]) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()):
        log.warning("%s ended badly: %s", task.get_name(), error, exc_info=error)
