"""A link asked for with a client certificate, over TLS: its session ends with the certificate."""

import asyncio
import ssl
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp
from tests.system.dashboard.site import MovedClock

from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.identity.certificates import LEAF_LIFE
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import User
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.dashboard.app import Dashboard
from muster.dashboard.viewing.hosts import EmbeddedHost, Proof
from muster.dashboard.viewing.sessions import Sessions
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random


async def find_statuses(folder: Path, signed: datetime, hours: int) -> list[int]:
    """Return the statuses of a page now, and so many hours later. signed: when the certificates were."""
    credentials, clock = Credentials.load(folder / "pki", signed, Ids()), MovedClock()

    async def identify(proof: Proof) -> User:
        assert proof.certificate is not None
        return proof.certificate

    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        dashboard = Dashboard(EmbeddedHost(identify, plane.client), Sessions(clock), clock, Random())
        listener = Listener(dashboard, credentials.server_context())
        url = f"https://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
        context = ssl.create_default_context(cadata=credentials.authority_pem.decode())
        context.load_cert_chain(credentials.admin.file)
        connector = aiohttp.TCPConnector(ssl=context)
        jar = aiohttp.CookieJar(unsafe=True)
        try:
            async with aiohttp.ClientSession(url, connector=connector, cookie_jar=jar) as session:
                async with session.post("/ui/links") as answer:
                    link = (await answer.json())["url"]
                async with session.get(link) as answer:
                    found = [answer.status]
                clock.ahead = timedelta(hours=hours)
                async with session.get("/ui/jobs") as answer:
                    return [*found, answer.status]
        finally:
            await dashboard.close()
            await listener.stop(0.5)


def test_a_session_ends_with_the_certificate(tmp_path: Path) -> None:
    ends_in_two_hours = RealClock().now() - LEAF_LIFE + timedelta(hours=2)
    assert asyncio.run(find_statuses(tmp_path, ends_in_two_hours, 1)) == [200, 200]
    assert asyncio.run(find_statuses(tmp_path, ends_in_two_hours, 3)) == [200, 401]


def test_a_lasting_certificate_gives_twelve_hours(tmp_path: Path) -> None:
    assert asyncio.run(find_statuses(tmp_path, RealClock().now(), 11)) == [200, 200]
    assert asyncio.run(find_statuses(tmp_path, RealClock().now(), 13)) == [200, 401]
