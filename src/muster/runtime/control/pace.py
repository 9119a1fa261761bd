"""Send requests no faster than the configured rate, in order, with client-go's token bucket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.config.types import ClientConnection
from muster.runtime.clock import Clock
from muster.runtime.transport import Request, Response, Transport

# client-go's defaults, which apply if a setting is 0.
GO_RATE, GO_BURST = 5.0, 10


def paced_as(transport: Transport, clock: Clock, settings: ClientConnection | None) -> Transport:
    """Return the transport limited to the configured rate of requests, as in client-go.

    settings: the rate and the burst, 0 for client-go's defaults; None or a negative rate for no limit.
    """
    if settings is None or settings.qps < 0:
        return transport
    return PacedTransport(transport, clock, settings.qps or GO_RATE, settings.burst or GO_BURST)


class Bucket:
    """A token bucket: `rate` requests per second, and `burst` requests at once after a pause."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def take(self, now: float) -> float:
        """Take a token; return the seconds to wait until it may be used, because earlier requests come first."""
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class PacedTransport:
    """A transport that delays requests so that they do not exceed a rate. A stream counts once, when it opens."""

    def __init__(self, inner: Transport, clock: Clock, rate: float, burst: int) -> None:
        self._inner, self._clock = inner, clock
        self._bucket = Bucket(rate, burst, clock.monotonic())

    async def request(self, request: Request) -> Response:
        """Return the response, whatever its status. Raises `TransportError` if there is none."""
        await self._wait_for_turn()
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the body in pieces as they arrive. Raises the errors of the inner transport."""
        await self._wait_for_turn()
        async with self._inner.stream(request) as chunks:
            yield chunks

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()

    async def _wait_for_turn(self) -> None:
        if (wait := self._bucket.take(self._clock.monotonic())) > 0.0:
            await self._clock.sleep(wait)
