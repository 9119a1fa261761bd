"""Any sequence of writes, failures, watches, compactions and restarts, against a model of a few lines."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.cluster.store.kit import Faulty, delete, header_of, put, value_of

from muster.cluster.store import (
    Change,
    Compacted,
    Entry,
    Journal,
    Key,
    MemoryJournal,
    StorageFull,
    Store,
    Watch,
)
from muster.cluster.store.sqlite import SqliteJournal

T = TypeVar("T")

HISTORY = 8
MEMORY_DISK = Path("/dev/shm")  # a disk that need not be waited for: this is not about losing power
RESOURCES = ["pods", "nodes"]
NAMESPACES = ["a", "b"]
keys = st.builds(Key, st.sampled_from(RESOURCES), st.sampled_from(NAMESPACES), st.sampled_from("xyz"))
calls = st.lists(st.lists(st.tuples(keys, st.booleans()), min_size=1, max_size=4, unique_by=lambda step: step[0]))


@dataclass
class Watched:
    """A watch, with what the model knows of it."""

    watch: Watch
    resource: str
    namespace: str
    position: int
    reader: "asyncio.Task[list[Change]] | None" = None


@dataclass(frozen=True)
class Step:
    """One committed change, as the model remembers it."""

    revision: int
    type: str
    key: Key
    value: str | None
    previous: str | None


def step_of(change: Change) -> Step:
    return Step(change.revision, change.type, change.entry.key, value_of(change.entry), value_of(change.previous))


class StoreMachine(RuleBasedStateMachine):
    """The store must always show what the model shows."""

    def __init__(self, new_journal: Callable[[], Journal]) -> None:
        super().__init__()
        self.new_journal = new_journal
        self.runner = asyncio.Runner()
        self.state: dict[Key, Step] = {}
        self.log: list[Step] = []
        self.assigned = 0
        self.watches: list[Watched] = []
        self.values = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def start(self) -> None:
        self.run(self.open())

    async def open(self) -> None:
        self.journal = Faulty(self.new_journal())
        self.store = await Store(self.journal, header_of, history=HISTORY).open()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.stop())
        self.runner.close()

    async def stop(self) -> None:
        await self.store.close()
        readers = [watched.reader for watched in self.watches if watched.reader is not None]
        await asyncio.gather(*readers, return_exceptions=True)

    # -- writes

    @rule(calls=calls)
    def write(self, calls: list[list[tuple[Key, bool]]]) -> None:
        async def work() -> None:
            steps, done = await self.decide(calls)
            for entries, expected in zip(await asyncio.gather(*done), steps, strict=True):
                assert [entry.revision for entry in entries] == [step.revision for step in expected]
            for call in steps:
                for step in call:
                    self.log.append(step)
                    if step.type == "DELETED":
                        del self.state[step.key]
                    else:
                        self.state[step.key] = step

        self.run(work())

    @rule(calls=calls)
    def fail_to_write(self, calls: list[list[tuple[Key, bool]]]) -> None:
        async def work() -> None:
            self.journal.failures = [StorageFull("the disk")]
            _, done = await self.decide(calls)
            results = await asyncio.gather(*done, return_exceptions=True)
            assert all(isinstance(result, StorageFull) for result in results)
            self.journal.failures = []

        self.run(work())

    async def decide(
        self, calls: list[list[tuple[Key, bool]]]
    ) -> tuple[list[list[Step]], list["asyncio.Future[list[Entry]]"]]:
        """Begin the writes, the first one in a batch of its own; what the model says that they are."""
        self.journal.gate.clear()
        latest: dict[Key, str | None] = {key: step.value for key, step in self.state.items()}
        steps, done = [], []
        for call in calls:
            writes, expected = [], []
            for key, remove in call:
                before = latest.get(key)
                assert value_of(self.store.latest(key)) == before
                if remove and before is None:
                    continue
                self.values += 1
                self.assigned += 1
                value = str(self.values)
                writes.append((delete if remove else put)(key, value))
                type = "DELETED" if remove else "MODIFIED" if before else "ADDED"
                expected.append(Step(self.assigned, type, key, value, before))
                latest[key] = None if remove else value
            if writes:
                done.append(self.store.write(*writes))
                steps.append(expected)
                await asyncio.sleep(0)
        for resource in RESOURCES:
            shown = {entry.key: value_of(entry) for entry in self.store.latest_list(resource).entries}
            assert shown == {key: value for key, value in latest.items() if value and key.resource == resource}
        self.journal.gate.set()
        return steps, done

    # -- watches

    @rule(resource=st.sampled_from(RESOURCES), namespace=st.sampled_from(["", *NAMESPACES]), back=st.integers(0, 12))
    def watch(self, resource: str, namespace: str, back: int) -> None:
        since = max(self.store.revision - back, 0)
        if since < self.oldest(resource):
            with pytest.raises(Compacted):
                self.store.watch(resource, since, namespace)
        else:
            watch = self.store.watch(resource, since, namespace)
            self.watches.append(Watched(watch, resource, namespace, since))

    def oldest(self, resource: str) -> int:
        """The history is to hold `HISTORY` changes of each resource unless they are compacted."""
        oldest = self.store._find_collection(resource).changes.oldest
        own = [step.revision for step in self.log if step.key.resource == resource]
        assert oldest <= max([self.store.oldest, *own[: -HISTORY or None][-1:]])
        return oldest

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        watched = data.draw(st.sampled_from(self.watches))

        async def work() -> None:
            if watched.reader is None:
                watched.reader = asyncio.create_task(watched.watch.next())
                await asyncio.sleep(0)

        self.run(work())

    @precondition(lambda self: self.watches)
    @rule(data=st.data(), give_up=st.booleans())
    def read(self, data: st.DataObject, give_up: bool) -> None:
        self.run(self.take(data.draw(st.sampled_from(self.watches)), give_up))

    async def take(self, watched: Watched, give_up: bool) -> None:
        expected = [
            step
            for step in self.log
            if step.revision > watched.position
            and step.key.resource == watched.resource
            and watched.namespace in ("", step.key.namespace)
        ]
        if give_up and watched.reader is not None and not watched.reader.done():
            watched.reader.cancel()
            await asyncio.gather(watched.reader, return_exceptions=True)
            watched.reader = None
        if not expected and (watched.reader is None or not watched.reader.done()):
            return
        reader, watched.reader = watched.reader or asyncio.create_task(watched.watch.next()), None
        try:
            found = [step_of(change) for change in await reader]
        except Compacted:
            behind = watched.position < self.oldest(watched.resource)
            assert behind
            self.watches.remove(watched)
            return
        assert found
        assert found == expected[: len(found)]
        watched.position = watched.watch.revision
        assert found[-1].revision <= watched.position <= self.store.revision
        assert all(step.revision > watched.position for step in expected[len(found) :])

    # -- upkeep

    @rule(back=st.integers(0, 6))
    def compact(self, back: int) -> None:
        self.run(self.store.compact(self.store.revision - back))

    def restart(self) -> None:
        async def work() -> None:
            before = self.store.oldest
            await self.stop()
            await self.open()
            assert self.store.oldest == before
            self.watches, old = [], self.watches
            for watched in old:
                if watched.position >= self.oldest(watched.resource):
                    watch = self.store.watch(watched.resource, watched.position, watched.namespace)
                    self.watches.append(Watched(watch, watched.resource, watched.namespace, watched.position))

        self.run(work())
        self.assigned = self.store.revision

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.revision == max([self.store.oldest, *(step.revision for step in self.log[-1:])])
        for resource in RESOURCES:
            for namespace in ("", *NAMESPACES):
                shown = self.store.list(resource, namespace)
                expected = [key for key in sorted(self.state) if key.resource == resource]
                expected = [key for key in expected if namespace in ("", key.namespace)]
                assert [entry.key for entry in shown.entries] == expected
                for entry in shown.entries:
                    step = self.state[entry.key]
                    assert (entry.revision, value_of(entry)) == (step.revision, step.value)
                    assert self.store.get(entry.key) is self.store.latest(entry.key) is entry


class DurableMachine(StoreMachine):
    """The same with restarts."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="store-", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None))
        super().__init__(lambda: SqliteJournal(self.directory))

    @rule()
    def restart(self) -> None:
        super().restart()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


class MemoryMachine(StoreMachine):
    """Without restarts, which it would not survive."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal)


def check(machine: type[StoreMachine], examples: int, long: bool) -> None:
    options = settings(
        max_examples=20 * examples if long else examples,
        stateful_step_count=30,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=options)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_in_memory(long: bool) -> None:
    check(MemoryMachine, 60, long)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_on_disk_with_restarts(long: bool) -> None:
    check(DurableMachine, 30, long)
