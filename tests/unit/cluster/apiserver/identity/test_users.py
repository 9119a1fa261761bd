"""Credentials and rights."""

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import (
    ADMIN,
    MASTERS,
    Access,
    Authenticator,
    User,
    account_of,
    authorize,
    make_fixed_token_check,
)

BOB = User("bob")
BOB_CANNOT = 'User "bob" cannot'


@pytest.mark.parametrize(
    ("certificate", "authorization", "user"),
    [
        (None, "Bearer secret", ADMIN),
        (None, "bearer  secret ", ADMIN),
        (BOB, "", BOB),
        (BOB, "Bearer secret", BOB),
        (None, "", None),
        (None, "Bearer", None),
        (None, "Bearer ", None),
        (None, "Bearer secre", None),
        (None, "Bearer secret2", None),
        (None, "Bearer sécret", None),
        (None, "Basic secret", None),
        (None, "secret", None),
    ],
)
def test_who_it_is(certificate, authorization, user):
    authenticator = Authenticator(make_fixed_token_check({"other": BOB, "secret": ADMIN}))
    if user is None:
        with pytest.raises(ApiError) as error:
            authenticator.user(certificate, authorization)
        assert error.value.code == 401
    else:
        assert authenticator.user(certificate, authorization) == user


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            Access(BOB, "list", "", "pods", "x"),
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "x"',
        ),
        (
            Access(BOB, "get", "batch", "jobs", "", "j"),
            f'jobs.batch "j" is forbidden: {BOB_CANNOT} get resource "jobs" in API group "batch" at the cluster scope',
        ),
        (
            Access(BOB, "create", "", "nodes"),
            'nodes is forbidden: User "bob" cannot create resource "nodes" in API group "" at the cluster scope',
        ),
        (Access(BOB, "get", path="/metrics"), 'forbidden: User "bob" cannot get path "/metrics"'),
    ],
)
def test_refusals_in_upstreams_words(access, message):
    with pytest.raises(ApiError) as error:
        authorize(access)
    assert (error.value.code, error.value.status.message) == (403, message)


@pytest.mark.parametrize("asked", [("delete", "", "nodes", "", "n"), ("get", "", "", "", "", "/anything")])
def test_masters_may_do_everything_and_others_nothing(asked):
    assert may(Access(ADMIN, *asked))
    assert may(Access(User("somebody", frozenset({MASTERS})), *asked))
    assert not may(Access(BOB, *asked))


def may(access):
    try:
        authorize(access)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("system:serviceaccount:n:a", ("n", "a")),
        ("system:serviceaccount:n:", None),
        ("system:serviceaccount::a", None),
        ("system:serviceaccount:n", None),
        ("system:serviceaccount:n:a:b", None),
        ("system:serviceaccounts:n", None),
        ("n:a", None),
    ],
)
def test_which_users_are_service_accounts(name, account):
    assert account_of(name) == account
