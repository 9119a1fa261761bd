"""Bytes from outside: what they mean, or why not."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.decode import MAX_BODY_BYTES, ReadAhead, decode, decode_any, in_order, takes_long
from muster.runtime.transport import APPLY_PATCH

JSON, YAML = "application/json", "application/yaml"


@pytest.mark.parametrize(
    ("type_", "body", "document"),
    [
        (JSON, b'{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        ("", b"{}", {}),
        ("application/json; charset=utf-8", b"{}", {}),
        ("application/merge-patch+json", b"{}", {}),
        (YAML, b"a: 1\nb: [x, 'y']\nc: {d: ~}\n", {"a": 1, "b": ["x", "y"], "c": {"d": None}}),
        (YAML, b"a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
        (YAML, b"a: 2026-01-01\nb: 0o17\nc: 017\nd: 0x1f\ne: 1_000\nf: 1e3\ng: =\n",
         {"a": "2026-01-01", "b": "0o17", "c": 15, "d": 31, "e": 1000, "f": "1e3", "g": "="}),
        (YAML, b"a: yes\nb: 'yes'\nc: off\nd: 1.5\n", {"a": True, "b": "yes", "c": False, "d": 1.5}),
        (YAML, b"1: a\ntrue: b\n2026-01-01: c\n", {"1": "a", "true": "b", "2026-01-01": "c"}),
        (YAML, b"a: !!str 1\n", {"a": "1"}),
        (YAML, b'{"a": "json is yaml"}', {"a": "json is yaml"}),
    ],
)  # fmt: skip
def test_documents(type_, body, document):
    assert decode(body, type_, "Pod").document == document


BOMB = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"a%d: &a%d [%b]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("type_", "body", "code"),
    [
        (JSON, b"", 400),
        (JSON, b"[]", 400),
        (JSON, b"{", 400),
        (JSON, b'{"a":1} x', 400),
        (JSON, b'{"a":NaN}', 400),
        (JSON, b'{"a":1e999}', 400),
        (JSON, b'{"a":"\xff"}', 400),
        (JSON, b'{"a":"\\ud800"}', 400),
        (JSON, b"[" * 1_000_000, 400),
        (JSON, b'{"a":' * 300 + b"1" + b"}" * 300, 400),
        (JSON, b" " * (MAX_BODY_BYTES + 1), 413),
        (YAML, b"", 400),
        (YAML, b"a: [", 400),
        (YAML, b"a: 1\n---\nb: 2\n", 400),
        (YAML, b"? [x]\n: y\n", 400),
        (YAML, b"a: !!python/object:os.system x\n", 400),
        (YAML, b"a: !!int x\n", 400),
        (YAML, b"a: .nan\n", 400),
        (YAML, b"a: .inf\n", 400),
        (YAML, b"a: *b\n", 400),
        (YAML, b"a: &b\n  c: *b\n", 400),
        (YAML, b"\x00", 400),
        (YAML, b"a: 0x" + b"f" * 100_000, 400),
        (YAML, b"[" * 1_000_000, 400),
        (YAML, b"- " * 1_000_000, 400),
        (YAML, BOMB, 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00nonsense", 400),
        ("text/html", b"{}", 415),
    ],
)
def test_refusals(type_, body, code):
    with pytest.raises(ApiError) as error:
        decode(body, type_, "Pod")
    assert error.value.code == code
    assert len(error.value.status.message) < 1000


@pytest.mark.parametrize(
    ("type_", "body", "duplicates"),
    [
        (JSON, b'{"a":1,"a":2}', ('duplicate field "a"',)),
        (JSON, b'{"a":1,"a":2,"b":1e6}', ('duplicate field "a"',)),  # as long as without the first a, and 1000000.0
        (JSON, b'{ "a": 1, "b": 2 }', ()),
        (JSON, b'{"s":{"c":[{"n":1},{"n":1,"m":2,"n":3,"n":4}]}}', ('duplicate field "s.c[1].n"',)),
        (JSON, b'{"a":{"x":1},"a":{"y":1,"y":2}}', ('duplicate field "a"', 'duplicate field "a.y"')),
        (JSON, b'{"a":"\\u0061"}', ()),
        (
            YAML,
            b"a: 1\na: 2\nb:\n  - c: 1\n    c: 2\n",
            ('line 2: key "a" already set in map', 'line 5: key "c" already set in map'),
        ),
    ],
)
def test_what_is_given_twice(type_, body, duplicates):
    assert decode(body, type_, "Pod").duplicates == duplicates
    if type_ == JSON:
        assert decode(body, type_, "Pod", strict=False).duplicates == ()


def test_faults_in_the_order_of_the_text():
    faults = ['duplicate field "s.r"', 'duplicate field "s.c[1].n"', 'unknown field "z"', 'unknown field "s.u"']
    body = b'{"z":1,"s":{"u":1,"r":1,"r":2,"c":[{},{"n":1,"n":2}]}}'
    assert in_order(body, faults) == [faults[2], faults[3], faults[0], faults[1]]
    assert in_order(b"a: 1", faults) == faults


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), lambda inner: st.lists(inner)
    | st.dictionaries(st.text(), inner), max_leaves=20,
)  # fmt: skip


@given(values)
def test_json_means_itself(value):
    body = json.dumps(value).encode()
    assert decode_any(body, JSON, "Pod") == (value, ())


@given(st.binary(max_size=200), st.sampled_from([JSON, YAML]))
def test_no_bytes_are_too_strange(body, type_):
    with suppress(ApiError):
        decode_any(body, type_, "Pod")


BODIES = [b'{"a": 1}', b'{"a": 1, "a": 2}', b"a: 1\na: 2\n", b"{", b"a: [", b"[" * 100_000, b"", b"- x\n", b"\xff"]


def outcome(body, type_):
    """What comes of reading, twice over: whoever reads again gets a value of its own."""
    found: list[object] = []
    for _ in range(2):
        try:
            found.append(decode_any(body, type_, "Pod"))
        except ApiError as error:
            found.append((error.code, error.status.message))
    return found


@pytest.mark.parametrize("read_as", [JSON, YAML, "application/vnd.kubernetes.protobuf", "text/plain"])
@pytest.mark.parametrize("sent_as", [JSON, YAML, APPLY_PATCH, "application/vnd.kubernetes.protobuf", "text/plain"])
@pytest.mark.parametrize("body", BODIES)
def test_reading_ahead_is_reading(body, sent_as, read_as):
    assert outcome(ReadAhead.of(body, sent_as), read_as) == outcome(body, read_as)


@pytest.mark.parametrize(
    ("type_", "size", "long"),
    [
        (JSON, 100_000, False),
        (JSON, 200_000, True),
        (YAML, 5_000, False),
        (YAML, 10_000, True),
        (APPLY_PATCH, 10_000, True),
    ],
)
def test_what_takes_long(type_, size, long):
    assert takes_long(b" " * size, type_) is long
