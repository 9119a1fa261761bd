"""Parse a server's admission review of an object (`AdmissionReview`) and write the response. Pure."""

from typing import Any, NoReturn

import msgspec

from muster.api.markers import Base64
from muster.api.meta import Struct
from muster.api.status import Status

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Json = dict[str, Any]


class MalformedError(ValueError):
    """A request body that is no valid AdmissionReview. The message says why."""


class _Resource(Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class Request(Struct):
    """A review of one object that is about to be written. old_object: the stored object; None for a new one."""

    uid: str = ""
    resource: _Resource = _Resource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: Json | None = None
    old_object: Json | None = None

    @property
    def key(self) -> str:
        """The object's resource with its group, such as `jobs.batch`."""
        return f"{self.resource.resource}.{self.resource.group}" if self.resource.group else self.resource.resource


class _Review(Struct):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class _Response(Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: Status | None = None
    patch: Base64 = b""
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()


def read(body: bytes) -> Request:
    """Return the request in the body of an AdmissionReview. Raises `MalformedError`."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except RecursionError:
        _raise_malformed("it is nested too deep")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _raise_malformed(str(error))
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        _raise_malformed(
            f"expected {API_VERSION}, Kind={KIND}, got {review.api_version[:100]}, Kind={review.kind[:100]}"
        )
    request = review.request
    if request is None or not request.uid:
        _raise_malformed("it has no request with a uid")
    for document in (request.object, request.old_object):
        if document is not None and not isinstance(document.get("metadata"), dict):
            _raise_malformed("an object in it has no metadata")
    return request


def _raise_malformed(why: str) -> NoReturn:
    raise MalformedError(f"the AdmissionReview cannot be read: {why}") from None


def make_allowing_answer(request: Request, patch: list[Json] | None = None, warnings: tuple[str, ...] = ()) -> bytes:
    """Return the response that allows the write, unchanged or with a JSON patch.

    warnings: the server passes them to its client.
    """
    if not patch:
        return _encode_answer(_Response(uid=request.uid, allowed=True, warnings=warnings))
    return _encode_answer(
        _Response(uid=request.uid, allowed=True, patch=msgspec.json.encode(patch), patch_type="JSONPatch")
    )


def make_refusing_answer(request: Request, why: str) -> bytes:
    """Return the response that refuses the write. The server shows which webhook refused, and then this reason."""
    status = Status(status="Failure", code=403, reason="Forbidden", message=why)
    return _encode_answer(_Response(uid=request.uid, allowed=False, status=status))


def _encode_answer(response: _Response) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
