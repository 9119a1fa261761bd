"""The checkers of kinds that have Muster's types and are CRDs upstream, such as JobSets.

A checker treats the metadata like a built-in kind's, and everything else as a custom resource. If the status is a
subresource, a write sets a part of the object, and the checker validates only that part:

- a write of `status`: the status;
- any other write: everything but the status, which the server ignores.
"""

from collections.abc import Set as AbstractSet
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.schema import Schema, make_structural_schema
from muster.cluster.apiserver.schema.builtin import compile_builtin
from muster.cluster.apiserver.schema.custom import compile_custom
from muster.cluster.apiserver.schema.walk import Checked, Checker

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def compile_whole(kind: Kind[Any]) -> Checker:
    """Return the checker of request bodies for a kind whose status is no subresource."""
    return _compile_checker(kind, make_structural_schema(kind))


def compile_structural(kind: Kind[Any], *, status: bool = False) -> Checker:
    """Return the checker of request bodies for an object, or for its `status` subresource.

    The checker raises `DecodeError` for metadata of a wrong type, and returns all other errors.
    """
    schema = make_structural_schema(kind)
    members = dict(schema["properties"])
    if status:
        schema = schema | {"properties": dict.fromkeys(members, _ANYTHING) | {"status": members["status"]}}
        schema["required"] = []
    elif "status" in members:
        schema = schema | {"properties": members | {"status": _ANYTHING}}
    return _compile_checker(kind, schema)


def _compile_checker(kind: Kind[Any], schema: Schema) -> Checker:
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
