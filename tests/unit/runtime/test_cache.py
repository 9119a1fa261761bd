"""The pure half of the informer: after any sequence of answers the cache is what the server said."""

import random as stdlib_random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace
from tests.unit.runtime.conftest import Thing

from muster.api.core import Pod
from muster.api.meta import ObjectMeta, UnreadManager
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, bad_request, expired, forbidden, unavailable
from muster.runtime.cache import Cache, Change, Reflector
from muster.runtime.client import WatchEvent
from muster.runtime.objects import ignores_status, key_of, remove_managed_fields
from muster.runtime.transport import TransportError, UnreadableAnswerError


def thing(name: str, version: int = 1, uid: str = "u", value: int = 0, **meta: Any) -> Thing:
    return Thing(metadata=ObjectMeta(name=name, uid=uid, resource_version=str(version), **meta), value=value)


def event(type: Any, obj: Thing) -> WatchEvent[Thing]:
    return WatchEvent(type, obj, obj.metadata.resource_version)


def by_value(obj: Thing) -> list[str]:
    return [str(obj.value), "even" if obj.value % 2 == 0 else "odd"]


# Indexes.


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 4) | st.none()), max_size=40), st.integers(0, 40))
def test_index_equals_a_search(steps: list[tuple[str, int | None]], added_at: int) -> None:
    cache: Cache[Thing] = Cache({"value": by_value})
    for number, (name, value) in enumerate(steps):
        if number == added_at:
            cache.add_index("late", by_value)
        if value is None:
            cache.remove(name)
        else:
            cache.put(name, thing(name, number, value=value))
    cache.add_index("late", by_value)
    for index in ("value", "late"):
        for wanted in ("0", "1", "2", "3", "4", "odd", "even", "none"):
            expected = [obj for obj in cache.all() if wanted in by_value(obj)]
            assert sorted(cache.by(index, wanted), key=key_of) == sorted(expected, key=key_of)
    assert all(objects for values in cache._indexes.values() for objects in values.values())


def test_an_index_that_ignores_the_status_is_computed_only_when_something_else_changes() -> None:
    asked: list[str] = []

    @ignores_status
    def by_label(obj: Pod) -> list[str]:
        asked.append(obj.metadata.resource_version)
        return list(obj.metadata.labels)

    def by_phase(obj: Pod) -> list[str]:
        return [obj.status.phase]

    cache: Cache[Pod] = Cache({"label": by_label, "phase": by_phase})
    first = Pod(metadata=ObjectMeta(name="p", labels={"a": ""}, resource_version="1"))
    running = replace(
        first, metadata=replace(first.metadata, resource_version="2"), status=replace(first.status, phase="Running")
    )
    labelled = replace(running, metadata=replace(running.metadata, labels={"b": ""}, resource_version="3"))
    cache.put("p", first)
    cache.put("p", running)
    assert asked == ["1"]
    assert (cache.by("label", "a"), cache.by("phase", "Running")) == ([running], [running])
    cache.put("p", labelled)
    assert (cache.by("label", "a"), cache.by("label", "b"), cache.by("phase", "Running")) == (
        [],
        [labelled],
        [labelled],
    )
    cache.remove("p")
    assert not any(cache._indexes.values())


def test_index_name_means_one_function() -> None:
    cache: Cache[Thing] = Cache({"value": by_value})
    cache.add_index("value", by_value)
    with pytest.raises(ValueError, match="'value' exists already"):
        cache.add_index("value", lambda obj: [])
    with pytest.raises(KeyError):
        cache.by("unheard", "x")


def test_order_does_not_depend_on_hashes() -> None:
    cache: Cache[Thing] = Cache({"one": lambda obj: ["x"]})
    names = [str(n) for n in range(100)]
    stdlib_random.Random(1).shuffle(names)
    for name in names:
        cache.put(name, thing(name))
    assert [obj.metadata.name for obj in cache.by("one", "x")] == names
    assert [obj.metadata.name for obj in cache.all()] == names


# Single answers.


def reflector(*objects: Thing, version: str = "10") -> Reflector[Thing]:
    made: Reflector[Thing] = Reflector(Cache({}), remove_managed_fields)
    made.replace_all(objects, version)
    return made


A, A2 = thing("a", 5), thing("a", 12, value=1)
REBORN = thing("a", 13, uid="other")


@pytest.mark.parametrize(
    ("found", "expected", "version"),
    [
        (event("ADDED", thing("b", 11)), [(None, thing("b", 11))], "11"),
        (event("MODIFIED", A2), [(A, A2)], "12"),
        (event("DELETED", A2), [(A, None)], "12"),
        (event("MODIFIED", thing("b", 11)), [(None, thing("b", 11))], "11"),
        (event("DELETED", thing("b", 11)), [], "11"),
        (event("ADDED", REBORN), [(A, None), (None, REBORN)], "13"),
        (event("BOOKMARK", thing("", 20)), [], "20"),
        # Late and repeated ones:
        (event("MODIFIED", thing("a", 4, value=9)), [], "10"),
        (event("DELETED", thing("a", 9)), [], "10"),
        (event("BOOKMARK", thing("", 3)), [], "10"),
        (event("ADDED", thing("a", 10, value=9)), [(A, thing("a", 10, value=9))], "10"),
    ],
)
def test_event_is_one_difference(found: WatchEvent[Thing], expected: list[Change[Thing]], version: str) -> None:
    known = reflector(A)
    assert known.apply_event(found) == expected
    assert known.version == version
    assert known.apply_event(found) == [], "a repetition changes nothing"


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    known = reflector(thing("a"), version="x9")
    other = Thing(metadata=ObjectMeta(name="a", uid="u", resource_version="b1"), value=4)
    assert known.apply_event(WatchEvent("MODIFIED", other, "b1")) == [(thing("a"), other)]
    assert known.version == "b1"


def test_versions_of_any_length_are_compared() -> None:
    known = reflector(A, version="9" * 5000)
    assert known.apply_event(event("DELETED", A)) == []
    assert known.apply_event(WatchEvent("DELETED", A, "1" + "0" * 5000)) == [(A, None)]


def test_list_tells_the_difference_with_tombstones() -> None:
    known = reflector(thing("a", 1), thing("b", 2), thing("c", 3), thing("d", 4, uid="old"))
    changes = known.replace_all([thing("b", 2), thing("c", 9, value=7), thing("d", 8, uid="new"), thing("e", 7)], "10")
    assert changes == [
        (thing("a", 1), None),
        (thing("c", 3), thing("c", 9, value=7)),
        (thing("d", 4, uid="old"), None),
        (None, thing("d", 8, uid="new")),
        (None, thing("e", 7)),
    ]
    assert [key_of(obj) for obj in known.cache.all()] == ["b", "c", "d", "e"]


def test_list_may_go_back_in_time() -> None:
    """A server restored from a backup: its list is the truth."""
    known = reflector(thing("a", 50, value=5), version="60")
    assert known.replace_all([thing("a", 7, value=1)], "20") == [(thing("a", 50, value=5), thing("a", 7, value=1))]
    assert known.version == "20"


@pytest.mark.parametrize("plain", [False, True])
def test_managed_fields_are_dropped(plain: bool) -> None:
    obj: Any = thing("a", managed_fields=(UnreadManager(),), labels={"x": "y"})
    if plain:
        obj = {"metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}], "labels": {"x": "y"}}}
    known: Reflector[Any] = Reflector(Cache({}), remove_managed_fields)
    ((_, stored),) = known.apply_event(WatchEvent("ADDED", obj, "5"))
    expected = {"metadata": {"name": "a", "labels": {"x": "y"}}} if plain else thing("a", labels={"x": "y"})
    assert stored == expected == known.cache.get("a")


TOO_LARGE = ApiError(
    Status(code=504, reason="Timeout", details=StatusDetails(causes=(StatusCause(reason="ResourceVersionTooLarge"),)))
)


@pytest.mark.parametrize(
    ("error", "resumes"),
    [
        (TransportError("reset"), True),
        (UnreadableAnswerError("?"), False),
        (unavailable("busy"), True),
        (ApiError(Status(code=429)), True),
        (ApiError(Status(code=504, details=StatusDetails())), True),
        (expired("too old"), False),
        (ApiError(Status(code=410, reason="Gone")), False),
        (bad_request("what"), False),
        (forbidden("no"), False),
        (TOO_LARGE, False),
    ],
)
def test_errors_decide_where_to_go_on(error: ApiError | TransportError, resumes: bool) -> None:
    known = reflector(A)
    known.handle_error(error)
    assert known.version == ("10" if resumes else "")
    assert known.cache.get("a") == A, "what is known stays known until the next list"


class Faults(RuleBasedStateMachine):
    """A server that changes, and answers that are late, repeated, cut off or expired."""

    def __init__(self) -> None:
        super().__init__()
        self.server: dict[str, Thing] = {}
        self.history: list[WatchEvent[Thing]] = []
        self.revision = 1
        self.oldest = 0
        self.reflector: Reflector[Thing] = Reflector(Cache({"value": by_value}), remove_managed_fields)
        self.newest: dict[str, int] = {}
        self.told: dict[str, Thing] = {}  # what somebody knows who only hears of the changes

    def hear(self, changes: list[Change[Thing]]) -> None:
        for old, new in changes:
            obj = new or old
            assert obj is not None
            assert old != new
            assert self.told.get(key_of(obj)) == old
            assert old is None or new is None or old.metadata.uid == new.metadata.uid
            version = int(obj.metadata.resource_version)
            assert version >= self.newest.get(key_of(obj), 0), "nothing goes back in time"
            self.newest[key_of(obj)] = version
            if new is None:
                del self.told[key_of(obj)]
            else:
                self.told[key_of(obj)] = new

    @rule(name=st.sampled_from("abc"), value=st.integers(0, 3))
    def write(self, name: str, value: int) -> None:
        self.revision += 1
        old = self.server.get(name)
        uid = old.metadata.uid if old else f"uid-{self.revision}"
        self.server[name] = new = thing(name, self.revision, uid, value)
        self.history.append(event("MODIFIED" if old else "ADDED", new))

    @rule(name=st.sampled_from("abc"))
    def delete(self, name: str) -> None:
        old = self.server.pop(name, None)
        if old:
            self.revision += 1
            gone = thing(name, self.revision, old.metadata.uid, old.value)
            self.history.append(event("DELETED", gone))

    @precondition(lambda self: not self.reflector.version)
    @rule()
    def list_all(self) -> None:
        self.hear(self.reflector.replace_all(list(self.server.values()), str(self.revision)))

    @precondition(lambda self: self.reflector.version)
    @rule(most=st.integers(0, 5), repeat=st.integers(0, 3), bookmark=st.booleans())
    def watch(self, most: int, repeat: int, bookmark: bool) -> None:
        """Some of the events after the resume point, with older ones mixed in, then the stream breaks."""
        since = int(self.reflector.version)
        if since < self.oldest:
            self.reflector.handle_error(expired("too old"))
            return
        old = [found for found in self.history if int(found.resource_version) <= since]
        new = [found for found in self.history if int(found.resource_version) > since]
        for found in old[len(old) - repeat :] + new[:most] + new[:most][-1:]:
            self.hear(self.reflector.apply_event(found))
        if bookmark and len(new) <= most:
            self.hear(self.reflector.apply_event(event("BOOKMARK", thing("", self.revision))))

    @rule()
    def compact(self) -> None:
        self.oldest = self.revision
        self.history.clear()

    @rule(error=st.sampled_from([TransportError("reset"), unavailable("busy"), forbidden("no"), TOO_LARGE]))
    def fail(self, error: ApiError | TransportError) -> None:
        self.reflector.handle_error(error)

    @invariant()
    def listeners_know_what_the_cache_knows(self) -> None:
        assert {key_of(obj): obj for obj in self.reflector.cache.all()} == self.told
        for value in ("odd", "even"):
            found = {key_of(obj) for obj in self.reflector.cache.by("value", value)}
            assert found == {key for key, obj in self.told.items() if value in by_value(obj)}

    def teardown(self) -> None:
        """Left alone, it arrives at the server's state."""
        for _ in range(3):
            if not self.reflector.version:
                self.list_all()
            else:
                self.watch(most=1000, repeat=0, bookmark=True)
        assert self.told == self.server


TestFaults = Faults.TestCase
