"""`HttpsTransport` against a scripted TLS server: whom it trusts, what it sends, and what can go wrong on the way."""

import asyncio
import gc
import gzip
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from msgspec.structs import replace
from tests.system.client.scripted_server import (
    AUTHORITY,
    OTHER_AUTHORITY,
    PODS,
    ManualClock,
    ScriptedServer,
    Step,
    World,
    answer,
    client_certificate,
    encoded,
    hang_up,
    play,
    refuse,
    silence,
    status,
    stream,
)

from muster.api.status import ApiError
from muster.runtime.ids import Random
from muster.runtime.kube import https
from muster.runtime.kube.credentials import CredentialError
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.requests import MAX_ATTEMPTS, MAX_CONCURRENT_REQUESTS
from muster.runtime.transport import ClosedError, Request, TransportError

# ---- trust ----


def test_the_name_on_the_certificate_may_be_given() -> None:
    async def scenario(world: World) -> None:
        async with world.as_user(cluster={"tls-server-name": "kubernetes.default"}) as transport:
            assert await status(transport) == 200

    play(scenario, name="kubernetes.default")


def test_verification_may_be_skipped() -> None:
    async def scenario(world: World) -> None:
        cluster = {"insecure-skip-tls-verify": True, "certificate-authority-data": ""}
        async with world.as_user(cluster=cluster) as transport:
            assert await status(transport) == 200

    play(scenario, name="other.example.com")


def test_an_authority_that_is_rotated_is_read_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        path = tmp_path / "ca.crt"
        OTHER_AUTHORITY.cert_pem.write_to_path(str(path))
        cluster = {"certificate-authority": str(path), "certificate-authority-data": ""}
        async with world.as_user(cluster=cluster) as transport:
            with pytest.raises(TransportError, match="not trusted"):
                await status(transport)
            AUTHORITY.cert_pem.write_to_path(str(path))
            assert await status(transport) == 200

    play(scenario)


@pytest.mark.parametrize(
    ("name", "cluster", "message"),
    [
        (
            "127.0.0.1",
            {"certificate-authority-data": encoded(OTHER_AUTHORITY.cert_pem.bytes())},
            "not trusted: self-signed certificate in",
        ),
        ("127.0.0.1", {"certificate-authority-data": ""}, "not trusted: .*certificate"),
        ("other.example.com", {}, r"not trusted: IP address mismatch, .*'127\.0\.0\.1'; look at certificate-authority"),
        ("127.0.0.1", {"tls-server-name": "kubernetes"}, "not trusted: Hostname mismatch, .*'kubernetes'; look at"),
    ],
    ids=["other authority", "system authorities", "other address", "other name"],
)
def test_a_server_that_cannot_be_trusted_is_told_in_one_line(name: str, cluster: dict[str, str], message: str) -> None:
    async def scenario(world: World) -> None:
        async with world.as_user({"token": "abc"}, cluster) as transport:
            with pytest.raises(TransportError, match=message) as raised:
                await status(transport)
        assert str(raised.value).startswith(f"GET {world.server.url}/api/v1/pods: the server's certificate is not ")
        assert "\n" not in str(raised.value)
        assert world.server.seen == []
        assert world.clock.sleeps == []  # it would not get better

    play(scenario, name=name)


def test_a_certificate_that_cannot_be_used_is_told() -> None:
    async def scenario(world: World) -> None:
        certificate, _ = client_certificate("ada")
        _, other_key = client_certificate("grace")
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(other_key)}
        async with world.as_user(user) as transport:
            with pytest.raises(CredentialError, match="client certificate and key: KEY_VALUES_MISMATCH"):
                await status(transport)
        damaged = encoded(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        async with world.as_user(cluster={"certificate-authority-data": damaged}) as transport:
            with pytest.raises(TransportError, match="certificate-authority-data: is not a list of certificates"):
                await status(transport)

    play(scenario)


def test_an_empty_authority_file_does_not_mean_the_systems_authorities(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        (tmp_path / "ca").write_text("")
        cluster = {"certificate-authority": str(tmp_path / "ca"), "certificate-authority-data": ""}
        async with world.as_user(cluster=cluster) as transport:
            with pytest.raises(TransportError, match="ca: is not a list of certificates in PEM"):
                await status(transport)

    play(scenario)


# ---- requests ----


def test_a_request_arrives_as_it_was_meant() -> None:
    async def scenario(world: World) -> None:
        path = "/prefix/api/v1/namespaces/a b/pods/ä%41+?x#y"
        query = {"labelSelector": "a in (b,c), d!=é", "limit": "5&x=1"}
        async with world.over(world.server.connection(cluster={"server": f"{world.server.url}/prefix/"})) as transport:
            await transport.request(
                Request("PATCH", path.removeprefix("/prefix"), query, b"{}", "application/merge-patch+json")
            )
        seen = world.server.seen[0]
        assert (seen.method, seen.path, seen.query, seen.body) == ("PATCH", path, query, b"{}")
        assert seen.headers["Content-Type"] == "application/merge-patch+json"
        assert seen.headers["Accept"] == "application/json"
        assert "Authorization" not in seen.headers

    play(scenario)


def test_the_answer_has_status_body_type_and_headers() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", answer({"a": 1}, 201, Warning='299 - "old"', Audit_Id="7"))
        async with world.as_user() as transport:
            response = await transport.request(PODS)
        assert (response.status, response.body, response.content_type) == (201, b'{"a": 1}', "application/json")
        assert response.headers["warning"] == '299 - "old"'
        assert response.headers["audit-id"] == "7"

    play(scenario)


def test_connections_are_kept_and_shared() -> None:
    async def scenario(world: World) -> None:
        async with world.as_user() as transport:
            for _ in range(5):
                await status(transport)
        assert len({seen.connection for seen in world.server.seen}) == 1

    play(scenario)


def test_requests_at_a_time_are_limited() -> None:
    async def scenario(world: World) -> None:
        running, most = 0, 0

        async def step(_: web.Request) -> web.StreamResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return web.json_response({})

        world.server.on("/api/v1/pods", step)
        async with world.as_user() as transport:
            await asyncio.gather(*(status(transport) for _ in range(3 * MAX_CONCURRENT_REQUESTS)))
        assert len({seen.connection for seen in world.server.seen}) <= MAX_CONCURRENT_REQUESTS
        assert most <= MAX_CONCURRENT_REQUESTS

    play(scenario)


@pytest.mark.parametrize(("disabled", "accepted"), [(False, True), (True, False)])
def test_compressed_answers(disabled: bool, accepted: bool) -> None:
    async def step(request: web.Request) -> web.StreamResponse:
        assert ("gzip" in request.headers["Accept-Encoding"]) is accepted
        return web.Response(body=gzip.compress(b"x" * 100_000), headers={"Content-Encoding": "gzip"})

    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", step)
        async with world.as_user(cluster={"disable-compression": disabled}) as transport:
            assert (await transport.request(PODS)).body == b"x" * 100_000

    play(scenario)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_answer_that_is_too_large_is_not_kept(compressed: bool) -> None:
    async def large(_: web.Request) -> web.StreamResponse:
        body = b"x" * 10_000_000
        if compressed:
            return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})
        return web.Response(body=body)

    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", large)
        async with world.over(world.server.connection(), max_response_bytes=1_000_000) as transport:
            with pytest.raises(TransportError, match=r"GET /api/v1/pods: the answer is larger than 1000000 bytes; ask"):
                await transport.request(PODS)
            world.server.on("/api/v1/pods", answer({}))
            assert await status(transport) == 200

    play(scenario)


def test_redirects_are_not_followed() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", answer({}, 302, Location="/login?next=x"))
        async with world.as_user({"token": "abc"}) as transport:
            with pytest.raises(TransportError, match="redirects to '/login'; is this an API server's address"):
                await transport.request(PODS)
        assert len(world.server.seen) == 1

    play(scenario)


def test_cookies_are_not_kept() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", answer({}, Set_Cookie="a=b"))
        async with world.as_user() as transport:
            await status(transport)
            await status(transport)
        assert "Cookie" not in world.server.seen[1].headers

    play(scenario)


def test_a_request_has_a_deadline() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", silence)
        async with world.as_user() as transport:
            with pytest.raises(TransportError, match=r"GET https://.*/api/v1/pods: no answer within 0\.1 s"):
                await transport.request(replace(PODS, timeout_seconds=0.1))
            with pytest.raises(TransportError, match=r"no answer within 0\.1 s"):
                async with transport.stream(replace(PODS, timeout_seconds=0.1)):
                    pass

    play(scenario)


def test_a_closed_client_says_so() -> None:
    async def scenario(world: World) -> None:
        async with world.as_user() as transport:
            await status(transport)
        with pytest.raises(TransportError, match="the client is closed"):
            await status(transport)
        with pytest.raises(TransportError, match="the client is closed"):
            async with transport.converse(Request("GET", "/exec"), "v5.channel.k8s.io"):
                pass

    play(scenario)


def test_what_breaks_off_as_the_client_is_closed_says_so() -> None:
    """It is no trouble of the server's, and none for the log."""

    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", silence)
        async with world.as_user() as transport:
            asking = asyncio.create_task(transport.request(PODS))
            while not world.server.seen:
                await asyncio.sleep(0)
            await transport.close()
            with pytest.raises(ClosedError):
                await asking
            with pytest.raises(ClosedError):
                await transport.request(PODS)

    play(scenario)


def test_a_client_that_is_closed_while_a_request_waits_for_its_next_try_says_so() -> None:
    async def scenario(world: World) -> None:
        class ClosingClock(ManualClock):
            async def sleep(self, seconds: float) -> None:
                await transport.close()

        world.server.on(PODS.path, refuse(503, "ServiceUnavailable", Retry_After="1"))
        transport = HttpsTransport(world.server.connection(), ClosingClock(), Random(1))
        with pytest.raises(TransportError, match="the client is closed"):
            await transport.request(PODS)

    play(scenario)


def open_to(port: int) -> list[socket.socket]:
    """The sockets of this process that are connected to a port."""
    found = []
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.family == socket.AF_INET and one.fileno() >= 0:
            with suppress(OSError):  # it is connected to nothing
                found += [one] if one.getpeername()[1] == port else []
    return found


def test_a_request_that_is_given_up_at_any_moment_leaves_no_connection_open() -> None:
    """A connection whose TLS is just being agreed on is known to nobody."""

    async def scenario(world: World) -> None:
        port = urlsplit(world.server.connection().cluster.server).port or 0
        for turns in range(0, 60, 2):
            async with world.as_user() as transport:
                asked = asyncio.create_task(transport.request(PODS))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            assert open_to(port) == [], turns

    play(scenario)


# ---- what is tried again ----


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refusal_that_says_when_is_tried_again_then(code: int, method: str) -> None:
    async def scenario(world: World) -> None:
        later = refuse(code, "Later", Retry_After="7")
        world.server.on("/api/v1/pods", later, later, answer({}))
        async with world.as_user() as transport:
            assert await status(transport, replace(PODS, method=method)) == 200
        assert len(world.server.seen) == 3
        assert all(7 <= pause < 7.7 for pause in world.clock.sleeps)
        assert len(set(world.clock.sleeps)) == 2  # jitter

    play(scenario)


def test_what_is_allowed_no_longer_is_not_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", refuse(429, "Later", Retry_After="7"), answer({}))
        async with world.as_user() as transport:
            began = world.clock.monotonic()
            write = replace(PODS, method="POST", allowed=lambda: world.clock.monotonic() < began + 5)
            with pytest.raises(TransportError, match="was not sent"):
                await transport.request(write)
        assert len(world.server.seen) == 1

    play(scenario)


@pytest.mark.parametrize(
    "step",
    [
        refuse(429, "TooManyRequests"),
        refuse(503, "ServiceUnavailable"),
        refuse(503, "ServiceUnavailable", Retry_After="Fri, 31 Dec 2026 23:59:59 GMT"),
        refuse(429, "TooManyRequests", Retry_After="-1"),
        refuse(429, "TooManyRequests", Retry_After="60"),  # the request has no more time than that
        refuse(500, "InternalError", Retry_After="1"),
        refuse(409, "Conflict", Retry_After="1"),
        refuse(504, "Timeout", Retry_After="1"),
    ],
)
def test_other_refusals_are_the_callers(step: Step) -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", step)
        async with world.as_user() as transport:
            assert await status(transport) >= 400
        assert len(world.server.seen) == 1
        assert world.clock.sleeps == []

    play(scenario)


def test_a_server_that_always_says_later_is_believed_only_so_often() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", refuse(429, "TooManyRequests", Retry_After="0"))
        async with world.as_user() as transport:
            assert await status(transport) == 429
        assert len(world.server.seen) == MAX_ATTEMPTS
        assert all(pause > 0 for pause in world.clock.sleeps)

    play(scenario)


@pytest.mark.parametrize(("method", "pauses"), [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 0), ("PATCH", 0)])
def test_a_connection_that_was_never_made_is_tried_again_if_that_is_harmless(method: str, pauses: int) -> None:
    async def scenario(world: World) -> None:
        nobody = world.server.connection(cluster={"server": "https://127.0.0.1:1"})
        async with world.over(nobody) as transport:
            with pytest.raises(TransportError, match=rf"^{method} https://127\.0\.0\.1:1/api/v1/pods: .*refused"):
                await transport.request(replace(PODS, method=method))
        assert len(world.clock.sleeps) == pauses

    play(scenario)


def test_a_server_that_is_back_in_time_is_reached() -> None:
    async def main() -> None:
        async with ScriptedServer() as server:
            config = server.connection()

        class Restarting(ManualClock):
            async def sleep(self, seconds: float) -> None:
                await super().sleep(seconds)
                if len(self.sleeps) == 2:
                    await listener.start()

        clock = Restarting()
        host, port = config.cluster.server.removeprefix("https://").split(":")
        again = ScriptedServer()
        runner = web.AppRunner(web.Application())
        runner.app.router.add_get("/{path:.*}", again._handle)
        await runner.setup()
        listener = web.TCPSite(runner, host, int(port), ssl_context=again._context)
        transport = HttpsTransport(config, clock, Random(1))
        assert await status(transport) == 200
        assert len(clock.sleeps) == 2
        await transport.close()
        await runner.cleanup()

    asyncio.run(main())


@pytest.mark.parametrize(("method", "sent"), [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1)])
def test_a_connection_that_closes_without_an_answer(method: str, sent: int) -> None:
    """What may be sent twice is sent once more at once: a kept connection may close at any moment."""

    async def scenario(world: World) -> None:
        world.server.on("/api/v1/pods", hang_up)
        async with world.as_user() as transport:
            with pytest.raises(TransportError, match=r"/api/v1/pods: the server closed the connection without an answ"):
                await transport.request(replace(PODS, method=method))
        assert len(world.server.seen) == sent
        assert world.clock.sleeps == []

    play(scenario)


def test_a_server_without_tls_is_told() -> None:
    async def scenario(world: World) -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            async with world.as_user(cluster={"server": f"https://127.0.0.1:{port}"}) as transport:
                with pytest.raises(TransportError, match="TLS failed: the server does not speak TLS on this port"):
                    await status(transport)

    play(scenario)


def test_a_host_name_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario(world: World) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        async with world.as_user(cluster={"server": "https://no-such-host.invalid:6443"}) as transport:
            with pytest.raises(TransportError, match="the host name cannot be resolved: Name or service not known"):
                await status(transport)

    play(scenario)


def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that is stopped: the kernel takes the connection, and the time for that is not spent three times over."""
    monkeypatch.setattr(https, "CONNECT_SECONDS", 0.2)

    async def scenario(world: World) -> None:
        met: list[object] = []

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.append(writer)
            while await reader.read(1000):
                pass
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            async with world.as_user(cluster={"server": f"https://127.0.0.1:{port}"}) as transport:
                with pytest.raises(TransportError, match="the server does not take the connection in time"):
                    await status(transport)
        assert len(met) == 1
        assert world.clock.sleeps == []

    play(scenario)


# ---- streams ----


def test_a_stream_comes_in_pieces_without_a_deadline() -> None:
    async def scenario(world: World) -> None:
        go_on = asyncio.Event()

        async def step(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one")
            await go_on.wait()
            await response.write(b"two")
            return response

        world.server.on("/log", step)
        async with (
            world.as_user() as transport,
            transport.stream(Request("GET", "/log", timeout_seconds=0.2)) as chunks,
        ):
            assert await anext(chunks) == b"one"
            await asyncio.sleep(0.3)  # longer than the time that the answer had to begin
            go_on.set()
            assert [chunk async for chunk in chunks] == [b"two"]

    play(scenario)


def test_a_stream_that_is_refused_is_an_api_error() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/log", refuse(410, "Expired"))
        async with world.as_user() as transport:
            with pytest.raises(ApiError) as raised:
                async with transport.stream(Request("GET", "/log")):
                    pass
        assert (raised.value.code, raised.value.reason) == (410, "Expired")

    play(scenario)


def test_a_stream_that_breaks_says_so() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/log", stream("one", abort=True))
        async with world.as_user() as transport, transport.stream(Request("GET", "/log")) as chunks:
            assert await anext(chunks) == b'"one"\n'
            with pytest.raises(TransportError, match=r"GET https://.*/log: the connection broke in the middle"):
                await anext(chunks)

    play(scenario)


@pytest.mark.parametrize("turns", range(8))
def test_a_stream_that_is_read_while_its_client_closes_breaks(turns: int) -> None:
    async def scenario(world: World) -> None:
        world.server.on("/log", stream("one", stay=True))
        async with world.as_user() as transport, transport.stream(Request("GET", "/log")) as chunks:
            assert await anext(chunks) == b'"one"\n'
            closing = asyncio.create_task(transport.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            with pytest.raises(ClosedError):
                await anext(chunks)
            await closing

    play(scenario)


@pytest.mark.parametrize("turns", range(16))
def test_a_stream_that_begins_while_its_client_closes_breaks(turns: int) -> None:
    async def scenario(world: World) -> None:
        begun = asyncio.Event()

        async def step(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            begun.set()
            await asyncio.sleep(60)
            return response

        async def read(transport: HttpsTransport) -> None:
            async with transport.stream(Request("GET", "/log")) as chunks:
                await anext(chunks)

        world.server.on("/log", step)
        async with world.as_user() as transport:
            reading = asyncio.create_task(read(transport))
            await begun.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            await transport.close()
            with pytest.raises(ClosedError):
                await reading

    play(scenario)


def test_a_stream_that_falls_silent_breaks_if_asked_to() -> None:
    async def scenario(world: World) -> None:
        world.server.on("/log", stream("one", stay=True))
        config = world.server.connection()
        async with (
            world.over(config, stream_idle_seconds=0.1) as transport,
            transport.stream(Request("GET", "/log")) as chunks,
        ):
            assert await anext(chunks) == b'"one"\n'
            with pytest.raises(TransportError, match=r"/log: nothing came for 0\.1 s"):
                await anext(chunks)

    play(scenario)


def test_leaving_a_stream_ends_it_on_the_server() -> None:
    async def scenario(world: World) -> None:
        ended = asyncio.Event()

        async def step(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(b"x")
                    await asyncio.sleep(0.01)
            except ConnectionResetError:
                ended.set()
                raise

        world.server.on("/log", step)
        async with world.as_user() as transport:
            async with transport.stream(Request("GET", "/log")) as chunks:
                await anext(chunks)
            async with asyncio.timeout(10):
                await ended.wait()
            assert await status(transport) == 200

    play(scenario)


# ---- proxies ----


@asynccontextmanager
async def tunnel(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An HTTP proxy that answers to CONNECT; yields its URL and the requests it saw."""
    asked: list[bytes] = []
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        writer.write(answer)
        if b" 200 " not in answer:
            writer.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        pumps.add(asyncio.create_task(pump(reader, there_writer)))
        pumps.add(asyncio.create_task(pump(there_reader, writer)))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}", asked
        if pumps:
            await asyncio.wait(pumps)


def test_a_proxy_is_used_and_logged_in_to() -> None:
    async def scenario(world: World) -> None:
        async with tunnel(b"HTTP/1.1 200 OK\r\n\r\n") as (address, asked):
            async with world.as_user({"token": "abc"}, {"proxy-url": f"http://u:p@{address}"}) as transport:
                assert await status(transport) == 200
            assert len(asked) == 1
            assert b"Proxy-Authorization: Basic dTpw" in asked[0]
            assert b"abc" not in asked[0]

    play(scenario)


def test_a_proxy_that_refuses_or_is_not_there_is_told() -> None:
    async def scenario(world: World) -> None:
        refused = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        async with (
            tunnel(refused) as (address, _),
            world.as_user(cluster={"proxy-url": f"http://{address}"}) as transport,
        ):
            with pytest.raises(TransportError, match="the proxy refuses: 407 Proxy Authentication Required"):
                await status(transport)
        async with world.as_user(cluster={"proxy-url": "http://127.0.0.1:1"}) as transport:
            with pytest.raises(TransportError, match=r"the proxy cannot be reached: .*refused"):
                await status(transport)

    play(scenario)


# ---- start-up ----


def test_reading_a_kubeconfig_does_not_import_the_http_client() -> None:
    modules = "muster.runtime.kube.kubeconfig_files, muster.runtime.kube.exec_plugins"
    code = f"import sys, {modules}; print('aiohttp' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
