"""Store the sessions of viewers: a link that works once becomes a cookie that is valid for twelve hours.

Only hashes of links and cookies are stored. Sessions are written to a file, so that an open page continues after a
restart of the server. The file contains tokens of viewers, so only the server's user may read it.
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
# The maximum numbers of sessions and links, per user and in total. The oldest of the same user are dropped first, so
# that no page can sign other users out.
_MOST_LINKS_EACH, _MOST_LINKS = 10, 2_000
_MOST_SESSIONS_EACH, _MOST_SESSIONS = 20, 2_000

log = logging.getLogger(__name__)


class Session(Struct, frozen=True):
    """The session of a viewer who has signed in.

    id: the hash of the cookie; without a cookie, made from the name of the viewer.
    user: the name of the viewer.
    form_key: a secret that every form on the viewer's pages contains.
    is_proxied: whether a proxy in front names the viewer in every request, so that there is no cookie.
    """

    id: str
    user: str
    proof: Proof
    form_key: str
    expires: datetime
    is_proxied: bool = False


class Link(Struct, frozen=True):
    """A sign-in link that works once.

    user: the name of the user who requested it.
    """

    user: str
    proof: Proof
    expires: datetime


class Sessions:
    """The sessions and sign-in links of one dashboard.

    file: the file in which sessions are stored; None to keep them only in memory.
    """

    def __init__(self, clock: Clock, file: Path | None = None, draw: Callable[[], str] = secrets.token_urlsafe) -> None:
        self._clock = clock
        self._file = file
        self._draw = draw
        self._links: dict[str, Link] = {}
        self._sessions: dict[str, Session] = {one.id: one for one in self._load()}
        self._said: dict[str, str] = {}

    def make_link(self, user: str, proof: Proof) -> str:
        """Return the secret of a new link, which opens one session within a minute.

        If there are too many links, the oldest are dropped.
        """
        secret, now = self._draw(), self._clock.now()
        self._links = {name: link for name, link in self._links.items() if link.expires > now}
        _make_room(self._links, user, _MOST_LINKS_EACH, _MOST_LINKS)
        self._links[_hash(secret)] = Link(user, proof, now + LINK_LIFETIME)
        return secret

    def use_link(self, secret: str) -> Link | None:
        """Return the link with this secret, and invalidate it; None if it is unknown, used or expired."""
        link = self._links.pop(_hash(secret), None)
        return link if link is not None and link.expires > self._clock.now() else None

    def open(self, user: str, proof: Proof) -> str:
        """Open a session, store it, and return its cookie, which is new at every sign-in."""
        cookie = self._draw()
        self._add(Session(_hash(cookie), user, proof, self._draw(), self._end_of(proof)))
        return cookie

    def follow(self, user: str, proof: Proof) -> Session:
        """Return the session of a viewer whom a proxy in front names in every request; open it if necessary.

        The session cannot be opened with a cookie.
        """
        name = f"proxied {user}"  # no hash is like that
        kept = self._sessions.get(name)
        if kept is None or not self.is_open(kept):
            kept = Session(name, user, proof, self._draw(), self._end_of(proof), is_proxied=True)
            self._add(kept)
        return msgspec.structs.replace(kept, proof=proof)

    def find(self, cookie: str) -> Session | None:
        """Return the session with this cookie; None if it is unknown, closed or expired."""
        session = self._sessions.get(_hash(cookie)) if cookie else None
        return session if session is not None and session.expires > self._clock.now() else None

    def is_open(self, session: Session) -> bool:
        """Return whether a session is neither closed nor expired."""
        kept = self._sessions.get(session.id)
        return kept is not None and kept.form_key == session.form_key and kept.expires > self._clock.now()

    def close(self, session: Session) -> None:
        """Close a session if it is open, and update the file."""
        if self._sessions.pop(session.id, None) is not None:
            self._said.pop(session.id, None)
            self._save()

    def say_later(self, session: Session, sentence: str) -> None:
        """Store a sentence to show on the viewer's next page."""
        self._said[session.id] = sentence

    def take_message(self, session: Session) -> str:
        """Return and remove the sentence for the viewer's next page; "" if there is none."""
        return self._said.pop(session.id, "")

    def _end_of(self, proof: Proof) -> datetime:
        """Return when a session that starts now ends: at the latest when the proof's certificate expires."""
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
        except OSError as error:  # the sessions continue in memory
            log.warning("sessions of the dashboard end with this process: %s: %s", self._file, error)


def is_form_key(session: Session, key: str) -> bool:
    """Return whether a form contains the key of the viewer's session, so that the viewer's own page sent it."""
    return compare_digest(session.form_key.encode(), key.encode())


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _make_room(entries: dict[str, Session] | dict[str, Link], user: str, most_each: int, most: int) -> None:
    """Drop the oldest sessions or links of a user, and then of all users, to make room for one more."""
    own = [name for name, one in entries.items() if one.user == user]
    for name in own[: max(0, len(own) - most_each + 1)]:
        del entries[name]
    while len(entries) >= most:
        del entries[next(iter(entries))]
