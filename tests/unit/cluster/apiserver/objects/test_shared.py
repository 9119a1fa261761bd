"""Objects of the newest bodies are kept once for all, without managedFields."""

import json

from muster.api.core import CONFIG_MAP, ConfigMap
from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta
from muster.cluster.apiserver.objects.shared import JOINED_BYTES, MOST_BYTES, RECENT, SharedObjects
from muster.cluster.store import Entry, Header, Key
from muster.cluster.store.packing import Packing

HEADS: Kind[Object] = CONFIG_MAP.seen_as(Object)


def body(name: str, **data: str) -> bytes:
    managers = [{"manager": "m", "operation": "Update", "fieldsV1": {}}]
    return json.dumps(
        {"metadata": {"name": name, "resourceVersion": "7", "managedFields": managers}, "data": data}
    ).encode()


def test_a_body_is_decoded_once_for_each_type() -> None:
    shared, text = SharedObjects(), body("a")
    first = shared.decode(CONFIG_MAP, text)
    assert shared.decode(CONFIG_MAP, text) is first
    assert first == ConfigMap(metadata=ObjectMeta(name="a", resource_version="7"))
    assert shared.decode(HEADS, text).metadata == first.metadata


class Head(ConfigMap):
    """A ConfigMap of which nothing but the metadata matters."""


def test_a_view_is_the_whole_object_where_that_is_kept() -> None:
    shared, kept, other = SharedObjects(), body("a"), body("b")
    whole = shared.decode(CONFIG_MAP, kept)
    view = CONFIG_MAP.viewed_as(Head)
    assert shared.decode(view, kept) is whole
    assert type(shared.decode(view, other)) is Head
    assert type(shared.decode(CONFIG_MAP, other)) is ConfigMap


def test_equal_bodies_of_two_writes_are_two_objects() -> None:
    shared = SharedObjects()
    assert shared.decode(CONFIG_MAP, body("a")) is not shared.decode(CONFIG_MAP, body("a"))


def test_a_validated_object_is_not_decoded_again() -> None:
    shared, text = SharedObjects(), body("a")
    shared.add(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="a", resource_version="6")), text, "7")
    assert shared.find(CONFIG_MAP, text) is shared.decode(CONFIG_MAP, text)
    assert shared.decode(CONFIG_MAP, text) == SharedObjects().decode(CONFIG_MAP, text)


def test_big_objects_are_not_kept() -> None:
    shared, text = SharedObjects(), body("a", text="x" * MOST_BYTES)
    shared.add(CONFIG_MAP, CONFIG_MAP.decode(text), text, "7")
    assert shared.find(CONFIG_MAP, text) is None
    assert shared.decode(CONFIG_MAP, text) is not shared.decode(CONFIG_MAP, text)
    assert shared.decode(CONFIG_MAP, text).metadata.managed_fields == ()


def test_only_recent_objects_are_kept() -> None:
    shared = SharedObjects()
    texts = [body(str(number)) for number in range(3 * RECENT)]
    for text in texts:
        shared.decode(CONFIG_MAP, text)
    kept = [shared.find(CONFIG_MAP, text) is not None for text in texts]
    assert not kept[0]
    assert all(kept[-RECENT:])
    assert sum(kept) <= 2 * RECENT + 1


def packed(text: bytes) -> Entry:
    entry = Entry(Key("configmaps", "default", "a"), 7, text, Header())
    entry.pack(Packing())
    assert entry.is_packed
    return entry


def test_a_body_in_pieces_is_decoded_once() -> None:
    shared, entry = SharedObjects(), packed(body("a", text="x" * 5_000))
    assert shared.find_stored(CONFIG_MAP, entry) is None
    first = shared.decode(CONFIG_MAP, shared.read_body(entry))
    assert shared.decode(CONFIG_MAP, shared.read_body(entry)) is first
    assert shared.find_stored(CONFIG_MAP, entry) is first


def test_a_whole_body_is_read_as_it_is() -> None:
    shared, text = SharedObjects(), body("a")
    entry = Entry(Key("configmaps", "default", "a"), 7, text, Header())
    assert shared.find_stored(CONFIG_MAP, entry) is None
    assert shared.read_body(entry) is text
    first = shared.decode(CONFIG_MAP, text)
    assert shared.find_stored(CONFIG_MAP, entry) is first


def test_joined_bodies_have_a_bound() -> None:
    shared = SharedObjects()
    entries = [packed(body(str(number), text="x" * 50_000)) for number in range(3 * JOINED_BYTES // 50_000)]
    bodies = [shared.read_body(entry) for entry in entries]
    kept = [shared.read_body(entry) is text for entry, text in zip(entries[::-1], bodies[::-1], strict=True)]
    assert all(kept[: JOINED_BYTES // 60_000])
    assert sum(kept) * 50_000 <= 2 * JOINED_BYTES + 50_000
