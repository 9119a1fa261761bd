"""End the open streams of service accounts whose token is void.

A token is checked when its request arrives. A watch, a log or a command goes on after that, for days. So the deletion
of an account, or a change of a Secret, checks the tokens of the streams of that namespace again.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import account_of


class _OpenStream(NamedTuple):
    """A stream of a service account: the check of its token, which raises `ApiError`, and the call that ends it."""

    authenticate: Callable[[], object]
    end: Callable[[], object]


class RevocableStreams:
    """The open streams of one server whose users are service accounts, by the namespace of the account."""

    def __init__(self) -> None:
        self._streams: dict[str, set[_OpenStream]] = {}

    def enter(self, user: str, authenticate: Callable[[], object], end: Callable[[], object]) -> Callable[[], None]:
        """Watch the token of a stream; return the function that stops watching.

        The stream of a user who is no service account is not watched. authenticate: raises `ApiError` once the token is
        void. end: ends the stream.
        """
        account = account_of(user)
        if account is None:
            return lambda: None
        namespace, stream = account[0], _OpenStream(authenticate, end)
        self._streams.setdefault(namespace, set()).add(stream)
        return partial(self._leave, namespace, stream)

    def _leave(self, namespace: str, stream: _OpenStream) -> None:
        streams = self._streams[namespace]
        streams.discard(stream)
        if not streams:
            del self._streams[namespace]

    def end_void(self, namespace: str) -> None:
        """End the streams of a namespace's service accounts whose tokens have become void."""
        for stream in tuple(self._streams.get(namespace, ())):
            try:
                stream.authenticate()
            except ApiError:
                stream.end()
