"""JSON Web Tokens, signed with ECDSA P-256 (ES256): one key signs and checks; nothing else is taken for ours.

Pure but for the making of the key: what is signed and when it is checked is given.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt import InvalidAlgorithmError, InvalidSignatureError, InvalidTokenError, PyJWS
from jwt.algorithms import ECAlgorithm

MAX_TOKEN_BYTES = 16 * 1024
_ALGORITHM = "ES256"
_JWS = PyJWS(algorithms=[_ALGORITHM])

Claims = dict[str, Any]


class BadTokenError(Exception):
    """It is no token that we have signed; the text says why, without repeating any of it."""


@dataclass(frozen=True)
class SigningKey:
    """A private key, known to others by its `id`."""

    private: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls) -> "SigningKey":
        """A new one."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @cached_property
    def id(self) -> str:
        """A digest of the public key, as upstream makes it."""
        encoded = self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _text(hashlib.sha256(encoded).digest())

    @property
    def pem(self) -> bytes:
        """The key as unencrypted PEM: only for 0600 files."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: Claims) -> str:
        """A token with these claims."""
        headers = {"kid": self.id, "typ": None}  # upstream's have no type
        return _JWS.encode(msgspec.json.encode(claims), self.private, algorithm=_ALGORITHM, headers=headers)

    def verify(self, token: str) -> Claims:
        """The claims of a token that this key has signed. Raises `BadTokenError`."""
        if len(token) > MAX_TOKEN_BYTES:
            raise BadTokenError("the token is too long")
        try:
            found = _JWS.decode_complete(token, self.private.public_key(), algorithms=[_ALGORITHM])
        except (InvalidSignatureError, InvalidAlgorithmError) as error:
            raise BadTokenError("the token was not signed with our key") from error
        except (InvalidTokenError, UnicodeError, RecursionError) as error:  # the last from versions before 2.14
            raise BadTokenError("the token cannot be read") from error
        # The rest is signed as it stands; of the signature only its one canonical form is taken.
        if found["header"].get("kid", self.id) != self.id or not token.endswith(f".{_text(found['signature'])}"):
            raise BadTokenError("the token was not signed with our key")
        claims = msgspec.json.decode(found["payload"])
        assert isinstance(claims, dict), "we sign nothing but objects"
        return claims

    @cached_property
    def public(self) -> dict[str, str]:
        """The public key as a JSON Web Key."""
        key = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"use": "sig", "kid": self.id, "alg": _ALGORITHM, **key}


def load(pem: bytes) -> SigningKey:
    """The key in a file. Raises `ValueError`."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("it is no ECDSA P-256 key")  # noqa: TRY004  (it is the file that is wrong)
    return SigningKey(key)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
