"""SPDY/3.1 as the clients of Kubernetes speak it."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.apiserver.pods.tunnels.spdy_client import Client, control, data

from muster.cluster.apiserver.pods.tunnels.spdy import (
    DICTIONARY,
    MAX_CONTROL_BYTES,
    REFUSED_STREAM,
    Data,
    Event,
    Opened,
    Reset,
    Spdy,
    SpdyError,
)


def conversation():
    client = Client()
    sent = (
        client.open(1, ("streamtype", "error"), ("port", "80"), last=True)
        + client.open(3, ("StreamType", "data\0other"))
        + data(3, b"GET /")
        + data(3, b"")
        + data(3, b"", last=True)
        + control(6, (7).to_bytes(4, "big"))
        + control(3, (3).to_bytes(4, "big") + bytes(4))
    )
    events = [
        Opened(1, {"streamtype": "error", "port": "80"}, last=True),
        Opened(3, {"streamtype": "data"}),
        Data(3, b"GET /"),
        Data(3, b""),
        Data(3, b"", last=True),
        Reset(3),
    ]
    return sent, events


def test_the_dictionary_is_that_of_the_draft():
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_a_conversation():
    sent, events = conversation()
    spdy = Spdy()
    assert spdy.receive(sent) == events
    assert spdy.take_answers() == control(6, (7).to_bytes(4, "big")), "a ping comes back"
    assert spdy.take_answers() == b""


@given(st.lists(st.integers(1, 30), min_size=1))
def test_it_does_not_matter_how_the_bytes_come(sizes):
    sent, events = conversation()
    spdy, found = Spdy(), []
    for turn in range(len(sent)):
        size = sizes[turn % len(sizes)]
        found += spdy.receive(sent[:size])
        sent = sent[size:]
    assert joined(found) == joined(events)


def joined(events):
    """The events with neighbouring data of a stream in one."""
    found: list[Event] = []
    for event in events:
        before = found[-1] if found else None
        if isinstance(event, Data) and isinstance(before, Data) and before.stream == event.stream:
            found[-1] = Data(event.stream, before.data + event.data, event.last)
        else:
            found.append(event)
    return found


def test_data_go_on_before_their_frame_is_complete():
    frame = data(1, b"x" * 100, last=True)
    spdy = Spdy()
    assert spdy.receive(frame[:50]) == [Data(1, b"x" * 42)]
    assert spdy.receive(frame[50:]) == [Data(1, b"x" * 58, last=True)]


@pytest.mark.parametrize(
    "sent",
    [
        control(1, b"\0\0\0\1"),
        control(1, (2).to_bytes(4, "big") + bytes(6)),
        control(1, (1).to_bytes(4, "big") + bytes(6) + b"not compressed"),
        control(6, b"", version=2),
        control(3, b"\0"),
        control(4, bytes(MAX_CONTROL_BYTES)),
        Client().open(1, *[("a", "b")] * 101),
        Client().open(1, ("a", "b" * 100_000)),
    ],
    ids=["short", "even stream", "garbage", "version 2", "short reset", "too long", "many headers", "long headers"],
)
def test_who_breaks_the_protocol_is_told(sent):
    with pytest.raises(SpdyError):
        Spdy().receive(sent)


def test_a_stream_is_opened_once():
    client, spdy = Client(), Spdy()
    spdy.receive(client.open(3))
    with pytest.raises(SpdyError, match="stream 1 cannot be opened after stream 3"):
        spdy.receive(client.open(1))


def test_what_we_say():
    spdy = Spdy()
    inflate = zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        reply = spdy.encode_reply(stream)
        assert reply[:4] == b"\x80\x03\x00\x02"
        assert reply[8:12] == stream.to_bytes(4, "big")
        assert inflate.decompress(reply[12:]) == bytes(4), "no headers"
    assert spdy.encode_data(1, b"abc", last=True) == b"\0\0\0\1\1\0\0\3abc"
    assert spdy.encode_reset(1, REFUSED_STREAM) == control(3, b"\0\0\0\1\0\0\0\3")


@given(st.binary(max_size=300))
def test_no_bytes_do_harm(sent):
    try:
        Spdy().receive(sent)
    except SpdyError:
        return
