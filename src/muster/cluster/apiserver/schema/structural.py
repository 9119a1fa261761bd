"""Kinds that are CRDs upstream and that we have types of: checked as a CRD, with the metadata checked as everybody's.

Where the status is a subresource, a view writes a part of an object, and only that part is judged: of a body for
`status` the status, of any other everything but the status, which the server does not take from it.
"""

from collections.abc import Set as AbstractSet
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.schema import Schema, structural
from muster.cluster.apiserver.schema.builtin import compile_builtin
from muster.cluster.apiserver.schema.custom import compile_custom
from muster.cluster.apiserver.schema.walk import Checked, Checker

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def compile_whole(kind: Kind[Any]) -> Checker:
    """The checker of bodies for an object whose status is no subresource."""
    return _compiled(kind, structural(kind))


def compile_structural(kind: Kind[Any], *, status: bool = False) -> Checker:
    """The checker of bodies for an object, or for its `status`; it raises `DecodeError` for bad metadata only."""
    schema = structural(kind)
    members = dict(schema["properties"])
    if status:
        schema = schema | {"properties": dict.fromkeys(members, _ANYTHING) | {"status": members["status"]}}
        schema["required"] = []
    elif "status" in members:
        schema = schema | {"properties": members | {"status": _ANYTHING}}
    return _compiled(kind, schema)


def _compiled(kind: Kind[Any], schema: Schema) -> Checker:
    check_body = compile_custom(schema, fill=False)
    check_meta = compile_builtin(kind.seen_as(Object))

    def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        body = check_body(document, sound)
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if metadata is None:
            return body
        meta = check_meta({"metadata": metadata}, sound)
        value = body.value if meta.value["metadata"] is metadata else body.value | meta.value
        return Checked(value, (*meta.unknown, *body.unknown), body.errors)

    return checker
