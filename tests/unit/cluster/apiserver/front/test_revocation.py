"""Which streams end when a token becomes void."""

from collections.abc import Callable

from muster.api.status import unauthorized
from muster.cluster.apiserver.front.revocation import RevocableStreams

ADA, BOB = "system:serviceaccount:muster-users:ada", "system:serviceaccount:muster-users:bob"


class Tokens:
    """The tokens of users; the streams that were ended."""

    def __init__(self) -> None:
        self.void: set[str] = set()
        self.ended: list[str] = []

    def open(self, streams: RevocableStreams, user: str) -> Callable[[], None]:
        return streams.enter(user, lambda: self.authenticate(user), lambda: self.ended.append(user))

    def authenticate(self, user: str) -> None:
        if user in self.void:
            raise unauthorized()


def test_the_streams_of_a_void_token_end_and_no_others() -> None:
    streams, tokens = RevocableStreams(), Tokens()
    for user in (ADA, ADA, BOB, "kubernetes-admin"):
        tokens.open(streams, user)
    streams.end_invalid("muster-users")
    assert tokens.ended == []
    tokens.void = {ADA, "kubernetes-admin"}
    streams.end_invalid("default")
    assert tokens.ended == []
    streams.end_invalid("muster-users")
    assert tokens.ended == [ADA, ADA]


def test_a_stream_that_is_over_is_forgotten() -> None:
    streams, tokens = RevocableStreams(), Tokens()
    leave, _ = tokens.open(streams, ADA), tokens.open(streams, BOB)
    leave()
    tokens.void = {ADA, BOB}
    streams.end_invalid("muster-users")
    assert tokens.ended == [BOB]
