"""Describe what the server refused, with the missing right and whom to ask for it. Pure."""

import re

from muster.api.status import ApiError
from muster.insight.text import make_sentence
from muster.runtime.transport import TransportError

_FORBIDDEN = 403
_MISSING_RIGHT = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


def explain_error(error: ApiError | TransportError) -> str:
    """Return the server's message as a sentence; for a missing right, with whom to ask for it."""
    sentence = make_sentence(str(error))
    right = _MISSING_RIGHT.search(str(error)) if isinstance(error, ApiError) and error.code == _FORBIDDEN else None
    if right is None:
        return sentence
    resource = ".".join(filter(None, (right["resource"], right["group"])))
    return f"{sentence} {ask_for_right(right['verb'], resource, right['namespace'] or '')}"


def ask_for_right(verb: str, resource: str, namespace: str) -> str:
    """Return the advice to ask for a right.

    resource: the resource, such as `jobs.batch`.
    namespace: the namespace; "" for the whole cluster.
    """
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    return f"Ask an administrator of the cluster for the right to {verb} {resource} {where}."
