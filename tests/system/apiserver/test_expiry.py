"""Old events go."""

import asyncio

import pytest
from tests.system.apiserver.harness import EVENTS, api

from muster.cluster.apiserver.objects.expiry import INTERVAL_SECONDS, expire_events, keep_events_fresh

ABOUT = {"involvedObject": {"namespace": "default"}}


@pytest.mark.parametrize(
    ("fields", "age", "stays"),
    [
        ({}, 3599, True),
        ({}, 3601, False),
        ({"lastTimestamp": "2026-01-01T00:30:00Z"}, 3601, True),
        ({"lastTimestamp": "2025-01-01T00:30:00Z"}, 3599, True),
        ({"eventTime": "2026-01-01T00:30:00.000001Z"}, 5000, True),
        ({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:30:00.000000Z"}}, 5000, True),
        ({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:30:00.000000Z"}}, 5500, False),
    ],
)
@api
async def test_an_event_stays_an_hour_from_when_it_was_last_seen(api, fields, age, stays):
    strict = {"reportingComponent": "a/b", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"}
    await api.made(EVENTS, {"metadata": {"name": "e"}} | ABOUT | strict | fields)
    await api.clock.sleep(age)
    assert await expire_events(api.store, api.clock) == (not stays)
    assert ((await api.get(f"{EVENTS}/e")).status == 200) is stays


@api
async def test_many_go_and_watchers_see_it(api):
    for n in range(250):
        await api.made(EVENTS, {"metadata": {"name": f"e{n}"}} | ABOUT)
    async with api.watch(EVENTS, resourceVersion=api.store.revision) as events:
        upkeep = asyncio.create_task(keep_events_fresh(api.store, api.clock))
        await api.clock.sleep(3600)
        await api.made(EVENTS, {"metadata": {"name": "young"}} | ABOUT)
        await api.clock.sleep(2 * INTERVAL_SECONDS)
        upkeep.cancel()
        assert (await events.names(1)) == ["ADDED young"]
        assert set(await events.names(250)) == {f"DELETED e{n}" for n in range(250)}
    assert (await api.get(EVENTS)).names == ["young"]
