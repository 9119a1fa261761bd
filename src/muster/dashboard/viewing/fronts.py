"""Find out whom a proxy in front of the dashboard has signed in, which it says anew with every request.

A proxy hands over either the viewer's token, which proves itself, or the viewer's name. Of the latter kind everybody
could send the headers, so the proxy must prove that it is the proxy, by a client certificate, by a secret, or by both.
"""

import logging
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

from muster.api.config.types import IdentityHeaders
from muster.api.status import unauthorized
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.dashboard.viewing.hosts import Proof
from muster.dashboard.viewing.identities import read_identity

LEAST_SECRET_BYTES = 16
_BEARER = "Bearer "

log = logging.getLogger(__name__)


class Front(Protocol):
    """The way in which a proxy in front of the dashboard names the viewer: by a token, or by a name."""

    def find_proof(self, request: InboundRequest) -> Proof | None:
        """Return the proof of a request's viewer that the proxy sends.

        The result is None if it sends none and viewers may come without it. Raises `ApiError` (400, 401, 403).
        """
        ...


class TokenFront:
    """A proxy that sends the viewer's token in a header of each request."""

    def __init__(self, header: str) -> None:
        self._header = header.lower()

    def find_proof(self, request: InboundRequest) -> Proof | None:
        """Return the token in the header as a proof; None without one."""
        token = request.header(self._header)
        return Proof(authorization=f"{_BEARER}{token.removeprefix(_BEARER)}") if token else None


class IdentityFront:
    """A proxy that sends the viewer's name in headers. No request is served without it.

    secret: the file of the secrets by which the proxy authenticates itself, if it does so.
    """

    def __init__(self, settings: IdentityHeaders, secret: Path) -> None:
        self._settings = settings
        self._secret = secret

    def find_proof(self, request: InboundRequest) -> Proof:
        """Return the user whom the proxy's headers name.

        Raises `ApiError`: 401 if the request does not come from the proxy, and as `read_identity`.
        """
        if problem := self._find_problem(request):
            log.warning("a request that names a viewer is refused: %s", problem)
            raise unauthorized()
        return Proof(identity=read_identity(self._settings, request.headers))

    def _find_problem(self, request: InboundRequest) -> str:
        """Return why the request does not come from the proxy; "" if it does."""
        settings = self._settings
        if settings.allowed_names:
            if request.user is None:
                return "it came without a client certificate"
            if request.user.name not in settings.allowed_names:
                return f"its client certificate is that of {request.user.name!r}"
        if settings.secret_header:
            name = settings.secret_header.lower()
            values = [value for header, value in request.headers if header.lower() == name]
            if len(values) != 1:
                return f"it has {len(values)} headers {settings.secret_header}, and not one"
            if not _is_among(values[0].encode("latin-1"), read_secrets(self._secret)):
                return f"the secret in {settings.secret_header} is wrong"
        return "" if settings.allowed_names or settings.secret_header else "nothing proves the proxy"


def read_secrets(file: Path) -> tuple[bytes, ...]:
    """Return the secrets in a file, one a line; none if it cannot be read. Lines that are too short do not count.

    The file is read each time: while the secret is changed, it has the old one and the new one.
    """
    try:
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    except OSError as error:
        log.warning("the secret of the proxy cannot be read: %s", error)
        return ()
    return tuple(line for line in lines if len(line) >= LEAST_SECRET_BYTES)


def _is_among(value: bytes, secrets: tuple[bytes, ...]) -> bool:
    """Return whether a value is one of the secrets, in a time that does not depend on where they differ."""
    return sum(compare_digest(value, secret) for secret in secrets) > 0
