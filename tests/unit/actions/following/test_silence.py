"""The patience with a server that does not answer."""

import pytest

from muster.actions.following.silence import GONE_SECONDS, SILENT_SECONDS, Silence, explain_giving_up
from muster.runtime.transport import SilentError, TransportError

GONE, SILENT = TransportError("cannot reach the server"), SilentError("no answer within 10 s")


@pytest.mark.parametrize(
    ("failures", "limit", "is_over"),
    [
        ([], 0, False),
        ([(1, GONE)], GONE_SECONDS, False),
        ([(1, GONE), (29, GONE)], GONE_SECONDS, False),
        ([(1, GONE), (30, GONE)], GONE_SECONDS, True),
        ([(10, SILENT), (599, SILENT)], SILENT_SECONDS, False),
        ([(10, SILENT), (600, SILENT)], SILENT_SECONDS, True),
        ([(10, SILENT), (300, SILENT), (329, GONE)], SILENT_SECONDS, False),  # a silent server was killed
        ([(10, SILENT), (300, SILENT), (330, GONE)], SILENT_SECONDS, True),
        ([(10, GONE), (20, SILENT), (49, GONE)], SILENT_SECONDS, False),
        ([(10, SILENT), (299, SILENT), (320, GONE), (325, SILENT), (599, SILENT)], SILENT_SECONDS, False),
    ],
)
def test_a_silent_server_has_longer_than_one_that_is_gone(failures, limit, is_over):
    silence = Silence.since(1000)
    for moment, error in failures:
        silence = silence.after(error, 1000 + moment)
    assert (silence.limit, silence.is_over) == (limit, is_over)


@pytest.mark.parametrize(
    ("error", "ours", "text"),
    [
        (GONE, True, "been gone for 30 s; the job continues; start the cluster again with muster up --detach, then: "),
        (GONE, False, "been gone for 30 s; the job continues; once the server answers: "),
        (SILENT, True, "not answered for 600 s; the job continues; once the server answers: "),
    ],
)
def test_giving_up_says_how_to_follow_the_job_again(error, ours, text):
    said = f"gave up on j: the server has {text}muster logs -f j ({error})"
    assert explain_giving_up("j", error, ours=ours) == said
