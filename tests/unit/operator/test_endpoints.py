"""Probes and metrics, as a kubelet and a scraper ask for them: over real sockets."""

import asyncio
import socket
import ssl

import aiohttp
import pytest
import trustme
import uvloop

from muster.api.config.types import Health
from muster.api.status import ApiError, Status
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.operator.addresses import BadAddressError, parse_address
from muster.operator.endpoints import make_metrics_handler, make_probe_handlers, serve_handlers
from muster.operator.routes import text_answer
from muster.runtime.metrics import Registry
from muster.runtime.transport import Response, TransportError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":8081", ("", 8081)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8443", ("::1", 8443)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize("text", ["", "8081", ":", ":http", ":65536", "127.0.0.1:-1", ":²"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(BadAddressError, match="is no address to serve at"):
        parse_address(text)


async def ask(url: str, token: str = "", tls: ssl.SSLContext | bool = True) -> tuple[int, str]:
    headers = {"Authorization": token} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=tls) as answer:
        return answer.status, await answer.text()


def test_probes_say_what_is_waited_for() -> None:
    problems = ["waiting for workloads.kueue.x-k8s.io", ""]

    async def body() -> None:
        async with serve_handlers("127.0.0.1:0", make_probe_handlers(Health(), lambda: problems.pop(0))) as port:
            url = f"http://127.0.0.1:{port}"
            assert await ask(f"{url}/readyz") == (503, "waiting for workloads.kueue.x-k8s.io")
            assert await ask(f"{url}/readyz") == (200, "ok")
            assert await ask(f"{url}/healthz") == (200, "ok")
            assert (await ask(f"{url}/metrics"))[0] == 404

    asyncio.run(body())


def test_what_one_that_is_ready_lacks_is_said_too() -> None:
    async def body() -> None:
        handlers = make_probe_handlers(Health(), lambda: "", lambda: "waiting for jobs")
        async with serve_handlers("127.0.0.1:0", handlers) as port:
            assert await ask(f"http://127.0.0.1:{port}/readyz") == (200, "waiting for jobs")

    asyncio.run(body())


def test_probes_may_have_other_names() -> None:
    names = Health(readiness_endpoint_name="/ready", liveness_endpoint_name="alive")

    async def body() -> None:
        async with serve_handlers("127.0.0.1:0", make_probe_handlers(names, lambda: "")) as port:
            assert (await ask(f"http://127.0.0.1:{port}/ready"))[0] == 200
            assert (await ask(f"http://127.0.0.1:{port}/alive"))[0] == 200
            assert (await ask(f"http://127.0.0.1:{port}/readyz"))[0] == 404

    asyncio.run(body())


def test_a_client_that_has_closed_its_side_is_answered() -> None:
    async def body() -> None:
        has_begun, may_answer = asyncio.Event(), asyncio.Event()

        async def wait(_: InboundRequest) -> Response:
            has_begun.set()
            await may_answer.wait()
            return text_answer(200, "late")

        async with serve_handlers("127.0.0.1:0", {"/wait": wait}) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            writer.write_eof()
            await has_begun.wait()
            await asyncio.sleep(0.1)  # for the end of what the client sends
            may_answer.set()
            assert (await reader.read()).endswith(b"\r\n\r\nlate")
            writer.close()

    for loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(body())


def test_nothing_is_served_at_0() -> None:
    async def body() -> None:
        async with serve_handlers("0", make_probe_handlers(Health(), lambda: "")) as port:
            assert port == 0

    asyncio.run(body())


def test_an_address_without_a_host_is_all_of_this_machine() -> None:
    async def body() -> None:
        async with serve_handlers(":0", make_probe_handlers(Health(), lambda: "")) as port:
            hosts = ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])]
            for host in hosts:
                assert (await ask(f"http://{host}:{port}/healthz"))[0] == 200

    asyncio.run(body())


def test_an_address_that_is_taken_is_named() -> None:
    async def body() -> None:
        async with serve_handlers("127.0.0.1:0", {}) as port:
            with pytest.raises(OSError, match=f"127.0.0.1:{port} is taken by another process"):
                async with serve_handlers(f"127.0.0.1:{port}", {}):
                    pass

    asyncio.run(body())


async def judge(token: str, path: str) -> int:
    if token == "broken":
        raise ApiError(Status(code=500, reason="InternalError", message="no answer"))
    if token == "lost":
        raise TransportError("connection refused")
    return {"good": 200, "small": 403}.get(token, 401) if path == "/metrics" else 404


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer good", 200),
        ("bearer  good ", 200),
        ("Bearer small", 403),
        ("Bearer other", 401),
        ("Basic good", 401),
        ("good", 401),
        ("", 401),
        ("Bearer broken", 503),
        ("Bearer lost", 503),
    ],
)
def test_metrics_are_for_those_who_may_read_them(header: str, status: int) -> None:
    authority, registry = trustme.CA(), Registry()
    registry.counter("things_total", "Things.").labels().inc()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)

    async def body() -> None:
        async with serve_handlers("127.0.0.1:0", make_metrics_handler(registry, judge), server) as port:
            found, text = await ask(f"https://localhost:{port}/metrics", header, client)
            assert (found, "things_total 1.0" in text) == (status, status == 200)

    asyncio.run(body())


def test_metrics_that_are_plain_are_for_all() -> None:
    async def body() -> None:
        async with serve_handlers("127.0.0.1:0", make_metrics_handler(Registry(process=True), None)) as port:
            status, text = await ask(f"http://127.0.0.1:{port}/metrics")
            assert status == 200
            assert "process_cpu_seconds_total" in text

    asyncio.run(body())
