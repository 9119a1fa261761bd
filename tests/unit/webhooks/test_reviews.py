"""Reviews as they come: well-formed, or refused with a reason."""

from typing import Any

import msgspec
import pytest

from muster.webhooks.reviews import MalformedError, read

HEAD = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
DEEP = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":{"metadata":{},"a":'


def test_a_request_names_its_resource() -> None:
    resource = {"group": "batch", "version": "v1", "resource": "jobs"}
    request = read(msgspec.json.encode(HEAD | {"request": {"uid": "1", "resource": resource, "object": None}}))
    assert (request.key, request.object) == ("jobs.batch", None)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Input data was truncated"),
        (b"{", "Input data was truncated"),
        (b"\xff\xfe", "invalid"),
        (b"[]", "Expected `object`, got `array`"),
        (msgspec.json.encode({"kind": "AdmissionReview"}), "expected admission.k8s.io/v1, Kind=AdmissionReview, got"),
        (msgspec.json.encode(HEAD | {"apiVersion": "admission.k8s.io/v1beta1"}), "got admission.k8s.io/v1beta1"),
        (msgspec.json.encode(HEAD), "it has no request with a uid"),
        (msgspec.json.encode(HEAD | {"request": {"uid": ""}}), "it has no request with a uid"),
        (msgspec.json.encode(HEAD | {"request": {"uid": 1}}), "Expected `str`, got `int` - at `$.request.uid`"),
        (msgspec.json.encode(HEAD | {"request": {"uid": "1", "object": []}}), "got `array` - at `$.request.object`"),
        (msgspec.json.encode(HEAD | {"request": {"uid": "1", "object": {}}}), "an object in it has no metadata"),
        (DEEP + b"[" * 100_000, "it is nested too deep"),
        (DEEP + b'{"a":' * 100_000, "it is nested too deep"),
    ],
)
def test_what_is_no_review_is_refused_with_a_reason(body: Any, why: str) -> None:
    with pytest.raises(MalformedError, match=r"^the AdmissionReview cannot be read: ") as raised:
        read(body)
    assert why in str(raised.value)
