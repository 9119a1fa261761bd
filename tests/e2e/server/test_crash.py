"""Kill -9 under load, again and again: what was acknowledged is there, no pod runs twice, nothing is left, all ends.

`--long` does it two hundred times, with one node and with three.
"""

import asyncio
import random
from collections import Counter

import pytest

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request, TransportError

WRITERS = 8


def pod_job(name, runs):
    """A job of two pods that write down that they ran."""
    script = f"echo $UID_OF_POD >> {runs}; sleep 0.1"
    container = {
        "name": "c",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [{"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {
        "metadata": {"name": name},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimit": 100,
            "template": {"spec": spec},
        },
    }


def job_set(name, runs):
    """Two roles of such jobs, the second after the first."""
    template = {"spec": pod_job(name, runs)["spec"]}
    first = {"name": "a", "template": template}
    second = {"name": "b", "template": template, "dependsOn": [{"name": "a", "status": "Complete"}]}
    return {"metadata": {"name": name}, "spec": {"replicatedJobs": [first, second]}}


class Load:
    """Writers that remember what the server acknowledged."""

    def __init__(self, runs):
        self.runs = runs
        self.maps = {}
        self.jobs = set()
        self.job_sets = set()
        self.gone = set()
        self.number = 0

    @property
    def is_mixed(self):
        """Whether something of each kind got through."""
        return bool(self.maps and self.jobs and self.job_sets and self.gone)

    async def write(self, client, seed):
        chance = random.Random(seed)
        while True:
            self.number += 1
            number = self.number
            if chance.random() < 0.02:
                name = f"set-{number}"
                await client.create(as_dict(JOB_SET), job_set(name, self.runs), "default")
                self.job_sets.add(name)
                continue
            if chance.random() < 0.03:
                name = f"job-{number}"
                await client.create(as_dict(JOB), pod_job(name, self.runs), "default")
                self.jobs.add(name)
                continue
            if chance.random() < 0.03:
                await self.delete_collection(client, f"gone-{number}", chance.choice(("Background", "Foreground")))
                continue
            name = f"map-{number}"
            await client.create(as_dict(CONFIG_MAP), {"metadata": {"name": name}, "data": {"n": "1"}}, "default")
            self.maps[name] = "1"
            if chance.random() < 0.5:
                # Not acknowledged yet, it may or may not have happened.
                self.maps[name] = "1 or 2"
                await client.patch(CONFIG_MAP, name, {"data": {"n": "2"}}, "default")
                self.maps[name] = "2"
            if chance.random() < 0.1:
                del self.maps[name]
                await asyncio.gather(self.delete(client, name), self.delete(client, name))

    async def delete(self, client, name):
        """Answered or refused because another was faster: it is gone."""
        with ignoring("NotFound"):
            await client.delete(CONFIG_MAP, name, "default")
        self.gone.add(name)

    async def delete_collection(self, client, name, propagation):
        """A job and some maps that go with all others of their label."""
        meta = {"labels": {"gone": name}}
        maps = [f"{name}-{n}" for n in range(3)]
        for one in maps:
            await client.create(as_dict(CONFIG_MAP), {"metadata": {"name": one, **meta}}, "default")
        job = pod_job(name, self.runs)
        await client.create(as_dict(JOB), job | {"metadata": job["metadata"] | meta}, "default")
        for kind, names in ((CONFIG_MAP, maps), (JOB, [name])):
            query = {"labelSelector": f"gone={name}", "propagationPolicy": propagation}
            await client.raw(Request("DELETE", kind.path("default"), query))
            self.gone.update(names)

    async def verify(self, client):
        maps = (await client.list(CONFIG_MAP, "default")).items
        there = {m.metadata.name: m.data["n"] for m in maps if "n" in m.data}
        lost = {
            name: (value, there.get(name)) for name, value in self.maps.items() if there.get(name, "?") not in value
        }
        assert not lost
        jobs = (await client.list(JOB, "default")).items
        assert self.jobs <= {job.metadata.name for job in jobs}
        # In the foreground, what was deleted goes after its dependents.
        kept = {one.metadata.name for one in (*maps, *jobs) if one.metadata.deletion_timestamp is None}
        assert not self.gone & kept
        assert self.job_sets <= {jobset.metadata.name for jobset in await self.sets(client)}

    async def sets(self, client):
        return (await client.list(JOB_SET, "default")).items

    async def finished(self, client):
        """Once all jobs are complete."""
        while True:
            jobs = (await client.list(JOB, "default")).items
            open_jobs = [j for j in jobs if not any(c.type == "Complete" for c in j.status.conditions)]
            failed = [j.metadata.name for j in jobs if any(c.type == "Failed" for c in j.status.conditions)]
            assert not failed
            open_sets = [one for one in await self.sets(client) if one.status.terminal_state != "Completed"]
            if not open_jobs and not open_sets and not any(j.metadata.name in self.gone for j in jobs):
                break
            await asyncio.sleep(0.2)
        assert not [one.metadata.name for one in await self.sets(client) if one.status.restarts]
        roles = Counter(job.metadata.labels.get(JOBSET_NAME, "") for job in jobs)
        assert all(roles[one.metadata.name] == 2 for one in await self.sets(client))


def as_dict(kind):
    return kind.seen_as(dict)


def client_of(muster):
    return Client(HttpsTransport(load({}, path=muster.home / "kubeconfig"), RealClock(), Random()))


async def one_life(muster, work, seed, process):
    client = client_of(muster)
    try:
        await work.verify(client)
        writers = [asyncio.create_task(work.write(client, seed * WRITERS + n)) for n in range(WRITERS)]
        await asyncio.sleep(random.Random(seed).uniform(0.05, 0.8))
        while not work.is_mixed and not any(writer.done() for writer in writers):
            await asyncio.sleep(0.01)  # of a machine that is slow
        process.kill()
        for outcome in await asyncio.gather(*writers, return_exceptions=True):
            assert isinstance(outcome, TransportError | ApiError), outcome
    finally:
        await client.transport.close()


async def settle(muster, work):
    """Nothing acknowledged is lost, and all ends."""
    client = client_of(muster)
    try:
        await work.verify(client)
        async with asyncio.timeout(120):
            await work.finished(client)
    finally:
        await client.transport.close()


def live(muster, work, seed, start):
    """A server that is killed under load."""
    process = muster.start(*start)
    try:
        assert "ready" in process.stdout.readline()
        asyncio.run(one_life(muster, work, seed, process))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("nodes", ["process", "process:3,pods=6"])
def test_kill_9_loses_nothing_and_runs_nothing_twice(muster, tmp_path, long, nodes):
    """Nor does it if the last life is taken to a new home, by a backup."""
    runs = tmp_path / "runs"
    runs.touch()
    work = Load(runs)
    start = ("up", "--port", "0", "--nodes", nodes)
    lives = 100 if long else 3
    for seed in range(lives):
        live(muster, work, seed, start)
    assert work.is_mixed, "the load never got through"
    muster(*start, "--detach")
    asyncio.run(settle(muster, work))
    assert run_twice(runs.read_text()) == {}
    muster("down")
    assert not muster.processes()

    live(muster, work, lives, start)
    muster("down")
    muster("backup", str(tmp_path / "backup"))
    muster.home.rename(tmp_path / "old")
    muster("restore", str(tmp_path / "backup"))
    runs.write_text("")  # a pod of which the backup does not know that it has run may run here
    muster(*start, "--detach")
    asyncio.run(settle(muster, work))
    assert run_twice(runs.read_text()) == {}
    assert "may specify no more than one IP" not in (muster.home / "server.log").read_text()
    muster("down")
    assert not muster.processes()


def run_twice(runs):
    """The pods that ran more than once, and how often."""
    return {uid: count for uid, count in Counter(runs.split()).items() if count > 1}
