"""Replicas that share the webhooks' certificate: one Secret, and a server that knows its authority."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.kueue_certificates import AUTHORITY, left_by_kueue, numbered_0
from tests.system.plane import running

from muster.api.config import DEFAULT
from muster.api.core import NAMESPACE, SECRET, Namespace, Secret
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.runtime.certificates import is_signed_by
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.transport import Request, Response, Transport
from muster.webhooks import certificates
from muster.webhooks.bundles import INSTALLED, WEAKER, WEBHOOKS, Bundles
from muster.webhooks.certificates import CERTIFICATE, LIFE, DueParts
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.endpoints import MUTATING_CONFIGURATION
from muster.webhooks.keeping import Certificates

KUEUE, NAME, HOSTS = "kueue-system", "cert", ("w.kueue-system.svc",)
ENCRYPTED = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)


@asynccontextmanager
async def replica(plane: ControlPlane, *, leads: bool = False, ours: bool = True) -> AsyncIterator[Certificates]:
    inputs = plane.inputs
    manager = Manager(plane.client(), inputs.clock, inputs.random)
    kept = Certificates(manager, KUEUE, NAME, HOSTS, ours=ours)
    began = asyncio.Event()
    if leads:
        began.set()
    manager.add(kept)
    manager.add(Bundles(manager, kept, began, WEBHOOKS))
    run = asyncio.create_task(manager.run())
    try:
        yield kept
    finally:
        await manager.stop()
        await run


async def stored(plane: ControlPlane) -> Secret:
    return await plane.client().get(SECRET, NAME, KUEUE)


async def bundles(plane: ControlPlane) -> set[bytes]:
    """What the server knows."""
    found = await plane.client().get(MUTATING_WEBHOOK_CONFIGURATION, MUTATING_CONFIGURATION)
    return {hook.client_config.ca_bundle for hook in found.webhooks}


@asynccontextmanager
async def installed() -> AsyncIterator[ControlPlane]:
    async with running(controllers=False) as plane:
        client = plane.client()
        if await client.find(NAMESPACE, KUEUE) is None:
            await client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=KUEUE)))
        document = webhook_configurations(DEFAULT)[0]
        await client.create(MUTATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION.typed(document))
        yield plane


def test_replicas_serve_with_the_same_and_the_leader_tells_the_server() -> None:
    async def body() -> None:
        async with installed() as plane, replica(plane) as standby:
            await standby.ready.wait()
            await plane.inputs.clock.sleep(60)
            assert await bundles(plane) == {b""}, "it does not lead"
            async with replica(plane, leads=True) as leader:
                await leader.ready.wait()
                await plane.inputs.clock.sleep(60)
                assert leader.bundle == standby.bundle == (await stored(plane)).data["ca.crt"]
                assert await bundles(plane) == {leader.bundle}

    run_virtual(body())


@pytest.mark.parametrize(("leads", "said"), [(True, [WEAKER]), (False, [])])
def test_what_is_weaker_without_webhooks_is_said_by_who_leads(
    leads: bool, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with running(controllers=False) as plane, replica(plane, leads=leads):
            await plane.inputs.clock.sleep(1)

    run_virtual(body())
    assert [record.message for record in caplog.records if record.message == WEAKER] == said


def test_the_warning_ends_as_webhooks_are_installed(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with running(controllers=False) as plane, replica(plane, leads=True):
            await plane.inputs.clock.sleep(1)
            document = webhook_configurations(DEFAULT)[0]
            await plane.client().create(MUTATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION.typed(document))
            await plane.inputs.clock.sleep(1)

    with caplog.at_level(logging.INFO, logger="muster.webhooks.bundles"):
        run_virtual(body())
    said = [record.message for record in caplog.records if record.name == "muster.webhooks.bundles"]
    assert [message for message in said if message in {WEAKER, INSTALLED}] == [WEAKER, INSTALLED]


async def make(plane: ControlPlane, age: timedelta) -> Secret:
    """The Secret as it was made so long ago."""
    made = certificates.renew_what_is_due(certificates.Held(), HOSTS, plane.inputs.clock.now() - age)
    secret = Secret(metadata=ObjectMeta(name=NAME, namespace=KUEUE), data=certificates.make_secret_data(made))
    return await plane.client().create(SECRET, secret)


def test_a_certificate_is_renewed_by_one_of_them_long_before_its_end() -> None:
    async def body() -> None:
        async with installed() as plane:
            first, clock = await make(plane, LIFE * 2 / 3 - timedelta(minutes=30)), plane.inputs.clock
            async with replica(plane, leads=True) as leader, replica(plane) as standby:
                await asyncio.gather(leader.ready.wait(), standby.ready.wait())
                assert (await stored(plane)).data == first.data
                await clock.sleep(3600)
                now = await stored(plane)
                assert now.data[CERTIFICATE] != first.data[CERTIFICATE]
                held = certificates.read(now.data)
                assert held.server is not None
                assert held.server.certificate.not_valid_after_utc - clock.now() > timedelta(days=89)
                assert any(is_signed_by(held.server.certificate, one) for one in held.authorities)
                assert now.data["ca.crt"] == first.data["ca.crt"], "the authority is young"

    run_virtual(body())


async def take(plane: ControlPlane, data: dict[str, bytes]) -> dict[str, bytes]:
    """What an engine leaves of such a Secret."""
    await plane.client().create(SECRET, Secret(metadata=ObjectMeta(name=NAME, namespace=KUEUE), data=data))
    async with replica(plane, leads=True) as kept:
        await kept.ready.wait()
        await plane.inputs.clock.sleep(60)
        now = (await stored(plane)).data
        assert kept.bundle == now["ca.crt"]
        assert await bundles(plane) == {kept.bundle}
    return now


def test_what_kueue_has_made_stays_byte_for_byte_but_for_what_is_due() -> None:
    async def body() -> None:
        async with installed() as plane:
            now = await take(plane, left_by_kueue())
            assert (now["ca.crt"], now["ca.key"]) == (left_by_kueue()["ca.crt"], left_by_kueue()["ca.key"])
            assert certificates.is_readable_by_kueue(now)

    run_virtual(body())


def test_an_authority_with_the_serial_number_0_is_replaced_and_said_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        async with installed() as plane:
            now = await take(plane, left_by_kueue(numbered_0(AUTHORITY)))
            assert certificates.find_due(certificates.read(now), HOSTS, plane.inputs.clock.now()) == DueParts()

    run_virtual(body())
    (said,) = [record.message for record in caplog.records if "does not count" in record.message]
    assert said.startswith("an authority in Secret cert does not count: Parsed a serial number which wasn't positive")


def test_what_another_program_makes_is_served_with_and_left_alone() -> None:
    """cert-manager makes the Secret, and tells the server itself."""

    async def body() -> None:
        async with installed() as plane, replica(plane, leads=True, ours=False) as kept:
            await plane.inputs.clock.sleep(60)
            assert not kept.ready.is_set()
            secret = await make(plane, LIFE * 2)
            await kept.ready.wait()
            await plane.inputs.clock.sleep(60)
            assert (await stored(plane)).data == secret.data
            assert await bundles(plane) == {b""}

    run_virtual(body())


def test_what_is_due_is_served_with_while_it_cannot_be_renewed() -> None:
    """A new replica finds a certificate that is past two thirds of its life, and may not write the Secret."""

    class ReadOnly:
        def __init__(self, transport: Transport) -> None:
            self.stream, self.close, self._request = transport.stream, transport.close, transport.request

        async def request(self, request: Request) -> Response:
            if request.method != "GET" and request.path.partition("?")[0].endswith(f"/secrets/{NAME}"):
                return Response(403, b"{}")
            return await self._request(request)

    async def body() -> None:
        async with installed() as plane:
            made, inputs = await make(plane, LIFE * 0.7), plane.inputs
            manager = Manager(Client(ReadOnly(InProcessTransport(plane.server))), inputs.clock, inputs.random)
            kept = Certificates(manager, KUEUE, NAME, HOSTS, ours=True)
            manager.add(kept)
            run = asyncio.create_task(manager.run())
            await kept.ready.wait()
            assert kept.bundle == made.data["ca.crt"]
            await inputs.clock.sleep(60)
            assert (await stored(plane)).data == made.data
            assert not run.done()
            await manager.stop()
            await run

    run_virtual(body())


@pytest.mark.parametrize("key", [b"x", ENCRYPTED], ids=["text", "encrypted"])
def test_a_secret_of_rubbish_is_no_end_of_serving(key: bytes) -> None:
    async def body() -> None:
        async with installed() as plane, replica(plane, leads=True) as kept:
            await kept.ready.wait()
            patch = {"data": {"tls.key": b64encode(key).decode()}, "metadata": {"labels": {"of": "another"}}}
            await plane.client().patch(SECRET, NAME, patch, KUEUE)
            await plane.inputs.clock.sleep(60)
            found = await stored(plane)
            assert certificates.find_due(certificates.read(found.data), HOSTS, plane.inputs.clock.now()) == DueParts()
            assert found.metadata.labels == {"of": "another"}

    run_virtual(body())
