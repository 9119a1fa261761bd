"""A session with a peer of other people's making (h2), and with peers that do what they should not."""

import struct

import h2.connection
import h2.events
import h2.settings
import hpack
import pytest
from h2.config import H2Configuration
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.front.http2 import bounds, frames, session
from muster.cluster.apiserver.front.http2.frames import PREFACE, Code, encode_head
from muster.cluster.apiserver.front.http2.headers import encode
from muster.cluster.apiserver.front.http2.session import DataReceived, RequestReceived, Session, StreamReset

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"x"), (b":path", b"/api/v1/pods?limit=1")]
POST = [(b":method", b"POST"), *GET[1:]]
SETTINGS = encode_head(0, frames.SETTINGS, 0, 0)


class Talk:
    """A session, and h2 as its client; what one says reaches the other in pieces of any size."""

    def __init__(self, window: int = 65_535, piece: int = 1 << 20) -> None:
        self.session = Session(0.0)
        self.client = h2.connection.H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        )
        self.client.initiate_connection()
        self.piece = piece
        self.events: list[session.Event] = []
        self.heads: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.gone: h2.events.ConnectionTerminated | None = None
        self.run()

    def run(self) -> None:
        """Until neither has anything to say."""
        while True:
            self.session.pump(1 << 20, 0.0)
            said, answered = self.client.data_to_send(), self.session.take()
            if not said and not answered:
                return
            for first in range(0, len(said), self.piece):
                self.events += self.session.receive(said[first : first + self.piece], 0.0)
            for event in self.client.receive_data(answered):
                self._heed(event)

    def _heed(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                self.heads[event.stream_id] = dict(event.headers)
                self.bodies[event.stream_id] = b""
            case h2.events.DataReceived():
                self.bodies[event.stream_id] += event.data
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self.ended.add(event.stream_id)
            case h2.events.StreamReset():
                self.resets[event.stream_id] = event.error_code
            case h2.events.ConnectionTerminated():
                self.gone = event

    def ask(self, headers=GET, body=None) -> int:
        """A request; with a body, as far as the windows let it out at once."""
        number = self.client.get_next_available_stream_id()
        self.client.send_headers(number, headers, end_stream=body is None)
        if body is not None:
            self.client.send_data(number, body, end_stream=True)
        return number

    def take(self) -> list[session.Event]:
        events, self.events = self.events, []
        return events


def test_a_request_and_its_answer():
    talk = Talk()
    number = talk.ask([*POST, (b"content-length", b"5"), (b"x", b"y")], b"hello")
    talk.run()
    asked, came = talk.take()
    assert isinstance(asked, RequestReceived)
    assert asked.head[:4] == ("POST", "/api/v1/pods", b"/api/v1/pods", b"limit=1")
    assert asked.head.headers == [(b"host", b"x"), (b"content-length", b"5"), (b"x", b"y")]
    assert came == DataReceived(number, b"hello", is_over=True)
    talk.session.answer(number, 201, [(b"content-type", b"text/plain")])
    assert talk.session.send(number, b"done", ends=True) == 4
    talk.run()
    assert talk.heads[number] == {b":status": b"201", b"content-type": b"text/plain"}
    assert (talk.bodies[number], talk.ended) == (b"done", {number})
    assert (talk.session.is_idle, talk.gone) == (True, None)


@given(
    st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([1_000, 65_535, 1 << 20]),
    st.sampled_from([1, 7, 1 << 20]),
)
def test_every_answer_arrives_whole(answers, window, piece):
    """However many there are, however large they are, however little their windows let out at once."""
    talk = Talk(window, piece)
    numbers = [talk.ask() for _ in answers]
    talk.run()
    for number, sizes in zip(numbers, answers, strict=True):
        talk.session.answer(number, 200, [])
        for count, size in enumerate(sizes, 1):
            talk.session.send(number, bytes([number]) * size, ends=count == len(sizes))
    talk.run()
    assert talk.bodies == {number: bytes([number]) * sum(sizes) for number, sizes in zip(numbers, answers, strict=True)}
    assert (talk.ended, talk.session.is_idle, talk.gone) == (set(numbers), True, None)


@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=5), st.sampled_from([9, 1 << 20]))
def test_every_body_arrives_whole(sizes, piece):
    """A client sends what it may, and may go on as what has come is read."""
    talk = Talk(piece=piece)
    talk.run()
    left = {}
    for size in sizes:
        number = talk.client.get_next_available_stream_id()
        talk.client.send_headers(number, POST)
        left[number] = size
    wanted, came = dict(left), dict.fromkeys(left, 0)
    rounds = 0
    while any(left.values()):
        for number, size in left.items():
            if allowed := min(size, talk.client.local_flow_control_window(number), 16_384):
                talk.client.send_data(number, bytes(allowed), end_stream=allowed == size)
                left[number] -= allowed
        talk.run()
        for event in talk.take():
            if isinstance(event, RequestReceived):
                talk.session.widen_window(event.stream)
            elif isinstance(event, DataReceived):
                came[event.stream] += len(event.data)
                talk.session.count_read(event.stream, len(event.data))
        talk.run()
        rounds += 1
        assert rounds < 1_000
    assert (came, talk.gone) == (wanted, None)


def test_a_client_that_does_not_know_our_settings_yet():
    """Of its first body more may come."""
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(1, POST, 4) + frame(frames.DATA, 0, 1, b"x" * 16_000) * 4, 0.0)
    told.receive(frame(frames.SETTINGS, frames.ACK, 0), 0.0)
    told.take()
    told.widen_window(1)
    assert told.take() == frame(frames.WINDOW_UPDATE, 0, 1, number(bounds.READ_WINDOW - bounds.BODY_WINDOW + 64_000))
    assert not told.is_idle


def test_who_is_not_read_is_held_up_and_holds_up_none():
    """All streams but one wait to be read; that one is."""
    assert bounds.WINDOW - bounds.MAX_STREAMS * bounds.BODY_WINDOW >= 16 * bounds.READ_WINDOW
    talk = Talk()
    talk.run()
    for _ in range(300):
        waiting = talk.client.get_next_available_stream_id()
        talk.client.send_headers(waiting, POST)
        talk.client.send_data(waiting, bytes(bounds.BODY_WINDOW))
        assert talk.client.local_flow_control_window(waiting) == 0
        talk.run()
    reading = talk.client.get_next_available_stream_id()
    talk.client.send_headers(reading, POST)
    talk.run()
    talk.session.widen_window(reading)
    talk.run()
    assert talk.client.local_flow_control_window(reading) == bounds.READ_WINDOW
    assert (talk.gone, talk.resets) == (None, {})


def test_a_client_that_wants_no_answer():
    talk = Talk()
    number = talk.ask()
    talk.run()
    talk.session.answer(number, 200, [])
    talk.session.send(number, b"x" * 100_000, ends=False)
    talk.client.reset_stream(number)
    talk.run()
    assert talk.take()[-1] == StreamReset(number)
    assert (talk.session.has(number), talk.session.send(number, b"more", ends=True)) == (False, 0)
    talk.run()
    assert talk.gone is None


def test_an_early_answer_ends_the_request():
    talk = Talk()
    number = talk.client.get_next_available_stream_id()
    talk.client.send_headers(number, POST)
    talk.run()
    talk.session.answer(number, 403, [])
    talk.session.send(number, b"no", ends=True)
    talk.session.pump(1 << 20, 0.0)
    talk.client.send_data(number, b"x" * 10_000)  # on its way already
    talk.run()
    assert (talk.heads[number][b":status"], talk.resets) == (b"403", {number: ErrorCodes.NO_ERROR})
    assert (talk.session.is_idle, talk.gone) == (True, None)


def test_who_leaves_answers_what_was_asked():
    talk = Talk()
    number = talk.ask()
    talk.run()
    talk.session.leave()
    late = talk.client.get_next_available_stream_id()
    talk.client.send_headers(late, GET, end_stream=True)
    talk.run()
    assert (talk.gone.error_code, talk.gone.last_stream_id) == (ErrorCodes.NO_ERROR, number)
    assert [event.stream for event in talk.take()] == [number]
    assert not talk.session.is_idle


# -- what clients should not do


def frame(type_, flags, stream, payload=b""):
    return encode_head(len(payload), type_, flags, stream) + payload


def asked(number, fields=GET, flags=frames.END_HEADERS | frames.END_STREAM):
    return frame(frames.HEADERS, flags, number, encode(fields))


def number(value):
    return value.to_bytes(4, "big")


RESET = number(Code.CANCEL)
CALM = Code.ENHANCE_YOUR_CALM


def rapid_resets(count):
    """CVE-2023-44487."""
    return b"".join(asked(n) + frame(frames.RST_STREAM, 0, n, RESET) for n in range(1, 2 * count, 2))


FLOODS = {
    "resets": rapid_resets,
    "pings": lambda count: frame(frames.PING, 0, 0, b"x" * 8) * count,
    "settings": lambda count: SETTINGS * count,
    "priorities": lambda count: frame(frames.PRIORITY, 0, 1, b"x" * 5) * count,
    "continuations without anything": lambda count: (
        frame(frames.HEADERS, frames.END_STREAM, 1) + frame(frames.CONTINUATION, 0, 1) * count
    ),
    "frames that nobody knows": lambda count: frame(99, 0, 0) * count,
    "windows that nobody waits for": lambda count: frame(frames.WINDOW_UPDATE, 0, 0, number(1)) * count,
    "empty pieces of a body": lambda count: asked(1, POST, frames.END_HEADERS) + frame(frames.DATA, 0, 1) * count,
    "padding alone": lambda count: (
        asked(1, POST, frames.END_HEADERS) + frame(frames.DATA, frames.PADDED, 1, b"\1\0") * count
    ),
    "requests that are none": lambda count: b"".join(asked(n, GET[:2]) for n in range(1, 2 * count, 2)),
    "more requests than are taken": lambda count: b"".join(asked(n) for n in range(1, 2 * count, 2)),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_what_costs_nothing_is_not_done_for_ever(flood):
    """At most as often as there is patience, and the connection ends."""
    many = FLOODS[flood](int(bounds.BURST) + bounds.MAX_STREAMS + 10)
    told = Session(0.0)
    events = told.receive(PREFACE + SETTINGS + many, 0.0)
    assert told.is_over
    assert told.take().endswith(b"too much that leads to nothing")
    assert len([event for event in events if isinstance(event, RequestReceived)]) <= bounds.BURST
    assert told.receive(SETTINGS, 0.0) == []


@pytest.mark.parametrize("flood", FLOODS)
def test_now_and_then_it_is_borne(flood):
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + FLOODS[flood](100), 0.0)
    assert not told.is_over


def test_a_client_that_reads_in_small_pieces_gets_a_long_answer_whole():
    """A Go client opens both windows after each 4 KiB that it reads: of a long log that is often."""
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(1), 0.0)
    told.answer(1, 200, [])
    piece, read = 16 * 1024, 4 * 1024
    opening = (frame(frames.WINDOW_UPDATE, 0, 1, number(read)) + frame(frames.WINDOW_UPDATE, 0, 0, number(read))) * 4
    for _ in range(int(bounds.BURST)):
        told.send(1, b"x" * piece, ends=False)
        told.pump(1 << 20, 0.0)
        told.receive(opening, 0.0)
        told.take()
    assert (told.count_unsent(1), told.is_over) == (0, False)


def test_patience_grows_again():
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS, 0.0)
    for second in range(100):
        told.receive(FLOODS["pings"](int(bounds.PER_SECOND)), float(second))
    assert not told.is_over


def test_headers_that_are_too_big_are_not_to_be_sent_again():
    """The good-bye names their stream: a client may send those again that came after the last one named."""
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(1), 0.0)
    told.take()
    piece = b"x" * 16_000
    told.receive(frame(frames.HEADERS, frames.END_STREAM, 3, piece) + frame(frames.CONTINUATION, 0, 3, piece) * 5, 0.0)
    assert told.is_over
    assert number(3) + number(CALM) + b"the headers are too big" in told.take()


def test_what_is_given_up_is_counted_until_it_ends():
    """A client that takes requests back has no more of them worked on than one that does not."""
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS, 0.0)
    told.reset_running = bounds.MAX_RESET_RUNNING
    told.take()
    assert told.receive(asked(1), 0.0) == []
    assert told.take() == frame(frames.RST_STREAM, 0, 1, number(Code.REFUSED_STREAM))
    told.reset_running -= 1
    assert len(told.receive(asked(3), 0.0)) == 1


def test_many_long_headers():
    """Short ones that stand for long ones, too: refused when all together are too long, and taken again later."""
    told = Session(0.0)
    block = encode(GET) + encode_kept(b"a", b"x" * 3_900)
    told.receive(PREFACE + SETTINGS + frame(frames.HEADERS, 5, 1, block), 0.0)
    short = encode(GET) + b"\xbe" * 14
    many = range(3, 803, 2)
    events = told.receive(b"".join(frame(frames.HEADERS, 5, n, short) for n in many), 0.0)
    assert len(events) == (bounds.MAX_HEADERS_BYTES - 4_100) // (14 * 3_933 + 160)
    refused = frame(frames.RST_STREAM, 0, 801, number(Code.REFUSED_STREAM))
    assert (told.take().endswith(refused), told.is_over) == (True, False)
    told.receive(frame(frames.RST_STREAM, 0, 3, RESET), 0.0)
    assert len(told.receive(frame(frames.HEADERS, 5, 803, short), 0.0)) == 1


def encode_kept(name, value):
    return hpack.Encoder().encode([(name, value)])


LONG = [(b"a", b"x" * 15_000)] * 5
BAD = {
    "no preface": (b"GET / HTTP/1.1\r\n\r\n", Code.PROTOCOL_ERROR),
    "no settings": (PREFACE + asked(1), Code.PROTOCOL_ERROR),
    "headers that never end": (
        PREFACE + SETTINGS + frame(frames.HEADERS, 0, 1) + frame(frames.CONTINUATION, 0, 1, b"x" * 16_384) * 5,
        CALM,
    ),
    "headers that are too long": (
        PREFACE + SETTINGS + frames.encode_headers(1, encode([*GET, *LONG]), ends=True),
        CALM,
    ),
    "short headers that stand for long ones": (
        PREFACE
        + SETTINGS
        + frame(frames.HEADERS, 5, 1, b"\x40\x01a\x7f\x9d\x1d" + b"x" * 3_868 + b"\xbe" * 100),
        CALM,
    ),
    "headers that make no sense": (
        PREFACE + SETTINGS + frame(frames.HEADERS, 5, 1, b"\xff" * 20), Code.COMPRESSION_ERROR
    ),
    "another frame within headers": (
        PREFACE + SETTINGS + frame(frames.HEADERS, 0, 1) + SETTINGS, Code.PROTOCOL_ERROR
    ),
    "a long frame": (PREFACE + SETTINGS + encode_head(16_385, frames.DATA, 0, 1), Code.FRAME_SIZE_ERROR),
    "a short ping": (PREFACE + SETTINGS + frame(frames.PING, 0, 0, b"x"), Code.FRAME_SIZE_ERROR),
    "settings of a stream": (PREFACE + SETTINGS + frame(frames.SETTINGS, 0, 1), Code.PROTOCOL_ERROR),
    "half a setting": (PREFACE + frame(frames.SETTINGS, 0, 0, b"abc"), Code.FRAME_SIZE_ERROR),
    "a priority of the connection": (
        PREFACE + SETTINGS + frame(frames.PRIORITY, 0, 0, b"x" * 5), Code.PROTOCOL_ERROR
    ),
    "a short priority": (PREFACE + SETTINGS + frame(frames.PRIORITY, 0, 1, b"x" * 4), Code.FRAME_SIZE_ERROR),
    "a good-bye of a stream": (PREFACE + SETTINGS + frame(frames.GOAWAY, 0, 1, b"x" * 8), Code.PROTOCOL_ERROR),
    "a request of the connection": (PREFACE + SETTINGS + asked(0), Code.PROTOCOL_ERROR),
    "headers of the connection that go on": (PREFACE + SETTINGS + asked(0, flags=0), Code.PROTOCOL_ERROR),
    "a push": (PREFACE + SETTINGS + frame(frames.PUSH_PROMISE, 0, 1, b"x" * 4), Code.PROTOCOL_ERROR),
    "a stream of ours": (PREFACE + SETTINGS + asked(2), Code.PROTOCOL_ERROR),
    "a body without a request": (PREFACE + SETTINGS + frame(frames.DATA, 0, 7, b"x"), Code.PROTOCOL_ERROR),
    "an end without a request": (PREFACE + SETTINGS + frame(frames.RST_STREAM, 0, 7, RESET), Code.PROTOCOL_ERROR),
    "no more window": (PREFACE + SETTINGS + frame(frames.WINDOW_UPDATE, 0, 0, number(0)), Code.PROTOCOL_ERROR),
    "too much window": (
        PREFACE + SETTINGS + frame(frames.WINDOW_UPDATE, 0, 0, number(frames.MAX_WINDOW)), Code.FLOW_CONTROL_ERROR
    ),
    "more padding than frame": (
        PREFACE + SETTINGS + asked(1, POST, 4) + frame(frames.DATA, frames.PADDED, 1, b"\x09"), Code.PROTOCOL_ERROR
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_after_what_a_connection_ends(name):
    said, code = BAD[name]
    told = Session(0.0)
    told.receive(said, 0.0)
    assert told.is_over
    peer = h2.connection.H2Connection(H2Configuration(client_side=True))
    peer.initiate_connection()
    peer.send_headers(1, GET, end_stream=True)
    events = peer.receive_data(told.take())
    assert [event.error_code for event in events if isinstance(event, h2.events.ConnectionTerminated)] == [code]


STREAM_ERRORS = {
    "no path": asked(1, GET[:3]),
    "two paths": asked(1, [*GET, GET[3]]),
    "an unknown pseudo-header": asked(1, [*GET, (b":protocol", b"websocket")]),
    "a pseudo-header behind others": asked(1, [*GET[:3], (b"a", b"b"), GET[3]]),
    "capital letters": asked(1, [*GET, (b"Accept", b"x")]),
    "a line end": asked(1, [*GET, (b"a", b"b\r\nc: d")]),
    "no name": asked(1, [*GET, (b"", b"x")]),
    "a header of HTTP/1.1": asked(1, [*GET, (b"connection", b"upgrade")]),
    "chunks of HTTP/1.1": asked(1, [*GET, (b"transfer-encoding", b"chunked")]),
    "an encoding of HTTP/1.1": asked(1, [*GET, (b"te", b"trailers, gzip")]),
    "another target": asked(1, [*GET[:3], (b":path", b"http://x/")]),
    "no letters": asked(1, [*GET[:3], (b":path", b"/\xff")]),
    "connect": asked(1, [(b":method", b"CONNECT"), (b":authority", b"x")]),
    "no number": asked(1, [*POST, (b"content-length", b"-1")]),
    "two lengths": asked(1, [*POST, (b"content-length", b"1"), (b"content-length", b"2")]),
    "a length without a body": asked(1, [*POST, (b"content-length", b"1")]),
    "more than was said": asked(1, [*POST, (b"content-length", b"1")], 4) + frame(frames.DATA, 1, 1, b"xx"),
    "less than was said": asked(1, [*POST, (b"content-length", b"3")], 4) + frame(frames.DATA, 1, 1, b"xx"),
    "more than the window": asked(1, POST, 4)
    + frame(frames.DATA, 0, 1, b"x" * 16_384)
    + frame(frames.DATA, 0, 1, b"x"),
    "a body behind the end": asked(1) + frame(frames.DATA, 0, 1, b"x"),
    "trailers that go on": asked(1, POST, 4) + asked(1, [(b"a", b"b")], 4),
    "no more window": asked(1) + frame(frames.WINDOW_UPDATE, 0, 1, number(0)),
    "too much window": asked(1) + frame(frames.WINDOW_UPDATE, 0, 1, number(frames.MAX_WINDOW)),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
def test_after_what_a_stream_ends_and_the_connection_goes_on(name):
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + frame(frames.SETTINGS, frames.ACK, 0), 0.0)
    told.take()
    told.receive(STREAM_ERRORS[name], 0.0)
    assert (told.is_over, told.is_idle) == (False, True)
    assert told.take()[:9] == encode_head(4, frames.RST_STREAM, 0, 1)
    assert len(told.receive(asked(3), 0.0)) == 1


@given(st.binary(max_size=200), st.integers(0, 12), st.integers(0, 255), st.integers(0, 5))
def test_whatever_comes_nothing_is_raised(payload, type_, flags, stream):
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(1, POST, 4), 0.0)
    told.receive(frame(type_, flags, stream, payload) + payload, 0.0)
    told.pump(1 << 20, 0.0)
    told.take()


def test_a_number_that_is_used_again():
    """Or was passed over: there is no answer, and the client does not wait for one."""
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(5), 0.0)
    told.answer(5, 200, [])
    told.send(5, b"", ends=True)
    told.pump(1, 0.0)
    for used in (5, 3):
        told.take()
        assert told.receive(asked(used), 0.0) == []
        assert (told.take(), told.is_over) == (frame(frames.RST_STREAM, 0, used, number(Code.STREAM_CLOSED)), False)


def test_a_client_that_takes_trailers():
    assert len(Session(0.0).receive(PREFACE + SETTINGS + asked(1, [*GET, (b"te", b"trailers")]), 0.0)) == 1


def test_a_client_that_lets_an_answer_out_in_crumbs():
    told = Session(0.0)
    told.receive(PREFACE + frame(frames.SETTINGS, 0, 0, b"\0\4" + number(1)) + asked(1), 0.0)
    told.answer(1, 200, [])
    told.send(1, b"x" * 100_000, ends=True)
    for _ in range(int(bounds.BURST) + 10):
        told.receive(frame(frames.WINDOW_UPDATE, 0, 1, number(1)), 0.0)
        told.pump(1 << 20, 0.0)
    assert told.is_over


def test_answers_take_turns():
    told = Session(0.0)
    told.receive(PREFACE + SETTINGS + asked(1) + asked(3), 0.0)
    told.send(1, b"x" * 40_000, ends=True)
    told.send(3, b"y", ends=True)
    assert told.pump(1, 0.0) == [1]
    assert told.pump(1, 0.0) == [3]
    assert (told.count_unsent(1), told.has(3)) == (40_000 - frames.MAX_FRAME_BYTES, False)


def windows(*sizes):
    """Settings that make the window of every stream so large, one after the other."""
    payload = b"".join(struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, size) for size in sizes)
    return encode_head(len(payload), frames.SETTINGS, 0, 0) + payload


@pytest.mark.parametrize("already", [1_000, 65_535])
def test_a_window_that_is_made_smaller_than_what_was_sent(already):
    talk = Talk()
    number, other = talk.ask(), talk.ask()
    talk.run()
    for asked in (number, other):
        talk.session.answer(asked, 200, [])
    talk.session.send(number, b"." * already, ends=False)
    talk.run()
    talk.client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    talk.run()
    talk.session.send(number, b"!" * 5_000, ends=True)
    talk.session.send(other, b"", ends=True)
    talk.run()
    assert talk.ended == {other}
    talk.client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    talk.run()
    assert (talk.bodies[number], talk.ended, talk.gone) == (b"." * already + b"!" * 5_000, {number, other}, None)


def test_an_answer_ends_whatever_its_window():
    talk = Talk()
    number = talk.ask()
    talk.run()
    talk.session.answer(number, 200, [])
    talk.session.send(number, b"." * 1_000, ends=False)
    talk.run()
    talk.session.receive(windows(0), 0.0)
    talk.session.send(number, b"", ends=True)
    talk.session.pump(1 << 20, 0.0)  # h2 takes no empty frame here, though its end needs no window (RFC 9113, 6.9)
    assert talk.session.take().endswith(encode_head(0, frames.DATA, frames.END_STREAM, number))


@pytest.mark.parametrize(
    ("said", "is_borne"),
    [
        pytest.param(windows(*range(2_730)), True, id="of many sizes in one frame the last counts"),
        pytest.param(windows(0) * 800, False, id="many frames, each of which all streams have to be told of"),
        pytest.param(
            encode_head(0, frames.SETTINGS, frames.ACK, 0) * (int(bounds.BURST) + 10), False, id="many thanks"
        ),
    ],
)
def test_settings_cost_by_how_many_have_to_be_told(said, is_borne):
    talk = Talk(window=0)
    for _ in range(1_000):
        talk.ask()
    talk.run()
    talk.session.receive(said, 0.0)
    assert talk.session.is_over is not is_borne


def test_a_body_may_end_while_its_window_is_used_up():
    """What came before the client knew of our settings may be more than they allow; its end takes no room."""
    fields = encode(POST)
    opening = PREFACE + SETTINGS + encode_head(len(fields), frames.HEADERS, frames.END_HEADERS, 1) + fields
    asked = Session(0.0)
    asked.receive(opening + 2 * (encode_head(16_384, frames.DATA, 0, 1) + b"z" * 16_384), 0.0)
    thanks, end = encode_head(0, frames.SETTINGS, frames.ACK, 0), encode_head(0, frames.DATA, frames.END_STREAM, 1)
    assert asked.receive(thanks + end, 0.0) == [DataReceived(1, b"", is_over=True)]
