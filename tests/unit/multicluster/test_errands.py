"""What is done in workers waits for no other worker, happens once at a time, and is put off where it is refused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.api.status import ApiError, Status
from muster.multicluster.errands import MOST_AT_ONCE, Errand, Errands, await_all_steps
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.controller import Result
from muster.runtime.ids import Random
from muster.runtime.transport import TransportError


class World:
    """Errands, and what was seen of them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.looks: list[tuple[str, float]] = []
        self.told: list[tuple[str, str, str]] = []
        self.ran: list[str] = []
        self.errands = Errands(
            self.clock,
            Random(1),
            lambda key, seconds: self.looks.append((key, round(seconds, 1))),
            lambda key, cluster, error: self.told.append((key, cluster, str(error))),
        )

    def errand(
        self, name: str, seconds: float = 0.0, *, fails: Exception | None = None, after: Result = None
    ) -> Errand:
        async def run() -> Result:
            self.ran.append(name)
            await self.clock.sleep(seconds)
            if fails is not None:
                raise fails
            return after

        return Errand(name, run)


def story(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def body() -> None:
        world = World()
        await test(world)
        await world.errands.close()

    def run() -> None:
        run_virtual(body())

    return run


def refusal(message: str) -> ApiError:
    return ApiError(Status(code=403, reason="Forbidden", message=message))


@story
async def test_a_slow_cluster_holds_up_no_other(w: World) -> None:
    for number in range(100):
        w.errands.want(f"ns/{number}", {"slow": w.errand(f"slow {number}", 30), "fast": w.errand(f"fast {number}")})
    await w.clock.sleep(1)
    assert sum(name.startswith("fast") for name in w.ran) == 100
    assert sum(name.startswith("slow") for name in w.ran) == MOST_AT_ONCE
    await w.clock.sleep(300)
    assert sum(name.startswith("slow") for name in w.ran) == 100, "all in their turn"


@story
async def test_there_is_one_at_a_time_for_a_workload_which_is_looked_at_again_after_it(w: World) -> None:
    w.errands.want("ns/w", {"a": w.errand("first", 10)})
    await w.clock.sleep(1)
    w.errands.want("ns/w", {"a": w.errand("second")})
    await w.clock.sleep(20)
    assert (w.ran, w.looks) == (["first"], [("ns/w", 0.0)])


@story
async def test_what_waits_is_replaced_or_dropped_by_what_is_wanted_later(w: World) -> None:
    for number in range(MOST_AT_ONCE):
        w.errands.want(f"ns/{number}", {"a": w.errand("busy", 10)})
    w.errands.want("ns/v", {"a": w.errand("dropped")})
    w.errands.want("ns/w", {"a": w.errand("old")})
    w.errands.want("ns/w", {"a": w.errand("new")})
    w.errands.want("ns/v", {"b": w.errand("elsewhere")})
    await w.clock.sleep(20)
    assert sorted(set(w.ran)) == ["busy", "elsewhere", "new"]


@story
async def test_it_says_when_to_look_again(w: World) -> None:
    w.errands.want("ns/w", {"a": w.errand("later", after=7.0), "b": w.errand("done")})
    await w.clock.sleep(1)
    assert w.looks == [("ns/w", 7.0)]


@story
async def test_what_is_refused_is_put_off_longer_each_time_and_told_once(w: World) -> None:
    pauses = []
    for _ in range(6):
        w.looks.clear()
        w.errands.want("ns/w", {"a": w.errand("create", fails=refusal("no"))})
        await w.clock.sleep(0.1)
        w.errands.want("ns/w", {"a": w.errand("create", fails=refusal("no"))})  # something else has changed
        await w.clock.sleep(0.1)
        (_, pause), (_, left) = w.looks
        assert left <= pause
        pauses.append(pause)
        await w.clock.sleep(pause)
    assert len(w.ran) == 6
    assert pauses[0] < 11
    assert pauses[:4] == sorted(pauses[:4])
    assert pauses[-1] > 60
    assert w.told == [("ns/w", "a", "no")]
    w.errands.want("ns/w", {"a": w.errand("create", fails=refusal("other"))})
    await w.clock.sleep(1)
    assert w.told[1:] == [("ns/w", "a", "other")]


@story
async def test_what_else_is_wanted_is_done_at_once(w: World) -> None:
    w.errands.want("ns/w", {"a": w.errand("create", fails=refusal("no"))})
    await w.clock.sleep(0.1)
    w.errands.want("ns/w", {"a": w.errand("remove")})
    await w.clock.sleep(0.1)
    assert w.ran == ["create", "remove"]


@story
async def test_what_is_put_off_takes_the_place_of_what_waits(w: World) -> None:
    w.errands.want("ns/w", {"a": w.errand("mirror", fails=refusal("no"))})
    await w.clock.sleep(0.1)
    for number in range(MOST_AT_ONCE):
        w.errands.want(f"ns/{number}", {"a": w.errand("busy", 1)})
    w.errands.want("ns/w", {"a": w.errand("remove")})
    w.errands.want("ns/w", {"a": w.errand("mirror")})
    await w.clock.sleep(2)
    assert "remove" not in w.ran


@story
async def test_what_passes_by_itself_is_no_refusal(w: World) -> None:
    for error in (TransportError("gone"), ApiError(Status(code=409, reason="Conflict"))):
        w.looks.clear()
        w.errands.want("ns/w", {"a": w.errand("create", fails=error)})
        await w.clock.sleep(0.1)
        assert w.looks == [("ns/w", 5.0)]
    assert w.told == []


@pytest.mark.parametrize(("reason", "told"), [("Conflict", 0), ("Forbidden", 1)])
def test_what_a_worker_says_is_logged_and_compared_as_one_line_of_so_much(
    reason: str, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    @story
    async def body(w: World) -> None:
        for end in "ab":
            error = ApiError(Status(code=409, reason=reason, message="no\nERROR" + 1000 * "x" + end))
            w.errands.want("ns/w", {"a": w.errand(end, fails=error)})
            await w.clock.sleep(1)
        assert len(w.told) == told

    with caplog.at_level("INFO"):
        body()
    assert all(len(text) < 600 and "\n" not in text for text in caplog.messages)


@story
async def test_steps_that_are_taken_together_come_to_their_ends_though_one_fails(w: World) -> None:
    async def step(name: str, seconds: float, after: Result = None, *, fails: bool = False) -> Result:
        await w.clock.sleep(seconds)
        if fails:
            raise TransportError(name)
        w.ran.append(name)
        return after

    assert await await_all_steps([step("a", 1), step("b", 2, 9.0), step("c", 3, 7.0)]) == 7.0
    with pytest.raises(TransportError, match="first"):
        await await_all_steps([step("first", 1, fails=True), step("long", 10), step("second", 2, fails=True)])
    assert w.ran == ["a", "b", "c", "long"]


@story
async def test_a_close_cuts_all(w: World) -> None:
    w.errands.want("ns/w", {"a": w.errand("long", 1000)})
    await w.clock.sleep(1)
    await w.errands.close()
    assert w.clock.monotonic() == 1
    assert len(asyncio.all_tasks()) == 1


@story
async def test_what_waits_for_a_workload_that_is_gone_is_not_done(w: World) -> None:
    for number in range(MOST_AT_ONCE + 2):
        w.errands.want(f"ns/{number}", {"slow": w.errand(str(number), 10)})
    w.errands.forget(f"ns/{MOST_AT_ONCE}")
    await w.clock.sleep(30)
    assert w.ran == [str(number) for number in range(MOST_AT_ONCE + 2) if number != MOST_AT_ONCE]


@story
async def test_what_was_refused_to_a_workload_that_is_gone_is_tried_at_once_for_the_next_of_its_name(w: World) -> None:
    for _ in range(2):
        w.errands.want("ns/a", {"one": w.errand("a", fails=refusal("no"))})
        await w.clock.sleep(0.01)
    assert w.ran == ["a"], "it is put off"
    w.errands.forget("ns/a")
    w.errands.want("ns/a", {"one": w.errand("a")})
    await w.clock.sleep(0.01)
    assert w.ran == ["a", "a"]
