"""Tokens, and states at past revisions."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.request.paging import Snapshots, Token, decode_token, encode_token, find_index_after
from muster.cluster.store import Delete, Entry, Header, Key, MemoryJournal, Put, Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
names = st.text("abc-.", min_size=1, max_size=4)


@given(names, names, st.integers(1, 2**62))
def test_tokens(namespace, name, revision):
    token = decode_token(encode_token(revision, Key("pods", namespace, name)))
    assert token == Token(v="meta.k8s.io/v1", rv=revision, start=f"{namespace}/{name}")


@given(st.text(max_size=50))
def test_what_is_no_token(text):
    with pytest.raises(ApiError) as error:
        decode_token(text)
    assert error.value.code == 400


@given(st.lists(st.tuples(names, names), unique=True), st.tuples(names, names))
def test_a_page_goes_on_after_its_last(keys, last):
    entries = tuple(Entry(Key("pods", *key), 1, b"", Header()) for key in sorted(keys))
    rest = entries[find_index_after(entries, "/".join(last)) :]
    assert [entry.key[1:] for entry in rest] == [key for key in sorted(keys) if key > last]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("xyz")), max_size=20))
def test_every_past_state_can_be_shown_again(steps):
    async def body():
        async with Store(MemoryJournal(), lambda _resource, _body: Header()) as store:
            snapshots = Snapshots(store)
            seen = {}
            for put, namespace, name in steps:
                key = Key("pods", namespace, name)
                if put:
                    await store.write(Put(key, lambda revision: b"%d" % revision))
                elif store.latest(key):
                    await store.write(Delete(key, lambda revision: b"%d" % revision))
                else:
                    await store.write(Put(Key("other", "", "o"), lambda revision: b""))
                for where in ("", "a"):
                    seen[store.revision, where] = store.list("pods", where).entries
            for (revision, where), entries in seen.items():
                found = snapshots.at("pods", where, revision, NOW)
                assert found is not None
                assert (found.revision, found.entries) == (revision, entries)

    asyncio.run(body())
