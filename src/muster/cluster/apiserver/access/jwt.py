"""JSON Web Tokens, signed with ECDSA P-256 (ES256): one key signs and checks; nothing else is taken for ours.

Pure but for the making of the key: what is signed and when it is checked is given.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

MAX_TOKEN_BYTES = 16 * 1024
_COORDINATE = 32  # bytes of a number of the curve
_ECDSA = ec.ECDSA(hashes.SHA256())

Claims = dict[str, Any]


class BadTokenError(Exception):
    """It is no token that we have signed; the text says why, without repeating any of it."""


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str = ""


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
        signed = f"{_json({'alg': 'ES256', 'kid': self.id})}.{_json(claims)}"
        r, s = decode_dss_signature(self.private.sign(signed.encode(), _ECDSA))
        return f"{signed}.{_text(r.to_bytes(_COORDINATE) + s.to_bytes(_COORDINATE))}"

    def verify(self, token: str) -> Claims:
        """The claims of a token that this key has signed. Raises `BadTokenError`."""
        if len(token) > MAX_TOKEN_BYTES:
            raise BadTokenError("the token is too long")
        signed, _, signature = token.rpartition(".")
        head, dot, payload = signed.partition(".")
        if not dot:
            raise BadTokenError("the token has not three parts")
        try:
            header = msgspec.json.decode(_bytes(head), type=_Header)
            numbers = _bytes(signature)
            claims = _bytes(payload)
        except (msgspec.DecodeError, UnicodeError, binascii.Error) as error:
            raise BadTokenError("the token cannot be read") from error
        if header.alg != "ES256" or header.kid not in ("", self.id) or len(numbers) != 2 * _COORDINATE:
            raise BadTokenError("the token was not signed with our key")
        r, s = int.from_bytes(numbers[:_COORDINATE]), int.from_bytes(numbers[_COORDINATE:])
        try:
            self.private.public_key().verify(encode_dss_signature(r, s), signed.encode(), _ECDSA)
        except InvalidSignature:
            raise BadTokenError("the token was not signed with our key") from None
        found = msgspec.json.decode(claims)
        assert isinstance(found, dict), "we sign nothing but objects"
        return found

    @cached_property
    def public(self) -> dict[str, str]:
        """The public key as a JSON Web Key."""
        numbers = self.private.public_key().public_numbers()
        x, y = (_text(number.to_bytes(_COORDINATE)) for number in (numbers.x, numbers.y))
        return {"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def load(pem: bytes) -> SigningKey:
    """The key in a file. Raises `ValueError`."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("it is no ECDSA P-256 key")  # noqa: TRY004  (it is the file that is wrong)
    return SigningKey(key)


def _json(value: Any) -> str:
    return _text(msgspec.json.encode(value))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """What the text encodes; only its one canonical form is taken. Raises `binascii.Error`, `UnicodeError`."""
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _text(data) != text:
        raise binascii.Error("not canonical")
    return data
