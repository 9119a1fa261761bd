"""An answer that takes long is talked about, once."""

import asyncio
from typing import Any

import pytest

from muster.actions.server.patience import Patience
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response


class Slow:
    """Takes so many seconds for each answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        return Response(200)

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return


@pytest.mark.parametrize(("seconds", "times"), [(4.9, 0), (5.1, 1)])
def test_it_is_said_once_and_only_if_it_takes_long(seconds: float, times: int) -> None:
    async def main() -> list[str]:
        said: list[str] = []
        transport = Patience(Slow(seconds), said.append)
        for _ in range(3):
            assert (await transport.request(Request("GET", "/version"))).status == 200
        return said

    text = "the server has not answered for 5 s; waiting for 60 s at most, Ctrl-C to leave"
    assert run_virtual(main()) == [text] * times
