"""What a page says of a refusal."""

import pytest

from muster.api.status import ApiError, bad_request, forbidden
from muster.dashboard.refusals import explain_error
from muster.runtime.transport import TransportError

CANNOT = 'jobs.batch is forbidden: User "eve" cannot list resource "jobs" in API group "batch"'

NODES = ' is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope'
ASK = "Ask an administrator of the cluster for the right to "


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            forbidden(f'{CANNOT} in the namespace "vision"'),
            f'J{CANNOT[1:]} in the namespace "vision". ' + ASK + "list jobs.batch in namespace vision.",
        ),
        (
            forbidden(f"nodes{NODES}"),
            f"Nodes{NODES}. {ASK}list nodes in the whole cluster.",
        ),
        (forbidden("exceeded quota: team"), "Exceeded quota: team."),
        (bad_request("the name is taken"), "The name is taken."),
        (TransportError("connection refused"), "Connection refused."),
    ],
)
def test_a_refusal_is_a_sentence_that_says_whom_to_ask_for_what(
    error: ApiError | TransportError, sentence: str
) -> None:
    assert explain_error(error) == sentence
