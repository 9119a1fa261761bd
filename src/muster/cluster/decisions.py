"""Keep the engine's decisions next to the store of a durable cluster, and serve them to users who may list jobs.

Decisions are written a moment after they were made, and no decision waits for the disk. A killed server loses the
decisions of its last seconds, because nothing else in the cluster contains them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from muster.api.ours.decisions import PATH, Decision, without_foreign_jobs
from muster.api.status import bad_request, unavailable
from muster.cluster.apiserver.endpoints import Inquiry
from muster.cluster.apiserver.request.requestinfo import parse_integer
from muster.cluster.controlplane import ControlPlane
from muster.cluster.gathering import GatheringLoop
from muster.cluster.history import access_to
from muster.cluster.store import DataDirectoryError
from muster.cluster.store.decisions import (
    FILE,
    MOST_AT_ONCE,
    DecisionFileError,
    DecisionQuery,
    DecisionStore,
    FoundDecisions,
)
from muster.controllers.decisionlog import DecisionLog
from muster.runtime.transport import JSON, Request, Response

# Decisions within this time share one write.
GATHER_SECONDS = 1.0
# The maximum number of decisions per write.
_AT_ONCE = 1_000
_LONGEST_NAME = 253

log = logging.getLogger(__name__)


@asynccontextmanager
async def keep_decisions(plane: ControlPlane, home: Path) -> AsyncIterator[None]:
    """Record the engine's decisions in the cluster's home, inside the `with` block. Enter it before the manager runs.

    Raises:
        DataDirectoryError: the file of the home cannot be opened.
    """
    store, clock = DecisionStore(home / FILE), plane.inputs.clock
    try:
        if aside := await store.open(clock.now()):
            log.warning("%s", aside)
    except DecisionFileError as error:
        raise DataDirectoryError(str(error)) from error
    try:
        keeper = DecisionKeeper(plane.decisions, store, plane.configuration.muster.history.max_decision_bytes)
        plane.manager.add(keeper)
        plane.server.endpoints.inquiries[PATH] = Inquiry(access_to, _Inquiries(store, keeper).answer)
        yield
    finally:
        await store.close()


class DecisionKeeper:
    """The task that writes the engine's decisions to disk. A `Manager` runs it."""

    name = "decisions"

    def __init__(self, decisions: DecisionLog, store: DecisionStore, most_bytes: int) -> None:
        self._decisions, self._store = decisions, store
        self._most_bytes = most_bytes
        self._written = decisions.count
        self._loop = GatheringLoop(self.write, DecisionFileError, GATHER_SECONDS)
        decisions.on_add(self._loop.wake)
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Write new decisions to disk until `stop`."""
        await self._loop.run()

    async def stop(self) -> None:
        """Stop `run` after one last write."""
        await self._loop.stop()

    async def write(self) -> None:
        """Write all decisions that are not on disk yet.

        Raises `DecisionFileError`; the next call retries the write.
        """
        async with self._writing:
            while unwritten := self.unwritten:
                batch = unwritten[:_AT_ONCE]
                end = self._decisions.count - len(unwritten) + len(batch)
                await self._store.put(batch, self._most_bytes)
                self._written = end

    @property
    def unwritten(self) -> list[Decision]:
        """The decisions in memory that are not on disk yet, oldest first."""
        return self._decisions.since(self._written)


class _Inquiries:
    def __init__(self, store: DecisionStore, keeper: DecisionKeeper) -> None:
        self._store, self._keeper = store, keeper

    async def answer(self, request: Request) -> Response:
        """Answer a query for the engine's decisions. Raises `ApiError` (400, 503)."""
        question = question_of(request.query)
        unwritten: list[Decision] = []
        try:
            await self._keeper.write()
        except DecisionFileError as error:  # on a full disk, decisions can still be read
            log.warning("%s", error)
            if question.before is None:
                unwritten = [one for one in reversed(self._keeper.unwritten) if _matches(one, question)]
        try:
            found = await self._store.ask(question)
        except DecisionFileError as error:
            raise unavailable(str(error)) from error
        return Response(200, encode_page(unwritten, found, question.namespace), JSON)


def question_of(query: Mapping[str, str]) -> DecisionQuery:
    """Return the query in the parameters of a request for the engine's decisions. Raises `ApiError` (400)."""
    name, limit = query.get("name", ""), parse_integer(query, "limit")
    if len(name) > _LONGEST_NAME:
        raise bad_request(f"name: at most {_LONGEST_NAME} characters")
    return DecisionQuery(
        namespace=query.get("namespace", ""),
        name=name,
        limit=MOST_AT_ONCE if limit is None else limit,
        before=parse_integer(query, "before"),
    )


def encode_page(unwritten: list[Decision], stored: FoundDecisions, namespace: str) -> bytes:
    """Return a page of decisions as JSON: `Decisions`.

    unwritten: decisions that are only in memory.
    stored: decisions from the file.
    namespace: the namespace whose jobs the user requested; "" means all.
    """
    bodies = [msgspec.json.encode(one) for one in unwritten] + list(stored.bodies)
    if namespace:
        decode = msgspec.json.Decoder(Decision).decode
        bodies = [msgspec.json.encode(without_foreign_jobs(decode(body), namespace)) for body in bodies]
    return b'{"items":[%b],"more":%d}' % (b",".join(bodies), stored.more or 0)


def _matches(decision: Decision, question: DecisionQuery) -> bool:
    return question.namespace in ("", decision.namespace) and question.name in ("", decision.name)
