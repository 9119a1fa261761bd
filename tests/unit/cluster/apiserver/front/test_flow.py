"""Seats: no user takes them all, lines are served in turn, and what is too much is refused."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.front.flow import LIST_SEATS, Flow, Limits, rest_seconds, seats_for
from muster.runtime.clock import run_virtual
from muster.runtime.metrics import Registry

PODS = "/api/v1/namespaces/default/pods"
FEW = Limits(seats=8, room=8, streams=4, waiting=10, wait_seconds=15)
SHARE = FEW.seats // 2  # of a user who is alone


@pytest.mark.parametrize(
    ("method", "path", "limit", "body", "seats"),
    [
        ("GET", "/healthz", 0, 0, 0),
        ("GET", "/metrics", 0, 0, 0),
        ("GET", "/api", 0, 0, 0),
        ("GET", "/openapi/v3/apis/batch/v1", 0, 0, LIST_SEATS),
        ("GET", f"{PODS}/p", 0, 0, 1),
        ("GET", f"{PODS}/p/status", 0, 0, 1),
        ("GET", "/api/v1/namespaces/default", 0, 0, 1),
        ("GET", PODS, 0, 0, LIST_SEATS),
        ("GET", "/apis/batch/v1/jobs", 0, 0, LIST_SEATS),
        ("GET", PODS, 1, 0, 1),
        ("GET", PODS, 100, 0, 1),
        ("GET", PODS, 101, 0, 2),
        ("GET", PODS, 500, 0, 5),
        ("GET", PODS, 10**6, 0, LIST_SEATS),
        ("GET", PODS, -1, 0, LIST_SEATS),
        ("GET", PODS, "0", 0, LIST_SEATS),
        ("GET", PODS, "x", 0, LIST_SEATS),
        ("GET", PODS, "9" * 100, 0, LIST_SEATS),
        ("GET", "/apis/batch/v1/namespaces/default/jobs", 0, 0, LIST_SEATS),
        ("GET", "/apis/batch/v1/namespaces/default/jobs/j", 0, 0, 1),
        ("GET", "/api/v1/nodes/n/status", 0, 0, 1),
        ("GET", "/api/v1/namespaces", 0, 0, LIST_SEATS),
        ("DELETE", PODS, 0, 0, LIST_SEATS),
        ("DELETE", f"{PODS}/p", 0, 500, 1),
        ("POST", PODS, 0, 2_000, 1),
        ("PATCH", f"{PODS}/p", 0, 0, 1),
        ("PUT", f"{PODS}/p", 0, 1 << 20, 17),
        ("POST", PODS, 0, 3 << 20, 49),
    ],
)
def test_seats(method, path, limit, body, seats):
    assert seats_for(method, path, str(limit or ""), body) == seats


def given_flow(limits=FEW):
    registry = Registry()
    return Flow(registry, limits), registry


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("total", "shares"),
    [
        (256, [128, 64, 32, 16, 8, 4, 2, 1, 1]),
        (8, [4, 2, 1, 1, 0]),
        (2, [1, 1, 0]),
    ],
)
def test_who_comes_later_finds_half_of_what_is_left(total, shares):
    flow, _ = given_flow(Limits(seats=total))
    found = []
    for user in range(len(shares)):
        found.append(0)
        while flow.seats.take_at_once(f"u{user}", 1):
            found[-1] += 1
    assert found == shares


def test_who_has_more_than_others_leave_gets_nothing_more():
    flow, _ = given_flow(Limits(seats=12))
    for name in "aaaaaabbb":
        assert flow.seats.take_at_once(name, 1)
    for _ in range(3):
        flow.seats.give_back("a", 1)
    assert flow.seats.take_at_once("a", 1)  # 4 of the 9 that b leaves
    assert not flow.seats.take_at_once("a", 1)
    assert flow.seats.take_at_once("b", 1)  # 4 of the 8 that a leaves
    assert not flow.seats.take_at_once("b", 1)


def test_no_user_takes_all_seats():
    async def body():
        seats = given_flow()[0].seats
        for _ in range(SHARE):
            assert await seats.take("a", 1) == 1
        waiting = asyncio.create_task(seats.take("a", 1))
        await settled()
        assert not waiting.done()
        assert await seats.take("b", 1) == 1
        seats.give_back("b", 1)
        await settled()
        assert not waiting.done()  # it is a's own seats that it waits for
        seats.give_back("a", 1)
        assert await waiting == 1

    run_virtual(body())


def test_lines_are_served_in_turn():
    async def body():
        seats = given_flow(Limits(seats=1))[0].seats
        served = []

        async def ask(name, number):
            taken = await seats.take(name, 1)
            served.append(f"{name}{number}")
            await asyncio.sleep(1)
            seats.give_back(name, taken)

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(ask("a", number))
            await settled()
            for name in "bc":
                for number in range(2):
                    group.create_task(ask(name, number))
        assert served == ["a0", "a1", "b0", "c0", "a2", "b1", "c1", "a3"]

    run_virtual(body())


@pytest.mark.parametrize(("others", "given"), [(0, 4), (1, 3), (2, 3), (4, 2), (6, 1), (7, 1)])
def test_more_than_a_share_is_a_share(others, given):
    """Who asks for very much waits for nobody, and keeps nobody waiting."""
    flow, _ = given_flow()
    for number in range(others):
        assert flow.seats.take_at_once(f"u{number}", 1)
    assert flow.seats.take_at_once("a", 100) == given
    flow.seats.give_back("a", given)


def test_who_waits_for_a_share_keeps_nobody_waiting():
    async def body():
        seats = given_flow()[0].seats
        assert await seats.take("a", 1) == 1
        big = asyncio.create_task(seats.take("a", 4))
        await settled()
        assert await seats.take("b", 1) == 1
        assert not big.done()
        seats.give_back("a", 1)
        assert await big == 3  # what b leaves

    run_virtual(body())


def test_a_full_line_and_a_long_wait_are_refused():
    async def body():
        flow, registry = given_flow()
        await flow.seats.take("a", SHARE)
        waiting = [asyncio.create_task(flow.seats.take("a", 1)) for _ in range(5)]
        await settled()
        with pytest.raises(ApiError) as refused:
            await flow.seats.take("a", 1)
        assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
        assert refused.value.status.message == "Too many requests, please try again later."
        assert refused.value.status.details.retry_after_seconds == 1
        await flow.seats.take("b", 1)  # somebody else's line is his own
        await flow.room.take("a", 1)  # and so is the line for something else
        await asyncio.sleep(16)
        assert {task.exception().code for task in waiting} == {429}
        flow.seats.give_back("a", SHARE)
        await flow.seats.take("a", 1)
        text = registry.text().decode()
        labels = 'flow_schema="global-default",priority_level="global-default"'
        assert f'apiserver_flowcontrol_rejected_requests_total{{{labels},reason="queue-full"}} 1.0' in text
        assert f'apiserver_flowcontrol_rejected_requests_total{{{labels},reason="time-out"}} 5.0' in text
        assert f"apiserver_flowcontrol_current_executing_seats{{{labels}}} 2.0" in text

    run_virtual(body())


def test_streams_are_counted_apart():
    flow, _ = given_flow()
    assert flow.seats.take_at_once("a", 4)
    flow.open_stream("a")
    flow.open_stream("a")
    with pytest.raises(ApiError) as refused:
        flow.open_stream("a")
    assert refused.value.code == 429
    flow.open_stream("b")
    flow.close_stream("a")
    flow.close_stream("b")
    flow.open_stream("a")


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(1, 12), st.floats(0, 20), st.floats(0, 5), st.none() | st.floats(0, 20)
        ),
        max_size=30,
    )
)
def test_all_seats_come_back(requests):
    """Whoever comes, waits, works, hangs up: limits hold, who waits has to, and in the end everything is free."""

    async def body():
        seats = given_flow()[0].seats
        taken: Counter[str] = Counter()

        async def ask(name, wanted, start, work, patience):
            await asyncio.sleep(start)
            try:
                async with asyncio.timeout(patience):
                    got = await seats.take(name, wanted)
            except (TimeoutError, ApiError):
                return
            taken[name] += got
            assert 1 <= got <= wanted
            assert taken.total() <= seats.lent <= FEW.seats  # some are lent to a task that has yet to go on
            assert seats.lent == sum(user.has for user in seats._users.values())
            assert all(2 * has <= FEW.seats for has in taken.values())
            assert all(user.has or seats.lent == FEW.seats for user in seats._turns)
            await asyncio.sleep(work)
            taken[name] -= got
            seats.give_back(name, got)

        await asyncio.gather(*(ask(*request) for request in requests))
        assert taken.total() == 0
        assert (seats._users, list(seats._turns), seats.lent) == ({}, [], 0)

    run_virtual(body())


@pytest.mark.parametrize(("streams", "seconds"), [(0, 0), (9, 0), (10, 0.004), (50, 0.02), (125, 0.05), (4096, 0.05)])
def test_how_long_streams_rest(streams, seconds):
    assert rest_seconds(streams) == pytest.approx(seconds)
