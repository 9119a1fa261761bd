"""A command elsewhere: what is said to it and by it, and how it ended."""

import asyncio
import json

import pytest

from muster.api.status import ApiError
from muster.cli.terminal.remote import Ends, code_of, hold
from muster.runtime.clock import run_virtual
from muster.runtime.containerlogs import STDERR, STDOUT
from muster.runtime.transport import TransportError

DONE = b'\3{"metadata":{},"status":"Success"}'


def failure(reason, code=""):
    causes = [{"reason": "ExitCode", "message": code}] if code else []
    status = {"status": "Failure", "message": "no such file", "reason": reason, "details": {"causes": causes}}
    return json.dumps(status).encode()


class Conversation:
    """Says these messages once it has heard that many, and hangs up."""

    def __init__(self, *messages, after=0):
        self.messages, self.after, self.heard = list(messages), after, []
        self.news = asyncio.Event()

    async def send(self, message):
        self.heard.append(message)
        self.news.set()

    async def receive(self):
        while len(self.heard) < self.after:
            self.news.clear()
            await self.news.wait()
        return self.messages.pop(0) if self.messages else b""


def held(conversation, read=None, size=None, resized=None):
    """The exit code, and what was shown of each stream."""
    shown = []

    async def show(stream, data):
        shown.append((stream, data))

    async def body():
        return await hold(conversation, Ends(read, show, size), resized or asyncio.Event())

    return run_virtual(body()), shown


def pieces(*data):
    left = [*data, b""]

    async def read():
        return left.pop(0)

    return read


def test_what_it_prints_goes_to_the_same_stream_here():
    assert held(Conversation(b"\1out\n", b"\1", b"\2err", b"\1more", DONE)) == (
        0,
        [(STDOUT, b"out\n"), (STDERR, b"err"), (STDOUT, b"more")],
    )


def test_it_hears_our_input_to_the_end():
    conversation = Conversation(DONE, after=3)
    assert held(conversation, pieces(b"a", b"b")) == (0, [])
    assert conversation.heard == [b"\0a", b"\0b", b"\xff\0"]


def test_it_is_told_the_size_of_the_terminal_and_of_each_new_one():
    sizes, resized = [(80, 24), (100, 30)], asyncio.Event()

    def size():
        resized.set() if len(sizes) == 2 else None
        return sizes.pop(0)

    conversation = Conversation(DONE, after=2)
    held(conversation, size=size, resized=resized)
    assert conversation.heard == [b'\4{"Width":80,"Height":24}', b'\4{"Width":100,"Height":30}']


def test_a_connection_that_ends_first_is_an_error():
    with pytest.raises(TransportError, match="ended before the command"):
        held(Conversation(b"\1half"))


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (DONE[1:], 0),
        (failure("NonZeroExitCode", code="7"), 7),
        (failure("NonZeroExitCode", code="137"), 137),
    ],
)
def test_its_exit_code_is_ours(outcome, code):
    assert code_of(outcome) == code


@pytest.mark.parametrize(
    ("outcome", "error", "words"),
    [
        (failure("InternalError"), ApiError, "no such file"),
        (failure("NonZeroExitCode", code="x"), ApiError, "no such file"),
        (b"not a status", TransportError, "does not say how"),
    ],
)
def test_what_could_not_be_run_is_an_error(outcome, error, words):
    with pytest.raises(error, match=words):
        code_of(outcome)
