"""A transport that sends requests no faster than it is told to, each in its turn: client-go's token bucket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.config.types import ClientConnection
from muster.runtime.clock import Clock
from muster.runtime.transport import Request, Response, Transport

# What client-go takes 0 for.
GO_RATE, GO_BURST = 5.0, 10


def paced_as(transport: Transport, clock: Clock, said: ClientConnection | None) -> Transport:
    """The same, with as many requests a second as are said, in client-go's way: no word of it is no limit."""
    if said is None or said.qps < 0:
        return transport
    return PacedTransport(transport, clock, said.qps or GO_RATE, said.burst or GO_BURST)


class Bucket:
    """So many may pass a second, and so many at once after a while in which none did."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def take(self, now: float) -> float:
        """One passes: after so many seconds, behind those that came before."""
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class PacedTransport:
    """Passes everything on. A stream counts when it begins."""

    def __init__(self, inner: Transport, clock: Clock, rate: float, burst: int) -> None:
        self._inner, self._clock = inner, clock
        self._bucket = Bucket(rate, burst, clock.monotonic())

    async def request(self, request: Request) -> Response:
        """The answer, whatever its status. Raises `TransportError` if there is none."""
        await self._turn()
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body as it comes. Raises as the transport below does."""
        await self._turn()
        async with self._inner.stream(request) as chunks:
            yield chunks

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()

    async def _turn(self) -> None:
        if (wait := self._bucket.take(self._clock.monotonic())) > 0.0:
            await self._clock.sleep(wait)
