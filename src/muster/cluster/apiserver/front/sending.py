"""Send responses: `respond` takes the pipeline's response and sends it whole, in pieces, or as a stream.

`respond` also compresses long responses, answers 304 for an unchanged ETag, and skips the rest of an unread body.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import Answer, Stream, Tunnel, make_refusal
from muster.cluster.apiserver.front.asgi import AUDIT_ID, Caller, Message, Scope, Send, get_text
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.pods.tunnels.takeover import hold
from muster.runtime.transport import Response

GZIP_FROM_BYTES = 128 * 1024  # as in kube-apiserver: compressing a shorter answer costs more than it saves
SHORT_BYTES = 16 * 1024  # a watch rests after a piece shorter than this
PIECE_BYTES = 64 * 1024  # the largest piece for the connection, which keeps it, encrypted, while the client is slow

Rest = Callable[[], Awaitable[None]]
Field = tuple[bytes, bytes]


async def respond(
    answer: Answer, scope: Scope, headers: Mapping[bytes, bytes], body: Body, caller: Caller, send: Send, rest: Rest
) -> None:
    """Send a response to its end, or hold the conversation of a tunnel.

    headers: the request's headers.
    rest: pauses a watch after a short piece.
    """
    if isinstance(answer, Tunnel):
        try:
            await hold(answer, scope["headers"], caller)
        except ApiError as error:
            answer = make_refusal(error)
        else:
            return
    if isinstance(answer, Stream):
        await _send_stream(answer, headers, caller, send, rest)
    elif body.is_over or not caller.is_alone:
        status, fields, content = await _prepare_answer(answer, headers)
        if len(content) <= PIECE_BYTES:
            await caller.answer(status, fields, content)
        else:
            await _send_whole(status, fields, content, caller, send)
    else:
        await _respond_early(answer, headers, body, caller, send)


async def _respond_early(
    answer: Response, headers: Mapping[bytes, bytes], body: Body, caller: Caller, send: Send
) -> None:
    """Answer a client that has not sent its whole body yet, and drop the rest of the body."""
    if body.is_short:
        await body.skip()
        await _send_whole(
            *await _prepare_answer(answer if body.is_over else _add_closing_header(answer), headers), caller, send
        )
        return

    async def send_and_wait(message: Message) -> None:
        """Send a message, and skip the rest of the body before the last one.

        If the connection closed at once, the client would lose a response that it has not read.
        """
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await send({**message, "more_body": True})
            await body.skip()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    await _send_whole(*await _prepare_answer(_add_closing_header(answer), headers), caller, send_and_wait)


def _add_closing_header(answer: Response) -> Response:
    """Return the response with the header that closes the connection after it."""
    return replace(answer, headers={**answer.headers, "connection": "close"})


async def _prepare_answer(answer: Response, headers: Mapping[bytes, bytes]) -> tuple[int, list[Field], bytes]:
    """Return the status, the headers and the body of a response.

    The body is compressed if it is long and the client accepts gzip. The status is 304 if the client has the body
    already.
    """
    body, status = answer.body, answer.status
    fields = _make_common_headers(answer.content_type, headers)
    fields += [(name.encode("latin-1"), value.encode()) for name, value in answer.headers.items()]
    etag = answer.headers.get("etag")
    if etag and get_text(headers, b"if-none-match") == etag:
        body, status = b"", 304
    if len(body) >= GZIP_FROM_BYTES and _takes_gzip(headers.get(b"accept-encoding", b"")):
        # zlib releases the interpreter's lock, so the event loop continues meanwhile.
        body = await asyncio.to_thread(_compress, body)
        fields += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    if "cache-control" not in answer.headers:
        fields.append((b"cache-control", b"no-cache, private"))
    fields.append((b"content-length", str(len(body)).encode()))
    return status, fields, body


async def _send_whole(status: int, fields: list[Field], body: bytes, caller: Caller, send: Send) -> None:
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await _send_in_pieces(body, caller, send, has_more=False)


def _make_common_headers(content_type: str, headers: Mapping[bytes, bytes]) -> list[Field]:
    """Return the headers of every response: the content type, and the audit ID if the request has one."""
    fields = [(b"content-type", content_type.encode("latin-1"))]
    if AUDIT_ID in headers:
        fields.append((AUDIT_ID, headers[AUDIT_ID]))
    return fields


async def _send_in_pieces(body: bytes, caller: Caller, send: Send, *, has_more: bool) -> None:
    """Send a body in pieces, each after the client has received most of the previous piece.

    The rest of the body stays in memory uncopied and unencrypted, and counts as unsent.

    has_more: whether more of the response follows this body.
    """
    if len(body) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": body, "more_body": has_more})
        return
    try:
        for first in range(0, len(body), PIECE_BYTES):
            end = first + PIECE_BYTES
            caller.count_held(len(body) - first)
            await caller.drain()
            caller.count_held(max(len(body) - end, 0))
            await send(
                {"type": "http.response.body", "body": body[first:end], "more_body": has_more or end < len(body)}
            )
        await caller.drain()
    finally:
        caller.count_held(0)


def _takes_gzip(accepted: bytes) -> bool:
    return b"gzip" in accepted and any(token.strip() == b"gzip" for token in accepted.split(b","))


def _compress(body: bytes) -> bytes:
    return zlib.compress(body, level=1, wbits=31)


async def _send_stream(stream: Stream, headers: Mapping[bytes, bytes], caller: Caller, send: Send, rest: Rest) -> None:
    fields = [*_make_common_headers(stream.content_type, headers), (b"cache-control", b"no-cache, private")]
    fields += [(name.encode("latin-1"), value.encode()) for name, value in stream.headers.items()]
    caller.streaming, caller.is_endless = asyncio.current_task(), stream.is_endless
    try:
        await send({"type": "http.response.start", "status": stream.status, "headers": fields})
        async for chunk in stream.chunks:
            if chunk:
                size = len(chunk)
                await _send_in_pieces(chunk, caller, send, has_more=True)
                # While a slow client reads, only the connection keeps the data, and the connection counts it.
                del chunk
                await caller.drain()
                if stream.rests and size < SHORT_BYTES:
                    await rest()
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if not caller.is_gone:
            raise
    except ApiError:
        caller.break_off()  # the headers are sent, so only the cut connection can tell of the error
    finally:
        caller.streaming, caller.is_endless = None, False
        await stream.close()
