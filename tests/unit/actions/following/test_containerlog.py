"""The output of one container, over attempts and broken connections, in virtual time."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actions.following.containerlog import LAST_WORDS_SECONDS, ContainerLog, _Place, has_log
from muster.actions.following.excerpt import WHOLE, Excerpt
from muster.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
)
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError, bad_request, forbidden, not_found, too_many_requests, unavailable
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.containerlogs import STDOUT
from muster.runtime.transport import Transport, TransportError

STAMPS = st.lists(st.sampled_from([b"1", b"2", b"3"]), max_size=12).map(sorted)


@given(STAMPS, st.lists(st.integers(0, 12), max_size=4))
def test_every_line_is_shown_once_however_often_the_stream_breaks(stamps, breaks):
    """The log is read from its beginning each time, up to a break, and once to its end."""
    place, shown = _Place(), []
    for end in [*breaks, len(stamps)]:
        place = place.again()
        for stamp, group in groupby(enumerate(stamps[:end]), key=itemgetter(1)):
            numbers = [number for number, _ in group]
            shown += numbers[len(numbers) - place.new_of(stamp, len(numbers)) :]
    assert shown == list(range(len(stamps)))


class Node:
    """Serves the logs of the attempts of a container, each a list of lines that grows until it is over."""

    def __init__(self):
        self.attempts = []
        self.over = []
        self.faults = []  # what the next requests for the newest attempt meet instead of an answer
        self.breaks = []  # after so many lines each of the next streams breaks
        self.stamp = 0
        self.requests = []

    def begin(self):
        self.attempts.append([])
        self.over.append(False)

    def say(self, text):
        self.stamp += 1
        self.attempts[-1].append(b"2026-01-01T00:00:00.%09dZ %s" % (self.stamp, text))

    def end(self):
        self.over[-1] = True

    @asynccontextmanager
    async def stream(self, request):
        assert request.query.get("sinceTime", "") <= "2026-01-01T00:00:00.000000Z"
        self.requests.append(request)
        previous = "previous" in request.query
        if not previous and self.faults:
            raise self.faults.pop(0)
        number = len(self.attempts) - (2 if previous else 1)
        if number < 0:
            raise bad_request("not found")
        limit = None if previous or not self.breaks else self.breaks.pop(0)
        lines = self.lines(number, limit)
        yield self.raw(number, lines) if "raw" in request.query else lines

    async def raw(self, number, lines):
        """The same as the nodes of our own server keep it, in pieces of odd sizes."""
        text = b"- attempt F %d\n" % number
        try:
            async for line in lines:
                text += line if line.startswith(b"- ") else line.replace(b" ", b" stdout F ", 1)
                while len(text) > 17:
                    yield text[:17]
                    text = text[17:]
        finally:
            yield text

    async def lines(self, number, limit):
        sent = 0
        while True:
            over = self.over[number]
            for line in self.attempts[number][sent:]:
                if sent == limit:
                    raise TransportError("connection reset")
                yield line + b"\n"
                sent += 1
            if over:
                return
            await asyncio.sleep(0.01)


class World:
    """A container of a pod with this restart policy; `log` shows what it prints."""

    def __init__(self, policy, *, raw, excerpt=WHOLE):
        self.node, self.clock = Node(), VirtualClock()
        self.shown: list[bytes] = []
        self.errors: list[bytes] = []
        self.warnings: list[str] = []
        pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"), spec=PodSpec(restart_policy=policy))
        self.log = ContainerLog(
            Client(cast("Transport", self.node)),
            self.clock,
            pod,
            ContainerStatus(name="c"),
            raw=raw,
            show=self.show,
            warn=self.warnings.append,
            excerpt=excerpt,
        )

    async def show(self, stream, text):
        (self.shown if stream == STDOUT else self.errors).append(text.removesuffix(b"\n"))

    def running(self, restarts=0):
        state = ContainerState(running=ContainerStateRunning())
        self.log.observe(ContainerStatus(name="c", restart_count=restarts, state=state))

    def ended(self, restarts=0):
        state = ContainerState(terminated=ContainerStateTerminated())
        self.log.observe(ContainerStatus(name="c", restart_count=restarts, state=state))


def play(script, policy="Never", *, raw=False):
    """Run a script beside the copying, which must then end by itself."""

    async def main():
        world = World(policy, raw=raw)
        world.running()
        copying = asyncio.create_task(world.log.copy())
        await script(world)
        world.log.finish()
        async with asyncio.timeout(3600):
            await copying
        return world

    return run_virtual(main())


both = pytest.mark.parametrize("raw", [True, False])


@both
def test_every_attempt_is_shown_to_its_end(raw):
    async def script(world):
        for number in range(3):
            world.node.begin()
            world.running(number)
            world.node.say(b"attempt %d" % number)
            await asyncio.sleep(5)
            world.node.say(b"end of %d" % number)
            world.node.end()
        world.ended(2)

    world = play(script, "OnFailure", raw=raw)
    assert world.shown == [word % number for number in range(3) for word in (b"attempt %d", b"end of %d")]


@both
def test_attempts_that_are_quicker_than_their_status_are_shown_once(raw):
    """The server gives the second attempt's log to who knows only of the first, and the status comes later."""

    async def script(world):
        for number in range(2):
            world.node.begin()
            world.node.say(b"attempt %d" % number)
            world.node.end()
        await asyncio.sleep(5)
        world.ended(1)
        await asyncio.sleep(5)

    assert play(script, "OnFailure", raw=raw).shown == [b"attempt 0", b"attempt 1"]


@both
def test_the_end_of_an_attempt_is_not_lost_when_the_stream_breaks_in_it_and_the_next_begins(raw):
    async def script(world):
        world.node.begin()
        world.node.breaks = [1]
        world.node.say(b"seen")
        world.node.say(b"missed")
        await asyncio.sleep(0.1)
        world.node.end()
        world.node.begin()
        world.node.say(b"next")
        await asyncio.sleep(5)
        world.running(1)
        world.node.end()

    assert play(script, "OnFailure", raw=raw).shown == [b"seen", b"missed", b"next"]


def test_what_is_missing_is_told_once_and_only_if_it_has_not_been_shown():
    """The node says how much is gone: from the start of the log whenever it is read anew, or at the place itself."""

    async def script(world):
        world.node.begin()
        world.node.attempts[-1].append(b"- missing F 1000")
        world.node.say(b"one")  # 4 bytes with its end
        world.node.breaks = [2, 3]
        await asyncio.sleep(0.1)
        world.node.attempts[-1][:2] = [b"- missing F 1054"]  # of which it had shown the first 4
        world.node.say(b"two")
        await asyncio.sleep(0.1)
        world.node.attempts[-1].append(b"- missing F 7")
        world.node.say(b"three")
        await asyncio.sleep(5)
        world.node.end()

    world = play(script, raw=True)
    assert world.shown == [b"one", b"two", b"three"]
    assert world.errors == [b"[muster: %d bytes are missing here]" % gone for gone in (1000, 50, 7)]


def test_what_is_missing_is_told_once_although_the_attempt_before_is_read_again():
    async def script(world):
        world.node.begin()
        world.node.attempts[-1].append(b"- missing F 1000")
        world.node.say(b"one")
        await asyncio.sleep(5)
        world.node.end()
        world.node.begin()
        world.node.say(b"two")  # 4 bytes with its end
        world.node.breaks = [1]
        world.running(1)
        await asyncio.sleep(0.1)
        world.node.attempts[-1][:1] = [b"- missing F 4"]  # which it had shown
        world.node.say(b"three")
        await asyncio.sleep(5)
        world.node.end()

    world = play(script, "OnFailure", raw=True)
    assert world.shown == [b"one", b"two", b"three"]
    assert world.errors == [b"[muster: 1000 bytes are missing here]"]


def test_only_of_containers_that_may_restart_the_attempt_before_is_asked_for():
    async def script(world):
        world.node.begin()
        world.node.end()

    assert [len(play(script, policy).node.requests) for policy in ("Never", "OnFailure")] == [1, 2]


@pytest.mark.parametrize(
    "fault",
    [TransportError("no route"), unavailable("the node is not connected"), too_many_requests("later", 1)],
)
def test_what_may_pass_is_tried_again(fault):
    async def script(world):
        world.node.faults = [fault, fault]
        world.node.begin()
        world.node.say(b"hello")
        world.node.end()
        await asyncio.sleep(5)

    world = play(script)
    assert world.shown == [b"hello"]
    said = [f"cannot read the output of p, trying again: {fault}"] if isinstance(fault, ApiError) else []
    assert world.warnings == said


def test_what_does_not_pass_is_raised():
    async def script(world):
        world.node.faults = [forbidden("you may not")]
        await asyncio.sleep(1)

    with pytest.raises(ApiError, match="you may not"):
        play(script)


@both
def test_who_was_let_in_is_not_put_off_by_a_server_that_has_just_started(raw):
    """It refuses all until it has read the roles."""

    async def script(world):
        world.node.breaks = [1]
        world.node.begin()
        world.node.say(b"before")
        await asyncio.sleep(1)
        world.node.faults = [TransportError("connection refused"), forbidden("you may not"), forbidden("you may not")]
        world.node.say(b"after")
        await asyncio.sleep(5)
        world.node.end()

    world = play(script, raw=raw)
    assert b"\n".join(world.shown).split() == [b"before", b"after"]


def test_a_pod_that_is_gone_and_a_container_that_never_began_have_no_log():
    async def script(world):
        world.node.faults = [not_found("pods", "p")]

    assert play(script).shown == []

    async def never_began(world):
        world.ended()

    assert play(never_began).shown == []


def test_output_that_cannot_be_read_holds_up_the_end_for_a_while_only():
    async def script(world):
        world.node.faults = [unavailable("the node is not connected")] * 1000
        await asyncio.sleep(100)

    world = play(script)
    assert len(world.node.requests) * 0.5 == pytest.approx(100 + LAST_WORDS_SECONDS, abs=2)
    assert world.warnings[-1].startswith("the end of the output of p is missing: the node is not connected")
    assert len(world.warnings) == 2


def test_a_line_that_never_ends_and_the_servers_own_words_are_shown():
    async def script(world):
        world.node.begin()
        world.node.say(b"x" * (5 << 19))
        world.node.attempts[-1].append(b"unable to retrieve container logs")
        world.node.end()

    *line, words = play(script).shown
    assert b"".join(line) == b"x" * (5 << 19)
    assert words == b"unable to retrieve container logs"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (ContainerStatus(name="c"), False),
        (ContainerStatus(name="c", state=ContainerState(running=ContainerStateRunning())), True),
        (ContainerStatus(name="c", state=ContainerState(terminated=ContainerStateTerminated())), True),
        (ContainerStatus(name="c", last_state=ContainerState(terminated=ContainerStateTerminated())), True),
    ],
)
def test_there_is_a_log_once_an_attempt_has_begun(status, expected):
    assert has_log(status) is expected


def test_of_what_there_is_already_only_the_last_lines_or_what_is_not_older_are_asked_for():
    since = datetime(2026, 1, 1, tzinfo=UTC)

    async def main():
        world = World("OnFailure", raw=True, excerpt=Excerpt(tail=2, since=since))
        world.node.begin()
        world.node.faults = [unavailable("soon")]
        world.running()
        copying = asyncio.create_task(world.log.copy())
        await asyncio.sleep(1)
        world.node.say(b"one")
        world.node.end()
        world.node.begin()
        await asyncio.sleep(1)
        world.running(restarts=1)
        world.node.say(b"two")
        world.node.end()
        world.log.finish()
        async with asyncio.timeout(3600):
            await copying
        return world

    world = run_virtual(main())
    assert world.shown == [b"one", b"two"]
    asked = [(one.query.get("tailLines"), one.query["sinceTime"]) for one in world.node.requests]
    first = "2026-01-01T00:00:00+00:00"
    assert asked[:2] == [("2", first), ("2", first)]
    assert {tail for tail, _ in asked[2:]} == {None}
