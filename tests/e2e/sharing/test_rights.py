"""What users with few rights get from each command."""

import asyncio

import pytest
from tests.e2e.conftest import Muster
from tests.rights import Case, Users, each_case, introduced


@pytest.fixture(scope="module")
def users(shared_muster: Muster, tmp_path_factory: pytest.TempPathFactory) -> Users:
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=8")
    folder = tmp_path_factory.mktemp("users")
    return asyncio.run(introduced(shared_muster.home / "kubeconfig", folder, "default"))


@each_case
def test_users_get_what_they_may_see_and_read_what_is_missing(users: Users, case: Case) -> None:
    users.check(case)


def test_who_may_not_mark_a_job_as_cancelled_is_told_how_else_to_end_it(users: Users) -> None:
    advice = "patch jobs.batch/status in namespace default; ask the administrator of the namespace for that right, or "
    users.check(Case("editor", "cancel first", 1, "", (f"{advice}remove the job with what it printed: muster cancel",)))
