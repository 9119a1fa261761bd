"""The manifests of a user, and the line that lets the user in."""

import os
import subprocess
from pathlib import Path

from muster.api.core import SERVICE_ACCOUNT
from muster.api.server.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING
from muster.cli.actions.people.newuser import NewUser, login_command


def roles(user: NewUser) -> list[tuple[str, str]]:
    """Return the role of each binding, with its namespace."""
    return [
        (document["roleRef"]["name"], document["metadata"].get("namespace", ""))
        for kind, document in user.manifests()
        if kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING)
    ]


def test_a_user_writes_in_one_namespace_only():
    own = [("edit", "lab"), ("muster:users:work", "lab")]
    assert roles(NewUser("ada", "lab")) == [("muster:users:see", ""), *own]
    assert roles(NewUser("ada", "lab", admin=True)) == [("cluster-admin", ""), ("muster:users:see", ""), *own]


def test_the_account_names_the_queue():
    account = next(
        document for kind, document in NewUser("ada", "lab", "vision").manifests() if kind is SERVICE_ACCOUNT
    )
    assert account["metadata"]["annotations"] == {"muster.dev/queue": "vision"}
    assert account["metadata"]["namespace"] == "muster-users"


def test_the_line_stores_a_private_login(tmp_path: Path):
    home = tmp_path / "a home"
    line = login_command("apiVersion: v1\n").replace("muster ps", "true")
    subprocess.run(["sh", "-c", line], env=os.environ | {"MUSTER_HOME": str(home)}, check=True)
    login = home / "login.kubeconfig"
    assert (login.read_text(), login.stat().st_mode & 0o777) == ("apiVersion: v1\n", 0o600)
    assert home.stat().st_mode & 0o777 == 0o700
