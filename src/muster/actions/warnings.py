"""Show the user the warnings that a server returns for a write, as kubectl does."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager

from muster.insight.text import escape_controls
from muster.runtime.transport import Request, Response, Transport

# The format of an API server's warnings (RFC 7234, code 299).
_WARNING = r'299 \S+ "((?:[^"\\]|\\.)*)"'
_ESCAPED = r"\\(.)"


class Warnings:
    """A transport that shows each different warning about a write to the user once."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say
        self._said: set[str] = set()

    async def request(self, request: Request) -> Response:
        """Forward a request; show the user each new warning in the response to a write."""
        response = await self._transport.request(request)
        if request.method != "GET":  # warnings about reads concern the programmer, not the user
            for text in parse_warnings(response.headers.get("warning", "")):
                self._tell(text)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream. Its warnings are not shown."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._transport.close()

    def _tell(self, text: str) -> None:
        if text and text not in self._said:
            self._said.add(text)
            self._say(f"Warning: {escape_controls(text)}")


def parse_warnings(header: str) -> Iterator[str]:
    """Yield the texts in a Warning header."""
    return (re.sub(_ESCAPED, r"\1", quoted) for quoted in re.findall(_WARNING, header))
