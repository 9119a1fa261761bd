"""The defaults of the basic objects of the core group."""

import base64
from typing import Any

from muster.api.defaults.resources import default_resource_list

Json = dict[str, Any]

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def default_spec(subject: Json) -> None:
    """Give an object an empty spec, which upstream always returns: its programs read `spec` without a check."""
    subject.setdefault("spec", {})


def default_namespace(namespace: Json) -> None:
    """Set the defaults of a Namespace: a label with its name, so that selectors can match it."""
    metadata = namespace.setdefault("metadata", {})
    if metadata.get("name"):
        metadata.setdefault("labels", {})[NAMESPACE_NAME_LABEL] = metadata["name"]
    status = namespace.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def default_node(node: Json) -> None:
    """Set the defaults of a Node: an empty spec, and allocatable resources that equal its capacity."""
    default_spec(node)
    status = node.setdefault("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    default_resource_list(status.get("capacity"))
    default_resource_list(status.get("allocatable"))


def default_secret(secret: Json) -> None:
    """Set the defaults of a Secret: move `stringData`, which the API never returns, into `data`."""
    if not secret.get("type"):
        secret["type"] = "Opaque"
    texts = secret.pop("stringData", None)
    if texts:
        data = secret.setdefault("data", {})
        data |= {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    for key, text in secret.get("data", {}).items():
        # Base64 in YAML block scalars has line breaks, which upstream's decoders skip.
        secret["data"][key] = text.replace("\n", "").replace("\r", "")


def default_priority_class(priority_class: Json) -> None:
    """Set the defaults of a PriorityClass."""
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")
