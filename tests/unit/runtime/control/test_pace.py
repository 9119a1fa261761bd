"""Requests go out no faster than they may, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.pace import Bucket, PacedTransport
from muster.runtime.transport import Request, Response


class Nothing:
    """A stream that has ended."""

    def __aiter__(self) -> "Nothing":
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


@given(
    st.floats(0.1, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 10), min_size=1, max_size=60),
)
def test_in_no_span_pass_more_than_a_burst_and_what_the_rate_allows(rate: float, burst: int, gaps: list[float]) -> None:
    bucket, now, passed = Bucket(rate, burst, 0.0), 0.0, []
    for gap in gaps:
        now += gap
        passed.append(now + bucket.take(now))
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(passed))
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= burst + (end - start) * rate + 1e-6


@pytest.mark.parametrize(("burst", "times"), [(1, [0.0, 0.5, 1.0, 1.5]), (3, [0.0, 0.0, 0.0, 0.5]), (9, [0.0] * 4)])
def test_what_comes_at_once_goes_out_in_turn(burst: int, times: list[float]) -> None:
    class Noting:
        def __init__(self, clock: VirtualClock) -> None:
            self.clock, self.sent = clock, list[tuple[float, str]]()

        async def request(self, request: Request) -> Response:
            self.sent.append((self.clock.monotonic(), request.path))
            return Response(200)

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
            self.sent.append((self.clock.monotonic(), request.path))
            yield Nothing()

        async def close(self) -> None:
            self.sent.append((self.clock.monotonic(), "closed"))

    async def main() -> list[tuple[float, str]]:
        clock = VirtualClock()
        noting = Noting(clock)
        paced = PacedTransport(noting, clock, 2.0, burst)
        await asyncio.gather(*(paced.request(Request("GET", f"/{number}")) for number in range(3)))
        async with paced.stream(Request("GET", "/3")):
            pass
        await paced.close()
        return noting.sent

    *sent, closed = run_virtual(main())
    assert sent == [(time, f"/{number}") for number, time in enumerate(times)]
    assert closed == (times[-1], "closed")
