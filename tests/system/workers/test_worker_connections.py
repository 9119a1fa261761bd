"""The connections of a manager to its workers, in virtual time: found, lost, and found again."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.system.queueing.queueing_world import workload
from tests.system.workers.worker_world import KEEPING, Spoil, Workers, managed, status, with_workers

from muster.api.batch import JOB
from muster.api.config.types import ClientConnection
from muster.api.core import EVENT, SECRET
from muster.api.jobset import JOB_SET
from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD
from muster.api.managed.dispatch import HOME_ANNOTATION
from muster.multicluster.links import copies
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.reach import LIMITS, ping_seconds
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError

ORIGIN = {"labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"}}


def remote(world: Workers, name: str = "one") -> RemoteCluster:
    found = world.fleet.get(name)
    assert found is not None
    return found


async def join(world: Workers, name: str = "one") -> None:
    await world.secret(name)
    await world.cluster(name)
    await world.until_active(name)


@with_workers("one")
async def test_a_worker_is_connected_once_its_copies_are_complete(world: Workers) -> None:
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await workload(world.workers["one"], "of-the-worker", "q")
    await join(world)
    assert await world.active("one") == ("True", "Active", "Connected")
    assert remote(world).lost_since is None
    assert [found.metadata.name for found in remote(world).workloads()] == ["clone"]
    assert remote(world).workload("default/of-the-worker") is None
    [event] = [e for e in (await world.manager.client.list(EVENT)).items if e.involved_object.name == "one"]
    assert (event.type, event.reason, event.message) == ("Normal", "Active", "Connected")


@with_workers("one")
async def test_events_say_when_a_worker_is_lost_and_when_it_is_back_and_not_each_attempt_between(
    world: Workers,
) -> None:
    await join(world)
    world.lines["one"].cut()
    await world.until_active("one", "ClientConnectionFailed")
    await world.manager.settle(60)
    world.lines["one"].mend()
    await world.until_active("one")
    await world.manager.settle(1)
    told: Counter[tuple[str, str]] = Counter()
    for event in (await world.manager.client.list(EVENT)).items:
        if event.involved_object.name == "one":
            told[event.type, event.reason] += event.count or 1
    assert told == {("Normal", "Active"): 2, ("Warning", "ClientConnectionFailed"): 1}


@with_workers("one")
async def test_what_changes_in_a_worker_is_told_by_the_workload_that_it_is_about(world: Workers) -> None:
    told: list[str] = []
    await join(world)
    world.fleet.on_change(told.append)
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await workload(world.workers["one"], "of-the-worker", "q")
    await world.manager.settle(1)
    assert set(told) == {"default/clone"}
    told.clear()
    world.lines["one"].cut()
    await world.until_active("one", "ClientConnectionFailed")
    assert told == ["default/clone"]
    await world.workers["one"].client.delete(WORKLOAD, "clone", "default")
    world.lines["one"].mend()
    await world.until_active("one")
    assert told == ["default/clone"] * 2


@pytest.mark.parametrize(
    ("annotations", "status"),
    [
        pytest.param({}, {"nominatedClusterNames": ["one"]}, id="it is tried there"),
        pytest.param({HOME_ANNOTATION: "one"}, {}, id="it was evicted, and may have something left there"),
    ],
)
def test_a_workload_that_should_have_something_in_a_worker_is_told_of_when_that_is_back(
    annotations: dict[str, str], status: dict[str, Any]
) -> None:
    async def body() -> None:
        async with managed() as world:
            told: list[str] = []
            await join(world)
            world.lines["one"].cut()
            await world.until_active("one", "ClientConnectionFailed")
            await workload(world.manager, "mine", "q", metadata={"annotations": annotations})
            await workload(world.manager, "other", "q")
            await world.manager.client.patch(WORKLOAD, "mine", {"status": status}, "default", subresource="status")
            world.fleet.on_change(told.append)
            world.lines["one"].mend()
            await world.until_active("one")
            assert set(told) == {"default/mine"}

    run_virtual(body())


@pytest.mark.parametrize(("seconds", "is_lost"), [(2, True), (10, False), (299, False), (400, False)])
def test_a_watch_that_is_begun_again_at_once_and_lasts_is_no_loss(seconds: float, is_lost: bool) -> None:
    async def body() -> None:
        async with managed() as world:
            stands: list[str] = []
            await join(world)
            await world.manager.settle(100)
            world.fleet.on_standing(stands.append)
            for _ in range(30):
                world.lines["one"].break_streams()
                await world.manager.settle(seconds)
            await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
            await world.manager.settle(1000)
            assert remote(world).workload("default/clone") is not None
            assert (stands != []) == is_lost

    run_virtual(body())


@with_workers("one")
async def test_a_worker_that_comes_and_goes_is_lost_since_it_went_last(world: Workers) -> None:
    await join(world)
    for _ in range(5):
        world.lines["one"].cut()
        await world.until_active("one", "ClientConnectionFailed", "attempts")
        world.lines["one"].mend()
        await world.until_active("one")
        await world.manager.settle(10)
    went = world.manager.clock.now()
    world.lines["one"].cut()
    await world.until_active("one", "ClientConnectionFailed")
    since = remote(world).lost_since
    assert since is not None
    assert went <= since < went + timedelta(seconds=5)


@with_workers("one")
async def test_a_lost_worker_keeps_what_was_known_and_is_tried_less_and_less_often(world: Workers) -> None:
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await join(world)
    await world.manager.settle(100)
    began = world.manager.clock.now()
    world.lines["one"].cut()
    messages = [await world.until_active("one", "ClientConnectionFailed", f"attempts: {n}") for n in range(1, 4)]
    lost = remote(world).lost_since
    assert lost is not None
    assert timedelta(0) <= lost - began < timedelta(seconds=2)
    assert [found.metadata.name for found in remote(world).workloads()] == ["clone"]
    assert "the line is cut; connection attempts: 3, next connection attempt: 2026-01-01T00:0" in messages[2]
    await world.manager.settle(4000)
    world.lines["one"].mend()
    await world.until_active("one")
    assert remote(world).lost_since is None


@with_workers("one")
async def test_a_worker_that_says_nothing_any_more_is_noticed(world: Workers) -> None:
    await join(world)
    world.lines["one"].mute()
    await world.until_active("one", "ClientConnectionFailed")
    world.lines["one"].mend()
    await world.until_active("one")


@with_workers("one")
async def test_a_worker_that_takes_its_time_to_be_followed_again_is_lost_since_it_was_followed(world: Workers) -> None:
    await join(world)
    await world.manager.settle(100)
    went = world.manager.clock.now()
    world.lines["one"].seconds = lambda _request: 1000.0
    world.lines["one"].break_streams()
    await world.until_active("one", "ClientConnectionFailed", "not followed again within 60 s")
    since = remote(world).lost_since
    assert since is not None
    assert timedelta(0) <= since - went < timedelta(seconds=1)
    assert world.manager.clock.now() - went < timedelta(seconds=70)


@with_workers("one")
async def test_a_worker_that_never_answers_holds_nothing_up(world: Workers) -> None:
    world.lines["one"].mute()
    await world.secret("one")
    await world.cluster("one")
    await world.until_active("one", "ClientConnectionFailed", "attempts: 2")
    assert remote(world).lost_since is not None


def refusing(code: int, reason: str, part: str = "") -> Spoil:
    return lambda request: status(code, reason) if part in request.path else None


def chattering(_request: Request) -> Response:
    """A refusal with more words than are good for logs."""
    return status(500, "InternalError", "first\nsecond\x1b[31m" + "x" * 1_000_000)


def odd(_request: Request) -> Response:
    """What no part of ours expects."""
    raise RuntimeError("odd")


def saying(body: bytes, *, watches: bool) -> Spoil:
    def spoil(request: Request) -> Response | None:
        return Response(200, body) if (request.query.get("watch") == "true") == watches else None

    return spoil


def endless(request: Request) -> Response:
    """A list that has always one more page."""
    return Response(200, json.dumps({"metadata": {"continue": "more"}, "items": [{}] * 20_000}).encode())


def empty(request: Request) -> Response | None:
    """A list without objects that has always one more page."""
    return Response(200, b'{"metadata": {"continue": "more"}}') if "limit" in request.query else None


def crowded(_request: Request) -> Response:
    """What would take a hundred times as much to read."""
    return Response(200, b'{"items":[' + b",".join([b"{}"] * 1_000_000) + b"]}")


def lying(request: Request) -> Response | None:
    """Objects of others, and of ours with odd names."""
    if request.query.get("watch") == "true" or not request.path.endswith("/workloads"):
        return None
    items = [
        {"metadata": {"name": "a", "namespace": "default", "uid": "1", **labels}}
        for labels in ({}, {"labels": {"kueue.x-k8s.io/multikueue-origin": "another"}})
    ]
    return Response(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (refusing(401, "Unauthorized"), "the cluster does not know the user of the kubeconfig"),
        (refusing(403, "Forbidden", "/workloads"), "Forbidden"),
        (refusing(404, "NotFound", "/workloads"), "the cluster serves no workloads.kueue.x-k8s.io at v1beta2"),
        (refusing(500, "InternalError"), "InternalError"),
        (saying(b"", watches=False), "is not a"),
        (saying(b"\x00\xff", watches=False), "is not a"),
        (saying(b"[" * 100_000, watches=False), "is not a"),
        (saying(b'{"items": {"a": 1}}', watches=False), "is not a"),
        (saying(b'{"items": [{"metadata": {"name": 7}}]}', watches=False), "is not a"),
        (odd, "its answers cannot be used: RuntimeError: odd"),
        (chattering, "first second [31mxxx"),
        (endless, "the server lists more than 200000"),
        (empty, "always says that there are more"),
        (crowded, "the server sent more than 500000 parts at once"),
    ],
)
def test_a_worker_that_answers_nonsense_is_not_connected_and_harms_nothing(spoil: Spoil, message: str) -> None:
    async def body() -> None:
        async with managed(("one", "two")) as world:
            world.lines["one"].spoil = spoil
            await world.secret("one")
            await world.cluster("one")
            said = await world.until_active("one", "ClientConnectionFailed", message)
            assert said.isprintable()
            assert len(said) < 1000
            await join(world, "two")

    run_virtual(body())


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"{}\n",
        b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
        b'{"type":"ERROR","object":7}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_worker_that_streams_nonsense_harms_nothing(line: bytes) -> None:
    async def body() -> None:
        async with managed(("one", "two")) as world:
            await join(world)
            world.lines["one"].spoil = saying(line, watches=True)
            world.lines["one"].break_streams()
            await world.manager.settle(600)
            await join(world, "two")
            world.lines["one"].spoil = lambda _: None
            await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
            await world.manager.settle(700)
            assert remote(world).workload("default/clone") is not None

    run_virtual(body())


@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_kept_of_a_worker_has_an_end(monkeypatch: pytest.MonkeyPatch, labelled: bool) -> None:
    monkeypatch.setattr(copies, "LIMITS", replace(LIMITS, size=20_000))

    def unasked(request: Request) -> Response | None:
        """Objects of others, one by one."""
        if request.query.get("watch") != "true" or not request.path.endswith("/workloads"):
            return None
        metas = (
            {"name": f"w{n}", "namespace": "default", "uid": f"{n}", "resourceVersion": "9999"} for n in range(999)
        )
        lines = (json.dumps({"type": "ADDED", "object": {"metadata": meta}}) + "\n" for meta in metas)
        return Response(200, "".join(lines).encode())

    async def body() -> None:
        async with managed() as world:
            await join(world)
            if labelled:
                for number in range(60):
                    await workload(world.workers["one"], f"w{number}", "q", metadata=ORIGIN)
            else:
                world.lines["one"].spoil = unasked
                world.lines["one"].break_streams()
            await world.until_active("one", "ClientConnectionFailed", "what it has of ours takes more than 0 MiB")

    run_virtual(body())


@with_workers("one")
async def test_what_is_replaced_or_gone_takes_no_room(world: Workers) -> None:
    worker = world.workers["one"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "LIMITS", replace(LIMITS, size=20_000))
        await join(world)
        for number in range(60):
            await workload(worker, f"w{number}", "q", metadata=ORIGIN)
            await worker.client.patch(WORKLOAD, f"w{number}", {"spec": {"priority": number}}, "default")
            await world.manager.settle(1)
            await worker.client.delete(WORKLOAD, f"w{number}", "default")
            await world.manager.settle(1)
        assert await world.active("one") == ("True", "Active", "Connected")


def broken(_request: Request) -> Response:
    raise TransportError("reset")


def ended(_request: Request) -> Response:
    """A stream without a word."""
    return Response(200, b"\n")


FOLLOWED_KINDS = 6  # workloads, three kinds of jobs and pods, and two kinds of queues


@pytest.mark.parametrize("answer", [broken, ended, refusing(500, "InternalError"), refusing(410, "Expired")])
def test_a_worker_whose_watches_do_not_last_is_asked_less_and_less_often(answer: Spoil) -> None:
    async def body() -> None:
        async with managed() as world:
            asked: list[str] = []

            def spoil(request: Request) -> Response | None:
                asked.append(request.path)
                return answer(request) if request.query.get("watch") == "true" else None

            await join(world)
            world.lines["one"].spoil = spoil
            world.lines["one"].break_streams()
            await world.manager.settle(600)
            asked.clear()
            await world.manager.settle(3600)
            assert len(asked) < 300 * FOLLOWED_KINDS

    run_virtual(body())


@with_workers("one")
async def test_what_a_worker_sends_that_is_not_ours_is_not_seen(world: Workers) -> None:
    world.lines["one"].spoil = lying
    await join(world)
    assert remote(world).workloads() == []
    assert remote(world).workload("default/a") is None
    assert remote(world).keys() == set()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (refusing(404, "NotFound", "/jobsets"), "Connected"),
        (refusing(403, "Forbidden", "/jobsets"), "Connected; Forbidden"),
    ],
)
def test_a_worker_need_not_serve_every_kind_of_job(spoil: Spoil, message: str) -> None:
    async def body() -> None:
        async with managed() as world:
            stands: list[str] = []
            world.lines["one"].spoil = spoil
            await join(world)
            await world.manager.settle(600)
            assert await world.active("one") == ("True", "Active", message)
            assert (remote(world).serves(JOB), remote(world).serves(JOB_SET)) == (True, False)
            world.fleet.on_standing(stands.append)
            world.lines["one"].spoil = lambda _: None
            await world.manager.settle(100)
            assert await world.active("one") == ("True", "Active", "Connected")
            assert remote(world).serves(JOB_SET)
            assert stands == ["one"]

    run_virtual(body())


@with_workers("one")
async def test_an_expired_token_shows_when_a_watch_is_begun_again_and_a_new_one_is_used_at_once(world: Workers) -> None:
    await join(world)
    world.lines["one"].token = "better"
    await world.manager.settle(60)
    assert remote(world).lost_since is None
    world.lines["one"].break_streams()
    await world.until_active("one", "ClientConnectionFailed", "does not know the user")
    await world.manager.settle(1000)
    await world.secret("one", token="better")
    await world.manager.settle(1)
    assert await world.active("one") == ("True", "Active", "Connected")


@with_workers("one")
async def test_credentials_are_renewed_without_a_loss(world: Workers) -> None:
    stands: list[str] = []
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await join(world)
    world.fleet.on_standing(stands.append)
    world.lines["one"].token = "better"
    await world.secret("one", token="better")
    await world.manager.settle(5)
    assert stands == []
    assert remote(world).workload("default/clone") is not None
    await workload(world.workers["one"], "another", "q", metadata=ORIGIN)
    await world.manager.settle(1)
    assert remote(world).workload("default/another") is not None


@with_workers("one", "two")
async def test_what_was_known_of_a_server_stays_until_another_is_connected_in_its_place(world: Workers) -> None:
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await join(world)
    world.lines["two"].cut()
    await world.secret("one", server="https://two")
    await world.until_active("one", "ClientConnectionFailed")
    assert remote(world).workload("default/clone") is not None
    assert remote(world).lost_since is not None
    world.lines["two"].mend()
    await world.until_active("one")
    assert remote(world).workloads() == []


@pytest.mark.parametrize(("ahead", "seconds"), [(0, 0), (0, 30), (200, 30)])
def test_a_worker_that_comes_back_with_another_store_is_read_anew(ahead: int, seconds: float) -> None:
    """Its versions are lower than they were, or higher, if it was away for a while as servers are that start."""

    async def body() -> None:
        async with managed(("one", "two")) as world:
            for number in range(100):
                await workload(world.workers["one"], f"w{number}", "q", metadata=ORIGIN)
            for number in range(ahead):
                await workload(world.workers["two"], f"noise{number}", "q")
            await workload(world.workers["two"], "of-the-other-store", "q", metadata=ORIGIN)
            await join(world)
            await world.manager.settle(100)
            if seconds:
                world.lines["one"].cut()
                await world.manager.settle(seconds)
            world.lines["one"].lead_to(world.workers["two"].plane)
            await world.manager.settle(700)
            await workload(world.workers["two"], "new", "q", metadata=ORIGIN)
            await world.manager.settle(10)
            assert sorted(one.metadata.name for one in remote(world).workloads()) == ["new", "of-the-other-store"]

    run_virtual(body())


@with_workers("one")
async def test_a_kubeconfig_that_is_taken_away_loses_the_worker(world: Workers) -> None:
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await world.cluster("one")
    assert await world.until_active("one", "BadKubeConfig") == 'load client config failed: Secret "one" not found'
    await world.secret("one")
    await world.until_active("one")
    await world.manager.client.patch(SECRET, "one", {"data": None}, "kueue-system")
    said = await world.until_active("one", "BadKubeConfig", "key")
    assert said == 'load client config failed: key "kubeconfig" not found in secret "one"'
    assert remote(world).lost_since is not None
    assert remote(world).workload("default/clone") is not None
    await world.secret("one", insecure=True)
    said = await world.until_active("one", "InsecureKubeConfig")
    assert "insecure-skip-tls-verify is not allowed" in said
    await world.secret("one")
    await world.until_active("one")


@with_workers("one")
async def test_a_worker_goes_with_its_cluster(world: Workers) -> None:
    told: list[str] = []
    await workload(world.workers["one"], "clone", "q", metadata=ORIGIN)
    await join(world)
    world.fleet.on_change(told.append)
    await world.manager.client.delete(MULTI_KUEUE_CLUSTER, "one")
    await world.manager.settle(1)
    assert world.fleet.get("one") is None
    assert world.lines["one"].transports == 0
    assert told == ["default/clone"]


@pytest.mark.parametrize(
    ("gates", "reason", "message"),
    [
        (
            {},
            "MultiKueueClusterProfileFeatureDisabled",
            "load client config failed: MultiKueueClusterProfile feature gate is disabled",
        ),
        (
            {"MultiKueueClusterProfile": True},
            "BadClusterProfile",
            'load client config failed: clusterprofiles.multicluster.x-k8s.io "p" not found',
        ),
    ],
)
def test_a_cluster_profile_is_needed_that_is_not_there(gates: dict[str, bool], reason: str, message: str) -> None:
    async def body() -> None:
        async with managed(configuration=replace(KEEPING, feature_gates=gates)) as world:
            await world.cluster("one", clusterProfileRef={"name": "p"})
            assert await world.until_active("one", reason) == message

    run_virtual(body())


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, 0),
        (ClientConnection(qps=-1, burst=1), 0),
        (ClientConnection(qps=0.5, burst=4), 10),
        (ClientConnection(qps=0, burst=0), 0),
    ],
)
def test_requests_to_a_worker_are_paced_where_that_is_said(said: ClientConnection | None, seconds: float) -> None:
    async def body() -> None:
        async with managed(configuration=replace(KEEPING, client_connection=said)) as world:
            began = world.manager.clock.monotonic()
            await join(world)  # a list and a watch of each kind
            assert seconds <= world.manager.clock.monotonic() - began < seconds + 5

    run_virtual(body())


@with_workers("one", "two")
async def test_a_check_follows_its_configuration_and_its_clusters(world: Workers) -> None:
    seen: list[tuple[str, str, str]] = []

    async def note() -> None:
        await world.manager.settle(2)
        seen.append(await world.of_check())

    await world.check("one", "two")
    await note()
    await join(world)
    await note()
    await join(world, "two")
    await note()
    world.lines["one"].cut()
    await world.until_active("one", "ClientConnectionFailed")
    await note()
    await world.manager.client.delete(MULTI_KUEUE_CLUSTER, "two")
    await note()
    assert seen == [
        ("False", "NoUsableClusters", "Missing clusters: [one two]"),
        ("True", "SomeActiveClusters", "Missing clusters: [two]"),
        ("True", "Active", "The admission check is active"),
        ("True", "SomeActiveClusters", "Inactive clusters: [one]"),
        ("False", "NoUsableClusters", "Missing clusters: [two], Inactive clusters: [one]"),
    ]


@with_workers("one")
async def test_an_idle_manager_writes_nothing(world: Workers) -> None:
    await world.check("one")
    await join(world)
    await world.manager.settle(100)
    before = world.manager.plane.store.revision, world.workers["one"].plane.store.revision
    await world.manager.settle(3600)
    assert (world.manager.plane.store.revision, world.workers["one"].plane.store.revision) == before


def with_lost_timeout(seconds: float):
    return replace(KEEPING, multi_kueue=replace(KEEPING.multi_kueue, worker_lost_timeout=int(seconds * 1e9)))


@with_workers("one", configuration=with_lost_timeout(15))
async def test_a_frozen_worker_is_lost_well_within_the_time_after_which_its_jobs_are_given_up(world: Workers) -> None:
    """A stopped process keeps its connections: its streams are silent, and nothing is answered."""
    await join(world)
    clock = world.manager.plane.inputs.clock
    await clock.sleep(100)
    assert remote(world).lost_since is None
    frozen = clock.now()
    world.lines["one"].mute()
    said = await world.until_active("one", "ClientConnectionFailed")
    assert "it does not answer: GET /version: no answer" in said
    assert clock.now() - frozen <= timedelta(seconds=15 / 4 + 5.5)
    assert remote(world).lost_since is not None
    world.lines["one"].mend()
    await world.until_active("one")


@with_workers("one", configuration=with_lost_timeout(15))
async def test_a_worker_that_refuses_to_say_its_version_answers(world: Workers) -> None:
    world.lines["one"].spoil = lambda request: status(403, "Forbidden") if request.path == "/version" else None
    await join(world)
    await world.manager.plane.inputs.clock.sleep(60)
    assert remote(world).lost_since is None


@pytest.mark.parametrize(("lost", "pings"), [(0, 2.0), (4, 2.0), (15, 3.75), (300, 75.0), (360, None), (900, None)])
def test_workers_are_asked_as_often_as_their_loss_is_to_be_known(lost: float, pings: float | None) -> None:
    assert ping_seconds(lost) == pings
