"""Our tokens: others read them, and nothing else is taken for one."""

import base64
import itertools
import json

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.access.jwt import MAX_TOKEN_BYTES, BadTokenError, SigningKey, load

KEY = SigningKey()
OTHER = SigningKey()
CLAIMS = {"iss": "us", "sub": "bob", "exp": 4_000_000_000, "aud": ["a", "b"]}
TOKEN = KEY.sign(CLAIMS)


def test_what_was_signed_is_read_again():
    assert KEY.verify(TOKEN) == CLAIMS
    assert load(KEY.pem).verify(TOKEN) == CLAIMS


def test_others_check_our_tokens_with_the_public_key():
    public = pyjwt.PyJWK(KEY.public)
    assert pyjwt.decode(TOKEN, public, algorithms=["ES256"], audience="a") == CLAIMS
    assert pyjwt.get_unverified_header(TOKEN) == {"alg": "ES256", "kid": KEY.id}


def _encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


HEAD, PAYLOAD, SIGNATURE = TOKEN.split(".")
HMAC = {"alg": "HS256", "typ": "JWT"}


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "x",
        TOKEN + ".",
        TOKEN + "=",
        TOKEN + "\n",
        TOKEN[:-1],
        f"{HEAD}.{PAYLOAD}",
        f"{HEAD}.{PAYLOAD}.",
        f"{_encoded({'alg': 'none'})}.{PAYLOAD}.",
        f"{_encoded({'alg': 'none'})}.{PAYLOAD}.{SIGNATURE}",
        f"{_encoded(HMAC)}.{PAYLOAD}.{SIGNATURE}",
        f"{HEAD}.{_encoded(CLAIMS | {'sub': 'admin'})}.{SIGNATURE}",
        f"{_encoded([])}.{PAYLOAD}.{SIGNATURE}",
        f"{HEAD}.{PAYLOAD}.{'A' * 86}",
        OTHER.sign(CLAIMS),
        pyjwt.encode(CLAIMS, "x" * 64, algorithm="HS256"),
        "é" * 10,
        "\ud800.\ud800.\ud800",
        "a" * (MAX_TOKEN_BYTES + 1),
        "[" * 5000 + ".a.b",
        f"{base64.urlsafe_b64encode(b'[' * 12_000).decode()}.a.b",
    ],
    ids=itertools.count(),  # a key is new in each process
)
def test_what_is_none_of_ours(token):
    with pytest.raises(BadTokenError) as error:
        KEY.verify(token)
    assert PAYLOAD not in str(error.value)


@given(st.integers(0, len(TOKEN) - 1), st.characters(min_codepoint=1, max_codepoint=0x10FFFF))
def test_a_changed_letter_is_noticed(position, letter):
    changed = TOKEN[:position] + letter + TOKEN[position + 1 :]
    if changed != TOKEN:
        with pytest.raises(BadTokenError):
            KEY.verify(changed)


@pytest.mark.parametrize("pem", [b"", b"nonsense", SigningKey().pem[:50]])
def test_files_that_hold_no_key(pem):
    with pytest.raises(ValueError):
        load(pem)


def test_an_encrypted_key_is_refused():
    key = serialization.load_pem_private_key(KEY.pem, password=None)
    secret = serialization.BestAvailableEncryption(b"secret")
    encrypted = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    with pytest.raises(ValueError, match="the key is encrypted"):
        load(encrypted)
