"""Seats: no user takes them all, lines are served in turn, and what is too much is refused."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.flow import LIST_SEATS, Flow, Limits, seats_for
from muster.runtime.clock import run_virtual
from muster.runtime.metrics import Registry

PODS = "/api/v1/namespaces/default/pods"
FEW = Limits(seats=4, seats_of_one=3, waiting_of_one=5, wait_seconds=15, streams_of_one=2)


@pytest.mark.parametrize(
    ("method", "path", "limit", "body", "seats"),
    [
        ("GET", "/healthz", 0, 0, 0),
        ("GET", "/metrics", 0, 0, 0),
        ("GET", "/api", 0, 0, 0),
        ("GET", "/openapi/v3/apis/batch/v1", 0, 0, 0),
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


def given_seats(limits=FEW):
    registry = Registry()
    return Flow(registry, limits), registry


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_no_user_takes_all_seats():
    async def body():
        flow, _ = given_seats()
        for _ in range(3):
            assert await flow.enter("a", 1) == 1
        waiting = asyncio.create_task(flow.enter("a", 1))
        await settled()
        assert not waiting.done()
        assert await flow.enter("b", 1) == 1
        flow.leave("b", 1)
        await settled()
        assert not waiting.done()  # it is a's own seats that it waits for
        flow.leave("a", 1)
        assert await waiting == 1

    run_virtual(body())


def test_lines_are_served_in_turn():
    async def body():
        flow, _ = given_seats(Limits(seats=1, seats_of_one=1))
        served = []

        async def ask(name, number):
            seats = await flow.enter(name, 1)
            served.append(f"{name}{number}")
            await asyncio.sleep(1)
            flow.leave(name, seats)

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(ask("a", number))
            await settled()
            for name in "bc":
                for number in range(2):
                    group.create_task(ask(name, number))
        assert served == ["a0", "b0", "a1", "c0", "b1", "a2", "c1", "a3"]

    run_virtual(body())


def test_who_needs_many_seats_is_not_passed_by():
    async def body():
        flow, _ = given_seats(Limits(seats=4, seats_of_one=4))
        for _ in range(3):
            await flow.enter("a", 1)
        big = asyncio.create_task(flow.enter("b", 4))
        await settled()
        small = asyncio.create_task(flow.enter("c", 1))
        await settled()
        assert (big.done(), small.done()) == (False, False)
        for _ in range(3):
            flow.leave("a", 1)
        assert await big == 4
        await settled()
        assert not small.done()
        flow.leave("b", 4)
        await small

    run_virtual(body())


def test_more_than_there_are_is_all_that_one_may_have():
    async def body():
        flow, _ = given_seats()
        assert await flow.enter("a", 100) == FEW.seats_of_one
        flow.leave("a", FEW.seats_of_one)

    run_virtual(body())


def test_a_full_line_and_a_long_wait_are_refused():
    async def body():
        flow, registry = given_seats()
        await flow.enter("a", 3)
        waiting = [asyncio.create_task(flow.enter("a", 1)) for _ in range(5)]
        await settled()
        with pytest.raises(ApiError) as refused:
            await flow.enter("a", 1)
        assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
        assert refused.value.status.message == "Too many requests, please try again later."
        assert refused.value.status.details.retry_after_seconds == 1
        await flow.enter("b", 1)  # somebody else's line is his own
        await asyncio.sleep(16)
        assert {task.exception().code for task in waiting} == {429}
        flow.leave("a", 3)
        await flow.enter("a", 1)
        text = registry.text().decode()
        labels = 'flow_schema="global-default",priority_level="global-default"'
        assert f'apiserver_flowcontrol_rejected_requests_total{{{labels},reason="queue-full"}} 1.0' in text
        assert f'apiserver_flowcontrol_rejected_requests_total{{{labels},reason="time-out"}} 5.0' in text
        assert f"apiserver_flowcontrol_current_executing_seats{{{labels}}} 2.0" in text

    run_virtual(body())


def test_streams_are_counted_apart():
    async def body():
        flow, _ = given_seats()
        await flow.enter("a", 3)
        flow.open_stream("a")
        flow.open_stream("a")
        with pytest.raises(ApiError) as refused:
            flow.open_stream("a")
        assert refused.value.code == 429
        flow.open_stream("b")
        flow.close_stream("a")
        flow.open_stream("a")

    run_virtual(body())


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(1, 6), st.floats(0, 20), st.floats(0, 5), st.none() | st.floats(0, 20)
        ),
        max_size=30,
    )
)
def test_all_seats_come_back(requests):
    """Whoever comes, waits, works, hangs up: limits hold, and in the end everything is free."""

    async def body():
        flow, _ = given_seats()
        taken: Counter[str] = Counter()

        async def ask(name, seats, start, work, patience):
            await asyncio.sleep(start)
            try:
                async with asyncio.timeout(patience):
                    got = await flow.enter(name, seats)
            except (TimeoutError, ApiError):
                return
            taken[name] += got
            assert taken[name] <= FEW.seats_of_one
            assert taken.total() <= FEW.seats
            await asyncio.sleep(work)
            taken[name] -= got
            flow.leave(name, got)

        await asyncio.gather(*(ask(*request) for request in requests))
        assert taken.total() == 0
        assert (flow._users, list(flow._turns), flow._seats) == ({}, [], 0)

    run_virtual(body())
