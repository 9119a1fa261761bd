"""What joblib asks for, before there is a cluster."""

import pytest

from muster.joblib import Backend
from muster.sdk.errors import Error


def test_so_many_calls_are_made_at_a_time():
    assert [Backend().effective_n_jobs(asked) for asked in (None, 1, 4)] == [1, 1, 4]


def test_all_processors_are_of_no_machine():
    with pytest.raises(Error, match="n_jobs=-1: name a number of workers"):
        Backend().configure(n_jobs=-1)
