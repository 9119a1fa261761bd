"""Whether a request comes from the proxy that may name viewers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.api.config.types import IdentityHeaders
from muster.api.status import ApiError
from muster.cluster.apiserver.front.inbound import InboundRequest
from muster.cluster.apiserver.identity.users import User
from muster.dashboard.viewing.fronts import IdentityFront, TokenFront, read_secrets
from muster.dashboard.viewing.hosts import Proof
from muster.dashboard.viewing.identities import Identity

SECRET = "0123456789abcdef"
BY_SECRET = IdentityHeaders(user_header="X-User", secret_header="X-Secret")
BY_NAME = IdentityHeaders(user_header="X-User", allowed_names=("front",))
BY_BOTH = IdentityHeaders(user_header="X-User", secret_header="X-Secret", allowed_names=("front",))
BY_NOTHING = IdentityHeaders(user_header="X-User")
RIGHT = [("x-user", "alice"), ("x-secret", SECRET)]


def request(headers: list[tuple[str, str]], certificate: str = "") -> InboundRequest:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    user = User(certificate) if certificate else None
    caller: Any = SimpleNamespace(user=user, slot=SimpleNamespace(is_secure=True))
    body: Any = SimpleNamespace(length=0, read=None)
    scope = {"method": "GET", "path": "/ui/", "query_string": b"", "headers": raw}
    return InboundRequest(scope, dict(raw), caller, body)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    return file


@pytest.mark.parametrize(
    ("settings", "headers", "certificate"),
    [
        (BY_SECRET, RIGHT, ""),
        (BY_SECRET, RIGHT, "anybody"),
        (BY_NAME, [("x-user", "alice")], "front"),
        (BY_BOTH, RIGHT, "front"),
    ],
)
def test_a_proven_proxy_names_viewers(
    secret: Path, settings: IdentityHeaders, headers: list[tuple[str, str]], certificate: str
) -> None:
    proof = IdentityFront(settings, secret).find_proof(request(headers, certificate))
    assert proof == Proof(identity=Identity("alice"))


@pytest.mark.parametrize(
    ("settings", "headers", "certificate"),
    [
        (BY_SECRET, [("x-user", "alice")], ""),
        (BY_SECRET, [("x-user", "alice"), ("x-secret", "")], ""),
        (BY_SECRET, [("x-user", "alice"), ("x-secret", SECRET[:-1])], ""),
        (BY_SECRET, [("x-user", "alice"), ("x-secret", f"{SECRET}\n")], ""),
        (BY_SECRET, [*RIGHT, ("x-secret", SECRET)], ""),
        (BY_SECRET, [("x-secret", "wrong-0123456789"), *RIGHT], ""),
        (BY_SECRET, [("x-user", "alice"), ("x-secret", "é" * 16)], ""),
        (BY_NAME, RIGHT, ""),
        (BY_NAME, RIGHT, "kubelet"),
        (BY_NAME, RIGHT, "Front"),
        (BY_BOTH, RIGHT, ""),
        (BY_BOTH, [("x-user", "alice")], "front"),
        (BY_NOTHING, RIGHT, "front"),
    ],
)
def test_nobody_else_names_viewers(
    secret: Path, settings: IdentityHeaders, headers: list[tuple[str, str]], certificate: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        IdentityFront(settings, secret).find_proof(request(headers, certificate))
    assert refusal.value.code == 401
    assert SECRET not in str(refusal.value)


def test_a_secret_is_changed_without_a_pause(secret: Path) -> None:
    front = IdentityFront(BY_SECRET, secret)
    secret.write_text(f"{SECRET}\nfedcba9876543210\n")
    for value in (SECRET, "fedcba9876543210"):
        assert front.find_proof(request([("x-user", "alice"), ("x-secret", value)])).identity
    secret.write_text("fedcba9876543210\n")
    with pytest.raises(ApiError):
        front.find_proof(request(RIGHT))


@pytest.mark.parametrize("text", ["", "\n\n", "short", "short\nshorter\n"])
def test_a_short_secret_is_none(secret: Path, text: str) -> None:
    secret.write_text(text)
    assert read_secrets(secret) == ()
    with pytest.raises(ApiError):
        IdentityFront(BY_SECRET, secret).find_proof(request([("x-user", "alice"), ("x-secret", text.strip())]))


def test_a_secret_that_is_gone_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(ApiError):
        IdentityFront(BY_SECRET, tmp_path / "none").find_proof(request(RIGHT))


def test_a_token_in_a_header_proves_itself() -> None:
    front = TokenFront("X-Token")
    assert front.find_proof(request([("x-token", "abc")])) == Proof(authorization="Bearer abc")
    assert front.find_proof(request([("x-token", "Bearer abc")])) == Proof(authorization="Bearer abc")
    assert front.find_proof(request([("authorization", "Bearer abc")])) is None
