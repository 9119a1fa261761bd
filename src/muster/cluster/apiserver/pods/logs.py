"""Answer `pods/log`, `jobs/log` and `jobsets/log` from the logs on the nodes.

The query selects the container and the part of its log. The server stores no logs: the pod's node provides them, as a
`LogSource` in the server's `nodes`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from muster.api.core import POD, Pod
from muster.api.pods import all_containers
from muster.api.status import FORBIDDEN, INVALID, FieldError, bad_request, invalid, not_found, unavailable
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.request.requestinfo import parse_boolean, parse_integer
from muster.cluster.nodeconnection import LogOptions, LogSource
from muster.cluster.store import Entry
from muster.runtime.transport import Response

TEXT = "text/plain"

# A node reports a missing log at once, but a log that is followed may stay silent for long. If no error has come within
# this time, the response starts.
FIRST_PIECE_SECONDS = 0.25
MAX_SINCE_SECONDS = 100 * 365 * 24 * 3600


async def read_log(entry: Entry, query: Mapping[str, str], nodes: Mapping[str, LogSource]) -> Stream:
    """Return the requested log of a pod. Raises `ApiError`: 400, 422, and 503 if the pod's node is not connected."""
    pod = POD.decode(entry.body)
    options = log_options(pod.metadata.name, container_of(pod, query.get("container", "")), query)
    name = pod.spec.node_name
    if not name:
        return Stream(_yield_nothing(), TEXT)  # the pod has not run, and upstream answers with an empty log, too
    node = nodes.get(name)
    if node is None:
        raise unavailable(f'the node "{name}" of pod "{pod.metadata.name}" is not connected: no log can be read')
    return Stream(await await_first_piece(node.logs(pod, options)), TEXT, is_endless=options.follow)


async def read_kept_log(job: Entry, query: Mapping[str, str], nodes: Mapping[str, LogSource]) -> Response | Stream:
    """Answer `jobs/log` or `jobsets/log`, which are extensions of Muster.

    The response lists the job's deleted pods whose logs the nodes keep. With `uid` in the query, the response is the
    log of that deleted pod. Raises `ApiError`: 400, 404, 422.

    job: the Job or JobSet.
    """
    kept_pods = {pod.uid: (pod, node) for node in nodes.values() for pod in node.list_kept_pods(job.header.uid)}
    uid, container = query.get("uid", ""), query.get("container", "")
    if not uid:
        return Response(200, msgspec.json.encode({"items": [pod for pod, _ in kept_pods.values()]}))
    if uid not in kept_pods:
        raise not_found("pods", uid[:100])
    pod, node = kept_pods[uid]
    if container not in pod.containers:
        raise bad_request(f"container {container[:100]} is not valid for pod {pod.name}")
    options = log_options(pod.name, container, query)
    if options.attempt is not None and options.attempt not in pod.containers[container]:
        raise bad_request(f"there is no log of attempt {options.attempt} of container {container} in pod {pod.name}")
    return Stream(await await_first_piece(node.kept_log(pod, options)), TEXT)


def log_options(name: str, container: str, query: Mapping[str, str]) -> LogOptions:
    """Return the log options in a query. Raises `ApiError` (400, 422).

    name: the name of the pod, for messages.
    container: the name of the container, which the caller has checked.
    """
    since_seconds, since_time = parse_integer(query, "sinceSeconds"), _parse_time(query.get("sinceTime", ""))
    tail_lines, limit_bytes = parse_integer(query, "tailLines"), parse_integer(query, "limitBytes")
    errors = []
    if tail_lines is not None and tail_lines < 0:
        errors.append(FieldError("tailLines", INVALID, tail_lines, "must be greater than or equal to 0"))
    if limit_bytes is not None and limit_bytes < 1:
        errors.append(FieldError("limitBytes", INVALID, limit_bytes, "must be greater than 0"))
    if since_seconds is not None and since_time is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(FieldError("sinceSeconds", FORBIDDEN, None, detail))
    elif since_seconds is not None and since_seconds < 1:
        errors.append(FieldError("sinceSeconds", INVALID, since_seconds, "must be greater than 0"))
    if errors:
        raise invalid("PodLogOptions", "", name, errors)
    return LogOptions(
        container=container,
        follow=parse_boolean(query, "follow") or False,
        previous=parse_boolean(query, "previous") or False,
        before_newest=parse_boolean(query, "beforeNewest") or False,
        attempt=parse_integer(query, "attempt"),
        raw=parse_boolean(query, "raw") or False,
        timestamps=parse_boolean(query, "timestamps") or False,
        since_seconds=None if since_seconds is None else min(since_seconds, MAX_SINCE_SECONDS),
        since_time=since_time,
        tail_lines=tail_lines,
        limit_bytes=limit_bytes,
    )


def container_of(pod: Pod, requested_name: str) -> str:
    """Return the name of the container for a request: the requested one, or the pod's only container.

    Raises `ApiError` (400) if the pod has no such container, or several and none is requested.

    requested_name: the container's name in the request; "" if the request names none.
    """
    name, spec = pod.metadata.name, pod.spec
    if requested_name:
        if requested_name not in _list_names(pod):
            raise bad_request(f"container {requested_name[:100]} is not valid for pod {name}")
        return requested_name
    if len(spec.containers) == 1:
        return spec.containers[0].name
    containers = " ".join(container.name for container in spec.containers)
    message = f"a container name must be specified for pod {name}, choose one of: [{containers}]"
    if spec.init_containers:
        initial = " ".join(container.name for container in spec.init_containers)
        message += f" or one of the init containers: [{initial}]"
    raise bad_request(message)


def _list_names(pod: Pod) -> Iterator[str]:
    return (container.name for container in all_containers(pod.spec))


def _parse_time(text: str) -> datetime | None:
    """Return a time in RFC 3339; None for "". Raises `ApiError` (400)."""
    if not text:
        return None
    try:
        return msgspec.convert(text, datetime).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        raise bad_request(f'parsing time "{text[:100]}" as "2006-01-02T15:04:05Z07:00"') from None


async def _yield_nothing() -> AsyncIterator[bytes]:
    yield b""


async def await_first_piece(pieces: AsyncIterator[bytes]) -> "Pieces":
    """Return the pieces after waiting for the first one, for at most `FIRST_PIECE_SECONDS`.

    Raises the node's error if it comes within this time. The iterator raises a later error.
    """
    reading = Pieces(pieces)
    try:
        await asyncio.wait({reading.first}, timeout=FIRST_PIECE_SECONDS)
        if reading.first.done():
            reading.first.result()
    except BaseException:
        await reading.aclose()
        raise
    return reading


class Pieces:
    """An iterator of pieces that starts to read the first piece at its construction."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self.first: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(pieces, None))
        self._pieces = pieces
        self._next: asyncio.Future[bytes | None] | None = self.first

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> bytes:
        waiting, self._next = self._next, None
        piece = await (waiting if waiting is not None else anext(self._pieces, None))
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Stop reading, and close the underlying iterator if it is a generator."""
        if not self.first.done():
            self.first.cancel()
            await asyncio.wait({self.first})
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()
