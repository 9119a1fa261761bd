"""What a server warns of reaches the user: whole, once, and harmless."""

import asyncio
from typing import Any

import pytest

from muster.actions.warnings import Warnings, parse_warnings
from muster.cluster.apiserver.answers import warning_headers
from muster.runtime.transport import Request, Response

SENTENCES = ["plain", 'it says "no", \\ and "yes"', '299 - "nested"', ""]


def test_what_our_server_writes_is_read() -> None:
    assert list(parse_warnings(warning_headers(SENTENCES)["warning"])) == SENTENCES


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("", []),
        ('299 - "one", 299 - "two"', ["one", "two"]),
        ('299 kueue "one" "Tue, 24 Nov 2026 00:00:00 GMT"', ["one"]),
        ('199 - "of a proxy"', []),
        ('299 - "without an end', []),
        ('299 - "' + "\\" * 100_000, []),
    ],
)
def test_headers_of_others(header: str, read: list[str]) -> None:
    assert list(parse_warnings(header)) == read


class Server:
    """Warns of everything."""

    async def request(self, request: Request) -> Response:
        return Response(201, headers={"warning": f'299 - "{request.path}", 299 - "all\x1b[2J"'})

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return


def test_each_is_told_once_and_those_about_reading_are_not() -> None:
    said: list[str] = []

    async def main() -> None:
        transport = Warnings(Server(), said.append)
        for method, path in (("GET", "/a"), ("POST", "/b"), ("POST", "/b"), ("PATCH", "/c")):
            assert (await transport.request(Request(method, path))).status == 201

    asyncio.run(main())
    assert said == ["Warning: /b", "Warning: all\\x1b[2J", "Warning: /c"]
