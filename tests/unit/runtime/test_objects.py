"""Keys and references of any object, typed or plain."""

from typing import Any

import pytest

from muster.api.core import POD, Pod
from muster.api.meta import ObjectMeta
from muster.runtime.objects import key_of, meta_of, reference, split_key


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


def test_plain_object_without_metadata_has_an_empty_one() -> None:
    assert meta_of({}) == ObjectMeta()


def test_reference_names_the_very_object() -> None:
    pod = Pod(metadata=ObjectMeta(namespace="a", name="b", uid="u", resource_version="7"))
    found = reference(POD, pod, "spec.containers{main}")
    assert (found.api_version, found.kind, found.namespace, found.name) == ("v1", "Pod", "a", "b")
    assert (found.uid, found.resource_version, found.field_path) == ("u", "7", "spec.containers{main}")
