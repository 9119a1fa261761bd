"""Tells the user what a server warns of as it takes what it is sent, as kubectl does: "created" is half the answer."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager

from muster.insight.text import plain
from muster.runtime.transport import Request, Response, Transport

# As an API server writes them (RFC 7234, code 299).
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Warnings:
    """A transport whose user hears each warning about a write, once."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say
        self._said: set[str] = set()

    async def request(self, request: Request) -> Response:
        """The answer of the transport behind."""
        response = await self._transport.request(request)
        if request.method != "GET":  # of those about reading, only the programmer could make use
            for text in warnings(response.headers.get("warning", "")):
                self._tell(text)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stream of the transport behind."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close the transport behind."""
        await self._transport.close()

    def _tell(self, text: str) -> None:
        if text and text not in self._said:
            self._said.add(text)
            self._say(f"Warning: {plain(text)}")


def warnings(header: str) -> Iterator[str]:
    """The sentences in a Warning header."""
    return (_ESCAPED.sub(r"\1", quoted) for quoted in _WARNING.findall(header))
