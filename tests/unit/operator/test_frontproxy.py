"""Whose requests are passed on: believed of a server that shows the right certificate, and of nobody else."""

from typing import Any

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.operator.frontproxy import FrontProxy, find_user, read

# As kube-apiserver writes it.
DATA = {
    "client-ca-file": "-----clients-----",
    "requestheader-client-ca-file": "-----proxies-----",
    "requestheader-allowed-names": '["front-proxy"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def proxy(**others: str) -> FrontProxy:
    found = read(DATA | {f"requestheader-{name.replace('_', '-')}": value for name, value in others.items()})
    assert found is not None
    return found


def certificate(name: str) -> User:
    return User(name, frozenset({"o", AUTHENTICATED}))


def test_what_stands_in_the_config_map() -> None:
    extra = ("X-Remote-Extra-",)
    headers = (("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Uid",), extra)
    assert proxy() == FrontProxy("-----proxies-----", ("front-proxy",), *headers)


@pytest.mark.parametrize("missing", ["requestheader-client-ca-file", "requestheader-username-headers"])
def test_a_server_that_does_not_say_how_it_is_known_passes_nothing_on(missing: str) -> None:
    assert read({name: value for name, value in DATA.items() if name != missing}) is None
    assert read(DATA | {missing: ""}) is None


@pytest.mark.parametrize("value", ["front-proxy", '"front-proxy"', "[1]", "{"])
def test_names_that_cannot_be_read_are_no_names(value: str) -> None:
    with pytest.raises(ValueError):
        proxy(allowed_names=value)


def test_the_user_with_all_that_is_known_of_them() -> None:
    headers = [
        ("x-remote-user", "ada"),
        ("X-Remote-User", "eve"),
        ("X-Remote-Group", "lab"),
        ("X-REMOTE-GROUP", "all"),
        ("X-Remote-Uid", "u1"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-Remote-Extra-Scopes", "b"),
        ("X-Remote-Extra-Acme.org%2fProject", "p"),
        ("Authorization", "Bearer t"),
    ]
    extra = {"scopes": ("a", "b"), "acme.org/project": ("p",)}
    expected = User("ada", frozenset({"lab", "all", AUTHENTICATED}), "u1", extra)
    assert find_user(proxy(), certificate("front-proxy"), headers) == expected


def test_who_is_anonymous_to_the_server_is_not_authenticated_here() -> None:
    for name, groups in (("system:anonymous", []), ("ada", ["system:unauthenticated"])):
        headers = [("X-Remote-User", name), *(("X-Remote-Group", group) for group in groups)]
        assert find_user(proxy(), certificate("front-proxy"), headers).groups == frozenset(groups)


def test_where_no_name_is_asked_for_any_of_the_authoritys_will_do() -> None:
    assert find_user(proxy(allowed_names="[]"), certificate("any"), [("X-Remote-User", "ada")]).name == "ada"


@pytest.mark.parametrize(
    ("shown", "headers"),
    [
        (None, [("X-Remote-User", "ada")]),
        (certificate("ada"), [("X-Remote-User", "ada")]),
        (certificate("front-proxy"), []),
        (certificate("front-proxy"), [("X-Remote-User", ""), ("X-Remote-Group", "system:masters")]),
        (certificate("front-proxy"), [("Authorization", "Bearer t")]),
    ],
)
def test_nobody_else_is_believed(shown: Any, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ApiError) as raised:
        find_user(proxy(), shown, headers)
    assert raised.value.code == 401
