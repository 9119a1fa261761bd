"""Requests over a local socket, with and without an event loop."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.api.status import ApiError
from muster.runtime.eventloop import drive
from muster.runtime.ids import Random
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig
from muster.runtime.kube.local import LocalTransport
from muster.runtime.kube.requests import UnreachedError
from muster.runtime.realclock import RealClock
from muster.runtime.transport import ClosedError, Request, TransportError

GET, POST = Request("GET", "/version", {"a": "b c"}), Request("POST", "/things", body=b"{}")
RUNS = pytest.mark.parametrize("run", [pytest.param(drive, id="blocking"), pytest.param(asyncio.run, id="loop")])


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json; charset=utf-8", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class Server:
    """A server of one socket. Each connection gets a list of what it answers, one after the other, and is then closed.

    A float in place of an answer is a pause; None answers nothing more, and keeps the connection.
    """

    def __init__(self, path: Path, *connections: list[bytes | float | None]) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept, args=(list(connections),))]
        self._threads[0].start()

    def _accept(self, connections: list[list[bytes | float | None]]) -> None:
        for answers in connections:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(client, answers)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket, answers: list[bytes | float | None]) -> None:
        with client:
            for one in answers:
                if one is None:
                    self._over.wait(30)
                    return
                if isinstance(one, float):
                    time.sleep(one)
                    continue
                if not (data := client.recv(65536)):
                    return
                self.requests.append(data)
                client.sendall(one)

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextmanager
def serving(path: Path, *connections: list[bytes | float | None]) -> Iterator[Server]:
    server = Server(path / "s", *connections)
    try:
        yield server
    finally:
        server.close()


def transport(path: Path, **options: int) -> LocalTransport:
    cluster = ClusterConfig("http://localhost", local_socket=str(path / "s"), disable_compression=True)
    return LocalTransport(ConnectionConfig(cluster), RealClock(), Random, **options)


def in_time(run: Callable[..., Any], path: Path, body: Callable[[LocalTransport], Any], **options: int):
    async def main():
        client = transport(path, **options)
        try:
            return await body(client)
        finally:
            await client.close()

    return run(main())


@RUNS
def test_one_connection_serves_one_request_after_the_other(tmp_path: Path, run) -> None:
    async def body(client: LocalTransport):
        return [await client.request(GET), await client.request(POST)]

    with serving(tmp_path, [answer(b'{"a": 1}', "200 OK", "Warning: w"), answer(b"", "201 Created")]) as server:
        first, second = in_time(run, tmp_path, body)
    assert (first.status, first.body, first.content_type) == (200, b'{"a": 1}', "application/json")
    assert first.headers["warning"] == "w"
    assert (second.status, second.body) == (201, b"")
    assert server.connections == 1
    assert server.requests[0].startswith(b"GET /version?a=b%20c HTTP/1.1\r\n")
    assert b"\r\nAccept-Encoding: identity\r\n" in server.requests[0]
    assert server.requests[1].endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


@RUNS
def test_a_connection_that_the_server_has_closed_is_replaced(tmp_path: Path, run) -> None:
    async def body(client: LocalTransport):
        await client.request(GET)
        await RealClock().sleep(0.1)
        return await client.request(POST)  # it was never sent on the closed connection

    with serving(tmp_path, [answer()], [answer(b"[]")]) as server:
        assert in_time(run, tmp_path, body).body == b"[]"
    assert (server.connections, len(server.requests)) == (2, 2)


@RUNS
@pytest.mark.parametrize(("request_", "connections"), [(GET, 2), (POST, 1)])
def test_only_what_may_be_sent_twice_is_sent_again_over_another_connection(
    tmp_path: Path, run, request_: Request, connections: int
) -> None:
    async def body(client: LocalTransport):
        await client.request(GET)
        return await client.request(request_)

    with serving(tmp_path, [answer(), b""], [answer(b"[]")]) as server:
        if request_ is GET:
            assert in_time(run, tmp_path, body).body == b"[]"
        else:
            with pytest.raises(TransportError, match="closed the connection without an answer"):
                in_time(run, tmp_path, body)
        assert server.connections == connections


@RUNS
def test_a_server_that_says_when_to_come_back_is_asked_again(tmp_path: Path, run) -> None:
    busy = answer(b"{}", "429 Too Many Requests", "Retry-After: 0")
    with serving(tmp_path, [busy, answer(b"[]")]):
        assert in_time(run, tmp_path, lambda client: client.request(POST)).body == b"[]"


@RUNS
def test_an_answer_that_does_not_come_in_time_is_an_error_that_says_so(tmp_path: Path, run) -> None:
    slow = Request("GET", "/slow", timeout_seconds=0.05)
    with (
        serving(tmp_path, [None]),
        pytest.raises(TransportError, match=r"GET \S+/s/slow: no answer within 0.05 s"),
    ):
        in_time(run, tmp_path, lambda client: client.request(slow))


@RUNS
def test_nobody_listens(tmp_path: Path, run) -> None:
    with pytest.raises(UnreachedError, match="No such file or directory"):
        in_time(run, tmp_path, lambda client: client.request(POST))


@RUNS
@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (answer(b"0123456789")[:-1], "the connection broke in the middle of the answer"),
        (b"SSH-2.0\r\n\r\n", "the answer is not that of an API server: it is not HTTP"),
        (answer(b"x" * 101), "the answer is larger than 100 bytes; ask for smaller pages"),
    ],
)
def test_a_bad_answer_is_an_error_that_says_why(tmp_path: Path, run, sent: bytes, problem: str) -> None:
    with serving(tmp_path, [sent]), pytest.raises(TransportError, match=problem):
        in_time(run, tmp_path, lambda client: client.request(GET), max_response_bytes=100)


@RUNS
def test_a_stream_comes_in_pieces_and_takes_longer_than_a_request_may(tmp_path: Path, run) -> None:
    async def body(client: LocalTransport):
        async with client.stream(Request("GET", "/log", timeout_seconds=0.2)) as pieces:
            return [piece async for piece in pieces]

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"

    class Slow(Server):
        def _serve(self, client: socket.socket, answers: list[bytes | float | None]) -> None:
            with client:
                client.recv(65536)
                client.sendall(head)
                time.sleep(0.4)
                client.sendall(b"1\r\nb\r\n0\r\n\r\n")

    server = Slow(tmp_path / "s", [])
    try:
        assert in_time(run, tmp_path, body) == [b"a", b"b"]
    finally:
        server.close()


@RUNS
def test_a_refused_stream_is_the_servers_error(tmp_path: Path, run) -> None:
    async def body(client: LocalTransport):
        async with client.stream(GET):
            raise AssertionError("it was refused")

    with serving(tmp_path, [answer(b"no such thing", "404 Not Found")]), pytest.raises(ApiError, match="no such thing"):
        in_time(run, tmp_path, body)


@RUNS
def test_a_withdrawn_request_is_not_sent(tmp_path: Path, run) -> None:
    with pytest.raises(TransportError, match="it is allowed no longer"):
        in_time(run, tmp_path, lambda client: client.request(Request("GET", "/", allowed=lambda: False)))


def test_a_closed_transport_ends_what_waits_and_takes_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        client = transport(tmp_path)
        waiting = asyncio.create_task(client.request(GET))
        while not server.connections:
            await asyncio.sleep(0.01)
        await client.close()
        await asyncio.wait([waiting], timeout=5)  # the server keeps the connection for longer
        assert isinstance(waiting.exception(), ClosedError)
        with pytest.raises(ClosedError):
            await client.request(GET)

    with serving(tmp_path, [None]) as server:
        asyncio.run(main())


def test_tasks_have_a_connection_each(tmp_path: Path) -> None:
    async def body(client: LocalTransport):
        return await asyncio.gather(client.request(GET), client.request(GET))

    with serving(tmp_path, [0.05, answer()], [0.05, answer()]) as server:
        assert [one.status for one in in_time(asyncio.run, tmp_path, body)] == [200, 200]
        assert server.connections == 2
