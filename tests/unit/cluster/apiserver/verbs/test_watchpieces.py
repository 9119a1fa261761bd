"""Pieces of watches: every watch gets each of its changes once and in order, and no piece is too long."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.verbs.watchpieces import PIECE_BYTES, SHARED, PiecesOfChanges, SharedPieces
from muster.cluster.store import Change, Entry, Header, Key

SIZES = st.sampled_from([10, 1_000, 20_000, PIECE_BYTES // 2, PIECE_BYTES - 64, PIECE_BYTES - 63, 3 * PIECE_BYTES])


def change_of(revision: int, size: int, namespace: str = "a") -> Change:
    body = b'{"n":"%d %b"}' % (revision, b"x" * max(size - 10 - len(str(revision)), 0))
    return Change("MODIFIED", Entry(Key("configmaps", namespace, f"m{revision}"), revision, body, Header()), None)


def sent(shared: SharedPieces, namespace: str, changes: Sequence[Change]) -> list[bytes]:
    pieces, made = PiecesOfChanges(shared, namespace, changes), []
    while pieces.are_left():
        made.append(pieces.make())
    return made


def lines(changes: Sequence[Change]) -> bytes:
    return b"".join(fragment for change in changes for fragment in change.line)


@given(
    st.lists(st.tuples(SIZES, st.sampled_from("ab")), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from(["", "a", "b"])), max_size=20),
)
def test_watches_that_share_pieces_get_what_each_would_get_alone(written, watches):
    """A watch is a namespace and the changes that are new to it when it wakes."""
    changes = [change_of(revision, *one) for revision, one in enumerate(written, 1)]
    shared = SharedPieces()
    for first, last, namespace in watches:
        mine = [change for change in changes[first:last] if namespace in ("", change.entry.key.namespace)]
        pieces = sent(shared, namespace, mine)
        assert b"".join(pieces) == lines(mine)
        assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)


def test_watches_that_are_as_far_send_the_same_bytes():
    changes = [change_of(revision, 1_000) for revision in range(1, 151)]
    shared = SharedPieces()
    first, second = sent(shared, "a", changes), sent(shared, "a", changes)
    assert len(first) == 3
    assert all(mine is other for mine, other in zip(first, second, strict=True))


@pytest.mark.parametrize(("kept", "expected"), [(10, 1), (40, 2)])
def test_a_watch_that_is_ahead_takes_no_short_piece(kept, expected):
    """A piece is shared with a watch that has more changes if most of the piece is used."""
    changes = [change_of(revision, 1_000) for revision in range(1, 61)]
    shared = SharedPieces()
    sent(shared, "a", changes[:kept])
    assert len(sent(shared, "a", changes)) == expected


def test_few_pieces_are_kept():
    shared = SharedPieces()
    for revision in range(1, 10 * SHARED):
        sent(shared, "a", [change_of(revision, 1_000)])
    assert len(shared._kept) == SHARED
