"""Patches that turn objects into their manifests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values.manifests import Manifest
from muster.cli.actions.applying import LAST_APPLIED, annotate_manifest, make_apply_patch, split_independent


def manifest(**spec):
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


def merged(target, patch):
    """RFC 7386, as the server does it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def test_what_the_manifest_no_longer_says_goes_and_what_others_set_stays():
    stored = annotate_manifest(manifest(a=1, b={"c": 1, "d": 2}))
    stored = merged(stored, {"spec": {"theirs": True}, "status": {"ready": 1}})
    patch = make_apply_patch(stored, manifest(b={"c": 1, "e": 3}))
    assert patch["spec"] == {"a": None, "b": {"d": None, "e": 3}}
    assert "status" not in patch
    assert merged(stored, patch)["spec"] == {"theirs": True, "b": {"c": 1, "e": 3}}


@pytest.mark.parametrize("garbage", ["not json", "[]", "3"])
def test_an_annotation_that_makes_no_sense_removes_nothing(garbage):
    stored = merged(manifest(a=1), {"metadata": {"annotations": {LAST_APPLIED: garbage}}})
    assert "spec" not in make_apply_patch(stored, manifest(a=1))


values = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
specs = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(specs, specs)
def test_applying_twice_changes_nothing_and_reaches_the_manifest(first, second):
    stored = annotate_manifest(manifest(**first))
    stored = merged(stored, make_apply_patch(stored, manifest(**second)))
    assert stored["spec"] == second
    assert json.loads(stored["metadata"]["annotations"][LAST_APPLIED]) == manifest(**second)
    assert make_apply_patch(stored, manifest(**second)) == {}


def test_what_the_server_adds_inside_of_a_list_is_no_change():
    """As to the containers of a pod, which may not be changed."""
    wanted = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    there = annotate_manifest(wanted)
    there["spec"] = {"containers": [{"name": "c", "image": "a", "volumeMounts": [{"name": "token"}]}]}
    assert make_apply_patch(there, wanted) == {}
    assert "spec" in make_apply_patch(there, wanted | {"spec": {"containers": [{"name": "c", "image": "b"}]}})
    assert "spec" in make_apply_patch(
        there, wanted | {"spec": {"containers": [{"name": "c", "image": "a"}, {"name": "d"}]}}
    )


@pytest.mark.parametrize(
    ("given_", "groups"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("a b c", ["a b c"], id="jobs"),
        pytest.param("a a b", ["a", "a b"], id="the second of a name changes the first"),
        pytest.param("a x/a b", ["a x/a b"], id="one name in two namespaces"),
        pytest.param("* * a", ["* * a"], id="generated names"),
        pytest.param("Q a b Q c", ["Q", "a b", "Q", "c"], id="what follows a queue may need it"),
        pytest.param("Q Q", ["Q", "Q"], id="queues"),
    ],
)
def test_only_jobs_beside_each_other_are_applied_at_once(given_: str, groups: list[str]) -> None:
    def made(word: str) -> Manifest:
        namespace, _, name = word.rpartition("/")
        where = {"namespace": namespace} if namespace else {}
        names = {"generateName": "a-"} if name == "*" else {"name": name}
        kind = ("v1", "Queue") if name == "Q" else ("batch/v1", "Job")
        return Manifest(word, {"apiVersion": kind[0], "kind": kind[1], "metadata": names | where})

    split = split_independent(map(made, given_.split()))
    assert [" ".join(one.where for one in group) for group in split] == groups
