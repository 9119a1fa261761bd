"""The record of a run: written once its job has ended, whatever becomes of the objects and of the server."""

import asyncio
import shlex
import sys
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import msgspec
import pytest
from tests.system.plane import World

from muster.actions.following.follow import Follower
from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, load
from muster.api.core import POD, Pod
from muster.api.kueue import WORKLOAD
from muster.api.server.rbac import ROLE, ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.cluster.controllers.history import recorder
from muster.cluster.embedded import start_control_plane
from muster.cluster.history import record_history
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import Compacted, store
from muster.cluster.store.history import FILE, HistoryError
from muster.cluster.store.historyworker import History
from muster.cluster.store.sqlite import SqliteJournal
from muster.insight.history.runs import PATH, RunQuery
from muster.insight.jobs.state import Ending
from muster.insight.reader.history.recorded import read_history
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.transport import Request

LIMIT = 60.0
EVERYTHING = RunQuery()
BUSY = [sys.executable, "-c", "while __import__('time').process_time() < 0.2: pass"]


class Host:
    def __init__(self, running):
        self.plane = running.plane
        self.client = running.plane.client()

    async def submit(self, name, *command, labels=None, cwd=None):
        template = {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "c", "image": "none", "command": list(command), "workingDir": str(cwd or "")}]}}  # fmt: skip
        spec = {"backoffLimit": 0, "template": template}
        document = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        await self.client.create(JOB, msgspec.convert(document, Job), "default")

    async def until(self, name, kind, happened):
        async with asyncio.timeout(LIMIT), self.client.watch(kind, "default") as events:
            async for event in events:
                one = event.object
                if one is not None and one.metadata.name.startswith(name) and happened(one):
                    return

    async def gone(self, name, kind=JOB):
        async with asyncio.timeout(LIMIT):
            while any(one.metadata.name.startswith(name) for one in (await self.client.list(kind, "default")).items):
                await asyncio.sleep(0.02)

    async def ended(self, name):
        await self.until(
            name, JOB, lambda job: any(one.type in ("Complete", "Failed") for one in job.status.conditions)
        )

    async def runs(self, wanted=EVERYTHING, limit=0):
        found, _ = await read_history(self.client, wanted, limit, print)
        return found


@asynccontextmanager
async def host(home, configuration=EMBEDDED):
    home.mkdir(exist_ok=True)
    journal = SqliteJournal(home)
    async with start_control_plane(
        journal, home / "nodes", (NodeSpec(),), configuration, adopt=True, beside=partial(record_history, home=home)
    ) as running:
        await running.wait_until_started(default_queue=True)
        yield Host(running)


def play(story):
    asyncio.run(story())


def test_a_run_is_told_as_soon_as_its_job_has_ended_and_after_its_objects_are_gone(tmp_path):
    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("good", *BUSY, labels={"kueue.x-k8s.io/queue-name": "default"})
            await h.submit("bad", "sh", "-c", "echo oh; exit 3")
            await h.ended("good")
            await h.ended("bad")
            before = {run.name: run for run in await h.runs()}
            for name in before:
                await h.client.delete(JOB, name, "default", propagation="Foreground")
                await h.gone(name)
            after = {run.name: run for run in await h.runs()}
        good, bad = before["good"], before["bad"]
        assert (good.state, good.exit_code, good.queue, good.owner) == ("Completed", 0, "default", "kubernetes-admin")
        assert (good.nodes, good.command) == (("node-0",), shlex.join(BUSY))
        assert good.submitted <= good.started <= good.ended
        assert good.cpu_seconds >= 0.2
        assert good.memory_bytes > 1 << 20
        assert (good.priority, [one.pods for one in good.pod_requests]) == (0, [1])
        assert (bad.state, bad.exit_code, bad.reason) == ("Failed", 3, "ended with exit code 3")
        assert after == before

    play(story)


def test_a_pod_of_another_namespace_is_in_no_record(tmp_path):
    async def story():
        async with host(tmp_path) as h:
            await h.submit("own", "sh", "-c", "until [ -e go ]; do sleep 0.1; done", cwd=tmp_path)
            await h.until("own", POD, lambda pod: pod.status.phase == "Running")
            [pod] = (await h.client.list(POD, "default")).items
            stranger = await World(h.plane).copy_elsewhere(pod)
            binding = {"target": {"apiVersion": "v1", "kind": "Node", "name": "elsewhere"}}
            await h.client.raw(
                Request("POST", "/api/v1/namespaces/other/pods/stranger/binding", body=msgspec.json.encode(binding))
            )
            (tmp_path / "go").touch()
            await h.ended("own")
            [run] = await h.runs()
            assert (run.name, run.nodes) == ("own", ("node-0",))
            assert (await h.client.get(POD, "stranger", "other")).metadata.uid == stranger.metadata.uid

    play(story)


def test_a_run_whose_objects_are_deleted_at_its_end_keeps_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "GATHER_SECONDS", 3600.0)  # the query writes

    async def story():
        async with host(tmp_path) as h:
            await h.submit("shell", "sh", "-c", "exit 7")
            await h.ended("shell")
            await h.client.delete(JOB, "shell", "default", propagation="Foreground")
            await h.gone("shell")
            await h.gone("shell", POD)
            [run] = await h.runs()
            assert (run.state, run.exit_code, run.reason) == ("Failed", 7, "ended with exit code 7")

    play(story)


def test_what_ended_is_told_from_its_record_once_its_pods_are_gone(tmp_path):
    async def story():
        async with host(tmp_path) as running:
            await running.submit("lost", "sh", "-c", "exit 5")
            await running.ended("lost")
            async with asyncio.timeout(LIMIT):
                while not await running.runs():
                    await asyncio.sleep(0.02)
            for pod in (await running.client.list(POD, "default")).items:
                await running.client.delete(POD, pod.metadata.name, "default")
            await running.gone("lost", POD)
            [run] = await running.runs()
            assert (run.exit_code, run.reason) == (5, "ended with exit code 5")
            clock = RealClock()
            follower = Follower(running.client, clock, Random(), "default", "lost")
            assert await follower.run() == Ending(run.exit_code, f"failed: {run.reason}")
            [row] = await job_rows(running.client, "default", clock.now(), print)
            assert (row["reason"], row["nodes"], row["started"]) == (run.reason, list(run.nodes), run.started)
            facts = await investigate(running.client, "default", "lost", clock.now())
            assert facts is not None
            assert facts.state.reason == run.reason

    play(story)


def test_a_run_that_is_taken_away_is_told_with_what_it_used(tmp_path):
    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("j", "sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")
            await h.until("j", POD, lambda pod: pod.status.phase == "Running")
            await h.client.delete(JOB, "j", "default", propagation="Background")
            await h.gone("j", POD)
            [run] = await h.runs()
            assert (run.state, run.exit_code, run.nodes) == ("Deleted", None, ("node-0",))
            assert run.started is not None
            async with asyncio.timeout(LIMIT):
                while (await h.runs())[0].memory_bytes is None:
                    await asyncio.sleep(0.02)

    play(story)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_what_a_killed_server_had_not_written_yet_the_next_one_finds(tmp_path, monkeypatch, is_trimmed):
    """is_trimmed: whether the store has dropped the first changes of Jobs, as it does where there are many."""

    async def refused(*_, **__):
        raise HistoryError("no room")

    async def first():
        with monkeypatch.context() as patch:
            patch.setattr(History, "put", refused)
            async with host(tmp_path / "h") as h:
                for name, words in (("there", "true"), ("gone", "exit 4"), ("running", "sleep 1000")):
                    await h.submit(name, "sh", "-c", words)
                await h.ended("there")
                for count in range(20):
                    note = {"metadata": {"annotations": {"note": f"{count}{'x' * 20_000}"}}}
                    await h.client.patch(JOB, "there", note, "default")
                await h.ended("gone")
                await h.until("running", POD, lambda pod: pod.status.phase == "Running")
                for name in ("gone", "running"):
                    await h.client.delete(JOB, name, "default", propagation="Background")
                    await h.gone(name)
                assert await h.runs() == []

    async def again():
        if is_trimmed:
            monkeypatch.setattr(store, "HISTORY_BYTES", 200_000)
        async with host(tmp_path / "h") as h:
            with pytest.raises(Compacted) if is_trimmed else nullcontext():
                h.plane.store.watch(JOB.resource, h.plane.store.oldest)
            return sorted((run.name, run.state, run.exit_code) for run in await h.runs())

    asyncio.run(first())
    expected = [("gone", "Failed", 4), ("running", "Deleted", None), ("there", "Completed", 0)]
    assert asyncio.run(again()) == expected
    assert asyncio.run(again()) == expected, "each has one record"


def test_a_group_of_pods_is_one_run(tmp_path):
    async def story():
        async with host(tmp_path / "h") as h:
            labels = {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/pod-group-name": "g"}
            notes = {"kueue.x-k8s.io/pod-group-total-count": "2"}
            for number in range(2):
                spec = {"restartPolicy": "Never", "containers": [
                    {"name": "c", "image": "none", "command": ["true"]}]}  # fmt: skip
                meta = {"name": f"p{number}", "labels": labels, "annotations": notes}
                await h.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")
            await h.until("g", WORKLOAD, lambda one: any(c.type == "Finished" for c in one.status.conditions))
            [run] = await h.runs()
        assert (run.name, run.kind, run.state, run.workers) == ("g", "Pod", "Completed", 2)
        assert (run.owner, run.nodes, run.command) == ("kubernetes-admin", ("node-0",), "true")

    play(story)


def test_what_is_old_or_too_many_is_forgotten(tmp_path):
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmuster: {history: {maxRecords: 1}}"

    async def story():
        async with host(tmp_path / "h", load(text)) as h:
            for name in ("a", "b"):
                await h.submit(name, "true")
                await h.ended(name)
            assert len(await h.runs()) == 1

    play(story)


def test_users_see_what_ran_where_they_may_list_jobs(tmp_path):
    eve = User("eve", frozenset({AUTHENTICATED}))

    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("j", "true")
            await h.ended("j")
            theirs = h.plane.client(eve)
            with pytest.raises(ApiError, match='cannot list resource "jobs"'):
                await read_history(theirs, RunQuery(namespace="default"), 0, print)
            rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}
            await h.client.create(ROLE.seen_as(dict), {"metadata": {"name": "r"}, "rules": [rule]}, "default")
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
            subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}
            binding = {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference}
            await h.client.create(ROLE_BINDING.seen_as(dict), binding, "default")
            found, _ = await read_history(theirs, RunQuery(namespace="default"), 0, print)
            assert [run.name for run in found] == ["j"]
            for query in ({}, {"namespace": "kube-system"}):
                with pytest.raises(ApiError, match="forbidden"):
                    await theirs.raw(Request("GET", PATH, query))

    play(story)


@pytest.mark.parametrize(
    "query", [{"since": "x"}, {"limit": "1e9"}, {"after": "x"}, {"after": "9" * 30 + "/u"}, {"names": "a*b*c*d*e"},
              {"names": ",".join("abcdefghijklmnopqrstu")}, {"names": "x" * 254}]
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused(tmp_path, query):
    async def story():
        async with host(tmp_path / "h") as h:
            with pytest.raises(ApiError) as refused:
                await h.client.raw(Request("GET", PATH, query))
            assert refused.value.code == 400

    play(story)


def test_a_history_that_is_damaged_stops_no_cluster(tmp_path):
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / FILE).write_bytes(b"no database" * 1000)

    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("j", "true")
            await h.ended("j")
            assert [run.name for run in await h.runs()] == ["j"]

    play(story)


def test_a_cluster_without_a_history_tells_of_what_is_still_there(tmp_path, capsys):
    async def story():
        async with start_control_plane(
            SqliteJournal(tmp_path / "h"), tmp_path / "n", (NodeSpec(),), adopt=False
        ) as running:
            await running.wait_until_started(default_queue=True)
            h = Host(running)
            for name in ("stays", "goes"):
                await h.submit(name, "true")
                await h.ended(name)
            await h.client.delete(JOB, "goes", "default", propagation="Foreground")
            await h.gone("goes")
            async with asyncio.timeout(LIMIT):
                while len(found := await h.runs()) < 2:
                    await asyncio.sleep(0.02)
        assert {(run.name, run.state, run.exit_code) for run in found} == {
            ("stays", "Completed", 0), ("goes", "Completed", 0),
        }  # fmt: skip

    play(story)
    assert "keeps no history" in capsys.readouterr().out


def test_what_cannot_be_written_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("muster.cluster.gathering._RETRY_SECONDS", 0.05)
    put = History.put
    failures: list[object] = []

    async def flaky(self, rows, **more):
        if len(failures) < 3:
            failures.append(rows)
            raise HistoryError("no room")
        await put(self, rows, **more)

    monkeypatch.setattr(History, "put", flaky)

    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("j", "true")
            await h.ended("j")
            async with asyncio.timeout(LIMIT):
                while not await h.runs():
                    await asyncio.sleep(0.02)
        assert len(failures) == 3

    play(story)
