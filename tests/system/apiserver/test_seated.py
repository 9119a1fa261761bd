"""What a page asks for counts as its viewer's, among the requests that come from outside."""

import asyncio
from typing import Any

from tests.system.plane import World, virtual

from muster.api.core import POD
from muster.cluster.apiserver.front.flow import Flow, Limits
from muster.cluster.apiserver.front.seated import SeatedTransport
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.runtime import metrics
from muster.runtime.client import Client
from muster.runtime.transport import Request

EVE = User("eve", ADMIN.groups)
FEW = Limits(seats=4, wait_seconds=0.1)
LIST = Request("GET", "/api/v1/pods", {"limit": "500"})


def begin(world: World, limits: Limits = FEW) -> tuple[Flow, SeatedTransport]:
    flow = Flow(metrics.Registry(), limits)
    return flow, SeatedTransport(world.plane.server, EVE, flow)


@virtual
async def test_a_list_takes_seats_while_it_is_made(world: World) -> None:
    flow, transport = begin(world)
    seen: list[tuple[int, int, bool]] = []
    original = world.plane.server.handle

    async def handle(request: Request, user: User, *, is_own: bool = True) -> Any:
        if user is EVE:
            seen.append((flow.seats.lent, flow.lists.lent, is_own))
        return await original(request, user, is_own=is_own)

    world.plane.server.handle = handle  # type: ignore[method-assign]
    assert (await transport.request(LIST)).status == 200
    assert (await transport.request(Request("GET", "/api/v1/namespaces/default"))).status == 200
    assert seen == [(2, 1, False), (1, 0, False)]  # a user has at most half of what others leave
    assert (flow.seats.lent, flow.lists.lent) == (0, 0)


@virtual
async def test_a_viewer_with_too_many_requests_waits_and_is_refused(world: World) -> None:
    flow, transport = begin(world)
    assert flow.seats.take_at_once("eve", 2) == 2
    answer = await transport.request(LIST)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert flow.seats.lent == 2
    waiting = asyncio.create_task(Client(transport).list(POD))
    await asyncio.sleep(0.01)
    flow.seats.give_back("eve", 2)
    assert (await waiting).items == []
    other = SeatedTransport(world.plane.server, User("ada", ADMIN.groups), flow)
    assert flow.seats.take_at_once("eve", 2) == 2
    assert (await other.request(LIST)).status == 200


@virtual
async def test_a_page_that_is_left_gives_its_seats_back(world: World) -> None:
    flow, transport = begin(world)
    flow.seats.take_at_once("eve", 2)
    waiting = asyncio.create_task(transport.request(LIST))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    flow.seats.give_back("eve", 2)
    assert (flow.seats.lent, flow.lists.lent, flow.seats.waiting) == (0, 0, 0)
