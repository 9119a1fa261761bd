import json

from muster.cluster.store import Change, Entry, Header, Key
from muster.cluster.store.packing import LEAST_BYTES, Packing
from muster.cluster.store.values import LONG_BYTES


def entry(revision: int, body: bytes = b'{"a":1}') -> Entry:
    return Entry(Key("pods", "default", "a"), revision, body, Header())


def test_keys_of_a_resource_sort_by_namespace_then_name() -> None:
    keys = [
        Key("pods", "b", "a"),
        Key("pods", "a-b", "a"),
        Key("pods", "a", "z"),
        Key("pods", "a", "b"),
        Key("pods", "", "z"),
    ]
    assert sorted(keys) == [keys[4], keys[3], keys[2], keys[1], keys[0]]


def test_the_line_of_a_change_is_encoded_once_and_carries_the_body_as_it_is() -> None:
    change = Change("MODIFIED", entry(7, b'{ "a" : 1.50 }'), entry(3))
    (line,) = change.line
    assert line == b'{"type":"MODIFIED","object":{ "a" : 1.50 }}\n'
    assert change.line is change.line
    assert json.loads(line)["object"] == {"a": 1.5}
    assert change.revision == 7


def test_a_long_body_is_not_copied_into_the_line() -> None:
    body = b'"%b"' % (b"x" * LONG_BYTES)
    change = Change("ADDED", entry(1, body), None)
    assert json.loads(b"".join(change.line)) == {"type": "ADDED", "object": "x" * LONG_BYTES}
    assert any(fragment is body for fragment in change.line)


def test_a_forgotten_line_is_made_again() -> None:
    change = Change("ADDED", entry(1), None)
    before = change.line
    change.forget_line()
    assert change.line == before


def test_entries_are_equal_only_if_they_are_one() -> None:
    assert entry(1) != entry(1)


def test_an_entry_that_is_packed_has_the_same_body_and_size() -> None:
    whole = b'{"metadata":{"labels":{}},"spec":"%b"}' % (b"x" * LEAST_BYTES)
    packed = entry(1, whole)
    packed.pack(Packing())
    packed.pack(Packing())
    assert packed.body == whole
    assert packed.body is not whole, "the entry keeps pieces"
    assert packed.size == len(whole)
