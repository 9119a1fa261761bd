"""The visibility API of a replica, on real sockets: what keeps it from serving is said, and tried again."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.config import DEFAULT
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, ConfigMap, Container, Namespace, Pod, PodSpec
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.integrations.table import INTEGRATIONS
from muster.operator import visibility
from muster.operator.frontproxy import CONFIG_MAP_NAME
from muster.operator.host import serve_when_alone
from muster.operator.leaderlabel import LABEL
from muster.operator.precedence import make_identity
from muster.operator.replica import Replica
from muster.operator.serving import make_certificates
from muster.runtime.certificates import make_authority
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.tasks import cancel, run_together

KUEUE = "kueue-system"


def proxy_told(authority: str) -> ConfigMap:
    data = {"requestheader-client-ca-file": authority, "requestheader-username-headers": '["X-Remote-User"]'}
    return ConfigMap(metadata=ObjectMeta(name=CONFIG_MAP_NAME, namespace="kube-system"), data=data)


def authority() -> str:
    return make_authority("front-proxy-ca", datetime.now(UTC), timedelta(days=1)).certificate_pem.decode()


class Site:
    """A replica that leads, its pod, and who passes requests on to it; said: where it serves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said: asyncio.Queue[str] = asyncio.Queue()

    async def label(self) -> str:
        return (await self.client.get(POD, "a", KUEUE)).metadata.labels.get(LABEL, "")

    async def until_labelled(self, value: str) -> None:
        while await self.label() != value:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def site(authority: str, port: int = 0) -> AsyncIterator[Site]:
    inputs = ExternalInputs(RealClock(), Ids(1), Random(1))
    async with asyncio.timeout(60), control_plane(MemoryJournal(), inputs, DEFAULT, Trust, INTEGRATIONS) as plane:
        s = Site(plane.client())
        for name in (KUEUE, "kube-system"):
            if await s.client.find(NAMESPACE, name) is None:
                await s.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=name)))
        spec = PodSpec(containers=(Container(name="c", image="none"),))
        await s.client.create(POD, Pod(metadata=ObjectMeta(name="a", labels={LABEL: "true"}), spec=spec), KUEUE)
        await s.client.create(CONFIG_MAP, proxy_told(authority))
        server = replace(DEFAULT.visibility_server, bind_address="127.0.0.1", bind_port=port)
        settings = replace(DEFAULT, visibility_server=server)
        transport = InProcessTransport(plane.server)
        replica = Replica(transport, inputs, settings, make_identity("a", "uid"), pod="a")
        keeping, shown = (Manager(Client(transport), inputs.clock, inputs.random) for _ in range(2))
        kept = make_certificates(keeping, settings)
        serving = visibility.serve_visibility(shown, kept, settings, replica, s.said.put_nowait)
        run = asyncio.create_task(run_together(replica.run(), serve_when_alone(replica, keeping, None, serving)))
        try:
            yield s
            await replica.stop()
            await run
        finally:
            await cancel([run])


@pytest.mark.parametrize("broken", ["no certificate", "-----BEGIN CERTIFICATE-----\nä\n-----END CERTIFICATE-----\n"])
def test_an_authority_that_cannot_be_read_is_waited_out(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with site(broken) as s:
            await s.until_labelled("")
            while "no visibility API: " not in caplog.text:
                await asyncio.sleep(0.01)
            assert s.said.empty()
            patch = msgspec.to_builtins(proxy_told(authority()).data)
            await s.client.patch(CONFIG_MAP, CONFIG_MAP_NAME, {"data": patch}, "kube-system")
            assert (await s.said.get()).startswith("visibility API at port ")
            await s.until_labelled("true")

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert "Traceback" not in caplog.text


def test_a_port_that_is_taken_is_tried_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "RETRY_SECONDS", 0.05)

    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with site(authority(), port) as s:
                while "is taken by another process" not in caplog.text:
                    await asyncio.sleep(0.01)
                assert s.said.empty()
                taken.close()
                assert await s.said.get() == f"visibility API at port {port}"
                await s.until_labelled("true")

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
