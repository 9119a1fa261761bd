"""Rows as JSON: what goes with them, and what the bytes look like."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.core import CONFIG_MAP, POD
from muster.api.status import ApiError
from muster.cluster.apiserver.tables import encode_columns, encode_row, make_partial, require_include

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
BODY = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","odd":{"z":1,"a":[]}},"data":{"k":"v"}}'
PARTIAL = {
    "kind": "PartialObjectMetadata",
    "apiVersion": "meta.k8s.io/v1",
    "metadata": {"name": "c", "odd": {"z": 1, "a": []}},
}


def test_columns() -> None:
    definitions = msgspec.json.decode(encode_columns(CONFIG_MAP))
    assert [(d["name"], d["type"], d["format"], d["priority"]) for d in definitions] == [
        ("Name", "string", "name", 0),
        ("Data", "string", "", 0),
        ("Age", "string", "", 0),
    ]
    assert all(d["description"] for d in definitions)


@pytest.mark.parametrize(
    ("include", "expected"),
    [("None", None), ("Object", msgspec.json.decode(BODY)), ("Metadata", PARTIAL), ("", PARTIAL)],
)
def test_what_goes_with_a_row(include: str, expected: Any) -> None:
    require_include(include)
    found = msgspec.json.decode(encode_row(CONFIG_MAP, BODY, NOW, include))
    assert found == {"cells": ["c", 1, "<unknown>"], "object": expected}


def test_a_wrong_include() -> None:
    with pytest.raises(ApiError, match="must be 'Metadata', 'Object', 'None', or empty") as error:
        require_include("Everything")
    assert error.value.code == 400


@pytest.mark.parametrize(
    ("phase", "reason", "message"),
    [
        (b"Succeeded", "Succeeded", "The pod has completed successfully."),
        (b"Failed", "Failed", "The pod failed."),
    ],
)
def test_pods_that_have_run_their_course_say_so(phase: bytes, reason: str, message: str) -> None:
    body = b'{"metadata":{"name":"p"},"status":{"phase":"%s"}}'
    assert "conditions" not in msgspec.json.decode(encode_row(POD, body % b"Running", NOW))
    [condition] = msgspec.json.decode(encode_row(POD, body % phase, NOW))["conditions"]
    assert condition == {"type": "Completed", "status": "True", "reason": reason, "message": message}


def test_partial_metadata() -> None:
    assert msgspec.json.decode(make_partial(BODY)) == PARTIAL
