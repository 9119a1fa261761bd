"""Keeps the sessions of viewers: a link that is valid once becomes a cookie that is valid for twelve hours.

Of a link and of a cookie only the hash is kept. The sessions are kept in a file, so that a page that is open while the
server starts again goes on. The file holds the tokens of viewers who have one, and only the server's user may read it.
"""

import logging
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

import msgspec
from msgspec import Struct

from muster.dashboard.viewing.hosts import Proof
from muster.runtime.clock import Clock
from muster.runtime.process.privatefiles import write_private

LINK_LIFETIME = timedelta(minutes=1)
SESSION_LIFETIME = timedelta(hours=12)
# The most of each that are kept, of one user and in all. The oldest of the same user make room first, so that nobody
# signs others out.
_MOST_LINKS_EACH, _MOST_LINKS = 10, 2_000
_MOST_SESSIONS_EACH, _MOST_SESSIONS = 20, 2_000

log = logging.getLogger(__name__)


class Session(Struct, frozen=True):
    """A viewer who has signed in.

    id: the hash of the cookie. user: the name of the viewer.
    form_key: what every form of the viewer's pages carries, and nobody else can know.
    is_proxied: whether a proxy in front names the viewer with every request, so that there is no cookie.
    """

    id: str
    user: str
    proof: Proof
    form_key: str
    expires: datetime
    is_proxied: bool = False


class Link(Struct, frozen=True):
    """A way in that works once. user: the name of whoever asked for it."""

    user: str
    proof: Proof
    expires: datetime


class Sessions:
    """The sessions of one dashboard. file: where they outlive the process; None keeps them in memory alone."""

    def __init__(self, clock: Clock, file: Path | None = None, draw: Callable[[], str] = secrets.token_urlsafe) -> None:
        self._clock = clock
        self._file = file
        self._draw = draw
        self._links: dict[str, Link] = {}
        self._sessions: dict[str, Session] = {one.id: one for one in self._load()}
        self._said: dict[str, str] = {}

    def make_link(self, user: str, proof: Proof) -> str:
        """Return a secret that opens one session within a minute."""
        secret, now = self._draw(), self._clock.now()
        self._links = {name: link for name, link in self._links.items() if link.expires > now}
        _make_room(self._links, user, _MOST_LINKS_EACH, _MOST_LINKS)
        self._links[_hash(secret)] = Link(user, proof, now + LINK_LIFETIME)
        return secret

    def use_link(self, secret: str) -> Link | None:
        """Return a link, which is used then; None for one that is unknown, used or old."""
        link = self._links.pop(_hash(secret), None)
        return link if link is not None and link.expires > self._clock.now() else None

    def open(self, user: str, proof: Proof) -> str:
        """Open a session, and return its cookie, which is new at every sign-in."""
        cookie = self._draw()
        self._add(Session(_hash(cookie), user, proof, self._draw(), self._end_of(proof)))
        return cookie

    def follow(self, user: str, proof: Proof) -> Session:
        """Return the one session of a viewer whom a proxy in front names with every request. No cookie opens it."""
        name = f"proxied {user}"  # no hash is like that
        kept = self._sessions.get(name)
        if kept is None or not self.is_open(kept):
            kept = Session(name, user, proof, self._draw(), self._end_of(proof), is_proxied=True)
            self._add(kept)
        return msgspec.structs.replace(kept, proof=proof)

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None for one that is unknown or old."""
        session = self._sessions.get(_hash(cookie)) if cookie else None
        return session if session is not None and session.expires > self._clock.now() else None

    def is_open(self, session: Session) -> bool:
        """Return whether a session goes on."""
        kept = self._sessions.get(session.id)
        return kept is not None and kept.form_key == session.form_key and kept.expires > self._clock.now()

    def close(self, session: Session) -> None:
        """End a session."""
        if self._sessions.pop(session.id, None) is not None:
            self._said.pop(session.id, None)
            self._save()

    def say_later(self, session: Session, sentence: str) -> None:
        """Keep a sentence for the viewer's next page."""
        self._said[session.id] = sentence

    def take_said(self, session: Session) -> str:
        """Return the sentence for this page, once."""
        return self._said.pop(session.id, "")

    def _end_of(self, proof: Proof) -> datetime:
        """Return when a session with a proof ends: no later than the certificate that it came from."""
        ends = self._clock.now() + SESSION_LIFETIME
        return ends if proof.until is None else min(ends, proof.until)

    def _add(self, session: Session) -> None:
        now = self._clock.now()
        self._sessions = {name: one for name, one in self._sessions.items() if one.expires > now}
        _make_room(self._sessions, session.user, _MOST_SESSIONS_EACH, _MOST_SESSIONS)
        self._sessions[session.id] = session
        self._save()

    def _load(self) -> Iterable[Session]:
        if self._file is None:
            return ()
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Session])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("viewers of the dashboard sign in anew, as %s cannot be read: %s", self._file, error)
            return ()

    def _save(self) -> None:
        if self._file is None:
            return
        try:
            write_private(self._file, msgspec.json.encode(list(self._sessions.values())))
        except OSError as error:  # the sessions go on in memory
            log.warning("sessions of the dashboard end with this process: %s: %s", self._file, error)


def is_form_key(session: Session, key: str) -> bool:
    """Return whether a form comes from one of the viewer's own pages."""
    return compare_digest(session.form_key.encode(), key.encode())


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _make_room(kept: dict[str, Session] | dict[str, Link], user: str, most_each: int, most: int) -> None:
    """Drop the oldest of a user, and then of all, so that one more of the user has room."""
    own = [name for name, one in kept.items() if one.user == user]
    for name in own[: max(0, len(own) - most_each + 1)]:
        del kept[name]
    while len(kept) >= most:
        del kept[next(iter(kept))]
