"""The HTTPS front under load: who asks for too much waits or is told to come back, and nobody else notices."""

import asyncio
import gc
import json
import weakref

import pytest
from tests.system.apiserver.harness import DEFAULT, MAPS, config_map
from tests.system.apiserver.test_https_front import logged, over_https

from muster.cluster.apiserver.front import https, listener, sending
from muster.cluster.apiserver.front.flow import Limits
from muster.cluster.apiserver.front.sending import PIECE_BYTES
from muster.cluster.apiserver.front.unsent import BEHIND_BYTES, GIVE_BACK_BYTES, TLS_BYTES, Unsent
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import User
from muster.runtime.clock import RealClock

FEW = Limits(seats=4, room=64, streams=4, waiting=2, wait_seconds=10)
SHARE = 2  # of seats and streams, of a user who is alone
NOT_NOW = "Too many requests, please try again later."


def body(name, **options):
    return json.dumps(config_map(name, **options)).encode()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(https, "LIMITS", FEW)


def flow_of(world):
    return world.front.flow


async def stuck(world, count):
    """So many writes that cannot be committed."""
    world.journal.gate.clear()
    wires = [await world.connect() for _ in range(count)]
    for number, wire in enumerate(wires):
        wire.request("POST", MAPS, body(f"stuck{number}"))
        await until(lambda: sum(map(in_flow, flow_of(world).seats._users.values())) > number)  # noqa: B023
    return wires


def in_flow(user):
    return user.has + len(user.line)


def test_too_many_requests_of_one_user(few, tmp_path):
    @over_https
    async def scenario(world):
        first, second, waiting = await stuck(world, 3)
        refused = await (await world.connect()).ask("GET", f"{MAPS}/m")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (refused.json["reason"], refused.json["message"]) == ("TooManyRequests", NOT_NOW)
        posted = await (await world.connect()).ask("POST", MAPS, body("refused"))
        assert (posted.status, posted.headers.get("connection")) == (429, None)  # its body was read
        # Health is no resource, and another user has seats of her own.
        assert (await (await world.connect()).ask("GET", "/livez")).status == 200
        eve = Authority(world.directory / "pki", RealClock().now()).client("eve", User("eve", frozenset({"x"})))
        other = await world.connect(eve)
        assert (await other.ask("GET", f"{MAPS}/m")).status == 403
        world.journal.gate.set()
        assert [(await wire.answer()).status for wire in (first, second, waiting)] == [201, 201, 201]
        metrics = (await first.ask("GET", "/metrics")).body.decode()
        assert 'priority_level="global-default",reason="queue-full"} 2.0' in metrics
        await until(lambda: not flow_of(world).seats._users)
        await until(lambda: not flow_of(world).room._users)

    scenario(tmp_path)


def test_who_is_told_to_come_back_is_in_the_audit_log(few, tmp_path):
    @over_https
    async def scenario(world):
        await stuck(world, 3)
        events = logged(world)
        assert (await (await world.connect()).ask("POST", MAPS, body("refused"))).status == 429
        (event,) = events()
        assert (event["verb"], event["objectRef"]["resource"]) == ("create", "configmaps")
        assert (event["responseStatus"]["code"], event["responseStatus"]["reason"]) == (429, "TooManyRequests")
        world.journal.gate.set()

    scenario(tmp_path)


def test_who_hangs_up_leaves_the_line(few, tmp_path):
    @over_https
    async def scenario(world):
        *_, waiting = await stuck(world, 3)
        await waiting.close()
        users = flow_of(world).seats._users
        await until(lambda: all(in_flow(user) == SHARE for user in users.values()))
        world.journal.gate.set()
        await until(lambda: not users)
        assert world.plane.store.get(("configmaps", "default", "stuck2")) is None

    scenario(tmp_path)


def test_streams_have_a_limit_of_their_own(few, tmp_path):
    @over_https
    async def scenario(world):
        wires = [await world.connect() for _ in range(SHARE + 1)]
        for wire in wires[:-1]:
            wire.request("GET", f"{MAPS}?watch=1")
            assert (await wire.head())[0] == 200
        refused = await wires[-1].ask("GET", f"{MAPS}?watch=1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (await wires[-1].ask("GET", MAPS)).status == 200
        await wires[0].close()
        await until(lambda: flow_of(world)._streams.lent == 1)
        wires[-1].request("GET", f"{MAPS}?watch=1")
        assert (await wires[-1].head())[0] == 200

    scenario(tmp_path)


@over_https
async def test_how_long_a_request_may_take(world):
    """`timeout` is kubectl's `--request-timeout`; a watch has `timeoutSeconds` instead."""
    wire = await world.connect()
    for text, why in (("x", 'time: invalid duration "x"'), ("5", 'time: missing unit in duration "5"')):
        refused = await wire.ask("GET", f"{MAPS}?timeout={text}")
        assert refused.status == 400
        assert refused.json["message"] == f"invalid timeout specified in the request URL - {why}"
    assert (await wire.ask("GET", f"{MAPS}?timeout=0s")).status == 200
    assert (await wire.ask("GET", f"{MAPS}?timeout=1h")).status == 200
    world.journal.gate.clear()
    late = await wire.ask("POST", f"{MAPS}?timeout=50ms", body("m"))
    assert (late.status, late.json["message"]) == (504, "Timeout: request did not complete within the allotted timeout")
    assert "retry-after" not in late.headers  # it may have been done
    world.journal.gate.set()
    wire.request("GET", f"{MAPS}?watch=1&timeout=x")
    assert (await wire.head())[0] == 200


@over_https
async def test_lists_come_whole_however_long_they_are(world):
    wire = await world.connect()
    for number in range(8):
        assert (await wire.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
    for _ in range(2):
        answer = await wire.ask("GET", MAPS)
        assert len(answer.body) > 3 * sending.PIECE_BYTES
        assert [len(item["data"]["a"]) for item in answer.json["items"]] == [500_000] * 8


@over_https
async def test_a_deprecated_watch_path(world):
    wire, other = await world.connect(), await world.connect()
    wire.request("GET", "/api/v1/watch/namespaces/default/configmaps/m")
    assert (await wire.head())[0] == 200
    for name in ("n", "m"):
        await other.ask("POST", MAPS, body(name))
    assert json.loads(await wire.chunk())["object"]["metadata"]["name"] == "m"


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("deflate, gzip", True),
        ("gzip;q=0", False),
        ("x-gzip", False),
        ("identity", False),
        ("*", False),
    ],
)
@over_https
async def test_who_takes_gzip(world, accepted, packed):
    wire = await world.connect()
    assert (await wire.ask("POST", MAPS, body("m", data={"a": "x" * 200_000}))).status == 201
    answer = await wire.ask("GET", MAPS, accept_encoding=accepted)
    assert ("content-encoding" in answer.headers) is packed


class Client:
    """A connection, as far as it is counted."""

    def __init__(self):
        self.is_cut = False

    def abort(self):
        self.is_cut = True


def test_the_one_that_is_behind_for_longest_is_cut():
    unsent = Unsent(100)
    clients = [Client() for _ in range(4)]
    unsent.set_unsent(clients[0], 30)
    unsent.set_unsent(clients[1], 30)
    unsent.forget(clients[0])  # it has caught up, and falls behind again
    unsent.set_unsent(clients[2], 30)
    unsent.set_unsent(clients[0], 40)
    assert unsent.total == 100
    unsent.set_unsent(clients[3], 1)
    assert [client.is_cut for client in clients] == [False, True, False, False]
    assert unsent.total == 71
    unsent.forget(clients[1])
    assert unsent.total == 71
    unsent.set_unsent(clients[3], 1_000)  # more than all may have
    assert [client.is_cut for client in clients] == [True, True, True, True]
    assert unsent.total == 0


def test_who_owes_most_is_cut_and_not_who_is_behind_for_longest():
    unsent = Unsent(100)
    clients = [Client() for _ in range(6)]
    unsent.set_unsent(clients[0], 20, "ada")
    for client in clients[1:]:
        unsent.set_unsent(client, 20, "eve")
    assert [client.is_cut for client in clients] == [False, True, False, False, False, False]
    unsent.set_unsent(clients[5], 50, "eve")
    assert [client.is_cut for client in clients] == [False, True, True, True, False, False]
    assert unsent.total == 90


def test_memory_is_given_back_once_when_much_was_unsent_and_nothing_is():
    given_back = []
    unsent, client = Unsent(1 << 30, lambda: given_back.append(unsent.total)), Client()
    for size, times in ((GIVE_BACK_BYTES - 1, 0), (GIVE_BACK_BYTES, 1), (1, 1)):
        unsent.set_unsent(client, size)
        unsent.set_unsent(client, 0)
        assert given_back == [0] * times


def test_slow_watchers_together_have_a_budget(tmp_path, monkeypatch):
    limit = 3 << 20
    monkeypatch.setattr(listener, "MAX_UNSENT_BYTES", limit)

    @over_https
    async def scenario(world):
        writer, healthy = await world.connect(), await world.connect()
        for number in range(20):
            assert (await writer.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
        healthy.request("GET", f"{MAPS}?watch=1&resourceVersion={world.plane.store.revision}")
        assert (await healthy.head())[0] == 200
        slow = [await world.connect() for _ in range(16)]
        before = len(world.front._shared.connections)
        for wire in slow:
            wire.writer.transport.pause_reading()
            wire.request("GET", f"{MAPS}?watch=1")
        await until(lambda: len(world.front._shared.connections) < before)
        assert world.front._shared.unsent.total <= limit
        assert (await writer.ask("POST", f"{DEFAULT}/configmaps", body("last"))).status == 201
        assert json.loads(await healthy.chunk())["object"]["metadata"]["name"] == "last"
        for wire in slow:
            wire.writer.transport.abort()
        await until(lambda: world.front._shared.unsent.total == 0)

    scenario(tmp_path)


@over_https
async def test_a_slow_watch_of_large_objects_keeps_a_few_pieces(world):
    """The bodies are the store's: a piece of one is made once the client has taken the piece before."""
    writer, slow = await world.connect(), await world.connect()
    for number in range(20):
        assert (await writer.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
    slow.writer.transport.pause_reading()
    slow.request("GET", f"{MAPS}?watch=1")
    unsent = world.front._shared.unsent
    await until(lambda: unsent.total)
    assert TLS_BYTES < unsent.total <= TLS_BYTES + BEHIND_BYTES + 2 * PIECE_BYTES
    slow.writer.transport.abort()
    await until(lambda: not unsent.total)


@over_https
async def test_the_buffers_of_a_connection_go_with_it(world):
    """Not when the collector comes round, which may be never."""
    client = await world.connect()
    assert (await client.ask("GET", "/healthz")).status == 200
    (connection,) = world.front._shared.connections
    transport = weakref.ref(connection.transport)
    del connection
    gc.disable()
    try:
        client.writer.transport.abort()
        await until(lambda: transport() is None)
    finally:
        gc.enable()


def test_slow_readers_hold_up_none_of_their_users_requests(few, tmp_path):
    """Seats are for working on an answer; lists have places of their own until they are read."""

    @over_https
    async def scenario(world):
        writer = await world.connect()
        for number in range(20):
            assert (await writer.ask("POST", MAPS, body(f"m{number}", data={"a": "x" * 500_000}))).status == 201
        slow = [await world.connect() for _ in range(4)]
        for wire in slow:
            wire.writer.transport.pause_reading()
            wire.request("GET", MAPS)
        await until(lambda: flow_of(world).lists.waiting == 1)  # FEW.waiting allows no more
        await until(lambda: world.front._shared.unsent.total > 1_000_000)
        assert not flow_of(world).seats._users
        assert (await writer.ask("GET", f"{MAPS}/m0")).status == 200
        for wire in slow:
            wire.writer.transport.abort()
        await until(lambda: world.front._shared.unsent.total == 0 and not flow_of(world).lists._users)

    scenario(tmp_path)
