"""Sessions are opened once, and for all who wait for them."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from muster.actions.errors import UserError
from muster.actions.server.session import Session, Target
from muster.sdk import connections
from muster.sdk.connections import Connections


@pytest.fixture
def opening(monkeypatch):
    """Clusters that start once they may; what has been started and left."""
    may, done = asyncio.Event(), []

    @asynccontextmanager
    async def own_cluster():
        done.append("starts")
        await may.wait()
        yield Session(None, "default", lambda: done.append("left"), own=True)

    monkeypatch.setattr(connections, "own_cluster", own_cluster)
    monkeypatch.setattr(connections, "has_cluster", lambda target: bool(target.kubeconfig))
    return may, done


def test_who_goes_meanwhile_does_not_end_what_is_opened_for_others(opening):
    may, done = opening

    async def go():
        held = Connections()
        first = asyncio.create_task(held.session(Target()))
        while not done:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(held.session(Target()))
        may.set()
        assert (await second).own
        await held.close()

    asyncio.run(go())
    assert done == ["starts", "left"]


def refuse():
    raise UserError("no room")


def test_what_could_not_be_opened_is_tried_again(opening, monkeypatch):
    may, _ = opening
    may.set()

    @asynccontextmanager
    async def failing():
        yield refuse()

    async def go():
        held = Connections()
        with monkeypatch.context() as patch:
            patch.setattr(connections, "own_cluster", failing)
            with pytest.raises(UserError, match="no room"):
                await held.session(Target())
        assert (await held.session(Target())).own
        await held.close()

    asyncio.run(go())


KUBECONFIG = """
clusters: [{name: site, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: ada, user: {}}]
contexts: [{name: site, context: {cluster: site, user: ada}}]
current-context: site
"""


@pytest.mark.parametrize("named", [False, True], ids=["KUBECONFIG chose it", "the program named it"])
def test_the_log_names_the_cluster_that_kubeconfig_has_chosen(tmp_path, monkeypatch, caplog, named):
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))

    async def go():
        held = Connections()
        for _ in range(2):
            await held.session(Target(kubeconfig=str(path)) if named else Target())
        await held.close()

    with caplog.at_level(logging.WARNING, "muster"):
        asyncio.run(go())
    chosen = f"http://127.0.0.1:1 (context site of {path}), because KUBECONFIG takes precedence over MUSTER_HOME"
    assert [one.getMessage() for one in caplog.records] == (
        [] if named else [f"cluster: {chosen}; for the cluster of {tmp_path / 'home'}, unset KUBECONFIG"]
    )
