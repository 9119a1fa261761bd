"""Capture the objects of Kueue before a takeover, so that `muster handback` can restore them. Pure.

A ConfigMap in the engines' namespace stores the objects that the takeover deletes or overwrites. It is written before
the takeover removes anything.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from muster.install.options import Json, make_metadata

NAME: Final = "muster-takeover"
_KEY: Final = "kueue.json"
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"


class KueueState(Struct, frozen=True):
    """The objects and settings of Kueue from before the takeover.

    replicas: the number of replicas of Kueue's manager.
    objects: Kueue's webhook configurations and APIServices.
    service: the selector and the ports of the Service for Kueue's webhooks; empty if there was none.
    enforced: the enforced Pod Security level of the namespace; "" if it had none.
    """

    replicas: int = 1
    objects: tuple[Json, ...] = ()
    service: Json = {}
    enforced: str = ""


def capture_state(
    replicas: int, objects: list[Json], service: Mapping[str, Any] | None, namespace: Mapping[str, Any]
) -> KueueState:
    """Return the state to restore later, from the current objects.

    replicas: the number of replicas of Kueue's manager.
    service: the Service of its webhooks; None if there is none.
    namespace: Kueue's Namespace.
    """
    spec = (service or {}).get("spec") or {}
    service_spec = {part: spec[part] for part in ("selector", "ports") if spec.get(part)}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return KueueState(replicas, tuple(map(_strip_server_fields, objects)), service_spec, labels.get(_ENFORCED, ""))


def config_map(state: KueueState, namespace: str) -> Json:
    """Return the ConfigMap that stores the state."""
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": make_metadata(NAME, namespace)}
    return head | {"data": {_KEY: msgspec.json.format(msgspec.json.encode(state), indent=1).decode()}}


def state_in(document: Mapping[str, Any] | None) -> KueueState | None:
    """Return the state that a ConfigMap stores; None if `document` is None.

    Raises `msgspec.ValidationError` if the content is malformed.
    """
    if document is None:
        return None
    return msgspec.json.decode((document.get("data") or {}).get(_KEY, "null"), type=KueueState)


def service_patch(state: KueueState, live: Mapping[str, Any]) -> Json | None:
    """Return the merge patch that points the webhook Service to Kueue's manager again.

    Returns None if the Service points there already, or if there was no Service before the takeover.
    """
    spec = live.get("spec") or {}
    if not state.service or all(spec.get(part) == value for part, value in state.service.items()):
        return None
    selector = state.service.get("selector") or {}
    gone = dict.fromkeys(set(spec.get("selector") or {}) - set(selector))
    return {"spec": state.service | {"selector": gone | selector}}


def namespace_patch(state: KueueState, live: Mapping[str, Any]) -> Json | None:
    """Return the merge patch that restores the Pod Security level of the namespace; None if it has not changed."""
    labels = (live.get("metadata") or {}).get("labels") or {}
    if labels.get(_ENFORCED, "") == state.enforced:
        return None
    return {"metadata": {"labels": {_ENFORCED: state.enforced or None}}}


def _strip_server_fields(document: Json) -> Json:
    """Return an object without the fields that the server sets, except `managedFields`.

    With `managedFields`, Kueue's manifest can later be applied without conflicts.
    """
    meta = document["metadata"]
    metadata = {part: meta[part] for part in ("name", "labels", "annotations", "managedFields") if meta.get(part)}
    return {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}
