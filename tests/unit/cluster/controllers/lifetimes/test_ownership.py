"""What follows when an owner goes, rule by rule, and as a law: nothing is left, nothing is taken by mistake."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectMeta, OwnerReference
from muster.cluster.controllers.lifetimes.ownership import Delete, DropFinalizer, DropReferences, Graph, Item, decide


def item(uid, *owners, finalizers=(), deleting=False, block=True):
    references = tuple(
        OwnerReference(api_version="v1", kind="K", name=o, uid=o, block_owner_deletion=block) for o in owners
    )
    return Item("things", "default", uid, uid, references, tuple(finalizers), deleting)


METADATA = st.builds(
    ObjectMeta,
    name=st.just("a"),
    namespace=st.just("default"),
    uid=st.just("a"),
    resource_version=st.sampled_from("12"),
    owner_references=st.lists(
        st.builds(
            OwnerReference, api_version=st.just("v1"), kind=st.just("K"), name=st.just("b"), uid=st.sampled_from("bc")
        ),
        max_size=2,
    ).map(tuple),
    finalizers=st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
    deletion_timestamp=st.sampled_from([None, datetime(2026, 1, 1, tzinfo=UTC)]),
)


@given(METADATA, METADATA, st.sampled_from(["things", "others"]))
def test_an_item_agrees_with_metadata_that_would_make_the_same_item(old, new, resource):
    known = Item.of("things", old)
    assert known.agrees_with(resource, new) == (known == Item.of(resource, new))


A, CHILD = item("a"), item("child", "a")
TWO = item("child", "a", "b")
FREE = item("child", "a", block=False)


@pytest.mark.parametrize(
    ("subject", "dependents", "absent", "waiting", "expected"),
    [
        pytest.param(A, [CHILD], "", "", [], id="no owner: stays"),
        pytest.param(CHILD, [], "", "", [], id="owner exists: stays"),
        pytest.param(CHILD, [], "a", "", [Delete(CHILD, False)], id="owner gone: goes"),
        pytest.param(TWO, [], "a", "", [DropReferences(TWO, frozenset("a"))], id="one of two gone: the reference goes"),
        pytest.param(TWO, [], "ab", "", [Delete(TWO, False)], id="both gone: goes"),
        pytest.param(CHILD, [], "", "a", [Delete(CHILD, False)], id="owner waits: goes"),
        pytest.param(CHILD, [item("g", "child")], "", "a", [Delete(CHILD, True)], id="and lets its own go first"),
        pytest.param(TWO, [], "", "a", [DropReferences(TWO, frozenset("a"))], id="another owner holds it"),
    ],
)
def test_an_object_that_is_owned(subject, dependents, absent, waiting, expected):
    assert decide(subject, dependents, frozenset(absent), frozenset(waiting)) == expected


FRONT = item("a", finalizers=[FOREGROUND_FINALIZER], deleting=True)
LEAVE = item("a", finalizers=[ORPHAN_FINALIZER], deleting=True)
OTHERS = item("a", finalizers=["example.com/x"], deleting=True)


@pytest.mark.parametrize(
    ("subject", "dependents", "expected"),
    [
        pytest.param(FRONT, [CHILD], [], id="foreground waits for dependents"),
        pytest.param(
            FRONT, [FREE], [DropFinalizer(FRONT, FOREGROUND_FINALIZER)], id="but not for those that do not block"
        ),
        pytest.param(FRONT, [], [DropFinalizer(FRONT, FOREGROUND_FINALIZER)], id="foreground is done"),
        pytest.param(LEAVE, [CHILD], [DropReferences(CHILD, frozenset("a"))], id="orphans are let go"),
        pytest.param(LEAVE, [], [DropFinalizer(LEAVE, ORPHAN_FINALIZER)], id="orphaning is done"),
        pytest.param(OTHERS, [CHILD], [], id="somebody else's finalizer"),
    ],
)
def test_an_object_that_is_being_deleted(subject, dependents, expected):
    assert decide(subject, dependents, frozenset(), frozenset()) == expected


def test_the_graph_follows_changes_of_owners():
    graph = Graph()
    graph.put(CHILD)
    assert list(graph.dependents("a")) == [CHILD]
    graph.put(item("child", "b"))
    assert list(graph.dependents("a")) == []
    graph.remove("child")
    assert list(graph.dependents("b")) == []
    assert graph.was_deleted("child")
    assert not graph.was_deleted("b")


def test_dependents_keep_the_order_in_which_they_came():
    graph = Graph()
    for name in ("z", "a", "m"):
        graph.put(item(name, "owner"))
    graph.put(item("z", "owner", deleting=True))
    assert [dependent.uid for dependent in graph.dependents("owner")] == ["z", "a", "m"]
    assert next(graph.dependents("owner")).deleting


def test_an_object_of_another_namespace_holds_up_no_owner():
    graph, stranger = Graph(), replace(item("stranger", "a"), namespace="other")
    for one in (FRONT, CHILD, stranger):
        graph.put(one)
    assert list(graph.yield_blocking(FRONT)) == [CHILD]
    graph.remove("a")
    assert list(graph.dependents("a")) == [CHILD, stranger], "both have lost their owner"


@pytest.mark.parametrize(
    ("subject", "looked_at"),
    [pytest.param(FRONT, 1, id="one that blocks is enough"), pytest.param(OTHERS, 0, id="no matter how many")],
)
def test_no_more_dependents_are_looked_at_than_need_be(subject, looked_at):
    dependents = (item(f"d{n}", "a") for n in range(1000))
    assert decide(subject, dependents, frozenset(), frozenset()) == []
    assert len(list(dependents)) == 1000 - looked_at


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10),
    st.sampled_from([None, FOREGROUND_FINALIZER, ORPHAN_FINALIZER]),
)
def test_after_a_deletion_exactly_those_without_a_living_owner_are_gone(owners, how):
    """A small cluster that does what it is told until nobody has anything to do."""
    everything = {}
    for number, names in enumerate(owners):
        everything[f"o{number}"] = item(f"o{number}", *(f"o{n}" for n in sorted(set(names)) if n < number))
    expected = set(everything) - {"o0"}
    if how != ORPHAN_FINALIZER:
        for uid in sorted(expected, key=lambda uid: int(uid[1:])):
            names = [owner.uid for owner in everything[uid].owners]
            if names and not any(name in expected for name in names):
                expected.discard(uid)
    graph = Graph()
    for thing in everything.values():
        graph.put(thing)
    delete(graph, "o0", how)
    while settle(graph):
        pass
    assert set(graph.items) == expected
    alive = set(graph.items)
    assert all(owner.uid in alive for thing in graph.items.values() for owner in thing.owners)


def delete(graph, uid, how):
    thing = graph.items[uid]
    finalizers = (*thing.finalizers, how) if how else thing.finalizers
    if finalizers:
        graph.put(item(uid, *(o.uid for o in thing.owners), finalizers=finalizers, deleting=True))
    else:
        graph.remove(uid)


def settle(graph):
    for uid in list(graph.items):
        thing = graph.items[uid]
        absent = frozenset(o.uid for o in thing.owners if o.uid not in graph.items)
        waiting = frozenset(
            o.uid for o in thing.owners if o.uid in graph.items and graph.items[o.uid].waits_for_dependents
        )
        actions = decide(thing, graph.dependents(uid), absent, waiting)
        for action in actions:
            match action:
                case Delete(target, foreground):
                    delete(graph, target.uid, FOREGROUND_FINALIZER if foreground else None)
                case DropReferences(target, gone):
                    left = [o.uid for o in target.owners if o.uid not in gone]
                    graph.put(item(target.uid, *left, finalizers=target.finalizers, deleting=target.deleting))
                case DropFinalizer(target, name):
                    left = [f for f in target.finalizers if f != name]
                    if left:
                        owners = [o.uid for o in target.owners]
                        graph.put(item(target.uid, *owners, finalizers=left, deleting=True))
                    else:
                        graph.remove(target.uid)
        if actions:
            return True
    return False
