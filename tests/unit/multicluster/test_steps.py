"""Which refusals pass, and which are for good."""

import pytest

from muster.api.status import ApiError, Status
from muster.multicluster.steps import is_for_good


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *((code, True) for code in (400, 405, 413, 415, 422)),
        *((code, False) for code in (401, 403, 404, 408, 409, 429, 500, 503)),
    ],
)
def test_a_status_that_is_refused_for_good_holds_up_no_end(code: int, expected: bool) -> None:
    assert is_for_good(ApiError(Status(code=code))) is expected
