from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.values.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    label_matcher,
    labels_matcher,
    parse_field_selector,
    parse_label_selector,
)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [{}, {"a": "b"}], []),
        ("a=b", [{"a": "b"}], [{}, {"a": "c"}]),
        ("a==b", [{"a": "b"}], [{}, {"a": "c"}]),
        (" a = b , c = d ", [{"a": "b", "c": "d"}], [{"a": "b"}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a in (b, c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": "d"}]),
        ("a in (b,,c)", [{"a": ""}, {"a": "c"}], [{}]),
        ("a in ()", [{"a": ""}], [{}, {"a": "b"}]),
        ("a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}]),
        ("a", [{"a": ""}, {"a": "b"}], [{}]),
        ("!a", [{}, {"b": ""}], [{"a": ""}]),
        ("a,!b", [{"a": "1"}], [{"a": "1", "b": "2"}]),
        ("a>3", [{"a": "4"}], [{}, {"a": "3"}, {"a": "x"}]),
        ("a<3", [{"a": "-4"}], [{}, {"a": "3"}]),
        ("in in (in, notin)", [{"in": "notin"}], [{"in": "x"}]),
        ("example.com/a=b", [{"example.com/a": "b"}], [{}]),
    ],
)
def test_label_selector_text(text: Any, matching: Any, others: Any) -> None:
    matcher = parse_label_selector(text)
    assert all(matcher.matches(labels) for labels in matching)
    assert not any(matcher.matches(labels) for labels in others)


_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a==!b", "unable to parse requirement: found '!', expected: identifier"),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {_KEY}'),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {_VALUE}'),
        (
            "a>x",
            f'unable to parse requirement: values[0]: Invalid value: "x": {_INTEGER}',
        ),
    ],
)
def test_label_selector_text_refused(text: Any, sentence: Any) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_label_selector(text)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "normal"),
    [("b=1, a in (y,x),!c,d", "a in (x,y),b=1,!c,d"), ("a>1", "a>1"), ("a notin (b)", "a notin (b)"), ("a!=b", "a!=b")],
)
def test_label_selector_is_written_in_order(text: Any, normal: Any) -> None:
    matcher = parse_label_selector(text)
    assert str(matcher) == normal
    assert parse_label_selector(normal) == matcher


def requirement(key: Any, operator: Any, *values: Any) -> Any:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "matching", "others"),
    [
        (LabelSelector(), [{}, {"a": "b"}], []),
        (None, [], [{}, {"a": "b"}]),
        (LabelSelector(match_labels={"a": "b"}), [{"a": "b", "c": "d"}], [{}]),
        (requirement("a", "In", "b"), [{"a": "b"}], [{}]),
        (requirement("a", "NotIn", "b"), [{}], [{"a": "b"}]),
        (requirement("a", "Exists"), [{"a": ""}], [{}]),
        (requirement("a", "DoesNotExist"), [{}], [{"a": ""}]),
    ],
)
def test_label_selector_of_a_manifest(selector: Any, matching: Any, others: Any) -> None:
    matcher = label_matcher(selector)
    assert all(matcher.matches(labels) for labels in matching)
    assert not any(matcher.matches(labels) for labels in others)


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        (requirement("a", "Is"), '"Is" is not a valid label selector operator'),
        (
            requirement("a", "In"),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            requirement("a", "Exists", "b"),
            'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_label_selector_of_a_manifest_refused(selector: Any, sentence: Any) -> None:
    with pytest.raises(SelectorError) as refusal:
        label_matcher(selector)
    assert str(refusal.value) == sentence


def test_only_an_empty_selector_asks_for_nothing() -> None:
    assert not EVERYTHING
    assert EVERYTHING.matches({})
    assert not NOTHING.matches({})
    assert parse_label_selector("a")
    assert labels_matcher({"a": "b"}).matches({"a": "b", "c": "d"})


@pytest.mark.parametrize(
    ("text", "keys", "matching", "others"),
    [
        ("", (), [{}], []),
        ("metadata.name=a", ("metadata.name",), [{"metadata.name": "a"}], [{}, {"metadata.name": "b"}]),
        ("status.phase!=Failed", ("status.phase",), [{}, {"status.phase": "Running"}], [{"status.phase": "Failed"}]),
        ("b==1,,a=2", ("a", "b"), [{"a": "2", "b": "1"}], [{"a": "2"}]),
        (r"a=x\,y\=z\\", ("a",), [{"a": "x,y=z\\"}], [{"a": "x"}]),
        ("a=", ("a",), [{}, {"a": ""}], [{"a": "b"}]),
    ],
)
def test_field_selector_text(text: Any, keys: Any, matching: Any, others: Any) -> None:
    matcher = parse_field_selector(text)
    assert matcher.keys == keys
    assert all(matcher.matches(fields) for fields in matching)
    assert not any(matcher.matches(fields) for fields in others)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_field_selector_text_refused(text: Any, sentence: Any) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_field_selector(text)
    assert str(refusal.value) == sentence


def test_field_selector_for_indexes() -> None:
    matcher = parse_field_selector("spec.nodeName=n1,status.phase!=Failed")
    assert matcher.exact("spec.nodeName") == "n1"
    assert matcher.exact("status.phase") is None
    assert matcher.checked({"spec.nodeName", "status.phase"}.__contains__) is matcher
    with pytest.raises(SelectorError, match=r"field label not supported: status\.phase"):
        matcher.checked({"spec.nodeName"}.__contains__)


_words = st.from_regex(r"\A[a-z][a-z0-9]{0,5}\Z")


@given(st.dictionaries(_words, _words, max_size=4), st.dictionaries(_words, _words, max_size=4))
def test_equality_matches_exactly_the_supersets(asked: Any, labels: Any) -> None:
    text = ",".join(f"{key}={value}" for key, value in asked.items())
    assert parse_label_selector(text).matches(labels) == (asked.items() <= labels.items())


@given(st.text(alphabet="ab=!(),<> in\\", max_size=20))
def test_any_text_is_parsed_or_refused(text: Any) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parse(text)
        except SelectorError:
            continue


@given(st.text(max_size=20))
def test_field_values_survive_escaping(value: Any) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    assert parse_field_selector(f"a={escaped}").exact("a") == value
