"""An engine leads if it answers, or if it holds its Lease."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.groups.coordination import LEASE, Lease, LeaseSpec
from muster.insight.reader.engine import NOT_LED, is_embedded, is_led, say_if_not_led
from muster.runtime.client import Client
from muster.runtime.transport import Response

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
        (Response(403, b"no"), False),
        (Response(404, b"no"), False),
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
    script = ScriptedTransport(Response(code, b"{}"), Response(404, b"no"))
    asyncio.run(say_if_not_led(Client(script), states, NOW, heard.append))
    assert heard == said


def test_a_client_asks_its_server_once_whether_it_is_embedded():
    async def ask(transport: ScriptedTransport) -> list[bool]:
        client = Client(transport)
        return [await is_embedded(client), await is_embedded(client)]

    for version, expected in (("v1.34.0+muster", True), ("v1.34.0", False)):
        transport = ScriptedTransport(Response(200, b'{"gitVersion": "%s"}' % version.encode()))
        assert asyncio.run(ask(transport)) == [expected, expected]
        assert [request.path for request in transport.requests] == ["/version"]
