"""What joblib asks for, before there is a cluster."""

import pytest

from muster.joblib import Backend, count_workers
from muster.sdk.errors import Error


def test_so_many_calls_are_made_at_a_time():
    assert [Backend().effective_n_jobs(asked) for asked in (None, 1, 4)] == [1, 1, 4]


def test_no_call_at_a_time_is_refused():
    with pytest.raises(Error, match="n_jobs=0: name a number of workers, or -1"):
        Backend().configure(n_jobs=0)


@pytest.mark.parametrize(
    ("nodes", "each", "workers"),
    [
        ([4000, 2500], 1, 6),
        ([4000, 2500], "2", 3),
        ([4000], "500m", 8),
        ([4000], "500m:1", 8),
        ([4000], 1.5, 2),
        ([], 1, 0),
        ([1000], 0, 1000),
    ],
)
def test_workers_fit_on_single_nodes(nodes, each, workers):
    assert count_workers(nodes, each) == workers
