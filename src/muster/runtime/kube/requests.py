"""Define the common parts of all transports to a server: headers of a request, retries, and errors.

`https` sends requests over TLS, and `local` over the socket of a server on this machine.
"""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote, urlencode

from muster.runtime.control.backoff import Backoff
from muster.runtime.kube.kubeconfig import ConnectionConfig, Impersonation
from muster.runtime.realclock import Clock
from muster.runtime.transport import Request, SilentError, TransportError

if TYPE_CHECKING:
    from muster.runtime.ids import Random

# Concurrent requests, without streams. client-go's default rate would allow far fewer.
MAX_CONCURRENT_REQUESTS = 64
# A page of 500 objects of the largest stored size would have 750 MB; real pages have 4 MB.
MAX_RESPONSE_BYTES = 256 << 20
CONNECT_ATTEMPTS = 3
CONNECT_BACKOFF = Backoff(first=0.1, limit=2.0)
# client-go's number of attempts for a server that says when to retry.
MAX_ATTEMPTS = 10

USER_AGENT = "muster"
CLOSED = "the client is closed"
UNANSWERED = "the server closed the connection without an answer"
BROKEN = "the connection broke in the middle of the answer"

_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})


class UnreachedError(TransportError):
    """A request that did not reach the server, because the connection was refused."""


class Answered(Protocol):
    """The status and headers of a response, from any transport."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by name in lower case."""
        ...


A = TypeVar("A", bound=Answered)


async def send_with_retries(
    send: Callable[[], Awaitable[A]],
    method: str,
    clock: Clock,
    make_random: "Callable[[], Random]",
    deadline: float | None,
) -> A:
    """Send a request; retry if the server says when to retry or refuses the connection. Return the response.

    After a refused connection, a request is sent again only if sending it twice is harmless.

    send: sends the request once.
    make_random: returns the source of jitter, when a pause needs it.
    deadline: by `clock.monotonic`; None for no limit.

    Raises the errors of `send`.
    """
    for attempt in count(1):
        try:
            answer = await send()
        except UnreachedError:
            if not may_send_twice(method) or attempt >= CONNECT_ATTEMPTS:
                raise
            pause = CONNECT_BACKOFF.delay(attempt, make_random())
        else:
            again = pause_of(answer.status, answer.headers.get("retry-after", ""), attempt)
            if again is None or (deadline is not None and clock.monotonic() + again >= deadline):
                return answer
            pause = make_random().jitter(again, 0.1)
        await clock.sleep(pause)
    raise AssertionError("count() has no end")


def pause_of(status: int, retry_after: str, attempt: int) -> float | None:
    """Return after how many seconds a refused request is retried; None if it is not retried.

    retry_after: the header Retry-After.
    attempt: how many attempts there were.
    """
    if status not in (429, 503) or attempt >= MAX_ATTEMPTS or not (retry_after.isascii() and retry_after.isdecimal()):
        return None
    return max(float(retry_after), CONNECT_BACKOFF.first)


def may_send_twice(method: str) -> bool:
    """Return whether it is harmless to send a request with this method twice."""
    return method in _IDEMPOTENT


def path_and_query(request: Request) -> str:
    """Return the path of a request, percent-encoded, with its query."""
    lists = ((name, value) for name, values in request.lists.items() for value in values)
    query = urlencode([*request.query.items(), *lists], quote_via=quote)
    return f"{quote(request.path)}{f'?{query}' if query else ''}"


def headers_of(request: Request) -> list[tuple[str, str]]:
    """Return the headers that belong to one request."""
    content = [("Content-Type", request.content_type)] if request.body else []
    return [("Accept", request.accept), *content]


def fixed_headers(config: ConnectionConfig) -> tuple[tuple[str, str], ...]:
    """Return the headers of all requests to a server."""
    headers = [("User-Agent", USER_AGENT)]
    if config.cluster.disable_compression:
        headers.append(("Accept-Encoding", "identity"))
    if config.user.impersonation is not None:
        headers += _make_impersonation_headers(config.user.impersonation)
    return tuple(headers)


def _make_impersonation_headers(other: Impersonation) -> list[tuple[str, str]]:
    headers = [("Impersonate-User", other.user)]
    if other.uid:
        headers.append(("Impersonate-Uid", other.uid))
    headers += [("Impersonate-Group", group) for group in other.groups]
    for key, values in other.extra:
        name = f"Impersonate-Extra-{quote(key, safe='!#$&*+^|~')}"
        headers += [(name, value) for value in values]
    return headers


def no_answer(where: str, seconds: float | None) -> SilentError:
    """Return the error of a request that exceeded its time limit."""
    return SilentError(f"{where}: no answer within {seconds:g} s")


def not_allowed(where: str) -> TransportError:
    """Return the error of a request that was not sent, because it was no longer allowed after waiting."""
    return TransportError(f"{where}: was not sent: it is allowed no longer")


def too_large(where: str, limit: int) -> TransportError:
    """Return the error of a response that exceeds the client's limit."""
    return TransportError(f"{where}: the answer is larger than {limit} bytes; ask for smaller pages")
