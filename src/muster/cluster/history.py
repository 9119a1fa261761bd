"""Keep the history of a durable cluster next to the store, and serve it to users who may list jobs."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from muster.api.batch import JOB
from muster.api.status import bad_request, unavailable
from muster.api.values.durations import MICROSECOND
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.endpoints import Inquiry
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.request.requestinfo import parse_integer
from muster.cluster.controllers.history.recorder import Recorder, Retention
from muster.cluster.controlplane import ControlPlane
from muster.cluster.store import DataDirectoryError
from muster.cluster.store.history import FILE, MOST_AT_ONCE, FoundRuns, HistoryError, HistoryQuery
from muster.cluster.store.historyworker import History
from muster.insight.history.runs import PATH
from muster.runtime.transport import JSON, Request, Response

BACKUP_PATH = "/muster/backup/history"  # where a server sends the whole history, as a file
_CONTENT_TYPE = "application/octet-stream"
_PIECE_BYTES = 256 * 1024

# The limits of a query. Each pattern is compared with every name, and long patterns with many stars take long.
_MOST_NAMES = 20
_LONGEST_NAME = 253
_MOST_STARS = 3

log = logging.getLogger(__name__)


@asynccontextmanager
async def record_history(plane: ControlPlane, home: Path) -> AsyncIterator[None]:
    """Record the cluster's history in its home, inside the `with` block. Enter it before the manager runs.

    Raises:
        DataDirectoryError: the history of the home cannot be opened.
    """
    history, settings = History(home / FILE), plane.configuration.muster.history
    try:
        if aside := await history.open(plane.inputs.clock.now()):
            log.warning("%s", aside)
    except HistoryError as error:
        raise DataDirectoryError(str(error)) from error
    try:
        retention = Retention(timedelta(microseconds=settings.max_age / MICROSECOND), settings.max_records)
        recorder = Recorder(plane.manager, plane.store, history, retention)
        plane.manager.add(recorder)
        inquiries = _Inquiries(history, recorder)
        plane.server.endpoints.inquiries[PATH] = Inquiry(access_to, inquiries.answer)
        plane.server.endpoints.streams[BACKUP_PATH] = lambda: Stream(inquiries.content(), _CONTENT_TYPE)
        yield
    finally:
        await history.close()


def access_to(request: Request, user: User) -> Access:
    """Return the access right that a query for the history needs.

    A user who may list Jobs, in a namespace or in all, may read their history.
    """
    return Access(user, "list", JOB.group, JOB.plural, request.query.get("namespace", ""))


class _Inquiries:
    def __init__(self, history: History, recorder: Recorder) -> None:
        self._history, self._recorder = history, recorder

    async def answer(self, request: Request) -> Response:
        """Answer a query for runs in the history. Raises `ApiError` (400, 503)."""
        question = question_of(request.query)
        try:
            await self._catch_up()
            return Response(200, encode_runs(await self._history.ask(question)), JSON)
        except HistoryError as error:
            raise unavailable(str(error)) from error

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the whole history, in pieces. Raises `HistoryError`."""
        await self._catch_up()
        content = await self._history.content()
        for at in range(0, len(content), _PIECE_BYTES):
            yield content[at : at + _PIECE_BYTES]

    async def _catch_up(self) -> None:
        try:
            await self._recorder.caught_up()
        except HistoryError as error:  # on a full disk, recorded runs can still be read
            log.warning("%s", error)


def question_of(query: Mapping[str, str]) -> HistoryQuery:
    """Return the query in the parameters of a request for the history. Raises `ApiError` (400)."""
    names = _split_words(query, "names")
    if len(names) > _MOST_NAMES or any(len(one) > _LONGEST_NAME or one.count("*") > _MOST_STARS for one in names):
        raise bad_request(f"names: at most {_MOST_NAMES}, each with at most {_MOST_STARS} stars")
    limit = parse_integer(query, "limit")
    return HistoryQuery(
        namespace=query.get("namespace", ""),
        owner=query.get("owner", ""),
        queue=query.get("queue", ""),
        states=_split_words(query, "states"),
        names=names,
        since=parse_integer(query, "since"),
        until=parse_integer(query, "until"),
        limit=MOST_AT_ONCE if limit is None else limit,
        after=_parse_after(query.get("after", "")),
    )


def encode_runs(page: FoundRuns) -> bytes:
    """Return a page of runs as JSON: `Runs`."""
    more = f"{page.more[0]}/{page.more[1]}" if page.more is not None else ""
    return b'{"items":[%b],"more":"%b"}' % (b",".join(page.bodies), more.encode())


def _split_words(query: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, query.get(name, "").split(",")))


def _parse_after(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    ended, slash, uid = text.partition("/")
    if not (slash and ended.removeprefix("-").isdecimal() and ended.isascii() and len(ended) < 20):
        raise bad_request(f"after: {text!r} is not from an answer of this server")
    return int(ended), uid
