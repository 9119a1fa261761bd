"""Small objects to put into stores, and the two kinds of stores to put them into."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from muster.cluster.store import Delete, Entry, Header, Journal, Key, Put, Store
from muster.cluster.store.errors import WriteRefused
from muster.cluster.store.journal import JournalRecord


def header_of(resource: str, body: bytes) -> Header:
    """Objects here are `{"revision": 1, "value": "x"}`; the value is their only label."""
    value = json.loads(body)["value"]
    return Header(uid=f"{resource}-{value}", labels={"value": value})


def key(name: str, namespace: str = "default", resource: str = "pods") -> Key:
    return Key(resource, namespace, name)


def put(key: Key, value: str = "x") -> Put:
    return Put(key, lambda revision: b'{"revision":%d,"value":"%b"}' % (revision, value.encode()))


def delete(key: Key, value: str = "gone") -> Delete:
    return Delete(key, put(key, value).encode)


def value_of(entry: Entry | None) -> str | None:
    return None if entry is None else str(json.loads(entry.body)["value"])


class Faulty:
    """A journal whose next appends fail as told, or wait until they are let go."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.durable = journal.durable
        self.failures: list[BaseException] = []
        self.full: WriteRefused | None = None  # why nothing new should be stored
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[int] = []  # their sizes

    async def append(self, records: Sequence[JournalRecord]) -> None:
        self.batches.append(len(records))
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        await self.journal.append(records)

    def find_fullness(self) -> WriteRefused | None:
        return self.full or self.journal.find_fullness()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)


@dataclass(frozen=True)
class Kit:
    """A kind of store, and the loop that it is tested on."""

    new_journal: Callable[[], Journal]  # of the same place every time
    run: Callable[[Coroutine[Any, Any, None]], None]

    def store(self, **options: Any) -> Store:
        return Store(self.new_journal(), header_of, **options)

    def on(self, test: Callable[[Store], Awaitable[object]], **options: Any) -> None:
        """Run a test with an open store."""

        async def body() -> None:
            async with self.store(**options) as store:
                await test(store)

        self.run(body())

    def on_faulty(self, test: Callable[[Store, Faulty], Awaitable[None]], **options: Any) -> None:
        """Run a test with an open store whose journal fails as told."""

        async def body() -> None:
            journal = Faulty(self.new_journal())
            async with Store(journal, header_of, **options) as store:
                await test(store, journal)

        self.run(body())
