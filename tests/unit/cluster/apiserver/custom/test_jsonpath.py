"""Paths of printer columns: what is found, and what is no path."""

import pytest

from muster.cluster.apiserver.custom.jsonpath import JsonPathError, compile_path, find_first, simple_names

DOCUMENT = {
    "metadata": {"labels": {"app.kubernetes.io/name": "x", "a b": "y"}},
    "spec": {"items": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"s": "c'd"}], "map": {"k": {"v": 1}, "l": {"v": 2}}},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.items[0].n", [1]),
        ("{.spec.items[0].n}", [1]),
        ("$.spec.items[-1].s", ["c'd"]),
        (".spec.items[7]", []),
        (".spec.items[*].n", [1, 2]),
        (".spec.items[0:2].s", ["a", "b"]),
        (".spec.items[1:].s", ["b", "c'd"]),
        (".spec.map.*.v", [1, 2]),
        (".spec..v", [1, 2]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["x"]),
        (".metadata.labels['app.kubernetes.io/name']", ["x"]),
        ('.metadata.labels["a b"]', ["y"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        (".spec.items[?(@.n>1)].s", ["b"]),
        (".spec.items[?(@.n)].s", ["a", "b"]),
        (r".spec.items[?(@.s=='c\'d')].s", ["c'd"]),
        (".spec.items.n", []),
        (".spec[0]", []),
        (".missing.x", []),
        ("", [DOCUMENT]),
    ],
)
def test_what_is_found(path, found):
    assert list(compile_path(path)(DOCUMENT)) == found


@pytest.mark.parametrize(
    "path",
    ["spec", ".spec[", ".spec[?(@.a==)]", ".spec[?(@.a==x)]", ".a[[0]]", "." * 5, ".x" * 600, ".a" * 70, "[?(n)]"],
)
def test_what_is_no_path(path):
    with pytest.raises(JsonPathError):
        compile_path(path)


def test_names():
    assert simple_names(".spec.map.k") == ("spec", "map", "k")
    assert find_first(compile_path(".spec.nothing"), DOCUMENT) is None
