"""What a user may not see is omitted."""

import asyncio

import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.kueue import LOCAL_QUEUE
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.quota.workloads import workloads_of
from muster.runtime.client import Client
from muster.runtime.transport import Response


@pytest.mark.parametrize("code", [403, 404])
def test_what_may_not_be_seen_is_left_out(code):
    async def body(read):
        return await read(Client(ScriptedTransport(Response(code, b"no"))))

    said: list[str] = []
    assert asyncio.run(body(lambda client: list_or_none(client, LOCAL_QUEUE))) is None
    assert asyncio.run(body(lambda client: get_or_none(client, LOCAL_QUEUE, "q", "ns"))) is None
    assert asyncio.run(body(lambda client: workloads_of(client, "ns", said.append))) == []
    assert said == (["queues are not shown: no"] if code == 403 else [])
