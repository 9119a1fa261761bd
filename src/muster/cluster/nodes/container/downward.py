"""Compute the values of `fieldRef` and `resourceFieldRef` (the downward API). Pure.

The formats are upstream's. Labels and annotations become lines of `key="value"` in Go's quoting, sorted by key. Amounts
are divided by the divisor and rounded up. A limit that is not set becomes the node's allocatable amount.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from muster.api.core import Container, ObjectFieldSelector, Pod, ResourceFieldSelector
from muster.api.values.quantity import Quantity, QuantityError, parse_thousandths, parse_whole_units

_SUBSCRIPTED = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]", re.DOTALL)
_TO_ESCAPE = re.compile(r"[^ !#-\[\]-~]")  # candidates: everything but printable ASCII
_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


class FieldError(Exception):
    """A reference to a field or resource that does not exist. The message is for the user."""


class NodeFacts(Struct, frozen=True):
    """The facts about a pod that only its node knows, such as addresses that the pod's status does not contain yet."""

    pod_ip: str
    host_ip: str
    node_name: str
    allocatable: Mapping[str, Quantity]


def get_field(pod: Pod, selector: ObjectFieldSelector, around: NodeFacts) -> str:
    """Return the value of a pod's field; "" for a missing label or annotation.

    Raises `FieldError` for an unknown field.
    """
    path = selector.field_path
    subscripted = _SUBSCRIPTED.fullmatch(path)
    if subscripted:
        entries = pod.metadata.labels if subscripted[1] == "metadata.labels" else pod.metadata.annotations
        return entries.get(subscripted[2], "")
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": around.node_name,
        "spec.host": around.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
    }
    if path in fields:
        return fields[path]
    if path == "metadata.labels":
        return render_lines(pod.metadata.labels)
    if path == "metadata.annotations":
        return render_lines(pod.metadata.annotations)
    raise FieldError(f"unsupported fieldPath: {path}")


def render_lines(entries: Mapping[str, str]) -> str:
    """Return the entries as lines of `key="value"`, sorted by key."""
    return "\n".join(f"{key}={_quote(entries[key])}" for key in sorted(entries))


def format_resource(containers: Mapping[str, Container], selector: ResourceFieldSelector, around: NodeFacts) -> str:
    """Return a request or limit of a container, divided by the selector's divisor. Raises `FieldError`.

    containers: the pod's containers by name.
    """
    container = containers.get(selector.container_name)
    if container is None:
        raise FieldError(f"container {selector.container_name} not found")
    part, _, name = selector.resource.partition(".")
    if part not in ("limits", "requests") or not name:
        raise FieldError(f"unsupported container resource: {selector.resource}")
    amounts = container.resources.limits if part == "limits" else container.resources.requests
    quantity = amounts.get(name, around.allocatable.get(name, 0) if part == "limits" else 0)
    count = parse_thousandths if name == "cpu" else parse_whole_units
    try:
        amount = count(quantity)
        divisor = count(selector.divisor or 1) or count(1)
    except QuantityError as error:
        raise FieldError(f"{selector.resource}: {error}") from None
    return str(-(-amount // divisor))


def _quote(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda match: _escape(match[0]), text) + '"'


def _escape(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
