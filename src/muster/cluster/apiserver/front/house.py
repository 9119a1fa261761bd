"""What all connections share, and what one is to who closes the house."""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from muster.cluster.apiserver.certificates import user_of_der
from muster.cluster.apiserver.front.crowd import Crowd
from muster.cluster.apiserver.front.unsent import Unsent
from muster.cluster.apiserver.users import User

KEEP_ALIVE_SECONDS = 180  # clients let go of idle connections after 90 s and less
MAX_HEADER_BYTES = 64 * 1024  # of a request
HEADER_SECONDS = 10.0  # from the first byte to the end of the headers


class Served(Protocol):
    """A connection."""

    def shutdown(self) -> None:
        """Take no more requests, and close once those that are there are answered."""
        ...

    def cut_streams(self) -> None:
        """Cut off what would go on without an end."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """`tasks` are requests that are worked on."""

    crowd: Crowd
    unsent: Unsent
    connections: set[Served]
    tasks: "set[asyncio.Task[Any]]"


def known_by(transport: asyncio.BaseTransport) -> User | None:
    """Whom the client certificate names."""
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return user_of_der(certificate) if certificate else None
