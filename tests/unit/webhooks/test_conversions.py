"""Objects in one version, and the same in the other. What conversion itself does is tested where it is decided."""

from typing import Any

import msgspec
import pytest

from muster.webhooks.conversions import convert
from muster.webhooks.reviews import MalformedError

Json = dict[str, Any]
OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def converted(desired: str, *documents: Any) -> Any:
    request = {"uid": "1", "desiredAPIVersion": desired, "objects": documents}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    answer = msgspec.json.decode(convert(msgspec.json.encode(body)))
    assert (answer["kind"], answer["response"]["uid"]) == ("ConversionReview", "1")
    return answer["response"]


def queue(version: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec}


@pytest.mark.parametrize(
    ("desired", "given", "spec"),
    [
        (NEW, queue(OLD, cohort="c"), {"cohortName": "c"}),
        (OLD, queue(NEW, cohortName="c"), {"cohort": "c"}),
        (NEW, queue(NEW, cohortName="c"), {"cohortName": "c"}),
    ],
)
def test_an_object_is_had_in_the_version_that_is_asked_for(desired: str, given: Json, spec: Json) -> None:
    answer = converted(desired, given, given)
    assert answer["result"] == {"status": "Success"}
    assert [(one["apiVersion"], one["spec"]) for one in answer["convertedObjects"]] == [(desired, spec)] * 2


@pytest.mark.parametrize(
    ("desired", "given", "why"),
    [
        ("kueue.x-k8s.io/v9", queue(NEW), "ClusterQueue: there is no way from 'kueue.x-k8s.io/v1beta2'"),
        (NEW, queue("v1"), "ClusterQueue: there is no way from 'v1' to"),
        (NEW, {"apiVersion": "batch/v1", "kind": "Job"}, "'Job' is no kind of kueue.x-k8s.io"),
        (NEW, {"kind": ["ClusterQueue"]}, "\"['ClusterQueue']\" is no kind"),
        (NEW, queue(OLD) | {"apiVersion": []}, "ClusterQueue: there is no way from '[]'"),
        (NEW, {"apiVersion": OLD, "kind": "Workload", "metadata": {"name": "w"}, "status": {"admission": 1}},
         "Workload 'w' is not as its schema says: "),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_named(desired: str, given: Any, why: str) -> None:
    answer = converted(desired, given)
    assert (answer["result"]["status"], "convertedObjects" in answer) == ("Failure", False)
    assert answer["result"]["message"].startswith(why)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"kind":"ConversionReview"}', b"[" * 200_000, b'{"a":' * 200_000])
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        convert(body)
