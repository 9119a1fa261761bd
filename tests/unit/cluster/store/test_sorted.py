import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.store import Entry, Header, Key
from muster.cluster.store.sorted import CHUNK, SortedEntries


def entry(namespace: str, name: str, revision: int = 1) -> Entry:
    return Entry(Key("pods", namespace, name), revision, b"", Header())


namespaces = st.sampled_from(["a", "a-b", "b", "", "a\0"])
names = st.integers(0, 400).map(str)
steps = st.lists(st.tuples(st.booleans(), namespaces, names), max_size=3 * CHUNK)


@given(st.lists(st.tuples(namespaces, names), max_size=3 * CHUNK), steps)
def test_it_is_a_sorted_dict(start: list[tuple[str, str]], steps: list[tuple[bool, str, str]]) -> None:
    model = {(namespace, name): entry(namespace, name) for namespace, name in start}
    tested = SortedEntries(model.values())
    for revision, (remove, namespace, name) in enumerate(steps):
        if not remove:
            model[namespace, name] = entry(namespace, name, revision)
            tested.put(model[namespace, name])
        elif (namespace, name) in model:
            del model[namespace, name]
            tested.remove(Key("pods", namespace, name))
    assert tested.of("pods", "") == tuple(model[key] for key in sorted(model))
    for wanted in ("a", "a-b", "b"):
        assert tested.of("pods", wanted) == tuple(model[key] for key in sorted(model) if key[0] == wanted)


@pytest.mark.parametrize("order", [1, -1, 7919])
def test_many_entries_in_any_order_of_arrival(order: int) -> None:
    count = 20 * CHUNK
    every = {name: entry("a", f"{name:06d}") for name in range(count)}
    tested = SortedEntries()
    for number in range(count):
        tested.put(every[number * order % count])
    assert tested.of("pods", "a") == tuple(every[name] for name in sorted(every))
    for number in range(count):
        tested.remove(every[number * order % count].key)
    assert tested.of("pods", "") == ()


def test_what_was_read_does_not_change() -> None:
    tested = SortedEntries([entry("a", "1"), entry("a", "2")])
    before = tested.of("pods", "a")
    tested.put(entry("a", "1", 2))
    tested.put(entry("a", "3"))
    tested.remove(Key("pods", "a", "2"))
    assert [(e.key.name, e.revision) for e in before] == [("1", 1), ("2", 1)]
