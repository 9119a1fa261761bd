"""What users with few rights get from each command on a real server, where Kueue and JobSet are installed, or not."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.cluster.conftest import Cluster, Replica, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes
from tests.rights import Case, Users, each_case, introduced

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

NOT_INSTALLED = "of kueue.x-k8s.io/v1beta2: Kueue is not installed there"


@pytest.fixture(scope="module")
def strangers(bare: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Users:
    """Where nothing is installed yet; the roles of all users are."""
    until(lambda: bare.get("clusterrole", "edit")["rules"] and bare.get("clusterrole", "view")["rules"])
    return asyncio.run(introduced(bare.plane.kubeconfig, tmp_path_factory.mktemp("users"), "lq"))


@pytest.mark.parametrize(
    "case",
    [
        Case("editor", "ps", 0, "first"),
        Case("editor", "why first", 0, NOT_INSTALLED, (NOT_INSTALLED,)),
        Case("editor", "queue list", 1, "", (f"no localqueues {NOT_INSTALLED}",)),
        Case("nobody", "queue list", 1, "", (f"no localqueues {NOT_INSTALLED}",)),
        Case("editor", "queue stop lq", 1, "", (f"no localqueues {NOT_INSTALLED}",)),
        Case("editor", "cluster list", 1, "", (f"no multikueueclusters {NOT_INSTALLED}",)),
        Case("editor", "run --name r -q lq --image none --detach -- true", 1, "", (f"no localqueues {NOT_INSTALLED}",)),
        Case("editor", "run --name r --image none --detach -- true", 0, "r\n"),
    ],
    ids=lambda case: f"{case.user}: {case.command}",
)
def test_what_is_not_installed_is_named(strangers: Users, case: Case) -> None:
    strangers.check(case)


@pytest.fixture(scope="module")
def users(strangers: Users, cluster: Cluster) -> Iterator[Users]:
    """Where Kueue's and JobSet's kinds are installed, and queues work."""
    replica = Replica(cluster.plane, strangers.folder / "replica.log")
    try:
        until(lambda: not cluster.is_suspended("first"))
        yield strangers
    finally:
        replica.process.kill()
        replica.process.wait()


def test_who_may_edit_may_cancel(users: Users, cluster: Cluster) -> None:
    cluster.job("third")
    users.check(Case("editor", "cancel third", 0, "cancelled"))


@each_case
def test_users_get_what_they_may_see_and_read_what_is_missing(users: Users, case: Case) -> None:
    users.check(case)
