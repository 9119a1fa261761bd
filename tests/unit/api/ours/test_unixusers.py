"""The names of Unix users in the API."""

import pytest

from muster.api.ours.unixusers import namespace_of


@pytest.mark.parametrize(
    ("account", "uid", "namespace"),
    [
        ("ada", 1000, "user-ada"),
        ("root", 0, "default"),
        ("a", 1, "user-a"),
        ("svc-1", 5, "user-svc-1"),
        ("Ada", 1001, "uid-1001"),
        ("LAB\\ada", 1002, "uid-1002"),
        ("ada@lab.example", 1003, "uid-1003"),
        ("-x", 1004, "uid-1004"),
        ("x-", 1005, "uid-1005"),
        ("_apt", 1006, "uid-1006"),
        ("a" * 51, 1007, "uid-1007"),
        ("a" * 50, 1008, f"user-{'a' * 50}"),
        ("uid-1", 1009, "user-uid-1"),
    ],
)
def test_each_user_has_a_namespace_whatever_the_name(account: str, uid: int, namespace: str) -> None:
    assert namespace_of(account, uid) == namespace
