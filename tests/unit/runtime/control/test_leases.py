"""Leader election: somebody leads whenever it is possible, and never two at once."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.conftest import THING, MemoryServer, down

from muster.api.groups.coordination import LEASE, Lease, LeaseSpec
from muster.api.meta import ObjectMeta
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.leases import Election, LeadershipLostError, Timing, make_claim
from muster.runtime.ids import Random
from muster.runtime.transport import Request, Response, TransportError

NOW = datetime(2026, 1, 1, 12, 0, 30, 500, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=5)
CLOCK = VirtualClock()


def lease(holder: str | None, duration: int | None = 15, transitions: int | None = 4) -> Lease:
    return Lease(
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            acquire_time=BEFORE,
            renew_time=BEFORE,
            lease_transitions=transitions,
        )
    )


@pytest.mark.parametrize(
    ("found", "unchanged", "acquired", "transitions"),
    [
        (None, 0, NOW, 0),
        (lease("me"), 0, BEFORE, 4),
        (lease("other"), 14.9, None, None),
        (lease("other"), 15, NOW, 5),
        (lease("other", duration=60), 30, None, None),
        (lease("other", duration=None, transitions=None), 0, NOW, 1),
        (lease(""), 0, NOW, 5),
        (lease(None), 0, NOW, 5),
    ],
)
def test_claim(found: Lease | None, unchanged: float, acquired: datetime | None, transitions: int | None) -> None:
    spec = make_claim(found, "me", unchanged, NOW, Timing(lease=14.5))
    if acquired is None:
        assert spec is None
    else:
        assert spec == LeaseSpec(
            holder_identity="me",
            lease_duration_seconds=15,
            acquire_time=acquired,
            renew_time=NOW,
            lease_transitions=transitions,
        )


def test_times_always_have_a_fraction() -> None:
    spec = make_claim(None, "me", 0, NOW.replace(microsecond=0), Timing())
    assert spec is not None
    assert b'"renewTime":"2026-01-01T12:00:30.000001Z"' in LEASE.encode(Lease(spec=spec))


@pytest.mark.parametrize("wrong", [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 1)])
def test_timing_must_leave_room(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must last longer"):
        Timing(*wrong)


class Network:
    """The way of one candidate to the server: may be cut, slow, or lose answers. What is sent may arrive late."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.cut = False
        self.delay = 0.0  # of requests
        self.answer_delay = 0.0
        self.loses_answers = False
        self._under_way: set[asyncio.Task[Response]] = set()

    async def request(self, request: Request) -> Response:
        if self.cut:
            await asyncio.sleep(1)
            raise down(request)
        task = asyncio.create_task(self._deliver(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        response = await asyncio.shield(task)
        if self.unheard():
            raise TransportError("the answer was lost")
        return response

    def unheard(self) -> bool:
        return self.cut or self.loses_answers

    async def _deliver(self, request: Request) -> Response:
        await asyncio.sleep(self.delay)
        response = await self.server.request(request)
        await asyncio.sleep(self.answer_delay)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.server.stream(request)

    async def close(self) -> None:
        pass


class Candidate:
    """Runs for the lease for ever; while it leads it writes the number of its term twice a second.

    `terms` is shared by all candidates: who led in each term.
    """

    def __init__(self, server: MemoryServer, name: str, terms: list[str], clock: VirtualClock = CLOCK) -> None:
        self.name = name
        self.network = Network(server)
        self.election = Election(
            Client(self.network, field_manager="election"),
            clock,
            Random(seed=len(name) + ord(name[0])),
            namespace="ns",
            name="leader",
            identity=name,
        )
        self.fenced = Client(self.election.fence(self.network), field_manager="work")
        self.losses = 0
        self._terms = terms

    async def run(self) -> None:
        while True:
            try:
                await self.election.run(self._work)
            except LeadershipLostError:
                self.losses += 1

    async def _work(self) -> None:
        term = len(self._terms)
        self._terms.append(self.name)
        while True:
            try:
                await self.fenced.patch(THING, "log", {"value": term}, "ns")
            except TransportError:
                await CLOCK.sleep(0.1)
            except asyncio.CancelledError:
                # Work that is slow to stop, and even writes once more.
                await CLOCK.sleep(0.3)
                await self.fenced.patch(THING, "log", {"value": term}, "ns")
                raise
            await CLOCK.sleep(0.5)


def run(test: Callable[[MemoryServer], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        server = MemoryServer()
        server.put("log", namespace="ns")
        server.writers.clear()
        await test(server)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run_virtual(main())


def holder(server: MemoryServer) -> str:
    spec: dict[str, Any] = server.objects[LEASE.path()]["ns/leader"]["spec"]
    return str(spec.get("holderIdentity", ""))


def terms_written(server: MemoryServer) -> list[int]:
    """The terms in which the work wrote, in the order of arrival."""
    bodies = [json.loads(request.body) for request in server.requests if request.query.get("fieldManager") == "work"]
    return [body["value"] for body in bodies]


def test_one_leads_and_the_other_takes_over() -> None:
    async def test(server: MemoryServer) -> None:
        terms: list[str] = []
        a, b = Candidate(server, "a", terms), Candidate(server, "b", terms)
        tasks = [asyncio.create_task(a.run()), asyncio.create_task(b.run())]
        await CLOCK.sleep(60)
        assert (holder(server), a.election.is_leading, b.election.is_leading) == ("a", True, False)
        a.network.cut = True
        await CLOCK.sleep(11)
        assert (a.election.is_leading, a.losses) == (False, 1)
        assert b.election.is_leading is False, "its lease has not run out yet"
        await CLOCK.sleep(10)
        assert (holder(server), b.election.is_leading) == ("b", True)
        a.network.cut = False
        await CLOCK.sleep(60)
        assert holder(server) == "b"
        assert sorted(set(terms_written(server))) == [0, 1]
        assert terms_written(server) == sorted(terms_written(server))
        for task in tasks:
            task.cancel()

    run(test)


@pytest.mark.parametrize("late", range(0, 40, 4))
def test_the_other_takes_over_as_soon_as_the_time_of_the_lease_is_over(late: int) -> None:
    """It is counted from when the last renewal was seen, at most 1.2 s after it; no look more is waited for."""

    async def test(server: MemoryServer) -> None:
        terms: list[str] = []
        a, b = Candidate(server, "a", terms), Candidate(server, "b", terms)
        tasks = [asyncio.create_task(a.run()), asyncio.create_task(b.run())]
        await CLOCK.sleep(60 + late / 10)
        a.network.cut = True
        cut = CLOCK.monotonic()
        while not b.election.is_leading:
            await CLOCK.sleep(0.1)
        assert CLOCK.monotonic() - cut < 15 + 1.2 + 0.2
        for task in tasks:
            task.cancel()

    run(test)


def test_lease_is_given_back_at_the_end() -> None:
    async def test(server: MemoryServer) -> None:
        terms: list[str] = []
        a, b = Candidate(server, "a", terms), Candidate(server, "b", terms)
        first = asyncio.create_task(a.run())
        await CLOCK.sleep(1)
        second = asyncio.create_task(b.run())
        await CLOCK.sleep(10)
        first.cancel()
        await asyncio.wait([first])
        assert holder(server) == ""
        await CLOCK.sleep(5)
        assert (holder(server), b.election.is_leading) == ("b", True)
        assert terms_written(server)[-1] == 1
        spec = server.objects[LEASE.path()]["ns/leader"]["spec"]
        assert spec["leaseTransitions"] == 1
        second.cancel()

    run(test)


def test_work_that_ends_gives_the_lease_back_and_raises_what_it_raised() -> None:
    async def test(server: MemoryServer) -> None:
        election = Candidate(server, "a", []).election

        async def ends() -> None:
            await CLOCK.sleep(30)

        async def fails() -> None:
            await CLOCK.sleep(30)
            raise ZeroDivisionError

        await election.run(ends)
        assert holder(server) == ""
        with pytest.raises(ZeroDivisionError):
            await election.run(fails)
        assert holder(server) == ""
        assert not election.is_leading

    run(test)


def test_fence_is_shut_from_the_renewal_limit_on() -> None:
    async def test(server: MemoryServer) -> None:
        a = Candidate(server, "a", [])
        fence = a.election.fence(a.network)
        write = Request("PATCH", THING.path("ns", "log"), body=b"{}")
        with pytest.raises(TransportError, match="no longer leads"):
            await fence.request(write)
        assert (await fence.request(Request("GET", THING.path("ns", "log")))).status == 200
        task = asyncio.create_task(a.election.run(lambda: CLOCK.sleep(1e6)))
        await CLOCK.sleep(1)
        assert (await fence.request(write)).status == 200
        a.network.loses_answers = True
        await CLOCK.sleep(10)
        with pytest.raises(TransportError, match="no longer leads"):
            await fence.request(write)
        with pytest.raises(LeadershipLostError, match="a could not renew lease ns/leader in time"):
            await task
        await fence.close()

    run(test)


def test_what_waits_to_be_tried_again_asks_whether_the_lease_is_lost() -> None:
    class Waiting(Network):
        async def request(self, request: Request) -> Response:
            await CLOCK.sleep(9)
            if request.allowed is not None and not request.allowed():
                raise TransportError("too late")
            return await super().request(request)

    async def test(server: MemoryServer) -> None:
        a = Candidate(server, "a", [])
        fence = a.election.fence(Waiting(server))
        write = Request("PATCH", THING.path("ns", "log"), body=b"{}")
        task = asyncio.create_task(a.election.run(lambda: CLOCK.sleep(1e6)))
        await CLOCK.sleep(1)
        assert (await fence.request(write)).status == 200
        a.network.loses_answers = True
        await CLOCK.sleep(5)
        with pytest.raises(TransportError, match="too late"):
            await fence.request(write)
        with pytest.raises(LeadershipLostError):
            await task

    run(test)


def test_an_answer_that_never_comes_leaves_time_for_another_try() -> None:
    """As over connections that have died in silence, or a server that stands still for a while."""

    async def test(server: MemoryServer) -> None:
        terms: list[str] = []
        a, b = Candidate(server, "a", terms), Candidate(server, "b", terms)
        tasks = [asyncio.create_task(a.run()), asyncio.create_task(b.run())]
        await CLOCK.sleep(30)
        for network in (a.network, b.network):
            network.answer_delay = 1e6
        await CLOCK.sleep(3)
        for network in (a.network, b.network):
            network.answer_delay = 0.0
        await CLOCK.sleep(5)
        assert (a.election.is_leading, a.losses) == (True, 0)
        b.network.answer_delay = 1e6
        await CLOCK.sleep(3)
        b.network.answer_delay, a.network.cut = 0.0, True
        await CLOCK.sleep(15 + 10)
        assert b.election.is_leading
        for task in tasks:
            task.cancel()

    run(test)


def test_why_the_lease_cannot_be_had_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: MemoryServer) -> None:
        a = Candidate(server, "a", [])
        a.network.cut = True
        task = asyncio.create_task(a.run())
        await CLOCK.sleep(60)
        (said,) = caplog.messages
        assert said.startswith("lease ns/leader: ")
        a.network.cut = False
        await CLOCK.sleep(5)
        assert a.election.is_leading
        task.cancel()

    run(test)


def test_who_lost_the_lease_hangs_up_and_waits_for_no_answer() -> None:
    async def test(server: MemoryServer) -> None:
        a = Candidate(server, "a", [])
        closed = asyncio.Event()

        async def work() -> None:
            a.network.cut = True
            try:
                await CLOCK.sleep(1e6)
            finally:
                await closed.wait()  # as of a request which a server that stands still has got

        async def hang_up() -> None:
            closed.set()

        started = CLOCK.monotonic()
        with pytest.raises(LeadershipLostError):
            await a.election.run(work, hang_up)
        assert CLOCK.monotonic() - started <= Timing().renew_limit
        closed.clear()
        a.network.cut = False
        await a.election.run(lambda: CLOCK.sleep(1), hang_up)
        assert not closed.is_set(), "who gives it back has writes to finish"

    run(test)


_FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["cut", "heal", "slow", "late", "deaf"]),
        st.integers(1, 48),  # how slow or late, in some fraction of a second
        st.integers(0, 25),  # seconds until the next
    ),
    max_size=15,
)


@given(_FAULTS)
def test_never_two_leaders_writing(faults: list[tuple[str, str, int, int]]) -> None:
    async def test(server: MemoryServer) -> None:
        terms: list[str] = []
        # Their clocks are hours apart: only durations count.
        candidates = {
            name: Candidate(server, name, terms, VirtualClock(NOW + timedelta(hours=7 * hours)))
            for hours, name in enumerate("abc")
        }
        tasks = [asyncio.create_task(candidate.run()) for candidate in candidates.values()]

        async def watch_over() -> None:
            while True:
                is_leading = [name for name, candidate in candidates.items() if candidate.election.is_leading]
                assert len(is_leading) <= 1
                await CLOCK.sleep(0.1)

        guard = asyncio.create_task(watch_over())
        for name, fault, delay, pause in faults:
            network = candidates[name].network
            network.cut = fault == "cut"
            network.loses_answers = fault == "deaf"
            network.delay = delay / 10 if fault == "slow" else 0.0  # less than lease time minus renewal limit
            network.answer_delay = delay / 4 if fault == "late" else 0.0
            await CLOCK.sleep(pause)
        for candidate in candidates.values():
            candidate.network.cut = candidate.network.loses_answers = False
            candidate.network.delay = candidate.network.answer_delay = 0.0
        await CLOCK.sleep(40)
        assert sum(candidate.election.is_leading for candidate in candidates.values()) == 1
        assert not guard.done()
        assert not any(task.done() for task in tasks)
        # A candidate that leads twice in a row may meet its own late writes, but nobody else's.
        written = terms_written(server)
        newest = 0
        for term in written:
            newest = max(newest, term)
            assert terms[term] == terms[newest], "a write of an earlier leader came after one of a later leader"

    run(test)


def test_lease_object_that_exists_already_is_kept() -> None:
    async def test(server: MemoryServer) -> None:
        client = Client(server)
        made = Lease(metadata=ObjectMeta(name="leader", namespace="ns", labels={"x": "y"}))
        await client.create(LEASE, made)
        a = Candidate(server, "a", [])
        task = asyncio.create_task(a.run())
        await CLOCK.sleep(10)
        assert a.election.is_leading
        assert server.objects[LEASE.path()]["ns/leader"]["metadata"]["labels"] == {"x": "y"}
        task.cancel()

    run(test)
