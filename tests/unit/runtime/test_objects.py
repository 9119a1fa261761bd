"""Keys and references of any object, typed or plain; patches that make one state of it another."""

from typing import Any

import msgspec
import pytest

from muster.api.core import POD, Pod
from muster.api.meta import ObjectMeta, OwnerReference, Struct
from muster.api.patch.merge import apply
from muster.runtime.objects import (
    NO_REVISION,
    family_of,
    key_of,
    make_reference,
    merge_patch,
    meta_of,
    parse_revision,
    revision_of,
    split_key,
)


def test_what_one_controller_has_made_is_a_family():
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    made = Pod(metadata=ObjectMeta(namespace="a", name="b", owner_references=(owner,)))
    assert family_of("a/b", made) == ("a", "u")
    assert family_of("a/b", Pod(metadata=ObjectMeta(namespace="a", name="b"))) == family_of("a/c", None) == ("a", "")
    assert family_of("b", None) == ("", "")


@pytest.mark.parametrize(
    ("obj", "key"),
    [
        (Pod(metadata=ObjectMeta(namespace="a", name="b")), "a/b"),
        (Pod(metadata=ObjectMeta(name="b")), "b"),
        ({"metadata": {"namespace": "a", "name": "b", "unheard": 1}}, "a/b"),
        ({"metadata": {"name": "b"}}, "b"),
    ],
)
def test_key_is_namespace_and_name(obj: Any, key: str) -> None:
    assert key_of(obj) == key
    namespace, name = split_key(key)
    assert (namespace, name) == (meta_of(obj).namespace, meta_of(obj).name)


@pytest.mark.parametrize(
    ("old", "new"),
    [("", "1"), ("abc", "1"), ("-3", "1"), ("0", "1"), ("9", "10"), ("10", "11"), ("9" * 5000, "1" + "0" * 5000)],
)
def test_the_newer_has_the_greater_revision(old: str, new: str) -> None:
    assert parse_revision(old) < parse_revision(new)
    assert revision_of(Pod(metadata=ObjectMeta(resource_version=old))) == parse_revision(old)
    assert revision_of({"metadata": {"resourceVersion": new}}) == parse_revision(new)


@pytest.mark.parametrize("version", ["", "abc", "-3", "1.5"])
def test_of_what_is_no_number_the_age_is_not_known(version: str) -> None:
    assert parse_revision(version) == NO_REVISION


def test_plain_object_without_metadata_has_an_empty_one() -> None:
    assert meta_of({}) == ObjectMeta()


def test_reference_names_the_very_object() -> None:
    pod = Pod(metadata=ObjectMeta(namespace="a", name="b", uid="u", resource_version="7"))
    found = make_reference(POD, pod, "spec.containers{main}")
    assert (found.api_version, found.kind, found.namespace, found.name) == ("v1", "Pod", "a", "b")
    assert (found.uid, found.resource_version, found.field_path) == ("u", "7", "spec.containers{main}")


class Part(Struct):
    """A part of an object, with parts."""

    count: int = 0
    note: str | None = None
    labels: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every object its own)
    items: tuple[str, ...] = ()
    inner: "Part | None" = None


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        (Part(), Part(), {}),
        (Part(note="a"), Part(), {"note": None}),
        (Part(items=("a", "b")), Part(items=("b",)), {"items": ["b"]}),
        (Part(labels={"a": "1", "b": "2"}), Part(labels={"a": "3"}), {"labels": {"a": "3", "b": None}}),
        (Part(inner=Part(note="a", count=1)), Part(inner=Part(count=1)), {"inner": {"note": None}}),
        (
            Part(inner=Part(labels={"a": "1"})),
            Part(inner=Part(labels={"b": "1"})),
            {"inner": {"labels": {"a": None, "b": "1"}}},
        ),
        (Part(inner=Part()), Part(), {"inner": None}),
    ],
)
def test_a_merge_patch_says_what_differs(old: Part, new: Part, patch: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(merge_patch(new, old))) == patch
    assert msgspec.convert(apply(msgspec.to_builtins(old), patch), Part) == new


def test_without_the_old_state_a_merge_patch_takes_away_all_that_is_absent() -> None:
    whole = {"count": None, "note": None, "labels": None, "items": None, "inner": None}
    assert merge_patch(Part(inner=Part(count=1))) == whole | {"inner": whole | {"count": 1}}
