"""Answers reviews over HTTPS. What a decision has to know is read when it asks for it: small kinds are followed, the
rest is asked of the server.

Every program that reaches the port may ask. So nothing is read but by a proper name, no answer has words of the
server's, and few long bodies are read at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from aiohttp import web

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.api.validation.names import dns_label, dns_subdomain
from muster.controllers.integrations.surroundings import Find
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.manager import Manager
from muster.runtime.transport import TransportError
from muster.webhooks import reviews
from muster.webhooks.conversions import convert
from muster.webhooks.decisions import Decisions
from muster.webhooks.places import CONVERTING, MUTATING, VALIDATING
from muster.webhooks.reviews import MalformedError, Request

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.Response]]
_Key = tuple[Kind[Any], str, str]
# The object of that kind, namespace and name; None if there is none. Raises `ApiError`, `TransportError`.
Read = Callable[[Kind[Any], str, str], Awaitable[Any]]

# A review has an object twice, and a server takes none of more than 3 MiB.
LARGEST_REVIEW: Final = 7 * 2**20
# Of all objects of a list at once.
LARGEST_CONVERSION: Final = 64 * 2**20
# What is longer is converted in a thread, so that short ones need not wait for it.
_LONG: Final = 2**18
# What is long takes memory: so many at a time, of each path. Reviews may wait for conversions, never the other way.
_LONG_AT_ONCE: Final = 4
# A server sends all of a body at once; who takes longer lets others wait.
_BODY_SECONDS: Final = 10.0
# An owner's owner's owner, its queue, its checks: no decision asks for more.
_MOST_QUESTIONS: Final = 64

_FOLLOWED: Final[tuple[Kind[Any], ...]] = (
    LOCAL_QUEUE,
    CLUSTER_QUEUE,
    ADMISSION_CHECK,
    WORKLOAD_PRIORITY_CLASS,
    NAMESPACE.seen_as(Object),
)

log = logging.getLogger(__name__)


class UnknownError(Exception):
    """A decision has to know an object that was not read yet."""

    def __init__(self, key: _Key) -> None:
        super().__init__()
        self.key = key


class Known:
    """`Find` of what was read; raises `UnknownError` for the rest."""

    def __init__(self) -> None:
        self._objects: dict[_Key, Any] = {}

    def __call__(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Find it."""
        key = (kind, namespace, name)
        if key not in self._objects:
            raise UnknownError(key)
        return cast("T | None", self._objects[key])

    def learn(self, key: _Key, found: Any) -> None:
        """It was read; None if there is none."""
        self._objects[key] = found


class Reader:
    """Reads objects: out of a cache if their kind is followed, and all of it is known."""

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._caches: dict[Kind[Any], Informer[Any]] = {
            kind: manager.informer(kind, optional=True) for kind in _FOLLOWED
        }

    async def read(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        """The object; None if there is none, or can be none. Raises `ApiError`, `TransportError`."""
        if dns_subdomain(name) or (kind.namespaced and dns_label(namespace)):
            return None  # it would be another path of the API
        cache = self._caches.get(kind)
        if cache is not None and cache.synced.is_set():
            return cache.get(f"{namespace}/{name}" if kind.namespaced else name)
        return await self._client.find(kind, name, namespace)


async def decided(decide: Callable[[Request, Find], bytes], request: Request, read: Read) -> bytes:
    """The answer, once all that it depends on was read. Raises `ApiError`, `TransportError`."""
    known = Known()
    for _ in range(_MOST_QUESTIONS):
        try:
            return decide(request, known)
        except UnknownError as unknown:
            known.learn(unknown.key, await read(*unknown.key))
    return reviews.refused(request, "it depends on too many other objects")


def handlers(decisions: Decisions, read: Read) -> dict[str, Handler]:
    """By path; each answers a POST."""

    def asking(decide: Callable[[Request, Find], bytes]) -> Handler:
        async def answer(asked: web.Request) -> web.Response:
            try:
                request = reviews.read(await _body(asked, LARGEST_REVIEW))
                return _json(await decided(decide, request, read))
            except MalformedError as error:
                return web.Response(text=str(error), status=400)
            except (ApiError, TransportError) as error:
                log.warning("webhooks: %s cannot be answered: %s", asked.path, error)
                return web.Response(text="what it depends on cannot be read", status=500)

        return _in_turn(answer)

    async def converting(asked: web.Request) -> web.Response:
        body = await _body(asked, LARGEST_CONVERSION)
        try:
            return _json(convert(body) if len(body) < _LONG else await asyncio.to_thread(convert, body))
        except MalformedError as error:
            return web.Response(text=str(error), status=400)

    return {
        MUTATING: asking(decisions.mutate),
        VALIDATING: asking(decisions.validate),
        CONVERTING: _in_turn(converting),
    }


def _in_turn(handler: Handler) -> Handler:
    """The same, for a few at a time of those that have much to say, or do not say how much."""
    turns = asyncio.Semaphore(_LONG_AT_ONCE)

    async def answer(asked: web.Request) -> web.Response:
        if asked.content_length is not None and asked.content_length < _LONG:
            return await handler(asked)
        async with turns:
            return await handler(asked)

    return answer


async def _body(asked: web.Request, largest: int) -> bytes:
    """Raises `HTTPRequestEntityTooLarge` without reading on, `HTTPRequestTimeout`."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await asked.clone(client_max_size=largest).read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
