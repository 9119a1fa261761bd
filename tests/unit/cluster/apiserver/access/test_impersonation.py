"""Requests on somebody else's behalf."""

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.access.impersonation import find_impersonated_user
from muster.cluster.apiserver.identity.users import ADMIN, Access, User, authorize


def who(*headers):
    """Whom the headers make of the admin, and what he needed for it."""
    needed: list[Access] = []
    user = find_impersonated_user(headers, ADMIN, needed.append)
    return user, [(access.group, access.resource, access.namespace, access.name) for access in needed]


@pytest.mark.parametrize(
    ("headers", "name", "groups", "needed"),
    [
        ([("impersonate-user", "bob")], "bob", {"system:authenticated"}, [("", "users", "", "bob")]),
        (
            [("impersonate-user", "bob"), ("impersonate-group", "a"), ("impersonate-group", "b")],
            "bob",
            {"a", "b", "system:authenticated"},
            [("", "users", "", "bob"), ("", "groups", "", "a"), ("", "groups", "", "b")],
        ),
        (
            [("impersonate-user", "system:serviceaccount:n:robot")],
            "system:serviceaccount:n:robot",
            {"system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"},
            [("", "serviceaccounts", "n", "robot")],
        ),
        (
            [("impersonate-user", "system:serviceaccount:n:robot"), ("impersonate-group", "x")],
            "system:serviceaccount:n:robot",
            {"x", "system:authenticated"},
            [("", "serviceaccounts", "n", "robot"), ("", "groups", "", "x")],
        ),
        (
            [("impersonate-user", "system:anonymous")],
            "system:anonymous",
            {"system:unauthenticated"},
            [("", "users", "", "system:anonymous")],
        ),
    ],
)
def test_who_it_becomes_and_what_that_takes(headers, name, groups, needed):
    user, asked = who(*headers)
    assert (user.name, user.groups) == (name, groups)
    assert asked == needed


def test_uid_and_extra_information():
    user, needed = who(
        ("impersonate-user", "bob"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-scopes", "edit"),
        ("impersonate-extra-acme.com%2Fproject", "x"),
    )
    assert user.uid == "u-1"
    assert user.extra == {"scopes": ("view", "edit"), "acme.com/project": ("x",)}
    assert needed[1:] == [
        ("authentication.k8s.io", "userextras/scopes", "", "view"),
        ("authentication.k8s.io", "userextras/scopes", "", "edit"),
        ("authentication.k8s.io", "userextras/acme.com/project", "", "x"),
        ("authentication.k8s.io", "uids", "", "u-1"),
    ]


def test_nobody_is_impersonated_without_headers():
    assert find_impersonated_user((), ADMIN, authorize) is ADMIN


@pytest.mark.parametrize(
    "headers",
    [
        [("impersonate-group", "a")],
        [("impersonate-uid", "1")],
        [("impersonate-extra-a", "1")],
        [("impersonate-user", "")],
    ],
)
def test_groups_need_a_user(headers):
    with pytest.raises(ApiError) as error:
        find_impersonated_user(headers, ADMIN, authorize)
    assert error.value.code == 400


def test_a_refusal_in_upstreams_words():
    with pytest.raises(ApiError) as error:
        find_impersonated_user([("impersonate-user", "alice")], User("bob"), authorize)
    assert error.value.status.message == (
        'users "alice" is forbidden: User "bob" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
