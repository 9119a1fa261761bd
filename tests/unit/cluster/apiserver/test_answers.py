"""Status objects and warnings."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import StatusDetails, not_found, too_many_requests
from muster.cluster.apiserver.answers import MAX_WARNINGS, make_refusal, make_success, warning_headers


def test_refusals():
    answer = make_refusal(not_found("jobs.batch", "j"), ["careful"])
    assert answer.status == 404
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "j" not found',
        "reason": "NotFound",
        "details": {"name": "j", "group": "batch", "kind": "jobs"},
        "code": 404,
    }
    assert answer.headers == {"warning": '299 - "careful"'}
    assert make_refusal(too_many_requests("later", 3)).headers["retry-after"] == "3"


def test_successes():
    assert json.loads(make_success(StatusDetails(name="x")).body)["details"] == {"name": "x"}
    assert json.loads(make_success(code=201).body)["code"] == 201


@pytest.mark.parametrize(
    ("warnings", "header"),
    [
        ([], None),
        (["a"], '299 - "a"'),
        (["a", "b", "a"], '299 - "a", 299 - "b"'),
        (['say "x" \\'], r'299 - "say \"x\" \\"'),
        (["a\r\nb: c\x00\x7f"], '299 - "a  b: c  "'),
        (["é"], '299 - "é"'),
    ],
)
def test_warnings(warnings, header):
    assert warning_headers(warnings).get("warning") == header


@given(st.lists(st.text()))
def test_warnings_never_break_a_header(warnings):
    header = warning_headers(warnings).get("warning", "")
    assert not any(ord(character) < 32 or ord(character) == 127 for character in header)
    assert len(header) < 5000
    assert header.count("299 - ") <= MAX_WARNINGS + sum("299 - " in warning for warning in warnings)
