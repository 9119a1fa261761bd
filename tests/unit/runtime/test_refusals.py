"""What is refused for one of these reasons, and nothing else, is no failure."""

import pytest

from muster.api.status import ApiError, Status, already_exists, conflict, forbidden, not_found
from muster.runtime.refusals import Reason, ignoring, is_refusal
from muster.runtime.transport import TransportError

GONE = not_found("jobs.batch", "a")
CHANGED = conflict("jobs.batch", "a", "another version")


@pytest.mark.parametrize(
    ("error", "reasons", "is_one"),
    [
        (GONE, ("NotFound",), True),
        (GONE, ("Conflict", "NotFound"), True),
        (GONE, ("Conflict",), False),
        (GONE, (), False),
        (CHANGED, ("NotFound", "Conflict"), True),
        (already_exists("jobs.batch", "a"), ("AlreadyExists",), True),
        (already_exists("jobs.batch", "a"), ("Conflict",), False),  # both are 409
        (forbidden("no"), ("Forbidden",), True),
        (ApiError(Status(code=404, message="page not found")), ("NotFound",), False),  # of what is no API server
        (TransportError("broken"), ("NotFound", "ServiceUnavailable"), False),
        (KeyError("NotFound"), ("NotFound",), False),
    ],
)
def test_only_these_reasons_are_no_failure(error: Exception, reasons: tuple[Reason, ...], is_one: bool) -> None:
    assert is_refusal(error, *reasons) == is_one
    raised = None
    try:
        with ignoring(*reasons):
            raise error
    except Exception as got:  # noqa: BLE001 - whatever it is
        raised = got
    assert raised is (None if is_one else error)


def test_what_follows_the_refused_write_is_left_out() -> None:
    done = []
    with ignoring("NotFound"):
        done.append("before")
        raise GONE
    assert done == ["before"]


def test_nothing_is_no_refusal() -> None:
    assert not is_refusal(None, "NotFound")
    with ignoring("NotFound"):
        pass
