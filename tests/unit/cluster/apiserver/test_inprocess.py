"""A request in process ends at its bound of time, and later requests are not touched."""

import asyncio
from typing import Any, cast

import pytest

from muster.cluster.apiserver.deadlines import Deadlines
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError


class Server:
    """A server that takes its time: the path says how many seconds."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()

    async def handle(self, request: Request, _user: object, *, is_own: bool) -> Response:
        await asyncio.sleep(float(request.path.removeprefix("/")))
        return Response(200)


def test_a_request_without_an_answer_ends_at_its_bound() -> None:
    async def test() -> None:
        transport, loop = InProcessTransport(cast("Any", Server())), asyncio.get_running_loop()
        patient = asyncio.create_task(transport.request(Request("GET", "/3600", timeout_seconds=None)))
        with pytest.raises(TransportError, match="GET /60: no answer within 5 s"):
            await transport.request(Request("GET", "/60", timeout_seconds=5))
        assert loop.time() == 5
        assert (await transport.request(Request("GET", "/4", timeout_seconds=5))).status == 200
        with pytest.raises(TransportError, match="GET /8: no answer within 7 s"):
            await transport.request(Request("GET", "/8", timeout_seconds=7))
        assert loop.time() == 16
        assert (await patient).status == 200

    run_virtual(test())
