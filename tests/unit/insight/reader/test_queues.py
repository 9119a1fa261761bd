"""Positions are what the cluster says, or nothing."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.groups.coordination import LEASE, Lease, LeaseSpec
from muster.api.kueue import LOCAL_QUEUE
from muster.api.status import ApiError
from muster.insight.reader.queues import (
    NOT_LED,
    Visibility,
    get_or_none,
    is_led,
    list_or_none,
    say_if_not_led,
    workloads_of,
)
from muster.runtime.client import Client
from muster.runtime.transport import Response, UnreadableAnswerError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def answer(*names):
    items = [
        {
            "metadata": {"name": name, "namespace": "ns"},
            "priority": 0,
            "localQueueName": "q",
            "positionInClusterQueue": place + 4,
            "positionInLocalQueue": place,
        }
        for place, name in enumerate(names)
    ]
    return Response(200, msgspec.json.encode({"items": items or None}))


def refusal(code):
    return Response(code, b"no")


def ask(*script, queues=frozenset({("ns", "q")})):
    transport = ScriptedTransport(*script)
    found = asyncio.run(Visibility(Client(transport)).positions(set(queues)))
    return found, [request.path.split("/")[3] for request in transport.requests]


def test_positions_are_from_one_and_in_the_cluster_queue():
    assert ask(answer("a", "b")) == ({("ns", "a"): 5, ("ns", "b"): 6}, ["v1beta2"])
    assert ask(answer()) == ({}, ["v1beta2"])


def test_an_older_version_will_do_and_is_remembered():
    two = {("ns", "q"), ("ns", "r")}
    found, versions = ask(refusal(404), answer("a"), answer("b"), queues=two)
    assert found == {("ns", "a"): 5, ("ns", "b"): 5}
    assert versions == ["v1beta2", "v1beta1", "v1beta1"]


@pytest.mark.parametrize("code", [403, 404, 503])
def test_where_nobody_tells_nothing_is_made_up(code):
    assert ask(refusal(code), refusal(code))[0] == {}


@pytest.mark.parametrize("body", [b"[]", b'{"items": 3}', b"nonsense"])
def test_an_answer_that_is_none_is_an_error(body):
    with pytest.raises(UnreadableAnswerError):
        ask(Response(200, body))


def test_other_errors_are_errors():
    with pytest.raises(ApiError, match="no"):
        ask(refusal(500))


@pytest.mark.parametrize("code", [403, 404])
def test_what_may_not_be_seen_is_left_out(code):
    async def body(read):
        return await read(Client(ScriptedTransport(refusal(code))))

    said: list[str] = []
    assert asyncio.run(body(lambda client: list_or_none(client, LOCAL_QUEUE))) is None
    assert asyncio.run(body(lambda client: get_or_none(client, LOCAL_QUEUE, "q", "ns"))) is None
    assert asyncio.run(body(lambda client: workloads_of(client, "ns", said.append))) == []
    assert said == (["queues are not shown: no"] if code == 403 else [])


@pytest.mark.parametrize(("code", "expected"), [(200, True), (404, True), (403, True)])
def test_who_answers_leads(code, expected):
    assert asyncio.run(is_led(Client(ScriptedTransport(Response(code, b"{}"))), NOW)) is expected


def lease(holder="muster-1", renewed=-5):
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=NOW + timedelta(seconds=renewed))
    return Response(200, LEASE.encode(Lease(spec=spec)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lease(), True),
        (lease(renewed=-15), False),
        (lease(holder=""), False),
        (refusal(403), False),
        (refusal(404), False),
    ],
)
def test_where_the_one_to_ask_is_away_its_lease_is_looked_at(answer, expected):
    script = ScriptedTransport(Response(503, b"{}"), answer)
    assert asyncio.run(is_led(Client(script), NOW)) is expected


@pytest.mark.parametrize(
    ("states", "code", "said"),
    [
        (["Running", "Queued"], 503, [NOT_LED]),
        (["Checking"], 503, [NOT_LED]),
        (["Evicting"], 503, [NOT_LED]),
        (["Queued"], 200, []),
        (["Running", "Held"], 503, []),
        ([], 503, []),
    ],
)
def test_that_no_engine_leads_is_said_to_those_who_wait(states, code, said):
    heard: list[str] = []
    script = ScriptedTransport(Response(code, b"{}"), refusal(404))
    asyncio.run(say_if_not_led(Client(script), states, NOW, heard.append))
    assert heard == said
