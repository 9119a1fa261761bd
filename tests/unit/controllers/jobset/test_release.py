"""Where barriers wait for their word: it reaches them all, and strangers get nothing and hold up nothing."""

import asyncio
import resource
import socket

import pytest

from muster.api.config.types import GroupScheduling
from muster.controllers.jobset import release
from muster.controllers.jobset.release import Release
from muster.runtime.ids import Random

LIMIT = 20.0


def play(story):
    async def body():
        found = Release(GroupScheduling(bind_address="127.0.0.1:0"), Random())
        await found.listen()
        try:
            async with asyncio.timeout(LIMIT):
                await story(found)
        finally:
            found.close()

    asyncio.run(body())


class Peer:
    """One who connects."""

    def __init__(self, found, uid="uid"):
        self.host, self.port, self.secret = found.make_endpoint_line(uid).split()

    async def connect(self):
        self.reader, self.writer = await asyncio.open_connection(self.host, int(self.port))
        return self

    async def say(self, line):
        self.writer.write(line)
        await self.writer.drain()
        return self

    async def wait_for(self, epoch):
        return await self.say(f"{epoch} {self.secret}\n".encode())

    async def hears(self):
        """All that comes, up to the end."""
        try:
            found = await self.reader.read()
        except ConnectionResetError:
            found = b""
        self.writer.close()
        return found


async def waiting(found, uid, count):
    while len(found._groups[uid].waiting) != count:
        await asyncio.sleep(0.01)


async def waiter(found, epoch, uid="uid"):
    return await (await Peer(found, uid).connect()).wait_for(epoch)


def test_the_word_reaches_all_who_wait_and_all_who_come_later():
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 200)
        peers = [await waiter(found, 3) for _ in range(200)]
        await waiting(found, "uid", 200)
        assert found.release_group("uid", 3) == 200
        peers.append(await waiter(found, 3))
        assert {await peer.hears() for peer in peers} == {b"started uid 3\n"}

    play(story)


def test_the_word_is_for_one_group():
    async def story(found):
        for uid in ("uid", "other"):
            found.make_endpoint_line(uid)
            found.set_epoch(uid, 3, 1)
        other = await waiter(found, 3, "other")
        await waiting(found, "other", 1)
        assert found.release_group("uid", 3) == 0
        found.forget("other")
        assert await other.hears() == b""

    play(story)


@pytest.mark.parametrize("epoch", [2, 4, "03"])
def test_the_word_is_for_one_epoch(epoch):
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 1)
        assert await (await waiter(found, epoch)).hears() == b""
        found.release_group("uid", 3)
        assert await (await waiter(found, epoch)).hears() == b""

    play(story)


@pytest.mark.parametrize("told", [False, True])
def test_barriers_of_an_earlier_epoch_do_not_stay(told):
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 2)
        early = await waiter(found, 3)
        await waiting(found, "uid", 1)
        if told:
            assert found.release_group("uid", 4) == 0
        else:
            found.set_epoch("uid", 4, 2)
        assert await early.hears() == b""

    play(story)


def test_a_new_epoch_is_not_released_by_the_one_before():
    async def story(found):
        found.make_endpoint_line("uid")
        found.release_group("uid", 3)
        found.set_epoch("uid", 4, 1)
        late = await waiter(found, 4)
        await waiting(found, "uid", 1)
        assert found.release_group("uid", 4) == 1
        assert await late.hears() == b"started uid 4\n"

    play(story)


def test_a_look_at_a_released_group_keeps_it_released():
    async def story(found):
        found.make_endpoint_line("uid")
        found.release_group("uid", 3)
        found.set_epoch("uid", 3, 1)
        assert await (await waiter(found, 3)).hears() == b"started uid 3\n"

    play(story)


def test_a_group_has_room_for_its_pods_and_the_oldest_go():
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 2)
        peers = []
        for count in range(1, 5):
            peers.append(await waiter(found, 3))
            await waiting(found, "uid", count)
        peers.append(await waiter(found, 3))
        assert await peers[0].hears() == b""
        found.set_epoch("uid", 3, 1)
        assert [await peer.hears() for peer in peers[1:3]] == [b"", b""]
        assert found.release_group("uid", 3) == 2
        assert {await peer.hears() for peer in peers[3:]} == {b"started uid 3\n"}

    play(story)


@pytest.mark.parametrize(
    "line",
    [b"\n", b"3\n", b"3 uid.wrong\n", b"3 uid\n", b"\xff\xfe \x00\n", b"-1 uid.x\n", b"GET / HTTP/1.1\r\n", b"9" * 200],
)
def test_what_does_not_say_for_what_it_waits_hears_nothing(line):
    async def story(found):
        peer = await Peer(found).connect()
        found.release_group("uid", 3)
        assert await (await peer.say(line)).hears() == b""

    play(story)


def test_a_secret_is_of_one_group():
    async def story(found):
        stranger = Peer(found, "other")
        found.make_endpoint_line("uid")
        found.release_group("uid", 3)
        proof = stranger.secret.partition(".")[2]
        assert await (await (await stranger.connect()).say(f"3 uid.{proof}\n".encode())).hears() == b""

    play(story)


def test_the_next_controller_knows_the_secret_that_pods_have_mounted():
    lines = []

    async def first(found):
        lines.append(found.make_endpoint_line("uid"))

    async def next_one(found):
        host, port, secret = found.make_endpoint_line("uid", lines[0]).split()
        assert secret == lines[0].split()[2]
        found.set_epoch("uid", 3, 1)
        peer = await waiter(found, 3)
        await waiting(found, "uid", 1)
        found.release_group("uid", 3)
        assert await peer.hears() == b"started uid 3\n"
        assert found.make_endpoint_line("uid", f"{host} {port} uid.{'0' * 32}").split()[2] == secret, (
            "what users write is not taken"
        )

    play(first)
    play(next_one)


@pytest.mark.parametrize(
    "said", ["", "h 1 uid.", "h 1 uid.x", f"h 1 other.{'a' * 32}", "a" * 32, f"h 1 uid.{'A' * 32}"]
)
def test_what_is_no_secret_of_the_group_is_not_taken(said):
    async def story(found):
        _, _, secret = found.make_endpoint_line("uid", said).split()
        assert secret not in said or not said
        assert len(secret) == len("uid.") + 32

    play(story)


def test_the_silent_are_sent_away_and_there_is_room_for_so_many(monkeypatch):
    monkeypatch.setattr(release, "MOST_WAITING", 10)

    async def story(found):
        silent = [await Peer(found).connect() for _ in range(5)]
        while len(found._unknown) < 5:
            await asyncio.sleep(0.01)
        assert await (await Peer(found).connect()).hears() == b""
        for peer in silent[:1]:
            peer.writer.close()
        while len(found._unknown) == 5:
            await asyncio.sleep(0.01)
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 1, 1)
        served = await waiter(found, 1)
        await waiting(found, "uid", 1)
        found.release_group("uid", 1)
        assert await served.hears() == b"started uid 1\n"
        for peer in silent[1:]:
            peer.writer.close()

    play(story)


def test_there_is_room_for_so_many_in_all(monkeypatch):
    monkeypatch.setattr(release, "MOST_WAITING", 8)

    async def story(found):
        peers = []
        for uid in ("uid", "other"):
            found.make_endpoint_line(uid)
            found.set_epoch(uid, 1, 1000)
            peers += [await waiter(found, 1, uid) for _ in range(4)]
            await waiting(found, uid, 4)
        assert await (await Peer(found).connect()).hears() == b""
        for peer in peers:
            peer.writer.close()

    play(story)


def test_half_of_the_files_are_left_to_others():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    async def story(found):
        assert found._most == 128

    try:
        play(story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_silent_do_not_stay(monkeypatch):
    monkeypatch.setattr(release, "PATIENCE_SECONDS", 0.05)

    async def story(found):
        assert await (await Peer(found).connect()).hears() == b""
        assert not found._connections

    play(story)


def test_a_peer_whose_machine_has_gone_is_asked_for():
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 1)
        peer = await waiter(found, 3)
        await waiting(found, "uid", 1)
        [connection] = found._connections
        kept = connection._transport.get_extra_info("socket")
        assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert tuple(kept.getsockopt(socket.IPPROTO_TCP, option) for option in options) == release.KEEPALIVE
        peer.writer.close()

    play(story)


def test_what_says_more_than_there_is_to_say_goes():
    async def story(found):
        found.make_endpoint_line("uid")
        found.set_epoch("uid", 3, 1)
        peer = await waiter(found, 3)
        await waiting(found, "uid", 1)
        assert await (await peer.say(b"more\n")).hears() == b""
        assert not found._groups["uid"].waiting

    play(story)


def test_without_an_address_there_is_no_endpoint():
    async def body():
        found = Release(GroupScheduling(), Random())
        await found.listen()
        assert found.make_endpoint_line("uid") == ""
        found.set_epoch("uid", 1, 1)
        assert found.release_group("uid", 1) == 0
        found.close()

    asyncio.run(body())
