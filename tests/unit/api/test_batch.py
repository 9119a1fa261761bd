import pytest

from muster.api.batch import JobSpec, pods_at_once


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "pods"),
    [
        (None, None, 0, 1),
        (0, None, 0, 0),
        (4, None, 3, 4),
        (4, 10, 0, 4),
        (4, 10, 7, 3),
        (4, 2, 0, 2),
        (4, 4, 5, 0),
        (None, 4, 0, 1),
        (4, 0, 0, 0),
    ],
)
def test_pods_side_by_side(parallelism, completions, succeeded, pods):
    assert pods_at_once(JobSpec(parallelism=parallelism, completions=completions), succeeded) == pods
