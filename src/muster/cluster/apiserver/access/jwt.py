"""Sign and verify JSON Web Tokens with one ECDSA P-256 key (ES256). Tokens of any other key are refused.

Everything but the generation of a key is pure. The module does not know the meaning of claims: the caller decides
whether a token has expired. The module imports cryptography when a key is first used, because a cluster for a single
command uses no key.
"""

import base64
import hashlib
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # PyJWT imports Python's HTTP client too, and most clusters see no token
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from jwt import PyJWS

MAX_TOKEN_BYTES = 16 * 1024
_ALGORITHM = "ES256"

Claims = dict[str, Any]


class BadTokenError(Exception):
    """A token that the server refuses. The message says why, and repeats no part of the token."""


class SigningKey(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A private key that signs tokens. A token names its key by the key's `id`.

    loaded: the key loaded from a file; None for a new key, which is generated when it is first used.
    """

    loaded: "EllipticCurvePrivateKey | None" = None

    @cached_property
    def private(self) -> "EllipticCurvePrivateKey":
        """The private key: the loaded key, or one that is generated at the first use."""
        from cryptography.hazmat.primitives.asymmetric import ec

        return self.loaded or ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def id(self) -> str:
        """The digest of the public key, with upstream's algorithm."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        encoded = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return _encode(hashlib.sha256(encoded).digest())

    @property
    def pem(self) -> bytes:
        """The key as unencrypted PEM, only for files of mode 0600."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, claims: Claims) -> str:
        """Return a signed token with these claims."""
        headers = {"kid": self.id, "typ": None}  # upstream's tokens have no type
        return _make_jws().encode(msgspec.json.encode(claims), self.private, algorithm=_ALGORITHM, headers=headers)

    def verify(self, token: str) -> Claims:
        """Return the claims of a token that this key has signed, even if it has expired. Raises `BadTokenError`."""
        from jwt import InvalidAlgorithmError, InvalidSignatureError, InvalidTokenError

        if len(token) > MAX_TOKEN_BYTES:
            raise BadTokenError("the token is too long")
        try:
            parts = _make_jws().decode_complete(token, self.private.public_key(), algorithms=[_ALGORITHM])
        except (InvalidSignatureError, InvalidAlgorithmError) as error:
            raise BadTokenError("the token was not signed with our key") from error
        except (InvalidTokenError, UnicodeError, RecursionError) as error:  # PyJWT before 2.14 raises RecursionError
            raise BadTokenError("the token cannot be read") from error
        # Base64 can write one signature in several ways; only the canonical one is accepted.
        if parts["header"].get("kid", self.id) != self.id or not token.endswith(f".{_encode(parts['signature'])}"):
            raise BadTokenError("the token was not signed with our key")
        claims = msgspec.json.decode(parts["payload"])
        assert isinstance(claims, dict), "we sign nothing but objects"
        return claims

    @cached_property
    def public(self) -> dict[str, str]:
        """The public key as a JSON Web Key."""
        numbers = self.private.public_key().public_numbers()
        point = {name: _encode(value.to_bytes(32, "big")) for name, value in (("x", numbers.x), ("y", numbers.y))}
        return {"use": "sig", "kid": self.id, "alg": _ALGORITHM, "kty": "EC", "crv": "P-256", **point}


def load(pem: bytes) -> SigningKey:
    """Return the key in the content of a PEM file. Raises `ValueError`."""
    from cryptography.hazmat.primitives.asymmetric import ec

    from muster.runtime.certificates import load_key

    key = load_key(pem)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("it is no ECDSA P-256 key")  # noqa: TRY004  (the file is invalid, not the argument's type)
    return SigningKey(key)


@cache
def _make_jws() -> "PyJWS":
    from jwt import PyJWS

    return PyJWS(algorithms=[_ALGORITHM])


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
