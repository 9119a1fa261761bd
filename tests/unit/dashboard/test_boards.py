"""Rounds: who is rendered when, by a clock that the test turns."""

import asyncio
from typing import Any

import pytest

from muster.dashboard import boards
from muster.dashboard.boards import Boards
from muster.dashboard.live import Screen
from muster.dashboard.viewing.hosts import Viewer
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel

NO_TRANSPORT: Any = None


def viewer(name: str) -> Viewer:
    return Viewer(name, name, Client(NO_TRANSPORT))


class Page:
    """A page that takes a while, and what its readers got."""

    def __init__(self, clock: VirtualClock, seconds: float = 0.0) -> None:
        self.rendered: list[float] = []
        self._clock, self._seconds = clock, seconds

    async def render(self) -> str:
        self.rendered.append(self._clock.monotonic())
        await self._clock.sleep(self._seconds)
        return f"<p>{len(self.rendered)}</p>"


async def read(events: Any) -> None:
    async for _ in events:
        continue


def play(told: Any, busy: float = 0.5) -> None:
    """Tell a story. busy: the part of a core that the server uses."""

    async def run() -> None:
        clock = VirtualClock()
        kept = Boards(clock, Random(1), lambda: busy * clock.monotonic())
        try:
            await told(clock, kept)
        finally:
            await kept.close()

    run_virtual(run())


def test_a_page_that_is_opened_is_rendered_at_once_and_then_at_changes_alone():
    async def told(clock, kept):
        board, page = kept.find(viewer("ada")), Page(clock)
        reader = asyncio.create_task(read(board.screen("/a", page.render).follow()))
        await clock.sleep(10)
        assert len(page.rendered) == 1
        board.copy._announce_change()
        await clock.sleep(1)
        assert len(page.rendered) == 2
        await cancel([reader])

    play(told)


def test_all_who_have_one_page_open_share_its_rendering():
    async def told(clock, kept):
        board, page = kept.find(viewer("ada")), Page(clock)
        readers = [asyncio.create_task(read(board.screen("/a", page.render).follow())) for _ in range(50)]
        await clock.sleep(1)
        for _ in range(20):
            board.copy._announce_change()
        await clock.sleep(1)
        assert len(page.rendered) == 2
        await cancel(readers)
        board.copy._announce_change()
        await clock.sleep(20)
        assert len(page.rendered) == 2, "nobody looks any more"

    play(told)


def test_rounds_take_a_25th_of_the_time_at_most_however_many_pages_there_are():
    async def told(clock, kept):
        pages = [Page(clock, 0.02) for _ in range(10)]
        readers = [
            asyncio.create_task(read(kept.find(viewer(f"v{number % 2}")).screen(f"/{number}", page.render).follow()))
            for number, page in enumerate(pages)
        ]
        for _ in range(600):
            await clock.sleep(0.05)
            for name in ("v0", "v1"):
                kept.find(viewer(name)).copy._announce_change()
        expected = 30 / (0.02 * (1 + boards._PAUSE_FACTOR * 10) + boards._ROUND_SECONDS / 2)
        assert all(expected * 0.8 <= len(page.rendered) <= expected * 1.2 for page in pages)
        await cancel(readers)

    play(told)


def test_pages_that_share_what_they_read_are_due_together_and_read_it_once():
    async def told(clock, kept):
        board, reads = kept.find(viewer("ada")), list[float]()

        async def read_rows() -> str:
            reads.append(clock.monotonic())
            await clock.sleep(0.05)
            return "rows"

        def page(seconds: float) -> Any:
            async def render() -> str:
                rows = await board.copy.share("rows", read_rows)
                await clock.sleep(seconds)
                rendered[seconds] += 1
                return f"<p>{rows} {len(reads)}</p>"

            return render

        rendered = {0.001: 0, 0.002: 0, 0.003: 0, 0.004: 0}
        readers = [asyncio.create_task(read(board.screen(f"/{number}", page(number)).follow())) for number in rendered]
        for _ in range(1_200):
            await clock.sleep(0.05)
            board.copy._announce_change()
        assert len(reads) <= max(rendered.values()) + 2, "nearly each time for all pages"
        assert min(rendered.values()) >= 0.5 * max(rendered.values()), "the page that comes first waits for no longer"
        await cancel(readers)

    play(told)


def test_a_first_rendering_that_takes_long_keeps_no_page_still():
    async def told(clock, kept):
        async def render() -> str:
            rendered.append(clock.monotonic())
            await clock.sleep(0.5 if len(rendered) <= 10 else 0.001)
            return f"<p>{len(rendered)}</p>"

        rendered = list[float]()
        boards = [kept.find(viewer(f"v{number}")) for number in range(10)]
        readers = [asyncio.create_task(read(board.screen("/a", render).follow())) for board in boards]
        for _ in range(40):
            await clock.sleep(0.1)
            for board in boards:
                board.copy._announce_change()
        assert len(rendered) >= 50
        await cancel(readers)

    play(told)


async def change(clock: VirtualClock, kept: Boards, seconds: float, *, a_second: int) -> None:
    """Let so many changes come to the copy of one viewer."""
    board = kept.find(viewer("ada"))
    for _ in range(round(seconds * 20)):
        await clock.sleep(0.05)
        for _ in range(a_second // 20):
            board.copy._announce_change()


@pytest.mark.parametrize(
    ("a_second", "busy", "part"),
    [(20, 0.9, 1 / 25), (80, 0.9, 1 / 25), (200, 1.0, 1 / 50), (200, 0.5, 1 / 100), (1000, 0.5, 1 / 100)],
)
def test_with_many_changes_the_pages_take_a_50th_of_the_processor_time(a_second: int, busy: float, part: float):
    async def told(clock, kept):
        pages = [Page(clock, 0.01) for _ in range(4)]
        screens = [kept.find(viewer("ada")).screen(f"/{number}", page.render) for number, page in enumerate(pages)]
        readers = [asyncio.create_task(read(screen.follow())) for screen in screens]
        await change(clock, kept, 5, a_second=a_second)
        for page in pages:
            page.rendered.clear()
        await change(clock, kept, 200, a_second=a_second)
        taken = sum(len(page.rendered) for page in pages) * 0.01 / 200
        assert taken == pytest.approx(part, rel=0.15)
        await cancel(readers)

    play(told, busy)


def test_after_a_burst_of_changes_the_pages_are_rendered_within_a_second():
    async def told(clock, kept):
        board, pages = kept.find(viewer("ada")), [Page(clock, 0.01) for _ in range(4)]
        readers = [
            asyncio.create_task(read(board.screen(f"/{number}", page.render).follow()))
            for number, page in enumerate(pages)
        ]
        await change(clock, kept, 20, a_second=2000)
        ended = clock.monotonic()
        await clock.sleep(2.5)
        assert all(page.rendered[-1] > ended for page in pages)
        await cancel(readers)

    play(told)


def test_a_page_that_is_kept_back_says_how_old_it_is_until_it_is_rendered():
    async def told(clock, kept):
        board, events = kept.find(viewer("ada")), list[tuple[float, bytes]]()

        async def hear(screen: Screen) -> None:
            async for event in screen.follow():
                if not event.startswith((b"retry", b"event: alive")):
                    events.append((clock.monotonic(), event.split(b"\n\n")[0]))

        async def render_same() -> str:
            await clock.sleep(0.01)
            return "<p>the same</p>"

        page = Page(clock, 0.01)
        readers = [
            asyncio.create_task(hear(board.screen("/a", page.render))),
            asyncio.create_task(read(board.screen("/b", render_same).follow())),
            asyncio.create_task(read(board.screen("/c", render_same).follow())),
        ]
        await change(clock, kept, 5, a_second=20)
        assert not any(b"late" in event for _, event in events), "few changes"
        await change(clock, kept, 60, a_second=1000)
        await cancel(readers)
        late = [number for number, (_, event) in enumerate(events) if event.startswith(b"event: late")]
        assert len(late) >= 3
        for number in late[:-1]:
            seconds = float(events[number][1].partition(b'"seconds":')[2].rstrip(b"}"))
            assert 2 < seconds < 3.5
            assert events[number + 1][1].startswith(b"event: whole"), "told once, until it is rendered"

    play(told)


def test_a_late_page_without_a_visible_change_is_late_no_more():
    async def told(clock, kept):
        board, events = kept.find(viewer("ada")), list[bytes]()

        async def render_same() -> str:
            return "<p>the same</p>"

        screen = board.screen("/a", render_same)

        async def hear() -> None:
            async for event in screen.follow():
                events.append(event)

        reader = asyncio.create_task(hear())
        await clock.sleep(1)
        screen.say_late(4.0)
        screen.say_late(5.0)
        board.copy._announce_change()
        await clock.sleep(1)
        assert events[-2:] == [b'event: late\ndata: {"seconds":4.0}\n\n', b'event: late\ndata: {"seconds":0.0}\n\n']
        await cancel([reader])

    play(told)


def test_a_page_that_is_alone_takes_a_tenth_of_the_time():
    async def told(clock, kept):
        board, page = kept.find(viewer("ada")), Page(clock, 0.06)
        reader = asyncio.create_task(read(board.screen("/a", page.render).follow()))
        for _ in range(600):
            await clock.sleep(0.05)
            board.copy._announce_change()
        assert 40 <= len(page.rendered) <= 50  # in 30 s
        await cancel([reader])

    play(told)


def test_a_page_is_rendered_anew_after_a_while_without_a_change():
    async def told(clock, kept):
        board, page = kept.find(viewer("ada")), Page(clock)
        reader = asyncio.create_task(read(board.screen("/a", page.render).follow()))
        await clock.sleep(70)
        assert 3 <= len(page.rendered) <= 5
        await cancel([reader])

    play(told)


def test_a_page_that_waits_for_ever_says_so_and_keeps_no_other_page_still():
    async def told(clock, kept):
        async def never() -> str:
            await asyncio.Event().wait()
            raise AssertionError

        slow, quick = kept.find(viewer("ada")), kept.find(viewer("bob"))
        page, said = Page(clock), list[bytes]()

        async def hear() -> None:
            async for event in slow.screen("/a", never).follow():
                said.append(event)

        readers = [asyncio.create_task(hear()), asyncio.create_task(read(quick.screen("/b", page.render).follow()))]
        for _ in range(60):
            quick.copy._announce_change()
            await clock.sleep(1)
        assert any(b"has not answered within 10 s" in event for event in said)
        assert len(page.rendered) >= 3
        await cancel(readers)

    play(told)
