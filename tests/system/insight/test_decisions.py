"""The record of decisions of a durable cluster: what is in it, who may see it, and what becomes of it."""

import asyncio
import logging
from contextlib import asynccontextmanager

import msgspec
import pytest

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, load
from muster.api.core import NAMESPACE
from muster.api.ours.decisions import PATH, Decision, Other
from muster.api.server.rbac import ROLE, ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.cluster.embedded import start_control_plane
from muster.cluster.nodespec import NodeSpec
from muster.cluster.serving import _keep_records
from muster.cluster.store.decisions import FILE, DecisionFileError, DecisionStore
from muster.cluster.store.sqlite import SqliteJournal
from muster.insight.reader.history.decisions import read_decisions, read_life
from muster.runtime.transport import Request

LIMIT = 60.0


class Host:
    def __init__(self, running):
        self.plane = running.plane
        self.client = running.plane.client()

    async def submit(self, name, cpu="1", seconds=1, namespace="default"):
        annotations = {"muster.dev/run-time": f"{seconds}s"}
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never",
                    "containers": [container]}}  # fmt: skip
        labels = {"kueue.x-k8s.io/queue-name": "default"} if namespace == "default" else {}
        document = {"metadata": {"name": name, "labels": labels}, "spec": {"template": template}}
        await self.client.create(JOB, msgspec.convert(document, Job), namespace)

    async def until(self, holds):
        async with asyncio.timeout(LIMIT):
            while not (result := await holds()):
                await asyncio.sleep(0.02)
        return result

    async def what(self, name, namespace="default"):
        return [one.what async for one in read_decisions(self.client, namespace, name)][::-1]

    async def placed(self, name):
        async def holds():
            return "Placed" in await self.what(name)

        await self.until(holds)


@asynccontextmanager
async def host(home, configuration=EMBEDDED):
    home.mkdir(exist_ok=True)
    async with start_control_plane(
        SqliteJournal(home),
        home / "nodes",
        (NodeSpec("simulated", resources={"cpu": "4"}),),
        configuration,
        adopt=True,
        beside=lambda plane: _keep_records(plane, home),
    ) as running:
        await running.wait_until_started(default_queue=True)
        yield Host(running)


def play(story):
    asyncio.run(story())


def test_a_life_is_told_while_the_job_is_there_after_it_was_deleted_and_after_a_restart(tmp_path):
    async def first():
        async with host(tmp_path / "h") as h:
            await h.submit("big", cpu="4")
            await h.placed("big")
            await h.submit("next", cpu="2")
            await h.placed("next")

            async def ended():
                life = await read_life(h.client, "default", "next")
                return life if life.facts.ended else None

            life = await h.until(ended)
            await h.client.delete(JOB, "next", "default", propagation="Background")
            return life

    async def second():
        async with host(tmp_path / "h") as h:
            return await read_life(h.client, "default", "next")

    before, after = asyncio.run(first()), asyncio.run(second())
    assert [one.what for one in before.moments] == [
        "Submitted",
        "Waiting",
        "QuotaReserved",
        "Placed",
        "Started",
        "Ended",
    ]
    assert before.moments[-1].text == "completed"
    assert before.moments[1].decision.amounts[0].available == 0
    assert before.moments[3].decision.nodes == {"sim-0": 1}
    assert [one.text for one in after.moments] == [one.text for one in before.moments]


def test_nothing_is_known_of_a_job_that_never_was(tmp_path):
    async def story():
        async with host(tmp_path / "h") as h:
            assert await read_life(h.client, "default", "no-such-job") is None

    play(story)


def test_users_see_the_jobs_that_they_may_list_and_no_names_of_others(tmp_path):
    eve = User("eve", frozenset({AUTHENTICATED}))

    async def story():
        async with host(tmp_path / "h") as h:
            await h.submit("j")
            await h.placed("j")
            decision = Decision(h.plane.inputs.clock.now(), "Preempted", "default/j", rule="InClusterQueue")
            others = (Other("lab/secret", "uid-of-secret", priority=7), Other("default/k"))
            h.plane.decisions.add(msgspec.structs.replace(decision, others=others))
            theirs = h.plane.client(eve)
            with pytest.raises(ApiError, match='cannot list resource "jobs"'):
                await theirs.raw(Request("GET", PATH, {"namespace": "default"}))
            rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "get"]}
            await h.client.create(ROLE.seen_as(dict), {"metadata": {"name": "r"}, "rules": [rule]}, "default")
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
            subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}
            binding = {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference}
            await h.client.create(ROLE_BINDING.seen_as(dict), binding, "default")
            [seen] = [one async for one in read_decisions(theirs, "default", "j") if one.what == "Preempted"]
            assert seen.others == (Other("", priority=7), Other("default/k"))
            answer = await theirs.raw(Request("GET", PATH, {"namespace": "default"}))
            assert b"secret" not in answer.body
            for query in ({}, {"namespace": "lab"}):
                with pytest.raises(ApiError, match="forbidden"):
                    await theirs.raw(Request("GET", PATH, query))
            [ours] = [one async for one in read_decisions(h.client, "", "j") if one.what == "Preempted"]
            assert ours.others[0].job == "lab/secret"

    play(story)


def test_a_name_is_that_of_its_namespace(tmp_path):
    async def story():
        async with host(tmp_path / "h") as h:
            await h.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "lab"}})
            await h.submit("j", namespace="lab")
            await h.until(lambda: h.what("j", "lab"))
            assert await h.what("j") == []

    play(story)


@pytest.mark.parametrize("query", [{"limit": "1e9"}, {"before": "x"}, {"before": "9" * 30}, {"name": "x" * 254}])
def test_a_question_that_makes_no_sense_is_refused(tmp_path, query):
    async def story():
        async with host(tmp_path / "h") as h:
            with pytest.raises(ApiError) as caught:
                await h.client.raw(Request("GET", PATH, query))
            assert caught.value.code == 400

    play(story)


def test_on_a_full_disk_jobs_run_on_and_the_newest_decisions_are_told_from_memory(tmp_path, monkeypatch, caplog):
    async def refused(*_, **__):
        raise DecisionFileError("the decisions cannot be written: no room")

    async def story():
        with monkeypatch.context() as patch:
            patch.setattr(DecisionStore, "put", refused)
            patch.setattr("muster.cluster.gathering._RETRY_SECONDS", 0.1)
            async with host(tmp_path / "h") as h:
                await h.submit("j")
                await h.placed("j")
                assert await h.what("j") == ["QuotaReserved", "Placed"]
        async with host(tmp_path / "h") as h:
            assert await h.what("j") == [], "nothing was written"

    with caplog.at_level(logging.WARNING, "muster"):
        play(story)
    assert "no room" in caplog.text


def test_once_there_is_room_again_everything_in_memory_is_written(tmp_path, monkeypatch):
    failing = [True]
    put = DecisionStore.put

    async def at_first_refused(self, *args):
        if failing[0]:
            raise DecisionFileError("no room")
        await put(self, *args)

    async def story():
        monkeypatch.setattr(DecisionStore, "put", at_first_refused)
        monkeypatch.setattr("muster.cluster.gathering._RETRY_SECONDS", 0.1)
        async with host(tmp_path / "h") as h:
            await h.submit("j")
            await h.placed("j")
            failing[0] = False
        async with host(tmp_path / "h") as h:
            assert await h.what("j") == ["QuotaReserved", "Placed"]

    play(story)


def test_a_file_that_cannot_be_used_does_not_keep_the_cluster_from_starting(tmp_path, caplog):
    home = tmp_path / "h"
    home.mkdir()
    (home / FILE).write_bytes(b"garbage, and a lot of it" * 100)

    async def story():
        async with host(home) as h:
            await h.submit("j")
            await h.placed("j")

    with caplog.at_level(logging.WARNING, "muster"):
        play(story)
    assert "a new record of decisions begins" in caplog.text


def test_the_configuration_bounds_the_record(tmp_path):
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmuster: {history: {maxDecisionBytes: 0}}\n"

    async def story():
        async with host(tmp_path / "h", load(text, embedded=True)) as h:
            await h.submit("j")
            async with asyncio.timeout(LIMIT):
                while h.plane.decisions.count < 2:
                    await asyncio.sleep(0.02)
            assert await h.what("j") == []

    play(story)
