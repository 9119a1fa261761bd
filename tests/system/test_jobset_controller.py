"""The JobSet controller on a real server; the titles are those of upstream's integration tests."""

from tests.system.jobset_cluster import PARTS, Cluster, role
from tests.system.plane import running

from muster.api.core import SERVICE
from muster.api.jobset import names
from muster.runtime.clock import run_virtual


def test_jobset_should_succeed_after_all_jobs_succeed():
    async def body():
        async with running(parts=PARTS) as plane:
            cluster = Cluster(plane)
            await cluster.jobset(role("a", 1), role("b", 2))
            assert list(await cluster.jobs()) == ["js-a-0", "js-b-0", "js-b-1"]
            await cluster.complete("js-a-0", "js-b-0")
            assert await cluster.condition(names.COMPLETED) is None
            await cluster.complete("js-b-1")
            ended = await cluster.seen()
            assert await cluster.condition(names.COMPLETED) == (
                "True",
                "AllJobsCompleted",
                "jobset completed successfully",
            )
            assert ended.status.terminal_state == "Completed"
            assert len(await cluster.jobs()) == 3
            assert (await cluster.client.get(SERVICE, "js", "default")).spec.cluster_ip == "None"
            assert await cluster.reasons() == ["AllJobsCompleted"]

    run_virtual(body())
