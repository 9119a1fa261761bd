"""Where barriers wait for their word: it reaches them all, and strangers get nothing and hold up nothing."""

import asyncio

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
    """Somebody who connects."""

    def __init__(self, found, uid="uid"):
        self.host, self.port, self.secret = found.endpoint(uid).split()

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


async def waiting(found, uid, epoch, count):
    while len(found._waiting.get((uid, epoch), ())) < count:
        await asyncio.sleep(0.01)


def test_the_word_reaches_all_who_wait_and_all_who_come_later():
    async def story(found):
        peers = [await (await Peer(found).connect()).wait_for(3) for _ in range(200)]
        await waiting(found, "uid", 3, 200)
        assert found.open("uid", 3) == 200
        peers.append(await (await Peer(found).connect()).wait_for(3))
        assert {await peer.hears() for peer in peers} == {b"started 3\n"}

    play(story)


def test_the_word_is_for_one_epoch_of_one_group():
    async def story(found):
        others = [
            await (await Peer(found).connect()).wait_for(4),
            await (await Peer(found, "other").connect()).wait_for(3),
        ]
        await waiting(found, "uid", 4, 1)
        await waiting(found, "other", 3, 1)
        assert found.open("uid", 3) == 0
        found.forget("uid")
        found.forget("other")
        assert [await peer.hears() for peer in others] == [b"", b""]

    play(story)


@pytest.mark.parametrize(
    "line",
    [b"\n", b"3\n", b"3 uid.wrong\n", b"3 uid\n", b"\xff\xfe \x00\n", b"-1 uid.x\n", b"GET / HTTP/1.1\r\n", b"9" * 200],
)
def test_who_does_not_say_for_whom_he_waits_hears_nothing(line):
    async def story(found):
        found.open("uid", 3)
        assert await (await (await Peer(found).connect()).say(line)).hears() == b""

    play(story)


def test_a_secret_is_of_one_group():
    async def story(found):
        stranger = Peer(found, "other")
        found.open("uid", 3)
        proof = stranger.secret.partition(".")[2]
        assert await (await (await stranger.connect()).say(f"3 uid.{proof}\n".encode())).hears() == b""

    play(story)


def test_the_silent_are_sent_away_and_there_is_room_for_so_many(monkeypatch):
    monkeypatch.setattr(release, "MOST_UNKNOWN", 5)

    async def story(found):
        silent = [await Peer(found).connect() for _ in range(5)]
        while len(found._unknown) < 5:
            await asyncio.sleep(0.01)
        assert await (await Peer(found).connect()).hears() == b""
        for peer in silent[:1]:
            peer.writer.close()
        while len(found._unknown) == 5:
            await asyncio.sleep(0.01)
        served = await (await Peer(found).connect()).wait_for(1)
        await waiting(found, "uid", 1, 1)
        found.open("uid", 1)
        assert await served.hears() == b"started 1\n"
        for peer in silent[1:]:
            peer.writer.close()

    play(story)


def test_the_silent_do_not_stay(monkeypatch):
    monkeypatch.setattr(release, "PATIENCE_SECONDS", 0.05)

    async def story(found):
        assert await (await Peer(found).connect()).hears() == b""
        assert not found._connections

    play(story)


def test_who_says_more_than_there_is_to_say_goes():
    async def story(found):
        peer = await (await Peer(found).connect()).wait_for(3)
        await waiting(found, "uid", 3, 1)
        assert await (await peer.say(b"more\n")).hears() == b""
        assert not found._waiting

    play(story)


def test_without_an_address_there_is_no_endpoint():
    async def body():
        found = Release(GroupScheduling(), Random())
        await found.listen()
        assert found.endpoint("uid") == ""
        assert found.open("uid", 1) == 0
        found.close()

    asyncio.run(body())
