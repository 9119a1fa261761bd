from typing import Any

import pytest

from muster.api import status
from muster.api.status import NO_VALUE, FieldError


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FieldError("spec.a", status.REQUIRED), "spec.a: Required value"),
        (FieldError("spec.a", status.REQUIRED, detail="why"), "spec.a: Required value: why"),
        (FieldError("spec.a", status.INVALID, 3, "no"), "spec.a: Invalid value: 3: no"),
        (FieldError("spec.a", status.INVALID, 'x"y', "no"), 'spec.a: Invalid value: "x\\"y": no'),
        (FieldError("spec.a", status.INVALID, None, "no"), "spec.a: Invalid value: null: no"),
        (FieldError("spec.a", status.INVALID, True, "no"), "spec.a: Invalid value: true: no"),
        (FieldError("spec.a", status.INVALID, {"b": [1, None]}, "no"), 'spec.a: Invalid value: {"b":[1,null]}: no'),
        (FieldError("spec.a", status.INVALID, NO_VALUE, "no"), "spec.a: Invalid value: no"),
        (FieldError("spec.a", status.NOT_SUPPORTED, "x", 'supported values: "y"'),
         'spec.a: Unsupported value: "x": supported values: "y"'),
        (FieldError("spec.a", status.FORBIDDEN, detail="no"), "spec.a: Forbidden: no"),
        (FieldError("spec.a", status.TOO_LONG, detail="may not be more than 3 bytes"),
         "spec.a: Too long: may not be more than 3 bytes"),
        (FieldError("spec.a", status.TOO_MANY, 4, "must have at most 3 items"),
         "spec.a: Too many: 4: must have at most 3 items"),
        (FieldError("spec.a", status.NOT_FOUND, "x"), 'spec.a: Not found: "x"'),
        (FieldError("spec.a", status.DUPLICATE, "x"), 'spec.a: Duplicate value: "x"'),
        (FieldError("", status.TOO_LONG, detail="no"), "Too long: no"),
    ],
)  # fmt: skip
def test_field_error(error: Any, sentence: Any) -> None:
    assert str(error) == sentence


def test_invalid_says_everything_once() -> None:
    errors = [FieldError("spec.a", status.REQUIRED), FieldError("spec.a", status.REQUIRED),
              FieldError("spec.b", status.INVALID, -1, "no")]  # fmt: skip
    error = status.invalid("Job", "batch", "train", errors)
    assert error.code == 422
    assert str(error) == 'Job.batch "train" is invalid: [spec.a: Required value, spec.b: Invalid value: -1: no]'
    assert error.status.details is not None
    assert [(cause.field, cause.reason) for cause in error.status.details.causes] == [
        ("spec.a", "FieldValueRequired"),
        ("spec.a", "FieldValueRequired"),
        ("spec.b", "FieldValueInvalid"),
    ]


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (status.not_found("jobs.batch", "a"), 404, "NotFound", 'jobs.batch "a" not found'),
        (status.already_exists("pods", "a"), 409, "AlreadyExists", 'pods "a" already exists'),
        (status.conflict("pods", "a", "stale"), 409, "Conflict",
         'Operation cannot be fulfilled on pods "a": stale'),
        (status.internal_error("x"), 500, "InternalError", "Internal error occurred: x"),
        (status.too_many_requests("wait", 3), 429, "TooManyRequests", "wait"),
    ],
)  # fmt: skip
def test_errors(error: Any, code: Any, reason: Any, message: Any) -> None:
    assert (error.code, error.reason, str(error)) == (code, reason, message)
