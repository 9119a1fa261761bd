"""Answer reviews over HTTPS, and read the objects that a decision depends on when the decision needs them.

Small kinds are cached by watches; objects of other kinds are read from the server. Any program that reaches the port
can send a review. So objects are read only by a valid name, no response contains the server's messages, and few long
bodies are read concurrently.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.api.validation.names import dns_label, dns_subdomain
from muster.controllers.integrations.surroundings import Find
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.inbound import Handler, Inbound
from muster.runtime.informer import Informer
from muster.runtime.transport import Response, TransportError
from muster.webhooks import reviews
from muster.webhooks.configurations import SECONDS
from muster.webhooks.conversions import convert
from muster.webhooks.decisions import ReviewDecisions
from muster.webhooks.endpoints import CONVERTING, MUTATING, VALIDATING
from muster.webhooks.reviews import MalformedError, Request

T = TypeVar("T")
_Key = tuple[Kind[Any], str, str]
# Returns the object of that kind, namespace and name, or None. Raises `ApiError`, `TransportError`.
Read = Callable[[Kind[Any], str, str], Awaitable[Any]]

# A review contains an object twice, and a server stores none of more than 3 MiB.
LARGEST_REVIEW: Final = 7 * 2**20
# A conversion review contains all objects of a list.
LARGEST_CONVERSION: Final = 64 * 2**20
# Longer bodies are converted in a thread, so that short ones need not wait.
_LONG: Final = 2**18
# Long bodies take memory, so each path reads only this many concurrently. Reviews may wait for conversions, never the
# reverse.
_LONG_AT_ONCE: Final = 4
# A server sends a body at once; a slower client would make others wait.
_BODY_SECONDS: Final = 10.0
# An owner's owner's owner, its queue, its checks: no decision reads more objects.
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
    """A need for an object that `Known` does not contain yet. key: the object's kind, namespace and name."""

    def __init__(self, key: _Key) -> None:
        super().__init__()
        self.key = key


class Known:
    """A `Find` for decisions: the objects that were read for one review. Raises `UnknownError` for any other object."""

    def __init__(self) -> None:
        self._objects: dict[_Key, Any] = {}

    def __call__(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Return the object; None if it was read and does not exist. Raises `UnknownError` if it was not read."""
        key = (kind, namespace, name)
        if key not in self._objects:
            raise UnknownError(key)
        return cast("T | None", self._objects[key])

    def learn(self, key: _Key, obj: Any) -> None:
        """Store the result of a read under a key: an object, or None if the server has no such object."""
        self._objects[key] = obj


class Reader:
    """A reader of objects: from a cache if their kind is watched and the cache is complete, else from the server."""

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._caches: dict[Kind[Any], Informer[Any]] = {
            kind: manager.informer(kind, optional=True) for kind in _FOLLOWED
        }

    async def read(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        """Return the object; None if there is none, or its name is invalid. Raises `ApiError`, `TransportError`."""
        if dns_subdomain(name) or (kind.namespaced and dns_label(namespace)):
            return None  # the name would lead to another path of the API
        cache = self._caches.get(kind)
        if cache is not None and cache.synced.is_set():
            return cache.get(f"{namespace}/{name}" if kind.namespaced else name)
        return await self._client.find(kind, name, namespace)


async def answer_review(decide: Callable[[Request, Find], bytes], request: Request, read: Read) -> bytes:
    """Decide a review; read each object that the decision needs, and decide again, until nothing is missing.

    Return the encoded response. Raises `ApiError`, `TransportError`.
    """
    known = Known()
    for _ in range(_MOST_QUESTIONS):
        try:
            return decide(request, known)
        except UnknownError as unknown:
            known.learn(unknown.key, await read(*unknown.key))
    return reviews.make_refusing_answer(request, "it depends on too many other objects")


def make_handlers(decisions: ReviewDecisions, read: Read, limit_seconds: float = SECONDS) -> dict[str, Handler]:
    """Return the handler of POST requests for each path: reviews for admission, and conversions between versions.

    limit_seconds: how long a review may take. The API server waits no longer, and neither does a stopping replica.
    """

    def review_with(decide: Callable[[Request, Find], bytes]) -> Handler:
        async def answer(inbound: Inbound) -> Response:
            body = await inbound.read(LARGEST_REVIEW, _BODY_SECONDS)
            try:
                request = reviews.read(body)
                async with asyncio.timeout(limit_seconds):
                    return _make_json_response(await answer_review(decide, request, read))
            except MalformedError as error:
                return _make_text_response(400, str(error))
            except TimeoutError:
                log.warning("webhooks: %s cannot be answered: no answer within %g s", inbound.path, limit_seconds)
                return _make_text_response(500, "what it depends on cannot be read in time")
            except (ApiError, TransportError) as error:
                log.warning("webhooks: %s cannot be answered: %s", inbound.path, error)
                return _make_text_response(500, "what it depends on cannot be read")

        return _limit_long_bodies(answer)

    async def convert_object(inbound: Inbound) -> Response:
        body = await inbound.read(LARGEST_CONVERSION, _BODY_SECONDS)
        try:
            return _make_json_response(convert(body) if len(body) < _LONG else await asyncio.to_thread(convert, body))
        except MalformedError as error:
            return _make_text_response(400, str(error))

    return {
        MUTATING: review_with(decisions.mutate),
        VALIDATING: review_with(decisions.validate),
        CONVERTING: _limit_long_bodies(convert_object),
    }


def _limit_long_bodies(handler: Handler) -> Handler:
    """Return a handler that reads only a few bodies concurrently that are long or of unknown length."""
    turns = asyncio.Semaphore(_LONG_AT_ONCE)

    async def answer(inbound: Inbound) -> Response:
        if inbound.length is not None and inbound.length < _LONG:
            return await handler(inbound)
        async with turns:
            return await handler(inbound)

    return answer


def _make_json_response(body: bytes) -> Response:
    return Response(200, body)


def _make_text_response(status: int, text: str) -> Response:
    return Response(status, text.encode(), "text/plain; charset=utf-8")
