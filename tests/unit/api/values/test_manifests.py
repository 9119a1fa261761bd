"""Manifests in."""

import pytest

from muster.api.values.manifests import Manifest, ManifestError, parse_manifests


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}", ["a", "b"]),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a}}]", ["a"]),
        ('{"apiVersion": "v1", "kind": "A", "metadata": {"generateName": "a-"}}', [None]),
    ],
)
def test_documents(text, names):
    assert [name_of(one) for one in parse_manifests(text.encode(), "x.yaml")] == names


def name_of(found):
    assert isinstance(found, Manifest)
    return found.document["metadata"].get("name")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "x.yaml: yaml: while parsing a flow node did not find expected node content at line 2, column 1"),
        ("kind: A\nkind: B", "x.yaml: kind is given more than once, at line 2"),
        ("# A\n---\na: 1\nb: 2\na: 3", "x.yaml: a is given more than once, at line 5"),
        ("[" * 100_000, "x.yaml: yaml: it nests deeper than"),
        ("just text", "x.yaml: expected an object with apiVersion and kind"),
        ("kind: A\nmetadata: {name: a}", "x.yaml: apiVersion and kind must be given"),
        ("apiVersion: 1\nkind: A", "x.yaml: apiVersion and kind must be given"),
        ("apiVersion: v1\nkind: A", "x.yaml: metadata.name must be given"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: '', generateName: }", "x.yaml: metadata.name must be given"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: 5}", "x.yaml: metadata.name must be a string"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: 0}", "x.yaml: metadata.name must be a string"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: [a]}", "x.yaml: metadata.name must be a string"),
        ("apiVersion: v1\nkind: A\nmetadata: {generateName: yes}", "x.yaml: metadata.generateName must be a string"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: 5}", "x.yaml: metadata.namespace must be a string"),
        (
            "apiVersion: v1\nkind: A\nmetadata: {name: a, annotations: [5]}",
            "x.yaml: metadata.annotations must be a map",
        ),
        ("3\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}", "x.yaml, document 1: expected an object"),
        ("apiVersion: v1\nkind: List\nitems: [3]", "x.yaml: expected an object"),
        ("", "x.yaml: holds no object"),
        ("---\n# nothing\n---\n", "x.yaml: holds no object"),
        ("apiVersion: v1\nkind: List\nitems: []", "x.yaml: holds no object"),
        (b"\x7fELF\xff\x00", "x.yaml: is not text in UTF-8"),
        ("\0", "x.yaml: yaml: "),
    ],
)
def test_bad_manifests_say_where(text, problem):
    found = parse_manifests(text if isinstance(text, bytes) else text.encode(), "x.yaml")
    assert isinstance(found[0], ManifestError)
    assert str(found[0]).startswith(problem)


def test_what_can_be_read_is_read():
    good = "apiVersion: v1\nkind: A\nmetadata: {{name: {}}}"
    text = "\n---\n".join(["3", good.format("a"), "b: [", good.format("b")])
    first, second, third, fourth = parse_manifests(text.encode(), "x.yaml")
    assert (name_of(second), name_of(fourth)) == ("a", "b")
    assert fourth.where == "x.yaml, document 4"
    assert [isinstance(one, ManifestError) for one in (first, third)] == [True, True]
    assert "at line 8, column 1" in str(third), "of the file"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("---\na: [", "x.yaml: yaml: while parsing a flow node did not find expected node content at line 3, column 1"),
        ("# A licence\n\n---\n3\n---\n3", "x.yaml, document 1: expected"),
        ("3\n---\n3", "x.yaml, document 1: expected"),
    ],
)
def test_what_stands_before_the_first_document_is_none(text, where):
    assert str(parse_manifests(text.encode(), "x.yaml")[0]).startswith(where)


def test_yaml_dates_are_text():
    text = b"\xef\xbb\xbfapiVersion: v1\nkind: A\nmetadata: {name: a, labels: {day: 2026-01-02, 1: x}}"
    [found] = parse_manifests(text, "x.yaml")
    assert found.document["metadata"]["labels"] == {"day": "2026-01-02", "1": "x"}
