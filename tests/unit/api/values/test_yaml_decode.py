"""JSON is read as JSON; what aliases may make of a document: a little text must not become a lot."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values import yaml_decode
from muster.api.values.yaml_decode import MAX_ALIASED


def test_aliases_are_what_they_name():
    text = b"a: &a text\nb: &b [*a, *a]\nc: {d: *b}"
    assert yaml_decode.decode(text)[0] == {"a": "text", "b": ["text"] * 2, "c": {"d": ["text"] * 2}}


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"a: &a {LONG}\nb: [{','.join(['*a'] * 32)}]",
        f"a: &a {{{LONG[:1000]}: 1}}\nb: [{','.join(['*a'] * 3200)}]",
        f"a: &a [{LONG}]\nb: &b [{','.join(['*a'] * 8)}]\nc: [*b, *b, *b]",
        "a0: &a0 [" + "x" * 1000 + "]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(14)),
    ],
    ids=["text", "key", "of aliases", "doubling"],
)
def test_a_long_text_named_again_and_again_is_refused(text):
    with pytest.raises(ValueError, match=f"yaml: its aliases add more than {MAX_ALIASED} characters"):
        yaml_decode.decode(text.encode())


def test_a_document_without_aliases_is_as_long_as_it_is():
    text = "a: " + "x" * (MAX_ALIASED + 1)
    assert yaml_decode.decode(text.encode())[0] == {"a": text.removeprefix("a: ")}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (".nan", ".nan is no JSON number"),
        ("-.inf", "-.inf is no JSON number"),
        ("!x y", "the tag !x has no meaning here"),
        ("1" * 5000, f"a number has more than {yaml_decode.MAX_DIGITS} digits"),
    ],
)
def test_a_value_that_json_cannot_say_is_named_with_its_place(value, why):
    with pytest.raises(ValueError, match="yaml") as refused:
        yaml_decode.decode(f"a:\n- b: 1\n  c: {value}".encode())
    assert str(refused.value) == f"yaml: a[0].c: {why}, at line 3, column 6"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON) | st.lists(JSON), st.booleans(), st.sampled_from((None, 2, "\t")))
def test_json_means_what_json_says(value, plain, indent):
    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    assert yaml_decode.decode(text.encode()) == (value, ())


@pytest.mark.parametrize(
    "text",
    ["[" * 300, "[" * 5_000, "- " * 5_000, "\n".join(" " * depth + "a:" for depth in range(1_500))],
    ids=["flow", "deep flow", "sequences", "mappings"],
)
def test_deep_nesting_has_one_message_in_every_version_of_pyyaml(text):
    with pytest.raises(ValueError, match=r"^yaml: it nests deeper than 200 levels$"):
        yaml_decode.decode(text.encode())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (r'{"a": "\ud83d"}', "found invalid Unicode character escape code"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "it nests deeper than"),
        ('{"a": ' + "1" * 200 + "}", "a number has more than"),
        ('{"a": 1} {"b": 2}', "yaml: "),
    ],
)
def test_json_has_the_limits_of_yaml(text, problem):
    with pytest.raises(ValueError, match=problem):
        yaml_decode.decode(text.encode())


def test_a_key_that_json_gives_twice_is_told_with_its_line():
    value, ((path, key, line),) = yaml_decode.decode(b'{"a": {"b": 1,\n"b": 2}}')
    assert (value, path, key, line) == ({"a": {"b": 2}}, "a.b", "b", 2)


@pytest.mark.parametrize("text", ["12:30", "1:30:00", "22:22", "-1:30", "190:20:30.15"])
def test_a_number_to_the_base_of_60_is_a_text_as_to_kubectl(text):
    assert yaml_decode.decode(f"a: {text}".encode()) == ({"a": text}, ())
