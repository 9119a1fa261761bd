"""Bodies in pieces: the same text again, and what similar bodies have in common only once."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from muster.cluster.store.packing import LEAST_BYTES, MOST_BYTES, RECENT, Packed, Packing


def pieces(packed: bytes | Packed) -> tuple[bytes, ...]:
    return (packed,) if isinstance(packed, bytes) else packed.pieces


def joined(packed: bytes | Packed) -> bytes:
    return b"".join(pieces(packed))


def pod(number: int) -> bytes:
    """One of a job's pods, as the server stores it: names, times and addresses differ."""
    fields: dict[str, object] = {f"f:field-{each}": {".": {}, "f:name": {}} for each in range(120)}
    managed = [{"manager": "m", "time": f"2026-01-01T00:00:{number % 60:02}Z", "fieldsV1": fields}]
    meta = {
        "name": f"job-{number}",
        "uid": f"{number:032x}",
        "managedFields": managed,
        "labels": {"index": str(number)},
    }
    env = [{"name": f"VARIABLE_{each}", "value": "x" * 20} for each in range(60)]
    spec = {"containers": [{"name": "main", "env": env}], "nodeName": f"node-{number % 100}"}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"podIP": f"10.0.{number}.1"}}).encode()


TEXTS = st.lists(
    st.sampled_from((b'"managedFields":', b'"spec":', b'"status":', b'"labels":', b"x" * 700, b"{}", b"abc" * 999)),
    max_size=60,
).map(b"".join)


@given(st.lists(TEXTS, max_size=5))
def test_a_packed_body_is_the_same_body(bodies: list[bytes]) -> None:
    packing = Packing()
    assert [joined(packing.pack(body)) for body in bodies] == bodies


def test_similar_bodies_have_their_common_pieces_once() -> None:
    packing, bodies = Packing(), [pod(number) for number in range(3_000)]
    packed = [packing.pack(body) for body in bodies]
    kept = {id(piece): len(piece) for each in packed for piece in pieces(each)}
    assert list(map(joined, packed)) == bodies
    assert sum(kept.values()) < sum(map(len, bodies)) / 5


def test_common_pieces_are_known_however_many_others_come_between() -> None:
    packing = Packing()
    first = packing.pack(pod(0))
    for number in range(RECENT):
        packing.pack(pod(0))
        packing.pack(f"{number:08}".encode() * (LEAST_BYTES // 8))
    assert all(a is b for a, b in zip(pieces(first), pieces(packing.pack(pod(0))), strict=True))


@pytest.mark.parametrize("length", [0, LEAST_BYTES - 1, MOST_BYTES + 1])
def test_short_and_long_bodies_stay_whole(length: int) -> None:
    body = bytes(length)
    assert Packing().pack(body) is body
