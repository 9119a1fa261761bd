"""Read which viewer a proxy in front of the dashboard has signed in, from the headers of every request.

A proxy passes on either the viewer's token, which proves itself, or the viewer's name. Anybody could send a header with
a name, so such a proxy must authenticate itself with a client certificate, a secret, or both.
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
    """The way in which a proxy in front of the dashboard identifies the viewer: by a token, or by a name."""

    def find_proof(self, request: InboundRequest) -> Proof | None:
        """Return the proof of the viewer's identity that the proxy sent with a request.

        Returns None if there is none and viewers may come without the proxy. Raises `ApiError` (400, 401, 403).
        """
        ...


class TokenFront:
    """A proxy that sends the viewer's token in a header of each request."""

    def __init__(self, header: str) -> None:
        self._header = header.lower()

    def find_proof(self, request: InboundRequest) -> Proof | None:
        """Return the token in the header as a proof; None without a token."""
        token = request.header(self._header)
        return Proof(authorization=f"{_BEARER}{token.removeprefix(_BEARER)}") if token else None


class IdentityFront:
    """A proxy that sends the viewer's name in headers. No request is served without the proxy.

    secret: the file with the secrets of the proxy; read only if the settings name a header for the secret.
    """

    def __init__(self, settings: IdentityHeaders, secret: Path) -> None:
        self._settings = settings
        self._secret = secret

    def find_proof(self, request: InboundRequest) -> Proof:
        """Return the user whom the proxy's headers name.

        Raises `ApiError`: 401 if the request does not come from the proxy, and the errors of `read_identity`.
        """
        if problem := self._find_problem(request):
            log.warning("a request that names a viewer is refused: %s", problem)
            raise unauthorized()
        return Proof(identity=read_identity(self._settings, request.headers))

    def _find_problem(self, request: InboundRequest) -> str:
        """Return the reason why the request is not accepted as the proxy's; "" if it is."""
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
    """Return the secrets in a file, one per line; empty if it cannot be read. Lines that are too short are ignored.

    The file is read each time. During a change of the secret it contains the old and the new secret.
    """
    try:
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    except OSError as error:
        log.warning("the secret of the proxy cannot be read: %s", error)
        return ()
    return tuple(line for line in lines if len(line) >= LEAST_SECRET_BYTES)


def _is_among(value: bytes, secrets: tuple[bytes, ...]) -> bool:
    """Return whether a value is one of the secrets, compared in constant time."""
    return sum(compare_digest(value, secret) for secret in secrets) > 0
