"""`muster snapshot` reads one moment of a cluster, as far as the user and the server let it."""

from typing import Any

import pytest
from tests.system.insight import test_decisions as decided
from tests.system.integrations.queued_jobs import Queued, story

from muster.api.ours.decisions import PATH
from muster.api.status import ApiError, Status
from muster.insight.reader.snapshot import add_decisions, take_snapshot
from muster.insight.snapshot import write_snapshot
from muster.runtime.clock import RealClock
from muster.runtime.objects import key_of


class Restricted:
    """A client whose server refuses some requests. calls: the queries of the lists, by their path."""

    def __init__(self, client, refuses):
        self._client, self._refuses = client, refuses
        self.calls = []

    async def raw(self, request):
        self.calls.append((request.path, dict(request.query)))
        if (refusal := self._refuses(request)) is not None:
            code, reason = refusal
            raise ApiError(Status(code=code, reason=reason, message="no"))
        return await self._client.raw(request)


def names(snapshot, kind):
    return sorted(one["metadata"]["name"] for one in snapshot.items if one["kind"] == kind)


def run(refuses):
    """Return the snapshot of a cluster with two jobs, of which one starts, and the requests that it took."""
    results = []

    @story
    async def told(q: Queued) -> None:
        await q.queue(2)
        await q.job("a")
        await q.job("b")
        client: Any = Restricted(q.client, refuses)
        results.append((await take_snapshot(client, q.world.clock.now(), "default"), client.calls))
        assert {key_of(one) for one in await q.workloads()}

    told()
    return results[0]


def test_all_lists_are_of_one_revision():
    snapshot, calls = run(lambda _: None)
    assert snapshot.exact
    assert snapshot.missing == {}
    assert names(snapshot, "Job") == ["a", "b"]
    assert len(names(snapshot, "Workload")) == 2
    assert len(names(snapshot, "Pod")) == 2
    first, *others = calls
    assert first[0].endswith("/workloads")
    assert "resourceVersion" not in first[1]
    assert {query["resourceVersion"] for _, query in others} == {snapshot.revision}


@pytest.mark.parametrize("code", [410, 400])
def test_a_server_that_forgets_revisions_is_read_list_by_list(code):
    snapshot, _ = run(lambda request: (code, "Expired") if "resourceVersionMatch" in request.query else None)
    assert not snapshot.exact
    assert names(snapshot, "Job") == ["a", "b"]


def test_what_the_user_may_not_list_is_named():
    snapshot, _ = run(lambda request: (403, "Forbidden") if request.path.endswith("/nodes") else None)
    assert names(snapshot, "Node") == []
    assert list(snapshot.missing) == ["nodes"]


def test_a_user_of_one_namespace_reads_that():
    snapshot, _ = run(lambda request: (403, "Forbidden") if request.path == "/apis/batch/v1/jobs" else None)
    assert names(snapshot, "Job") == ["a", "b"]
    assert "only those of the namespace default" in snapshot.missing["jobs.batch"]


def test_another_refusal_is_an_error():
    with pytest.raises(ApiError):
        run(lambda request: (500, "InternalError") if request.path.endswith("/nodes") else None)


async def take_decided(client):
    snapshot = await take_snapshot(client, RealClock().now(), "default")
    return await add_decisions(client, snapshot, "default")


def play_decided(tmp_path, refuses=lambda _: None):
    """Return the snapshot with decisions of a durable cluster, of which a job runs."""
    results = []

    async def told():
        async with decided.host(tmp_path / "h") as h:
            await h.submit("j", seconds=60)
            await h.placed("j")
            results.append(await take_decided(Restricted(h.client, refuses)))

    decided.play(told)
    return results[0]


def test_a_snapshot_may_have_what_was_decided(tmp_path):
    snapshot = play_decided(tmp_path)
    assert [(one.what, one.job) for one in snapshot.decisions] == [
        ("Placed", "default/j"),
        ("QuotaReserved", "default/j"),
    ]
    assert snapshot.missing == {}
    assert [one["what"] for one in write_snapshot(snapshot)["spec"]["decisions"]] == ["Placed", "QuotaReserved"]


def test_a_user_of_one_namespace_reads_what_was_decided_there(tmp_path):
    def refuse(request):
        return (403, "Forbidden") if request.path == PATH and "namespace" not in request.query else None

    snapshot = play_decided(tmp_path, refuse)
    assert [one.what for one in snapshot.decisions] == ["Placed", "QuotaReserved"]
    assert "only those of the namespace default" in snapshot.missing["decisions"]


def test_a_cluster_without_a_record_of_decisions_is_read_all_the_same():
    results = []

    @story
    async def told(q: Queued) -> None:
        await q.queue(2)
        await q.job("a")
        results.append(await take_decided(q.client))

    told()
    assert results[0].decisions is None
    assert names(results[0], "Job") == ["a"]
    assert "decisions" not in write_snapshot(results[0])["spec"]
