"""Answers to requests over HTTP/1.1 whose bodies are still on their way, in virtual time."""

import asyncio

import pytest
from tests.unit.cluster.apiserver.front.http1.test_connection import Client

from muster.cluster.apiserver.front.asgi import EXTENSION
from muster.cluster.apiserver.front.incoming import SHORT_BYTES, SKIP_SECONDS, Body
from muster.cluster.apiserver.front.sending import respond
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Response


async def answer_unread(scope, receive, send):
    """Answer without a look at the body."""
    headers = dict(scope["headers"])
    body = Body(scope["method"], headers, receive)
    await respond(Response(200, b"x", "a/b"), scope, headers, body, scope["extensions"][EXTENSION], send, send_at_once)


async def send_at_once():
    """Send the next piece of a stream without a rest."""


def with_client(test):
    """Run a test with a client in virtual time."""

    def run(**parameters):
        async def body():
            client = Client(answer_unread)
            await test(client, **parameters)
            client.transport.abort()
            await asyncio.sleep(0)
            assert client.problems == []

        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def head(method: str, length: int, *more: str) -> bytes:
    return "\r\n".join([f"{method} / HTTP/1.1", "host: x", f"content-length: {length}", *more, "", ""]).encode()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_short_body_is_waited_for_and_the_connection_goes_on(method):
    @with_client
    async def scenario(client):
        assert await client.say(head(method, 10), b"x" * 9) == b""
        told = await client.say(b"x")
        assert told.endswith(b"\r\n\r\nx")
        assert b"connection: close" not in told
        assert await client.say(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") == told

    scenario()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_client_that_sends_on_reads_its_answer_before_the_connection_closes(method):
    @with_client
    async def scenario(client):
        told = await client.say(head(method, 2 * SHORT_BYTES) + b"x" * SHORT_BYTES)
        assert told.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in told
        assert not client.transport.is_closed, "bytes that are not read would take the answer away"
        await client.say(b"x" * SHORT_BYTES)
        assert client.transport.is_closed

    scenario()


@with_client
async def test_a_body_that_does_not_come_ends_the_connection(client):
    assert await client.say(head("GET", 10)) == b""
    await asyncio.sleep(SKIP_SECONDS + 0.1)
    assert b"connection: close" in client.transport.written
    assert client.transport.is_closed


@with_client
async def test_a_client_that_waits_with_its_body_gets_its_refusal_at_once(client):
    """A client that does not wait may send its body all the same."""
    told = await client.say(head("POST", 10, "expect: 100-continue"))
    assert told.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in told
    assert not client.transport.is_closed
    assert await client.say(b"x" * 10) == b""
    assert client.transport.is_closed
