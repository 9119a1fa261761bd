"""The reference to a job."""

import re

import pytest

from muster.actions.errors import UserError
from muster.actions.server.session import Session
from muster.sdk.core import JobReference


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (True, "train runs in a cluster inside process 0, which a fork of it cannot reach: use the job there"),
        (
            False,
            "train was opened by process 0, and this process is a fork of it: open the job again, with muster.job(",
        ),
    ],
)
def test_a_fork_does_not_use_the_connection_of_its_parent(own: bool, text: str) -> None:
    session = Session(None, "default", own=own)
    assert JobReference(session, "train", "default", "u").session is session
    with pytest.raises(UserError, match=re.escape(text)):
        _ = JobReference(session, "train", "default", "u", process=0).session
