"""When what runs ends, as far as it is known."""

from math import inf

import msgspec
import pytest
from tests.unit.gang.conftest import make_pod

from muster.api.core import Pod
from muster.gang.order.ends import EndTime, end_of, expected_end

CENTURY = 100 * 365 * 24 * 3600
EXPECTED, LIMIT = "muster.dev/expected-duration", "kueue.x-k8s.io/max-exec-time-seconds"


def pod(*, annotations=None, labels=None, deadline=None, owner=None):
    base = msgspec.to_builtins(make_pod())
    base["metadata"] |= {"annotations": annotations or {}, "labels": labels or {}}
    if owner:
        base["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "u", "controller": True}]
    base["spec"]["activeDeadlineSeconds"] = deadline
    return msgspec.convert(base, Pod)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, None, id="nothing said: not known"),
        pytest.param({"annotations": {EXPECTED: "1h30m"}}, EndTime(5500), id="as its user expects"),
        pytest.param({"deadline": 60}, EndTime(160, is_enforced=True), id="its deadline is kept to"),
        pytest.param({"labels": {LIMIT: "30"}}, EndTime(130, is_enforced=True), id="Kueue's limit, a label"),
        pytest.param({"annotations": {LIMIT: "30"}}, EndTime(130, is_enforced=True), id="Kueue's limit, an annotation"),
        pytest.param(
            {"labels": {LIMIT: "30"}, "deadline": 20}, EndTime(120, is_enforced=True), id="the sooner of two limits"
        ),
        pytest.param({"annotations": {EXPECTED: "10s"}, "deadline": 20}, EndTime(110), id="expected before the limit"),
        pytest.param(
            {"annotations": {EXPECTED: "1h"}, "deadline": 20}, EndTime(120, is_enforced=True), id="the limit before"
        ),
        pytest.param(
            {"annotations": {EXPECTED: "25s"}, "labels": {LIMIT: "30"}, "deadline": 20},
            EndTime(120, is_enforced=True),
            id="the sooner limit before, the later one after",
        ),
        pytest.param(
            {"annotations": {EXPECTED: "20s"}, "deadline": 20}, EndTime(120, is_enforced=True), id="both at once: sure"
        ),
        pytest.param({"annotations": {EXPECTED: "0s"}}, None, id="nothing at all"),
        pytest.param({"deadline": CENTURY - 1}, EndTime(CENTURY + 99, is_enforced=True), id="the longest that counts"),
        pytest.param({"deadline": CENTURY}, None, id="for ever"),
        pytest.param({"annotations": {EXPECTED: f"{CENTURY}s"}}, None, id="for ever, expected"),
        pytest.param({"labels": {LIMIT: "1"}}, EndTime(101, is_enforced=True), id="the shortest limit"),
        pytest.param({"labels": {LIMIT: "0000000030"}}, EndTime(130, is_enforced=True), id="ten digits"),
        pytest.param({"labels": {LIMIT: "00000000030"}}, None, id="eleven digits"),
        pytest.param({"annotations": {EXPECTED: "soon"}}, None, id="no duration"),
        pytest.param({"annotations": {EXPECTED: "-1h"}}, None, id="less than nothing"),
        pytest.param({"annotations": {EXPECTED: "9" * 500 + "h"}}, None, id="too long a word"),
        pytest.param({"labels": {LIMIT: "9" * 5000}}, None, id="too long a number"),
        pytest.param({"labels": {LIMIT: "0"}}, None, id="no limit"),
        pytest.param({"labels": {LIMIT: "³"}}, None, id="a digit to Python only"),
        pytest.param({"owner": "DaemonSet"}, EndTime(inf, is_enforced=True), id="a service never ends by itself"),
        pytest.param({"owner": "ReplicaSet", "deadline": 20}, EndTime(120, is_enforced=True), id="unless it says so"),
        pytest.param({"owner": "Job"}, None, id="a Job does, and it is not known when"),
    ],
)
def test_when_a_pod_ends(said, expected):
    assert expected_end(pod(**said), 100) == expected


@pytest.mark.parametrize(
    ("own", "carried", "expected"),
    [
        ({"deadline": 60}, EndTime(120), EndTime(120)),
        ({"deadline": 10}, EndTime(120), EndTime(110, is_enforced=True)),
        ({}, EndTime(120), EndTime(120)),
        ({"owner": "Job"}, None, None),
    ],
)
def test_what_is_known_of_its_job_or_group_counts_if_it_is_sooner(own, carried, expected):
    assert expected_end(pod(**own), 100, carried) == expected


def test_a_job_says_it_as_a_pod_does():
    job = pod(annotations={EXPECTED: "1m"}).metadata
    assert end_of(job, 3600, 100) == EndTime(160)
    assert end_of(job, 30, 100) == EndTime(130, is_enforced=True)
