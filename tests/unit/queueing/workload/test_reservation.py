"""What an admission makes of a Workload's status."""

from muster.queueing.model import Assignment, Choice, Mode, PodSetAssignment
from muster.queueing.workload.reservation import admission


def test_usage_is_listed_of_the_resources_that_have_a_flavor() -> None:
    podset = PodSetAssignment("main", 2, {"cpu": Choice("f", Mode.FIT)}, {"cpu": 1500, "example.com/gpu": 0})
    (assigned,) = admission("q", Assignment((podset,), {})).pod_set_assignments
    assert (assigned.flavors, assigned.resource_usage, assigned.count) == ({"cpu": "f"}, {"cpu": "1500m"}, 2)
