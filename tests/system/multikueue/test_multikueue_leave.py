"""A cluster that is taken from a manager: nothing goes there any more, what runs there stops, and nothing is left."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr
from io import StringIO

import click
import pytest
from tests.system.integrations.test_queued_jobsets import jobset, role
from tests.system.multikueue.federation import Budget, Federation, Metered, federated, federation

from muster.api.batch import JOB
from muster.api.config import EMBEDDED
from muster.api.kueue import ADMISSION_CHECK, MULTI_KUEUE_CLUSTER, MULTI_KUEUE_CONFIG
from muster.cli.actions.clusters.leaving import leave
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.transport import TransportError


async def leaves(f: Federation, name: str, writes: int | None = None, *, force: bool = False) -> None:
    """The command; it is killed after so many writes."""
    budget = Budget(writes)

    @asynccontextmanager
    async def reach(cluster: str) -> AsyncIterator[Client]:
        yield Client(Metered(InProcessTransport(f.workers[cluster].world.plane.server), budget))

    client = Client(Metered(InProcessTransport(f.here.world.plane.server), budget))
    await leave(client, name, f.here.world.clock, reach, force=force)


async def configured(f: Federation) -> tuple[list[str], list[str]]:
    """The clusters that the configuration names, and those that there are."""
    config = await f.here.client.find(MULTI_KUEUE_CONFIG, "multikueue")
    clusters = (await f.here.client.list(MULTI_KUEUE_CLUSTER)).items
    return list(config.spec.clusters) if config is not None else [], sorted(one.metadata.name for one in clusters)


@federated()
async def test_where_jobs_run_it_is_refused_and_nothing_is_done(f: Federation) -> None:
    await f.queues(a=2, b=0)
    await f.job("j", 2)
    await f.settle()
    with pytest.raises(click.ClickException, match="in cluster a run: default/j; let them end"):
        await leaves(f, "a")
    assert (await configured(f), await f.where()) == ((["a", "b"], ["a", "b"]), {"a": 2})


@federated()
async def test_what_has_ended_and_what_waits_there_goes_and_what_is_of_others_stays(f: Federation) -> None:
    await f.queues(a=2, b=0)
    await f.workers["a"].job("theirs", 1)
    await f.job("j", 1, seconds=30)
    await f.job("k", 2)
    await f.settle(60)
    await f.here.client.delete(JOB, "k", "default")
    await f.job("l", 2)
    await f.settle(60)
    assert (await f.clones("j"), await f.clones("l")) == (["a"], ["a", "b"])
    await leaves(f, "a")
    assert (await f.clones("j"), await f.clones("l")) == ([], ["b"])
    assert await configured(f) == (["b"], ["b"])
    await f.settle(60)
    assert (await f.where("theirs"), await f.clones("l")) == ({"a": 1}, ["b"])


@federated()
async def test_what_came_while_it_was_asked_is_found(f: Federation) -> None:
    """The quota that one job gives back there is another's at once."""
    await f.queues(cpu=4, a=2, b=2)
    for name in ("j", "k", "l", "m"):
        await f.job(name, 2)
    await f.settle()
    await leaves(f, "a", force=True)
    assert await f.workers["a"].workloads() == []
    await f.settle(60)
    found = [await f.where(name) for name in ("j", "k", "l", "m")]
    assert [where for where in found if where] == [{"b": 2}]


@federated("a")
async def test_after_the_last_one_queues_wait_until_one_joins(f: Federation) -> None:
    await f.queues()
    await leaves(f, "a")
    assert await configured(f) == ([], [])
    check = await f.here.client.get(ADMISSION_CHECK, "multikueue")
    assert check.metadata.deletion_timestamp is None, "the queue names it: it would be going for ever"


@pytest.mark.timeout(300)  # each write that it is killed after is a story in three clusters
def test_killed_after_each_write_and_given_again(long: bool) -> None:
    async def scenario(writes: int) -> bool:
        async with federation(EMBEDDED, ("a", "b")) as f:
            await f.queues(a=2, b=2)
            await f.job("j", 2)
            await f.settle()
            (home,) = await f.where()
            other = "b" if home == "a" else "a"
            killed = False
            try:
                await leaves(f, home, writes, force=True)
            except TransportError:
                killed = True
                await f.settle(5)
                await leaves(f, home, force=True)
            assert await configured(f) == ([other], [other]), f"after {writes} writes"
            assert await f.workers[home].workloads() == [], f"after {writes} writes"
            await f.settle(60)
            assert await f.where() == {other: 2}, f"after {writes} writes"
            assert (await f.here.workload()).spec.active
            return killed

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 3


@federated()
async def test_where_it_is_out_of_reach_it_is_said_how_to_remove_what_stays_there(f: Federation) -> None:
    @asynccontextmanager
    async def reach(cluster: str) -> AsyncIterator[Client]:
        if cluster == "a":
            raise TransportError("no way there")
        yield f.here.client

    await f.queues(a=0, b=0)
    await f.job("j", 1)
    await jobset(f.here, "js", role("w"))
    await f.settle()
    with redirect_stderr(StringIO()) as said:
        await leave(f.here.client, "a", f.here.world.clock, reach, force=False)
    command = "kubectl delete jobs.batch,jobsets.jobset.x-k8s.io,workloads.kueue.x-k8s.io --all-namespaces"
    assert f"no way there); delete them there with: {command} --selector " in said.getvalue()
