"""Decisions about rights are cached, except about names with which a client could fill the memory."""

import pytest

from muster.cluster.apiserver.access.rbac import MAX_NAMES, Rbac
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.store import MemoryJournal, Store

LONG = "n" * MAX_NAMES
ADA = User("ada")


@pytest.mark.parametrize(
    ("access", "is_cached"),
    [
        (Access(ADA, "list", resource="pods", namespace="default"), True),
        (Access(ADA, "list", resource="pods", namespace=LONG), False),
        (Access(ADA, "get", resource="pods", namespace="default", name=LONG), False),
        (Access(ADA, "get", path=f"/{LONG}"), False),
    ],
)
def test_decisions_about_long_names_are_not_cached(access: Access, is_cached: bool) -> None:
    rbac = Rbac(Store(MemoryJournal(), header_of))
    assert not rbac.decide(access).allowed
    assert bool(rbac._decisions) == is_cached
