"""What a cluster answers, as a script, and what it was asked, as lines."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.status import Status
from muster.runtime.client import Client
from muster.runtime.transport import Response

T = TypeVar("T")


def answer(document: Any = None) -> Response:
    return Response(200, msgspec.json.encode({} if document is None else document))


def refusal(code: int, reason: str, *, name: str = "") -> Response:
    """That of an API server, which names the object; without one there is no such kind."""
    status = Status(status="Failure", code=code, reason=reason, message=reason)
    document = msgspec.to_builtins(status) | ({"details": {"name": name}} if name else {})
    return Response(code, json.dumps(document).encode())


async def asked(act: Callable[[Client], Awaitable[T]], *script: Response) -> tuple[T, list[str], list[Any]]:
    """What came of it; each request as `METHOD NAME`; and the bodies that were sent."""
    transport = ScriptedTransport(*script)
    outcome = await act(Client(transport))
    assert transport.script == [], "all of the script was played"
    lines = [f"{one.method} {one.path.rpartition('/')[2]}" for one in transport.requests]
    return outcome, lines, [json.loads(one.body) for one in transport.requests if one.body]
