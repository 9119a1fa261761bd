"""What a request has borrowed goes back, the last first, whatever happens."""

import pytest

from muster.cluster.apiserver.front.loans import Loans


def test_loans_are_given_back_in_reverse():
    returned: list[str] = []
    with Loans() as loans:
        loans.callback(returned.append, "room")
        loans.callback(returned.append, "seat")
        assert returned == []
    assert returned == ["seat", "room"]


def test_a_loan_that_fails_to_go_back_keeps_no_other():
    returned: list[str] = []

    def fail():
        raise KeyError("seat")

    def leave():
        with Loans() as loans:
            loans.callback(returned.append, "room")
            loans.callback(fail)
            raise ValueError("the request failed")

    with pytest.raises(KeyError):
        leave()
    assert returned == ["room"]
