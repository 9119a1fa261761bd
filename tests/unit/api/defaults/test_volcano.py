"""Defaults of Volcano's Jobs."""

from typing import Any

from muster.api.defaults.volcano import default_volcano_job


def test_what_is_not_said_is_as_upstreams_webhook_has_it() -> None:
    job: dict[str, Any] = {"spec": {"tasks": [{"replicas": 2}, {"name": "m", "replicas": 3, "minAvailable": 1}]}}
    default_volcano_job(job)
    spec = job["spec"]
    assert (spec["schedulerName"], spec["queue"]) == ("volcano", "default")
    assert (spec["maxRetry"], spec["minAvailable"]) == (3, 3)
    first, second = spec["tasks"]
    assert (first["name"], first["minAvailable"], first["maxRetry"]) == ("default0", 2, 3)
    assert (second["name"], second["minAvailable"]) == ("m", 1)


def test_a_count_of_zero_says_nothing_and_what_is_said_stays() -> None:
    spec = {"maxRetry": 0, "minAvailable": 1, "tasks": [{"name": "w", "replicas": 2, "maxRetry": 5}]}
    job: dict[str, Any] = {"spec": spec}
    default_volcano_job(job)
    assert (spec["maxRetry"], spec["minAvailable"]) == (3, 1)
    assert job["spec"]["tasks"][0]["maxRetry"] == 5


def test_the_pytorch_plugin_brings_the_one_that_names_pods() -> None:
    job: dict[str, Any] = {"spec": {"tasks": [], "plugins": {"pytorch": []}}}
    default_volcano_job(job)
    assert job["spec"]["plugins"] == {"pytorch": [], "svc": []}


def test_a_second_call_changes_nothing() -> None:
    job: dict[str, Any] = {"spec": {"tasks": [{"replicas": 2}]}}
    default_volcano_job(job)
    again = {"spec": {**job["spec"]}}
    default_volcano_job(again)
    assert again == job
