"""HTTPS probes: whoever answers is fine, and nobody waits for certificates that are not looked at."""

import asyncio
import ssl

import pytest
import trustme

from muster.cluster.nodes.container import checks
from muster.cluster.nodes.container.checks import CheckFailedError, Target


async def not_run(command, timeout):
    raise AssertionError("nothing is run for this")


@pytest.mark.parametrize(("status", "passes"), [(200, True), (399, True), (500, False)])
def test_https_probes_verify_nothing_and_load_no_authorities(make_pod, monkeypatch, status, passes):
    def load(*_):
        raise AssertionError("loading the system's authorities blocks the event loop")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("somebody.else").configure_cert(secure)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Whatever\r\n\r\n" % status)
        await writer.drain()
        writer.close()

    async def body():
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=secure) as server:
            port = server.sockets[0].getsockname()[1]
            get = {"httpGet": {"scheme": "HTTPS", "port": port, "path": "/"}, "timeoutSeconds": 10}
            container = make_pod({"containers": [{"name": "main", "livenessProbe": get}]}).spec.containers[0]
            await checks.probe(container.liveness_probe, Target(container, "127.0.0.1", not_run))

    if passes:
        asyncio.run(body())
    else:
        with pytest.raises(CheckFailedError, match="statuscode: 500"):
            asyncio.run(body())
