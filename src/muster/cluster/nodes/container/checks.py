"""Execute probes and lifecycle hooks: run a command in the container, send an HTTP request, or open a connection.

Failures appear in `Unhealthy` events, so their messages have the kubelet's wording. `probes` decides what a failure
means.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import cache

from msgspec import Struct

from muster.api.core import Container, HTTPGetAction, LifecycleHandler, Probe
from muster.cluster.nodes.container import probes
from muster.cluster.nodes.shims import ShimError
from muster.runtime.clock import Clock

# The maximum part of an answer or an output in an event.
OUTPUT_BYTES = 1024

Run = Callable[[tuple[str, ...], float], Awaitable[tuple[int, bytes]]]
"""Runs a command in the container within a timeout; returns exit code and output. Raises TimeoutError, ShimError."""


class CheckFailedError(Exception):
    """A failure of a probe or hook. The message states its cause."""


class Target(Struct, frozen=True):
    """The container whose probes and hooks are executed, its pod's address, and a function that runs commands in it."""

    container: Container
    address: str
    run: Run


async def probe(probe: Probe, target: Target) -> None:
    """Execute a probe once. Raises `CheckFailedError` if it fails or exceeds its timeout."""
    timeout = probes.timeout_seconds(probe)
    if probe.exec is not None:
        await _check_command(target, probe.exec.command, timeout)
    elif probe.http_get is not None:
        await _check_http(target, probe.http_get, timeout)
    elif probe.tcp_socket is not None:
        host = probe.tcp_socket.host or target.address
        await _check_tcp(host, _resolve_port(target, probe.tcp_socket.port), timeout)
    elif probe.grpc is not None:
        # Muster has no gRPC client: the probe passes if the port accepts connections.
        await _check_tcp(target.address, probe.grpc.port, timeout)


async def run_hook(handler: LifecycleHandler, target: Target, clock: Clock, timeout_seconds: float) -> None:
    """Run a lifecycle hook (postStart or preStop). Raises `CheckFailedError`."""
    if handler.exec is not None:
        await _check_command(target, handler.exec.command, timeout_seconds)
    elif handler.http_get is not None:
        await _check_http(target, handler.http_get, timeout_seconds)
    elif handler.sleep is not None:
        await clock.sleep(min(float(handler.sleep.seconds), timeout_seconds))
    elif handler.tcp_socket is not None:
        raise CheckFailedError("tcpSocket is not supported in lifecycle hooks")


async def _check_command(target: Target, command: tuple[str, ...], timeout: float) -> None:
    try:
        code, output = await target.run(command, timeout)
    except TimeoutError:
        raise CheckFailedError(f'command "{" ".join(command)}" timed out: timeout of {timeout:g}s exceeded') from None
    except ShimError as error:
        raise CheckFailedError(str(error)) from None
    if code:
        raise CheckFailedError(output.decode(errors="replace").strip() or f"command exited with code {code}")


async def _check_tcp(host: str, port: int, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise CheckFailedError(f"dial tcp {host}:{port}: i/o timeout") from None
    except OSError as error:
        raise CheckFailedError(_describe_dial_error(host, port, error)) from None
    writer.close()


async def _check_http(target: Target, action: HTTPGetAction, timeout: float) -> None:
    """Send the GET request of a probe. Raises `CheckFailedError` unless the status is from 200 to 399."""
    host, port = action.host or target.address, _resolve_port(target, action.port)
    secure = action.scheme == "HTTPS"
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    url = f"{'https' if secure else 'http'}://{host}:{port}{path}"
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/muster", "Accept": "*/*", "Connection": "close"}
    headers |= {header.name: header.value for header in action.http_headers}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise CheckFailedError(f'Get "{url}": line end in the path or a header')
    request = "\r\n".join([*lines, "", ""]).encode()
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=_make_unverified_context() if secure else None
            )
            try:
                writer.write(request)
                status = (await reader.readline()).split(b" ")
            finally:
                writer.close()
    except TimeoutError:
        raise CheckFailedError(f'Get "{url}": context deadline exceeded') from None
    except (OSError, ValueError) as error:
        raise CheckFailedError(f'Get "{url}": {_describe_dial_error(host, port, error)}') from None
    if len(status) < 2 or not status[0].startswith(b"HTTP/") or not status[1].isdigit():
        raise CheckFailedError(f'Get "{url}": the answer is not HTTP')
    if not 200 <= int(status[1]) < 400:
        raise CheckFailedError(f"HTTP probe failed with statuscode: {int(status[1])}")


def _resolve_port(target: Target, port: int | str) -> int:
    """Return the number of a port that the spec gives as a number or by its name in the container.

    Raises `CheckFailedError` for an unknown name.
    """
    if isinstance(port, str) and not port.isdigit():
        number = next((known.container_port for known in target.container.ports if known.name == port), None)
        if number is None:
            raise CheckFailedError(f"couldn't find port: {port} in container {target.container.name}")
        return number
    return int(port)


@cache
def _make_unverified_context() -> ssl.SSLContext:
    """Return a TLS context that verifies no certificate.

    A probe only needs an answer, and pods make their own certificates. The context loads no certificate authorities,
    because that would block the event loop.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _describe_dial_error(host: str, port: int, error: OSError | ValueError) -> str:
    why = "connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
    return f"dial tcp {host}:{port}: connect: {why}"
