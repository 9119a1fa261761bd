"""Requests and limits as users write them."""

import pytest

from muster.actions.parsing.quantities import Amount, check_quota, worker_cpus, worker_memory


@pytest.mark.parametrize(
    ("read", "text", "amount"),
    [
        (worker_cpus, "2", Amount("2", "2")),
        (worker_cpus, "500m:4", Amount("500m", "4")),
        (worker_cpus, "0", Amount("0")),
        (worker_cpus, "0:2", Amount("0", "2")),
        (worker_memory, "8Gi", Amount("8Gi", "8Gi")),
        (worker_memory, "8Gi:16Gi", Amount("8Gi", "16Gi")),
        (worker_memory, "1Gi:1024Mi", Amount("1Gi", "1024Mi")),
    ],
)
def test_a_request_is_the_limit_unless_another_follows(read, text, amount):
    assert read(text) == amount


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (worker_cpus, "2:1", "the limit 1 is below the request 2"),
        (worker_cpus, "2:0", "the limit 0 is below the request 2"),
        (worker_cpus, "2:", "'' is no quantity; write it as 8 or 500m"),
        (worker_cpus, ":2", "'' is no quantity; write it as 8 or 500m"),
        (worker_cpus, "1:2:3", "'2:3' is no quantity; write it as 8 or 500m"),
        (worker_memory, "1Gi:2", "2 is less than a megabyte; say it with a unit, as 512Mi or 4Gi"),
        (worker_memory, "-1Gi", "-1Gi is below 0"),
    ],
)
def test_what_makes_no_sense_is_refused(read, text, sentence):
    with pytest.raises(ValueError, match="^" + sentence.replace("'", ".") + "$"):
        read(text)


@pytest.mark.parametrize(
    ("resource", "text"),
    [("cpu", "500m"), ("cpu", "9223372036854775"), ("memory", "7Ei"), ("example.com/a", "9223372036854775807")],
)
def test_a_quota_is_as_large_as_kubernetes_counts(resource, text):
    assert check_quota(resource, text) == text


@pytest.mark.parametrize(
    ("resource", "text", "sentence"),
    [
        ("cpu", "9223372036854776", "9223372036854776 cpu is more than Kubernetes counts, which is 9223372036854775"),
        ("memory", "1e30", "1e30 memory is more than Kubernetes counts, which is 9223372036854775807"),
        ("nvidia.com/gpu", "10E", "10E nvidia.com/gpu is more than Kubernetes counts, which is 9223372036854775807"),
        ("memory", "1", "1 is less than a megabyte; say it with a unit, as 512Mi or 4Gi"),
    ],
)
def test_a_quota_past_that_is_refused(resource, text, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        check_quota(resource, text)
