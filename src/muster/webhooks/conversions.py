"""Convert objects of Kueue's kinds between versions, as a server requests it (`ConversionReview`). Pure."""

from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue import GROUP, KUEUE_KINDS, OLD_VERSION, VERSION
from muster.api.kueue.conversion import to_v1beta1, to_v1beta2
from muster.api.meta import Struct
from muster.webhooks.reviews import MalformedError

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "ConversionReview"

_NEW, _OLD = f"{GROUP}/{VERSION}", f"{GROUP}/{OLD_VERSION}"
_KINDS: dict[str, Kind[Any]] = {kind.kind: kind for kind in KUEUE_KINDS}
_CONVERT = {(_OLD, _NEW): to_v1beta2, (_NEW, _OLD): to_v1beta1}

Json = dict[str, Any]


class _Request(Struct):
    uid: str = ""
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: tuple[Json, ...] = ()


class _Review(Struct):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _UnconvertibleError(Exception):
    """An object that cannot be converted to a version. The message says why."""


def convert(body: bytes) -> bytes:
    """Return the response to a ConversionReview: the converted objects, or why one cannot be converted.

    Raises `MalformedError` for a body that is no ConversionReview.
    """
    request = _read(body)
    try:
        converted = [_convert_object(document, request.desired_api_version) for document in request.objects]
        response: Json = {"uid": request.uid, "convertedObjects": converted, "result": {"status": "Success"}}
    except _UnconvertibleError as error:
        response = {"uid": request.uid, "result": {"status": "Failure", "message": str(error)}}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _read(body: bytes) -> _Request:
    try:
        review = msgspec.json.decode(body, type=_Review)
    except RecursionError:
        raise MalformedError("the ConversionReview cannot be read: it is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"the ConversionReview cannot be read: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND) or review.request is None or not review.request.uid:
        raise MalformedError(f"it is no {KIND} of {API_VERSION} with a request that has a uid")
    return review.request


def _convert_object(document: Json, desired: str) -> Json:
    given, kind = document.get("apiVersion"), document.get("kind")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise _UnconvertibleError(f"{str(kind)[:100]!r} is no kind of {GROUP}")
    if given == desired:
        return document
    function = _CONVERT.get((given, desired)) if isinstance(given, str) else None
    if function is None:
        raise _UnconvertibleError(f"{kind}: there is no way from {str(given)[:100]!r} to {desired[:100]!r}")
    try:
        return function(known.resource, document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Conversions rely on the schema; an object stored before the schema may be anything.
        name = document.get("metadata", {}).get("name") if isinstance(document.get("metadata"), dict) else None
        raise _UnconvertibleError(f"{kind} {str(name)[:253]!r} is not as its schema says: {error!r}") from None
