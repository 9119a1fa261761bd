"""Links and sessions, by a clock that the test turns."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from muster.dashboard.viewing.hosts import Proof
from muster.dashboard.viewing.sessions import Sessions, is_form_key

ADA, BOB = Proof(authorization="Bearer ada"), Proof(peer=1001)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Any:
    return Clock()


@pytest.fixture
def sessions(clock):
    numbers = count()
    return Sessions(clock, draw=lambda: f"secret-{next(numbers)}")


def test_a_link_opens_once(sessions):
    link = sessions.make_link("ADA", ADA)
    assert sessions.use_link(link).proof == ADA
    assert sessions.use_link(link) is None
    assert sessions.use_link("") is None


def test_a_link_is_valid_for_a_minute(sessions, clock):
    early, late = sessions.make_link("ADA", ADA), sessions.make_link("BOB", BOB)
    clock.time += timedelta(seconds=59)
    assert sessions.use_link(early).proof == ADA
    clock.time += timedelta(seconds=1)
    assert sessions.use_link(late) is None


def test_a_session_is_valid_for_twelve_hours_and_until_it_is_closed(sessions, clock):
    cookie = sessions.open("ADA", ADA)
    found = sessions.find(cookie)
    assert found is not None
    assert found.proof == ADA
    assert sessions.is_open(found)
    clock.time += timedelta(hours=12)
    assert sessions.find(cookie) is None
    assert not sessions.is_open(found)
    other = sessions.open("BOB", BOB)
    closed = sessions.find(other)
    sessions.close(closed)
    assert sessions.find(other) is None
    assert not sessions.is_open(closed)


def test_every_sign_in_has_a_cookie_and_a_form_key_of_its_own(sessions):
    first, second = sessions.find(sessions.open("ADA", ADA)), sessions.find(sessions.open("ADA", ADA))
    assert first.id != second.id
    assert is_form_key(first, first.form_key)
    assert not is_form_key(first, second.form_key)
    assert not is_form_key(first, "")


def test_no_cookie_that_somebody_chose_is_a_session(sessions):
    sessions.open("ADA", ADA)
    for cookie in ("", "x", sessions.find("secret-0") and sessions.find("secret-0").id):
        assert sessions.find(cookie) is None


def test_what_is_kept_of_a_user_is_bounded_and_signs_nobody_else_out(sessions):
    other, link = sessions.open("ADA", ADA), sessions.make_link("ADA", ADA)
    first = sessions.open("BOB", BOB)
    cookies = [sessions.open("BOB", BOB) for _ in range(5_000)]
    for _ in range(5_000):
        sessions.make_link("BOB", BOB)
    assert sessions.find(first) is None
    assert sum(sessions.find(cookie) is not None for cookie in cookies) == 20
    assert sessions.find(other) is not None
    assert sessions.use_link(link).proof == ADA


def test_what_is_kept_in_all_is_bounded(sessions):
    cookies = [sessions.open(f"user-{number}", ADA) for number in range(3_000)]
    assert sum(sessions.find(cookie) is not None for cookie in cookies) == 2_000


def test_sessions_outlive_the_process_and_links_do_not(clock, tmp_path):
    file = tmp_path / "sessions.json"
    before = Sessions(clock, file)
    cookie, link = before.open("BOB", BOB), before.make_link("ADA", ADA)
    after = Sessions(clock, file)
    found = after.find(cookie)
    assert found is not None
    assert found.proof == BOB
    assert after.use_link(link) is None
    assert file.stat().st_mode & 0o077 == 0
    assert cookie not in file.read_text(), "of a cookie only the hash is kept"


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[{"id": "x"}]', b"\xff"])
def test_a_damaged_file_means_that_viewers_sign_in_anew(clock, tmp_path, content):
    file = tmp_path / "sessions.json"
    file.write_bytes(content)
    sessions = Sessions(clock, file)
    assert sessions.find(sessions.open("ADA", ADA)) is not None


def test_a_sentence_for_the_next_page_is_said_once(sessions):
    session = sessions.find(sessions.open("ADA", ADA))
    sessions.say_later(session, "Cancelled.")
    assert sessions.take_message(session) == "Cancelled."
    assert sessions.take_message(session) == ""


def test_a_session_ends_no_later_than_the_certificate_it_came_from(sessions, clock):
    until = clock.time + timedelta(hours=1)
    cookie = sessions.open("ADA", Proof(until=until))
    session = sessions.find(cookie)
    assert session.expires == until
    later = sessions.open("BOB", Proof(until=clock.time + timedelta(days=300)))
    clock.time += timedelta(hours=1)
    assert sessions.find(cookie) is None
    assert not sessions.is_open(session)
    assert sessions.find(later) is not None


def test_a_viewer_whom_a_proxy_names_has_one_session_and_no_cookie(sessions, clock):
    first = sessions.follow("ADA", ADA)
    assert sessions.follow("ADA", BOB).form_key == first.form_key
    assert sessions.follow("ADA", BOB).proof == BOB
    assert sessions.follow("BOB", ADA).form_key != first.form_key
    assert [sessions.find(guess) for guess in (first.id, first.form_key, "proxied ADA")] == [None, None, None]
    sessions.close(first)
    assert not sessions.is_open(first)
    second = sessions.follow("ADA", ADA)
    assert second.form_key != first.form_key
    clock.time += timedelta(hours=12)
    assert not sessions.is_open(second)
    assert sessions.follow("ADA", ADA).form_key != second.form_key
