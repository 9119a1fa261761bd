"""Reads what ran: from the history of a cluster of ours; from any other, of what is still there and of Events."""

from collections.abc import Callable

import msgspec

from muster.api.status import ApiError
from muster.insight.runs import PATH, Run, Runs, Wanted
from muster.runtime.client import Client
from muster.runtime.transport import Request

# Runs per answer, as a server gives them.
_PAGE = 1_000

NO_HISTORY = "this cluster keeps no history: only jobs that are still there are shown, and what Events tell of others"


async def history(client: Client, wanted: Wanted, limit: int, say: Callable[[str], None]) -> tuple[list[Run], bool]:
    """The runs that are asked for, no more than so many (0 for all), the newest first; and whether there are more.

    Raises `ApiError`, `TransportError`.
    """
    try:
        return await _kept(client, wanted, limit)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
    from muster.insight.reader.remains import still_there  # it takes a while to load

    found = await still_there(client, wanted, say)
    say(NO_HISTORY)
    return (found[:limit], len(found) > limit) if limit else (found, False)


async def _kept(client: Client, wanted: Wanted, limit: int) -> tuple[list[Run], bool]:
    found: list[Run] = []
    query = _query(wanted)
    while True:
        query["limit"] = str(min(limit - len(found), _PAGE) if limit else _PAGE)
        answer = msgspec.json.decode((await client.raw(Request("GET", PATH, query))).body, type=Runs)
        found += answer.items
        if not answer.more or (limit and len(found) >= limit):
            return found, bool(answer.more)
        query["after"] = answer.more


def _query(wanted: Wanted) -> dict[str, str]:
    said = {
        "namespace": wanted.namespace,
        "names": ",".join(wanted.names),
        "owner": wanted.owner,
        "queue": wanted.queue,
        "states": ",".join(wanted.states),
        "since": str(int(wanted.since.timestamp())) if wanted.since is not None else "",
        "until": str(int(wanted.until.timestamp())) if wanted.until is not None else "",
    }
    return {name: value for name, value in said.items() if value}
