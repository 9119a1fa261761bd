"""When what a cluster has is looked at again, in virtual time."""

import asyncio

import pytest
from tests.unit.runtime.conftest import THING, MemoryServer, down

from muster.actions.watching import LEAST_SECONDS, MOST_SECONDS, Watch, survive_outages
from muster.api.status import ApiError, forbidden
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.ids import Random
from muster.runtime.transport import TransportError


def looks(server: MemoryServer, script, seconds: float, takes: float = 0.0) -> list[float]:
    """When there was a look while the script ran."""
    found: list[float] = []

    async def main() -> None:
        clock = VirtualClock()
        began = clock.monotonic()

        async def look() -> None:
            found.append(clock.monotonic() - began)
            await asyncio.sleep(takes)

        watch = Watch(Client(server), clock, Random(1), [THING], "default")
        playing = asyncio.create_task(script())
        try:
            async with asyncio.timeout(seconds):
                await watch.run(look)
        except TimeoutError:
            await playing

    run_virtual(main())
    return found


async def nothing() -> None:
    """Nothing happens."""


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def test_what_changes_is_looked_at_soon_and_what_does_not_now_and_then(server: MemoryServer) -> None:
    async def script() -> None:
        await asyncio.sleep(7)
        server.put("a")

    assert looks(server, script, 13) == pytest.approx(
        [0, LEAST_SECONDS + MOST_SECONDS, 7, 7 + LEAST_SECONDS + MOST_SECONDS]
    )


def test_many_changes_are_not_many_looks(server: MemoryServer) -> None:
    async def script() -> None:
        for number in range(100):
            server.put("a", number)
            await asyncio.sleep(0.01)

    found = looks(server, script, 2)
    assert found == pytest.approx([0, LEAST_SECONDS, 2 * LEAST_SECONDS, 3 * LEAST_SECONDS][: len(found)])


def test_a_look_that_takes_long_is_rarer(server: MemoryServer) -> None:
    async def script() -> None:
        for number in range(20):
            server.put("a", number)
            await asyncio.sleep(1)

    assert looks(server, script, 21, takes=1) == pytest.approx([0, 5, 10, 15, 20])


def test_that_the_server_has_gone_is_a_reason_to_look(server: MemoryServer) -> None:
    async def script() -> None:
        await asyncio.sleep(2)
        server.fault = down
        server.break_streams()

    assert looks(server, script, 5)[1] < 2 + 2 * LEAST_SECONDS


def test_a_user_who_may_not_watch_sees_it_a_little_later(server: MemoryServer) -> None:
    server.fault = lambda request: forbidden("no") if "watch" in request.query else None
    assert looks(server, nothing, 12) == pytest.approx([0, 5.5, 11])


def play_looks(*outcomes: Exception | None) -> list[str]:
    """Return the remarks of looks that fail with these errors, or succeed."""
    remarks: list[str] = []
    left = iter(outcomes)

    async def look() -> None:
        if (error := next(left)) is not None:
            raise error

    async def main() -> None:
        look_on = survive_outages(look, lambda error: f"no answer: {error}", remarks.append)
        for _ in outcomes:
            await look_on()

    run_virtual(main())
    return remarks


REFUSED, RESET = TransportError("refused"), TransportError("reset")


def test_each_outage_is_told_once_and_the_looks_go_on() -> None:
    remarks = play_looks(None, RESET, REFUSED, REFUSED, None, REFUSED, REFUSED)
    assert remarks == ["no answer: reset", "no answer: refused", "no answer: refused"]


@pytest.mark.parametrize("outcomes", [[REFUSED], [None, forbidden("no")], [None, REFUSED, forbidden("no")]])
def test_a_server_that_never_answered_or_refuses_is_an_error(outcomes: list[Exception | None]) -> None:
    with pytest.raises((TransportError, ApiError), match=r"refused|no"):
        play_looks(*outcomes)
