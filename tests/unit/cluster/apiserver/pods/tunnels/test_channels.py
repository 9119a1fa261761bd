"""The messages of exec and attach on a WebSocket."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import internal_error
from muster.cluster.apiserver.pods.tunnels.channels import (
    DIALECTS,
    ChannelError,
    Piece,
    Sizes,
    decode,
    encode,
    encode_outcome,
    make_exit_status,
)
from muster.cluster.nodeconnection import ERROR, RESIZE, STDIN, STDOUT

V5, V4, V4_BASE64, V1 = (
    DIALECTS[name] for name in ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io")
)


@pytest.mark.parametrize(
    ("dialect", "message", "piece"),
    [
        (V5, b"\x00hello", Piece(STDIN, b"hello")),
        (V5, b"\x00", Piece(STDIN)),
        (V5, b"\xff\x00", Piece(STDIN, last=True)),
        (V4, b"\x04{}", Piece(RESIZE, b"{}")),
        (V4, b"\xff\x00", Piece(255, b"\x00")),
        (V4_BASE64, b"0" + base64.b64encode(b"hello"), Piece(STDIN, b"hello")),
        (V4_BASE64, b"0", Piece(STDIN)),
        (V1, b"", None),
    ],
)
def test_a_message_names_its_channel(dialect, message, piece):
    assert decode(dialect, message) == piece


@pytest.mark.parametrize(
    ("dialect", "message"), [(V5, b"\xff"), (V5, b"\xff\x00\x01"), (V4_BASE64, b"0***"), (V4_BASE64, b"0\xff\xff")]
)
def test_what_says_nothing_is_refused(dialect, message):
    with pytest.raises(ChannelError):
        decode(dialect, message)


@given(st.sampled_from(sorted(DIALECTS)), st.integers(0, 4), st.binary(max_size=100))
def test_what_is_encoded_is_decoded(name, channel, data):
    assert decode(DIALECTS[name], encode(DIALECTS[name], channel, data)) == Piece(channel, data)


def test_an_exit_code_is_a_cause_of_the_status():
    said = json.loads(encode_outcome(make_exit_status(3), as_status=True))
    assert said == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: command terminated with exit code 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
    assert json.loads(encode_outcome(make_exit_status(0), as_status=True)) == {"metadata": {}, "status": "Success"}


def test_old_clients_are_told_in_words_and_only_of_failure():
    assert encode_outcome(make_exit_status(0), as_status=False) == b""
    assert encode_outcome(internal_error("no").status, as_status=False) == b"Internal error occurred: no"


@pytest.mark.parametrize(
    ("pieces", "sizes"),
    [
        ([b'{"Width":80,"Height":24}\n'], [(80, 24)]),
        ([b'{"Width":80,', b'"Height":24}{"Width":1,"Height":2}'], [(80, 24), (1, 2)]),
        ([b'{"Width":99999999,"Height":-3}'], [(65535, 0)]),
        ([b"", b"\n"], []),
    ],
)
def test_sizes_are_read_as_they_come(pieces, sizes):
    reader = Sizes()
    assert [size for piece in pieces for size in reader.feed(piece)] == sizes


@pytest.mark.parametrize(
    "data",
    [
        b"80x24",
        b"[1]",
        b'{"Width":"80","Height":24}',
        b'{"' + b"x" * 2000,
        b'{"a":' * 3000,  # too deep to be read
        b'{"Width":1,"Height":2}' * 10_000,  # would be read, but keep all others waiting
    ],
)
def test_what_is_no_size_is_refused(data):
    with pytest.raises(ChannelError):
        Sizes().feed(data)


def test_the_channels_have_upstreams_numbers():
    assert (STDIN, STDOUT, ERROR, RESIZE) == (0, 1, 3, 4)
