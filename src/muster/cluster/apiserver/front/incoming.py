"""The body of a request as it arrives. The application reads it to its end, or skips it."""

import asyncio
import sys
from collections.abc import Mapping

from muster.api.status import ApiError, Status, bad_request, too_large
from muster.cluster.apiserver.decode import MAX_BODY_BYTES
from muster.cluster.apiserver.front.asgi import Receive

BODY_SECONDS = 30.0  # the time in which a body must arrive
SKIP_SECONDS = 2.0  # the time in which the server still reads the body of a refused request
SKIP_BYTES = 16 << 20  # the bytes of such a body that the server still reads
# A connection is not kept for the rest of a longer body whose request is refused, as in kube-apiserver.
SHORT_BYTES = 256 * 1024

_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Body:
    """The bytes that follow the headers of one request.

    Only a POST, PUT, PATCH or DELETE has a body that the application reads. The body of any other method is skipped.
    """

    def __init__(self, method: str, headers: Mapping[bytes, bytes], receive: Receive) -> None:
        self._receive = receive
        self._is_chunked = b"transfer-encoding" in headers
        self._length = _parse_length(headers.get(b"content-length", b"0"))
        # Whether the client sends the body only after the server asks for it.
        self._is_held_back = headers.get(b"expect", b"").lower() == b"100-continue"
        self._is_wanted = method in _WITH_BODY
        self.is_over = not (self._is_chunked or self._length)

    @property
    def length(self) -> int | None:
        """The length of the body by the headers: 0 if no body is left to read, None if the body is chunked."""
        if not self._is_awaited:
            return 0
        return None if self._is_chunked else self._length

    @property
    def most(self) -> int:
        """The length of the body, or the limit for a chunked body; 0 if no body is left to read.

        Raises `ApiError` (413) if the headers announce more than the limit.
        """
        if not self._is_awaited:
            return 0
        if self._length > MAX_BODY_BYTES:
            raise _make_too_large_error(MAX_BODY_BYTES)
        return MAX_BODY_BYTES if self._is_chunked else self._length

    async def read(self, most: int = MAX_BODY_BYTES, seconds: float | None = None) -> bytes:
        """Return the whole body. seconds: how long it may take; None for `BODY_SECONDS`.

        Raises `ApiError`: 413 if it is longer than `most` bytes, 408 if it takes longer than `seconds`, 400 if the
        client disconnects.
        """
        seconds = BODY_SECONDS if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                return await self.read_received(most)
        except TimeoutError:
            message = f"the body did not arrive within {seconds:g} s"
            raise ApiError(Status(status="Failure", code=408, reason="Timeout", message=message)) from None

    async def read_received(self, most: int = MAX_BODY_BYTES) -> bytes:
        """Return the whole body, which has arrived; set no time limit.

        Raises `ApiError`: 413 if it is longer than `most` bytes, 400 if the client disconnects.
        """
        if self._length > most:
            raise _make_too_large_error(most)
        chunks: list[bytes] = []
        size = 0
        while self._is_awaited:
            chunks.append(await self._receive_piece())
            size += len(chunks[-1])
            if size > most:
                raise _make_too_large_error(most)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @property
    def is_short(self) -> bool:
        """Whether the rest of the body is short enough to read and drop, so that the connection can be reused."""
        return self.is_over or not (self._is_held_back or self._is_chunked or self._length > SHORT_BYTES)

    async def skip(self) -> None:
        """Read the rest of the body and drop it, up to `SKIP_SECONDS` and `SKIP_BYTES`.

        A client that still sends would not read the response before it has sent everything.
        """
        size = 0
        try:
            async with asyncio.timeout(SKIP_SECONDS):
                while not self.is_over and size <= SKIP_BYTES:
                    size += len(await self._receive_piece())
        except (TimeoutError, ApiError):
            return  # `is_over` tells the caller whether the body has ended

    @property
    def _is_awaited(self) -> bool:
        return self._is_wanted and not self.is_over

    async def _receive_piece(self) -> bytes:
        self._is_held_back = False
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client closed the connection before the end of its body")
        self.is_over = not message.get("more_body")
        return bytes(message["body"])


def _parse_length(text: bytes) -> int:
    return int(text) if len(text) <= 18 else sys.maxsize


def _make_too_large_error(most: int) -> ApiError:
    return too_large(f"Request entity too large: limit is {most}")
