"""Convert custom resources between versions, by renaming the apiVersion or by a webhook.

`make_converter` takes a definition and returns a `Convert`. One call of a webhook converts many objects. The webhook
may change labels, annotations and everything outside of the metadata. All other metadata stay, as in
k8s.io/apiextensions-apiserver/pkg/apiserver/conversion. `versions` decides which objects need a conversion.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from muster.api.meta import Struct
from muster.api.server.admissionregistration import WebhookClientConfig
from muster.api.server.apiextensions import WEBHOOK_CONVERSION, CustomResourceDefinition
from muster.api.status import ApiError, Status, internal_error
from muster.cluster.apiserver.admission.webhooks.calls import CallError, Calls
from muster.cluster.apiserver.decode import Document
from muster.runtime.ids import Ids

SECONDS = 30.0  # the time limit of a webhook's response

_encoder = msgspec.json.Encoder()
_SPOKEN = ("v1", "v1beta1")
_CONVERTIBLE_METADATA = ("labels", "annotations")
_KEPT_METADATA = ("name", "namespace", "uid")


class Convert(Protocol):
    """A converter of objects to another version."""

    async def __call__(self, documents: Sequence[Document], api_version: str) -> Sequence[Document]:
        """Return the objects in `api_version`, in the same order, without changing the original objects.

        Raises `ApiError` if a webhook fails.
        """
        ...


class _Response(Struct):
    uid: str = ""
    converted_objects: tuple[dict[str, Any], ...] = ()
    result: Status = Status()


class _Review(Struct):
    response: _Response | None = None


async def rename(documents: Sequence[Document], api_version: str) -> Sequence[Document]:
    """Convert objects between versions that differ only in their apiVersion."""
    return [document | {"apiVersion": api_version} for document in documents]


def make_converter(definition: CustomResourceDefinition, calls: Calls, ids: Ids) -> Convert:
    """Return the converter between the versions of a definition.

    It calls the definition's conversion webhook. Without a webhook, it changes only the apiVersion.
    """
    how = definition.spec.conversion
    if how is None or how.strategy != WEBHOOK_CONVERSION or how.webhook is None or how.webhook.client_config is None:
        return rename
    review_version = next((version for version in how.webhook.conversion_review_versions if version in _SPOKEN), "v1")
    return _Webhook(how.webhook.client_config, review_version, definition.spec.names.kind, calls, ids)


class _Webhook:
    """A converter that calls a conversion webhook."""

    def __init__(self, config: WebhookClientConfig, version: str, kind: str, calls: Calls, ids: Ids) -> None:
        self._config = config
        self._version = f"apiextensions.k8s.io/{version}"
        self._kind = kind
        self._calls = calls
        self._ids = ids

    async def __call__(self, documents: Sequence[Document], api_version: str) -> Sequence[Document]:
        if not documents:
            return ()
        uid = self._ids.uid()
        review = {
            "apiVersion": self._version,
            "kind": "ConversionReview",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": documents},
        }
        source = documents[0]["apiVersion"]
        try:
            body = await self._calls.post(self._config, _encoder.encode(review), SECONDS)
            converted = _read(body, uid, len(documents))
        except CallError as error:
            raise self._make_failure(source, str(error).removeprefix("failed to call webhook: ")) from None
        except _BadAnswerError as error:
            raise self._make_failure(source, str(error)) from None
        return [
            self._check_conversion(old, new, api_version, source) for old, new in zip(documents, converted, strict=True)
        ]

    def _check_conversion(self, old: Document, new: Document, api_version: str, source: str) -> Document:
        if new.get("apiVersion") != api_version or new.get("kind") != old["kind"]:
            got = f"{new.get('apiVersion')}, Kind={new.get('kind')}"
            raise self._make_failure(
                source, f"invalid converted object: expected {api_version}, Kind={old['kind']}, got {got}"
            )
        meta, new_meta = old["metadata"], new.get("metadata")
        if not isinstance(new_meta, dict):
            raise self._make_failure(source, "invalid converted object: missing metadata")
        for field in _KEPT_METADATA:
            if new_meta.get(field, "") != meta.get(field, ""):
                raise self._make_failure(source, f"invalid converted object: must not change metadata.{field}")
        fixed = {field: value for field, value in meta.items() if field not in _CONVERTIBLE_METADATA}
        changeable = {field: new_meta[field] for field in _CONVERTIBLE_METADATA if new_meta.get(field)}
        return new | {"metadata": fixed | changeable}

    def _make_failure(self, api_version: str, why: str) -> ApiError:
        return internal_error(f"conversion webhook for {api_version}, Kind={self._kind} failed: {why}")


class _BadAnswerError(Exception):
    """A webhook's response that cannot be used. The message says why."""


def _read(body: bytes, uid: str, count: int) -> Sequence[Document]:
    """Return the objects in a webhook's response.

    Raises `_BadAnswerError` if the response is malformed, reports a failure or has the wrong number of objects.
    """
    try:
        response = msgspec.json.decode(body, type=_Review).response
    except (msgspec.DecodeError, RecursionError) as error:
        raise _BadAnswerError(f"the answer cannot be read: {error}") from None
    if response is None:
        raise _BadAnswerError("no response provided")
    if response.uid != uid:
        raise _BadAnswerError(f'expected response.uid="{uid}", got "{response.uid[:100]}"')
    if response.result.status != "Success":
        raise _BadAnswerError(response.result.message[:1000] or "response.result.status was not Success")
    if len(response.converted_objects) != count:
        raise _BadAnswerError(f"webhook returned {len(response.converted_objects)} objects, expected {count}")
    return response.converted_objects
