"""Warn about definitions of kinds that the server serves anyway, and protect the server's own definitions."""

from collections.abc import Collection

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.admission.chain import Plugin, Remark, WriteAttempt
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.store import Store


def warn_of_builtin_kinds(registry: Registry, listed: Collection[str] = ()) -> Remark:
    """Return the check that warns if a definition defines a kind, such as JobSet, that the server serves anyway.

    listed: the names of the definitions that the server provides itself.
    """

    def remark(attempt: WriteAttempt) -> str:
        if attempt.resource.key != CUSTOM_RESOURCE_DEFINITION.resource or attempt.subresource:
            return ""
        if attempt.name in listed and attempt.operation in ("CREATE", "UPDATE"):
            return f"this cluster serves {attempt.name} by itself: only metadata of its definition can change"
        spec = attempt.document["spec"]
        if attempt.operation != "CREATE" or not registry.is_builtin(spec["group"], spec["names"]["plural"]):
            return ""
        return f"this cluster serves {attempt.name} by itself: the definition is kept, and changes nothing"

    return remark


def require_definitions_kept(listed: Collection[str]) -> Plugin:
    """Return the plugin that refuses to delete the definitions that the server provides itself."""

    def plugin(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
        is_definition = attempt.resource.key == CUSTOM_RESOURCE_DEFINITION.resource
        if is_definition and attempt.operation == "DELETE" and attempt.name in listed:
            raise attempt.make_refusal("this cluster serves the kind by itself, and its definition cannot be deleted")

    return plugin
