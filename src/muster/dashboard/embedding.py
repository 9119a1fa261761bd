"""Puts the dashboard beside the API of `muster up`, at the same address."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from muster.api.ours.unixusers import UNIX_PREFIX, namespace_of
from muster.cluster.apiserver.front.pages import Pages
from muster.cluster.apiserver.identity.users import User, account_of
from muster.cluster.controlplane import ControlPlane
from muster.cluster.entrance import Identify
from muster.dashboard.app import Dashboard
from muster.dashboard.viewing.hosts import EmbeddedHost, Proof
from muster.dashboard.viewing.sessions import Sessions
from muster.dashboard.visits import ROOT

SESSIONS = "dashboard-sessions.json"
"""The file in a home that lets open pages go on when the server starts again."""


def make_pages(home: Path, plane: ControlPlane, identify: Identify, names: Sequence[str], url: str) -> Pages:
    """Return the pages of a server. names: those by which other machines reach it. url: of the API on this machine."""
    clock, random = plane.inputs.clock, plane.inputs.random

    async def find_user(proof: Proof) -> User:
        return await identify(proof.certificate, proof.authorization, proof.peer)

    host = EmbeddedHost(find_user, lambda user: plane.client(user, "muster-dashboard"), find_namespace)
    # Browsers send a cookie to every server of a host, whatever its port, so each server's has a name of its own.
    name = f"muster-{sha256(str(home.absolute()).encode()).hexdigest()[:8]}"
    sessions, address = Sessions(clock, home / SESSIONS), url.replace("https:", "http:", 1)
    dashboard = Dashboard(host, sessions, clock, random, hosts=names, name=name, address=address)
    return Pages(ROOT, dashboard)


def find_namespace(user: User) -> str:
    """Return the namespace in which a user's jobs are: of a service account its own, of a Unix user theirs."""
    if (account := account_of(user.name)) is not None:
        return account[0]
    if not user.name.startswith(UNIX_PREFIX):
        return "default"
    return namespace_of(user.name.removeprefix(UNIX_PREFIX), int(user.uid))
