"""What holds of field management whatever is written, by whom, in which order."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.apiserver.fields.test_cases import SCHEMA, VERSION, document

from muster.api.status import ApiError
from muster.cluster.apiserver.fields import FieldSchema, FieldSet, Writer, apply, is_same_but_times, update_managers
from muster.cluster.apiserver.fields.compare import compare, list_all_paths
from muster.cluster.apiserver.fields.config import find_applied_fields
from muster.cluster.apiserver.fields.sets import intersect_sets, list_paths, make_canonical, subtract_set, unite_sets

pytestmark = pytest.mark.timeout(900)  # the long form takes its time

NUMBERS = st.integers(0, 2)
NAMES = st.sampled_from("xyz")
WORDS = st.sampled_from(["v", "w"])


def members(**fields: Any) -> Any:
    return st.fixed_dictionaries({}, optional=fields)


ITEM = members(value=NUMBERS, other=NUMBERS, args=st.lists(WORDS, max_size=2), labels=st.dictionaries(NAMES, WORDS))
FREE = st.recursive(
    NUMBERS | WORDS | st.booleans(),
    lambda inner: st.dictionaries(NAMES, inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=4,
)


def keyed(items: dict[str, Any]) -> list[Any]:
    return [{"name": name, **item} for name, item in items.items()]


# Lists of items and sets are never empty: applied, an empty one says nothing at all.
SPECS = members(
    a=NUMBERS,
    b=NUMBERS,
    word=WORDS,
    labels=st.dictionaries(NAMES, WORDS, min_size=1),
    struct=members(x=NUMBERS, y=NUMBERS),
    whole=st.dictionaries(NAMES, WORDS),
    list=st.lists(NUMBERS, max_size=2),
    set=st.lists(NAMES, unique=True, min_size=1, max_size=2),
    named=st.dictionaries(NAMES, ITEM, min_size=1, max_size=2).map(keyed),
    ports=st.lists(
        st.fixed_dictionaries({"port": NUMBERS, "protocol": st.sampled_from(["TCP", "UDP"])}),
        min_size=1,
        max_size=2,
        unique_by=lambda port: (port["port"], port["protocol"]),
    ),
    maps=st.dictionaries(NAMES, st.dictionaries(NAMES, NUMBERS, max_size=2), max_size=2),
    free=FREE,
)
STEPS = st.lists(st.tuples(st.sampled_from(["A", "B", "U", "V"]), SPECS, st.booleans()), min_size=1, max_size=4)


def second(number: int) -> str:
    return f"2026-01-01T00:00:{number:02}Z"


def tried(live: Any, writer: Writer, spec: Any, number: int, *, force: bool = False) -> Any:
    """The object after an apply; None if it conflicts."""
    try:
        return apply(live, document(spec), writer, second(number), SCHEMA, force=force)
    except ApiError as error:
        if error.code != 409:
            raise
        return None


def written(live: Any, manager: str, spec: Any, force: bool, number: int) -> Any:
    """A and B apply, U and V update. A conflict leaves the object as it was."""
    writer = Writer(manager, VERSION)
    if manager in "AB":
        return tried(live, writer, spec, number, force=force) or live
    new = document(copy.deepcopy(spec))
    update_managers(live, new, writer, second(number), SCHEMA, None)
    return new


def history(steps: Any) -> Any:
    live = None
    for number, (manager, spec, force) in enumerate(steps):
        live = written(live, manager, spec, force, number)
    return live


def owned_by(obj: Any, manager: str) -> FieldSet:
    return next((e["fieldsV1"] for e in obj["metadata"].get("managedFields", []) if e["manager"] == manager), {})


def owned(obj: Any) -> set[str]:
    return {path for entry in obj["metadata"].get("managedFields", []) for path in list_paths(entry["fieldsV1"])}


def filled(value: Any) -> Any:
    """The value without empty parts: what an update has emptied is nobody's."""
    if isinstance(value, dict):
        return {name: kept for name, item in value.items() if (kept := filled(item)) not in ({}, [])}
    return [filled(item) for item in value] if isinstance(value, list) else value


def fields_of(spec: Any) -> FieldSet:
    applied = find_applied_fields(document(spec), SCHEMA)
    return subtract_set(applied, {"f:apiVersion": {}, "f:kind": {}, "f:metadata": {}}) or {}


@given(STEPS, SPECS)
def test_applying_twice_changes_nothing(steps, spec):
    once = apply(history(steps), document(spec), Writer("A", VERSION), second(10), SCHEMA, force=True)
    assert apply(once, document(spec), Writer("A", VERSION), second(11), SCHEMA, force=False) == once
    assert is_same_but_times(once, copy.deepcopy(once))


@given(STEPS, SPECS)
def test_an_applier_owns_what_it_applied_and_has_its_values(steps, spec):
    obj = apply(history(steps), document(spec), Writer("A", VERSION), second(10), SCHEMA, force=True)
    assert owned_by(obj, "A") == fields_of(spec)
    # Merged into the object once more, the configuration makes no difference.
    assert apply(obj, document(spec), Writer("C", VERSION), second(11), SCHEMA, force=False).get("spec") == obj.get(
        "spec"
    )


@given(STEPS, SPECS)
def test_without_force_nobody_loses_anything(steps, spec):
    live = history(steps)
    obj = tried(live, Writer("A", VERSION), spec, 10)
    if obj is None:
        return
    for manager in "BUV":
        kept = set(list_paths(owned_by(obj, manager)))
        # What goes besides is in items that A alone had made, and took away.
        gone = compare(live or {}, obj, SCHEMA).removed
        assert kept | set(list_paths(gone)) >= set(list_paths(owned_by(live, manager))) if live else not kept


@given(SPECS, SPECS, SPECS)
def test_two_appliers_never_lose_each_others_fields(first, second_spec, third):
    """Whatever B does without force, the fields of A keep A's values."""
    live = apply(None, document(first), Writer("A", VERSION), second(0), SCHEMA, force=False)
    for number, spec in enumerate((second_spec, third)):
        live = tried(live, Writer("B", VERSION), spec, number + 1) or live
        assert owned_by(live, "A") == fields_of(first)
        again = apply(live, document(first), Writer("A", VERSION), second(9), SCHEMA, force=False)
        changed = compare(live, again, SCHEMA)
        assert not {path for path in list_paths(changed.gained) if not path.startswith(".metadata")}


@given(STEPS)
def test_whatever_is_there_has_an_owner(steps):
    obj = history(steps)
    if "managedFields" not in obj["metadata"]:
        return  # an object of which nobody manages anything any more stays so until the next apply
    there = set(list_paths(list_all_paths(filled(obj.get("spec", {})), SCHEMA.member("spec"))))
    leaves = {path for path in there if not any(other.startswith((f"{path}.", f"{path}[")) for other in there)}
    assert {f".spec{path}" for path in leaves} <= owned(obj)


@given(STEPS)
def test_whoever_gives_up_everything_leaves_nothing_of_its_own(steps):
    obj = history(steps)
    for manager in "AB":
        obj = apply(obj, document("none"), Writer(manager, VERSION), second(20), SCHEMA, force=False)
        assert owned_by(obj, manager) == {}


@given(STEPS)
def test_nothing_is_changed_in_place(steps):
    live = history(steps)
    before = copy.deepcopy(live)
    config = document({"a": 1, "named": [{"name": "x", "value": 1}]})
    sent = copy.deepcopy(config)
    obj = apply(live, config, Writer("A", VERSION), second(10), SCHEMA, force=True)
    obj["spec"]["named"][-1]["mine"] = True
    update_managers(live, document({}), Writer("U", VERSION), second(11), SCHEMA, None)
    assert config == sent
    assert {k: v for k, v in live.items() if k != "spec"} == {k: v for k, v in before.items() if k != "spec"}


@given(SPECS, SPECS)
def test_an_update_owns_just_what_it_changed(old, new):
    live, after = document(old), document(new)
    update_managers(None, live, Writer("U", VERSION), second(0), SCHEMA, None)
    update_managers(live, after, Writer("V", VERSION), second(1), SCHEMA, None)
    changes = compare(live, after, SCHEMA)
    mine = subtract_set(changes.gained, {"f:metadata": {}}) or {}
    assert owned_by(after, "V") == mine
    assert not changes.lost or not intersect_sets(owned_by(after, "U") or {"f:none": {}}, changes.lost)


SETS = SPECS.map(lambda spec: list_all_paths({"spec": spec}, SCHEMA)) | SPECS.map(fields_of)


@given(SETS, SETS)
def test_sets_are_sets(first, other):
    def listed(fields: FieldSet | None) -> set[str]:
        return set(list_paths(fields or {}))

    if not first or not other:
        return
    both, left, shared = (
        listed(unite_sets(first, other)),
        listed(subtract_set(first, other)),
        listed(intersect_sets(first, other)),
    )
    assert both == listed(first) | listed(other)
    assert left | shared == listed(first)
    assert not left & shared
    assert shared >= listed(first) & listed(other)
    assert unite_sets(first, first) == first
    assert (subtract_set(first, other) is first) == (not shared)
    assert make_canonical(json.loads(json.dumps(first))) == first
    assert subtract_set(first, first) is None


def test_the_schema_of_objects_without_properties():
    assert FieldSchema.of({"type": "object"}).member("spec").open
