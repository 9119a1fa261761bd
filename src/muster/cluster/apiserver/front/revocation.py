"""End the open streams of service accounts whose token has become invalid.

A token is checked when its request arrives. After that, a watch, a log or a command may run for days. So the deletion
of an account, or a change of a Secret, checks the tokens of the streams of that namespace again.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import account_of


class _OpenStream(NamedTuple):
    """A stream of a service account.

    authenticate: checks the stream's token; raises `ApiError` if it is invalid.
    end: ends the stream.
    """

    authenticate: Callable[[], object]
    end: Callable[[], object]


class RevocableStreams:
    """The open streams of one server whose users are service accounts, by the namespace of the account."""

    def __init__(self) -> None:
        self._streams: dict[str, set[_OpenStream]] = {}

    def enter(self, user: str, authenticate: Callable[[], object], end: Callable[[], object]) -> Callable[[], None]:
        """Add a stream whose token is checked later; return the function that removes the stream.

        The streams of users that are no service accounts are not added.

        user: the name of the user.
        authenticate: raises `ApiError` if the token is invalid.
        end: ends the stream.
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

    def end_invalid(self, namespace: str) -> None:
        """End the streams of a namespace's service accounts whose tokens have become invalid."""
        for stream in tuple(self._streams.get(namespace, ())):
            try:
                stream.authenticate()
            except ApiError:
                stream.end()
