"""Objects of one version become objects of another: by their apiVersion alone, or by a webhook.

A webhook is asked about many objects at once. What it answers is trusted with labels, annotations and everything but
the metadata; the rest of the metadata stays as it was (k8s.io/apiextensions-apiserver/pkg/apiserver/conversion).
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

SECONDS = 30.0  # that a webhook has

_encoder = msgspec.json.Encoder()
_SPOKEN = ("v1", "v1beta1")
_CONVERTIBLE_METADATA = ("labels", "annotations")
_KEPT_METADATA = ("name", "namespace", "uid")


class Convert(Protocol):
    """Makes objects of other versions objects of `api_version`."""

    async def __call__(self, documents: Sequence[Document], api_version: str) -> Sequence[Document]:
        """The objects, in their order; those given stay as they are. Raises `ApiError`."""
        ...


class _Response(Struct):
    uid: str = ""
    converted_objects: tuple[dict[str, Any], ...] = ()
    result: Status = Status()


class _Review(Struct):
    response: _Response | None = None


async def rename(documents: Sequence[Document], api_version: str) -> Sequence[Document]:
    """Versions that are alike: only the name changes."""
    return [document | {"apiVersion": api_version} for document in documents]


def conversion(definition: CustomResourceDefinition, calls: Calls, ids: Ids) -> Convert:
    """How the versions of a definition become each other."""
    how = definition.spec.conversion
    if how is None or how.strategy != WEBHOOK_CONVERSION or how.webhook is None or how.webhook.client_config is None:
        return rename
    spoken = next((version for version in how.webhook.conversion_review_versions if version in _SPOKEN), "v1")
    return _Webhook(how.webhook.client_config, spoken, definition.spec.names.kind, calls, ids)


class _Webhook:
    """Asks a conversion webhook."""

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
        found = documents[0]["apiVersion"]
        try:
            body = await self._calls.post(self._config, _encoder.encode(review), SECONDS)
            converted = _read(body, uid, len(documents))
        except CallError as error:
            raise self._failed(found, str(error).removeprefix("failed to call webhook: ")) from None
        except _BadAnswerError as error:
            raise self._failed(found, str(error)) from None
        return [self._checked(old, new, api_version, found) for old, new in zip(documents, converted, strict=True)]

    def _checked(self, old: Document, new: Document, api_version: str, found: str) -> Document:
        if new.get("apiVersion") != api_version or new.get("kind") != old["kind"]:
            got = f"{new.get('apiVersion')}, Kind={new.get('kind')}"
            raise self._failed(
                found, f"invalid converted object: expected {api_version}, Kind={old['kind']}, got {got}"
            )
        meta, given = old["metadata"], new.get("metadata")
        if not isinstance(given, dict):
            raise self._failed(found, "invalid converted object: missing metadata")
        for field in _KEPT_METADATA:
            if given.get(field, "") != meta.get(field, ""):
                raise self._failed(found, f"invalid converted object: must not change metadata.{field}")
        kept = {field: value for field, value in meta.items() if field not in _CONVERTIBLE_METADATA}
        return new | {"metadata": kept | {field: given[field] for field in _CONVERTIBLE_METADATA if given.get(field)}}

    def _failed(self, api_version: str, why: str) -> ApiError:
        return internal_error(f"conversion webhook for {api_version}, Kind={self._kind} failed: {why}")


class _BadAnswerError(Exception):
    """What came back is no use; says why."""


def _read(body: bytes, uid: str, count: int) -> Sequence[Document]:
    """The objects in a webhook's answer. Raises `_BadAnswerError`."""
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
