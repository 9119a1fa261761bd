"""Conditions in the statuses of documents."""

import pytest

from muster.cluster.apiserver.objects.conditions import holds, set_condition

EARLIER, NOW = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": EARLIER, "reason": "Old"}
OTHER = {"type": "Other", "status": "False"}


@pytest.mark.parametrize(
    ("conditions", "value", "time", "place"),
    [
        (None, "True", NOW, 0),
        ([OTHER], "True", NOW, 1),
        ([READY, OTHER], "True", EARLIER, 0),
        ([OTHER, READY], "False", NOW, 1),
        ([{"type": "Ready", "status": "True"}], "True", NOW, 0),
    ],
)
def test_a_condition_keeps_its_place_and_its_time_until_it_flips(conditions, value, time, place):
    status = {"conditions": conditions}
    set_condition(status, "Ready", value, NOW, message="m")
    made = {"type": "Ready", "status": value, "lastTransitionTime": time, "message": "m"}
    assert status["conditions"][place] == made
    assert [each for each in status["conditions"] if each != made] == [OTHER] * (OTHER in (conditions or ()))
    assert holds(status, "Ready") is (value == "True")
    assert not holds(status, "Other")


def test_what_was_given_is_not_changed():
    conditions = [READY]
    set_condition({"conditions": conditions}, "Ready", "False", NOW)
    assert conditions == [READY]
