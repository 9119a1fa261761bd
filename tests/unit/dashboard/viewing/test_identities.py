"""Whom a proxy's headers name, and whom no proxy can name."""

import pytest

from muster.api.config.types import IdentityHeaders
from muster.api.status import ApiError
from muster.dashboard.viewing.identities import Identity, read_identity

SETTINGS = IdentityHeaders(
    user_header="X-User",
    groups_header="X-Groups",
    extra_headers={"example.com/team": "X-Team"},
    allowed_groups=("lab", "vision"),
    secret_header="X-Secret",
)
KUBERNETES = IdentityHeaders(
    user_header="X-User", groups_header="X-Groups", groups_separator="", allowed_groups=("a,b", "lab")
)
FEW = IdentityHeaders(user_header="X-User", allowed_users=("alice",), secret_header="X-Secret")
Headers = list[tuple[str, str]]


def as_sent(text: str) -> str:
    """A name as the server reads it from the wire."""
    return text.encode().decode("latin-1")


@pytest.mark.parametrize(
    ("settings", "headers", "expected"),
    [
        (SETTINGS, [("x-user", "alice")], Identity("alice")),
        (SETTINGS, [("X-USER", " alice ")], Identity("alice")),
        (SETTINGS, [("x-user", "alice"), ("x-groups", "vision, lab,,other")], Identity("alice", ("lab", "vision"))),
        (SETTINGS, [("x-user", "a"), ("x-groups", "lab"), ("x-groups", "vision")], Identity("a", ("lab", "vision"))),
        (SETTINGS, [("x-user", "alice"), ("x-groups", "system:authenticated")], Identity("alice")),
        (SETTINGS, [("x-user", as_sent("josé"))], Identity("josé")),
        (
            SETTINGS,
            [("x-user", "a"), ("x-team", "one"), ("x-team", "two")],
            Identity("a", (), (("example.com/team", ("one", "two")),)),
        ),
        (SETTINGS, [("x-user", "a"), ("impersonate-group", "system:masters"), ("x-other", "b")], Identity("a")),
        (KUBERNETES, [("x-user", "a"), ("x-groups", "a,b")], Identity("a", ("a,b",))),
        (FEW, [("x-user", "alice"), ("x-groups", "lab")], Identity("alice")),
    ],
)  # fmt: skip
def test_a_viewer_is_named(settings: IdentityHeaders, headers: Headers, expected: Identity) -> None:
    assert read_identity(settings, headers) == expected


@pytest.mark.parametrize(
    ("settings", "headers", "code", "said"),
    [
        (SETTINGS, [], 401, "Unauthorized"),
        (SETTINGS, [("x-user", "")], 401, "Unauthorized"),
        (SETTINGS, [("x-user", " ")], 401, "Unauthorized"),
        (SETTINGS, [("x-groups", "lab")], 401, "Unauthorized"),
        (SETTINGS, [("x-user", "root"), ("x-user", "eve")], 400, "several users: root, eve"),
        (SETTINGS, [("x-user", "root, eve")], 400, "several users"),
        (SETTINGS, [("x-user", "system:admin")], 403, "the system's"),
        (SETTINGS, [("x-user", " system:kube-scheduler")], 403, "the system's"),
        (SETTINGS, [("x-user", "system:serviceaccount:kube-system:admin")], 403, "the system's"),
        (SETTINGS, [("x-user", "eve"), ("x-groups", "lab,system:masters")], 403, "member of system:masters"),
        (SETTINGS, [("x-user", "eve"), ("x-groups", "lab"), ("x-groups", "system:nodes")], 403, "system:nodes"),
        (SETTINGS, [("x-user", "eve\r\nImpersonate-Group: system:masters")], 400, "characters that no name has"),
        (SETTINGS, [("x-user", "eve\n")], 400, "characters that no name has"),
        (SETTINGS, [("x-user", as_sent("eve\u2028x"))], 400, "characters that no name has"),
        (SETTINGS, [("x-user", "eve"), ("x-groups", "lab\x00")], 400, "characters that no name has"),
        (SETTINGS, [("x-user", "eve"), ("x-team", "a\rb")], 400, "characters that no name has"),
        (SETTINGS, [("x-user", "\xff\xfe")], 400, "not UTF-8"),
        (FEW, [("x-user", "eve")], 403, "eve is not among the users"),
    ],
)  # fmt: skip
def test_nobody_else_is(settings: IdentityHeaders, headers: Headers, code: int, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refusal:
        read_identity(settings, headers)
    assert refusal.value.code == code
