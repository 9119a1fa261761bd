"""Replicas of the engine beside a server whose Jobs another program runs: one works, one stands by."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.operator.operator_site import KUEUE, LEASE_NAME, Cable, Site, Wire, renewed, site

from muster.api.config import DEFAULT
from muster.api.config.types import ClientConnection
from muster.api.core import NAMESPACE, POD, SERVICE_ACCOUNT, Container, Namespace, Pod, PodSpec, ServiceAccount
from muster.api.groups.coordination import LEASE, Lease, LeaseSpec
from muster.api.meta import ObjectMeta
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.operator.leaderlabel import LABEL, RETRY_SECONDS, VALUE
from muster.operator.precedence import make_identity
from muster.operator.replica import OtherManagerError, Replica, fence_reach
from muster.operator.scrapers import ANSWER_SECONDS, Scrapers
from muster.runtime.client import Client
from muster.runtime.control.leases import Election, LeadershipLostError
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig
from muster.runtime.transport import Request, Response, TransportError


async def lease(s: Site, holder: str, ago: float = 1.0) -> None:
    renewed = (s.world.clock.now() - timedelta(seconds=ago)).replace(microsecond=1)
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=renewed)
    await s.client.create(LEASE, Lease(metadata=ObjectMeta(name=LEASE_NAME), spec=spec), KUEUE)


@site
async def test_one_leads_and_admits_and_the_other_stands_by(s: Site) -> None:
    first, second = await s.start("first"), await s.start("second")
    assert (first.began.is_set(), second.began.is_set()) == (True, False)
    assert (first.unready(), second.unready()) == ("", "")
    assert s.cables["second"].writes == 0
    await s.queued.job("a", suspend=True)
    await s.world.settle()
    assert not await s.is_suspended("a")
    assert len(await s.world.pods("a")) == 2, "made by the Job controller of the cluster"
    assert s.cables["second"].writes == 0


async def pods(s: Site, *names: str) -> None:
    spec = PodSpec(containers=(Container(name="c", image="none"),))
    for name in names:
        await s.client.create(POD, Pod(metadata=ObjectMeta(name=name), spec=spec), KUEUE)


async def selected(s: Site) -> list[str]:
    return [pod.metadata.name for pod in (await s.client.list(POD, KUEUE, labels=f"{LABEL}={VALUE}")).items]


@site
async def test_the_pod_that_leads_and_no_other_has_the_label_by_which_it_is_selected(s: Site) -> None:
    await pods(s, "first", "second")
    first = await s.start("first")
    second = await s.start("second")
    with first.selected():
        await s.world.settle()
        assert await selected(s) == ["first"]
        await s.client.patch(POD, "second", {"metadata": {"labels": {LABEL: VALUE}}}, KUEUE)
        await s.client.patch(POD, "first", {"metadata": {"labels": {LABEL: None}}}, KUEUE)
        await s.world.settle()
        assert await selected(s) == ["first"]
        await first.stop()
        await s.ended("first")
    await s.world.settle(5)
    assert await selected(s) == [], "the next leads, and does not serve yet"
    with second.selected():
        await s.world.settle()
        assert await selected(s) == ["second"]
    await s.world.settle()
    assert await selected(s) == []


@site
async def test_a_leader_outside_of_the_cluster_takes_the_label_from_the_pod_that_led(s: Site) -> None:
    await pods(s, "first")
    first = await s.start("first")
    with first.selected():
        await s.world.settle()
        assert await selected(s) == ["first"]
        s.cables["first"].cut = True
        with pytest.raises(LeadershipLostError):
            await s.ended("first")
    assert await selected(s) == ["first"], "it could not remove the label itself"
    laptop = await s.start("laptop")
    await s.world.settle(15 + 3)
    with laptop.selected():
        await s.world.settle()
        assert await s.holder() == make_identity("laptop", "uid")
        assert await selected(s) == []


@site
async def test_one_whose_pod_cannot_be_labelled_ends_at_once_when_it_is_told_to(s: Site) -> None:
    await pods(s, "first")
    first = await s.start("first")
    s.cables["first"].refuses = "/pods/first"
    with first.selected():
        await s.world.settle()
        began = s.world.clock.monotonic()
        await first.stop()
        await s.ended("first")
    assert s.world.clock.monotonic() - began < RETRY_SECONDS / 2


@site
async def test_one_that_is_stopped_lets_the_other_lead_at_once(s: Site) -> None:
    first = await s.start("first")
    await s.start("second")
    await first.stop()
    await s.ended("first")
    await s.world.settle(5)  # well within the time of the Lease
    assert await s.holder() == make_identity("second", "uid")
    await s.queued.job("a", suspend=True)
    await s.world.settle()
    assert not await s.is_suspended("a")


@site
async def test_one_that_stands_by_ends_when_it_is_told_to(s: Site) -> None:
    await s.start("first")
    second = await s.start("second")
    await second.stop()
    await s.ended("second")
    assert await s.holder() == make_identity("first", "uid")


@site
async def test_who_lost_the_server_writes_nothing_more_and_the_other_leads_within_the_leases_time(s: Site) -> None:
    await s.start("first")
    await s.start("second")
    s.cables["first"].cut = True
    with pytest.raises(LeadershipLostError):
        await s.ended("first")
    before = s.cables["first"].writes
    s.cables["first"].cut = False
    await s.world.settle(15 + 3)
    assert await s.holder() == make_identity("second", "uid")
    await s.queued.job("a", suspend=True)
    await s.world.settle()
    assert not await s.is_suspended("a")
    assert s.cables["first"].writes == before


def test_a_lost_lease_is_one_trouble_and_not_one_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A replica that has lost its Lease hangs up: that its watches break off is no news."""

    @site
    async def story(s: Site) -> None:
        await s.start("first", Wire)
        caplog.clear()
        async with renewed(s.client, s.world.clock, "other_x"):
            with pytest.raises(LeadershipLostError):
                await s.ended("first")
        assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []

    story()


def test_a_server_that_is_away_is_one_trouble_and_not_one_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    @site
    async def story(s: Site) -> None:
        await s.start("first", Wire)
        caplog.clear()
        cable = s.cables["first"]
        assert isinstance(cable, Wire)
        cable.sever()
        with pytest.raises(LeadershipLostError):
            await s.ended("first")
        said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
        assert len([line for line in said if "list and watch interrupted" in line]) == 1
        assert len(said) < 8, "\n".join(said)

    story()


@site
async def test_who_lost_the_lease_ends_at_once_though_its_writes_wait_for_their_turn(s: Site) -> None:
    slow = replace(DEFAULT, client_connection=ClientConnection(qps=0.2, burst=10))
    wire = Wire(InProcessTransport(s.world.plane.server))
    replica = Replica(wire, s.world.plane.inputs, slow, make_identity("a", "uid"))
    run = asyncio.create_task(replica.run())
    await s.world.settle(600)
    for number in range(20):
        await s.queued.job(f"j-{number}", suspend=True, workers=1)
    await s.world.settle(60)
    async with renewed(s.client, s.world.clock, "other_x"):
        await wire.closing.wait()
        closed = s.world.clock.monotonic()
        with pytest.raises(LeadershipLostError):
            await run
        assert s.world.clock.monotonic() == closed


@site
async def test_who_lost_the_lease_writes_nothing_more_in_worker_clusters(s: Site) -> None:
    plane, cable = s.world.plane, Cable(InProcessTransport(s.world.plane.server))
    inputs = plane.inputs
    election = Election(
        Client(cable),
        inputs.clock,
        inputs.random,
        namespace=KUEUE,
        name=LEASE_NAME,
        identity=make_identity("first", "uid"),
    )
    worker = Cable(InProcessTransport(plane.server))
    way = fence_reach(lambda *_: worker, election.fence)(
        ConnectionConfig(ClusterConfig("https://w")), inputs.clock, inputs.random
    )

    async def work() -> None:
        await Client(way).create(NAMESPACE, Namespace(metadata=ObjectMeta(name="while-it-leads")))
        cable.cut = True
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(TransportError, match="no longer leads"):
                await Client(way).create(NAMESPACE, Namespace(metadata=ObjectMeta(name="too-late")))

    with pytest.raises(LeadershipLostError):
        await election.run(work)
    assert worker.writes == 1


@site
async def test_the_lease_is_renewed_however_many_writes_wait_for_their_turn(s: Site) -> None:
    slow = replace(DEFAULT, client_connection=ClientConnection(qps=0.2, burst=10))
    replica = Replica(InProcessTransport(s.world.plane.server), s.world.plane.inputs, slow, make_identity("a", "uid"))
    run = asyncio.create_task(replica.run())
    await s.world.settle(600)
    assert replica.unready() == ""
    for number in range(20):
        await s.queued.job(f"j-{number}", suspend=True, workers=1)
    await s.world.settle(60)
    assert len(await s.queued.workloads()) < 20, "not all have been written yet"
    assert not run.done()
    assert await s.holder() == make_identity("a", "uid")
    await replica.stop()
    await run


@site
async def test_one_that_needs_no_lease_does_not_work_beside_kueue_either(s: Site) -> None:
    alone = replace(DEFAULT, leader_election=replace(DEFAULT.leader_election, leader_elect=False))
    transport = InProcessTransport(s.world.plane.server)
    async with renewed(s.client, s.world.clock, "kueue-controller-manager-7d9_uid"):
        with pytest.raises(OtherManagerError):
            await Replica(transport, s.world.plane.inputs, alone, make_identity("alone", "uid")).run()


@pytest.mark.parametrize("ago", [-3600, 0, 3600], ids=["ahead", "equal", "behind"])
def test_it_does_not_start_beside_kueue_whatever_that_ones_clock(ago: float) -> None:
    @site
    async def story(s: Site) -> None:
        async with renewed(s.client, s.world.clock, "kueue-controller-manager-7d9_uid", ago=ago):
            first = await s.start("first")
            with pytest.raises(
                OtherManagerError, match="kueue-controller-manager-7d9_uid holds the Lease kueue-system/c1"
            ):
                await s.ended("first")
        assert not first.alone.is_set()
        assert s.cables["first"].writes == 0

    story()


@pytest.mark.parametrize("ago", [-3600, 16], ids=["ahead", "long ago"])
def test_where_kueue_was_killed_it_starts_once_the_leases_time_is_over_whatever_its_clock(ago: float) -> None:
    @site
    async def story(s: Site) -> None:
        await lease(s, "kueue-controller-manager-7d9_uid", ago)
        await s.start("first")
        assert await s.holder() == "kueue-controller-manager-7d9_uid"
        await s.world.settle(2 * 15)
        assert s.replicas["first"].began.is_set()
        assert await s.holder() == make_identity("first", "uid")

    story()


@site
async def test_one_that_waits_for_whether_kueue_works_ends_when_it_is_told_to(s: Site) -> None:
    await lease(s, "kueue-controller-manager-7d9_uid")
    first = await s.start("first")
    began = s.world.clock.monotonic()
    await first.stop()
    await s.ended("first")
    assert (s.world.clock.monotonic(), s.cables["first"].writes) == (began, 0)


@site
async def test_what_is_not_installed_is_said(s: Site) -> None:
    cable = Cable(InProcessTransport(s.world.plane.server))

    class Bare:
        """A server without Kueue's kinds."""

        async def request(self, request: Request) -> Response:
            if "/apis/kueue.x-k8s.io/" in request.path:
                return Response(404, b"404 page not found\n")
            return await cable.request(request)

        def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
            return cable.stream(request)

        async def close(self) -> None:
            await cable.close()

    replica = Replica(Bare(), s.world.plane.inputs, DEFAULT, make_identity("bare", "uid"))
    run = asyncio.create_task(replica.run())
    await s.world.settle(30)
    assert replica.unready().startswith("waiting for admissionchecks.kueue.x-k8s.io, clusterqueues.kueue.x-k8s.io")
    said = ": 404 page not found: the server does not serve /apis/kueue.x-k8s.io/v1beta2/admissionchecks"
    assert replica.unready().endswith(said), "the words of the server"
    await replica.stop()
    await run


def test_which_kinds_of_jobs_do_not_queue_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    @site
    async def story(s: Site) -> None:
        await s.start("first")

    with caplog.at_level("INFO", logger="muster.operator.replica"):
        story()
    assert "does not name jobset.x-k8s.io/jobset, pod: objects of these kinds do not queue" in caplog.text


@site
async def test_scrapers_need_the_right_and_are_asked_about_once_a_minute(s: Site) -> None:
    for name in ("prometheus", "other"):
        document = {"metadata": {"name": name}}
        await s.client.create(SERVICE_ACCOUNT, msgspec.convert(document, ServiceAccount), "default")
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    role = {"metadata": {"name": "scrapes"}, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrapes"}
    binding = {"metadata": {"name": "scrapes"}, "subjects": [subject], "roleRef": reference}
    await s.client.create(CLUSTER_ROLE.seen_as(dict), role)
    await s.client.create(CLUSTER_ROLE_BINDING.seen_as(dict), binding)
    tokens = [await s.token(name) for name in ("prometheus", "other")]
    cable = Cable(InProcessTransport(s.world.plane.server))
    scrapers = Scrapers(Client(cable), s.world.clock)
    wanted = [200, 403, 401, 401]
    assert [await scrapers.status(token, "/metrics") for token in (*tokens, "made up", "")] == wanted
    asked = cable.writes
    assert [await scrapers.status(token, "/metrics") for token in (*tokens, "made up", "")] == wanted
    assert cable.writes == asked
    await s.client.delete(CLUSTER_ROLE_BINDING, "scrapes")
    await s.world.settle(ANSWER_SECONDS)
    assert await scrapers.status(tokens[0], "/metrics") == 403
