"""Users and service accounts."""

import pytest

from muster.api.ours.users import find_home_namespace


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("system:serviceaccount:vision:trainer", "vision"),
        ("system:serviceaccount:muster-users:ada", ""),  # the account is there, its jobs are not
        ("system:serviceaccount:vision", ""),
        ("unix:ada", ""),
        ("ada:vision:x", ""),
    ],
)
def test_the_namespace_of_an_account(name: str, namespace: str) -> None:
    assert find_home_namespace(name) == namespace
