"""Pages about a cluster in this process: what they show, and what they say when there is nothing to show."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.system.dashboard.site import Browser, Site, serving

from muster.api.batch import CRON_JOB, JOB, Job
from muster.api.kueue import MULTI_KUEUE_CLUSTER
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User

Told = Callable[[Site, Browser], Awaitable[None]]
NOBODY = User("unix:eve", frozenset({AUTHENTICATED}))


def play(told: Told, user: User | None = None, **settings: Any) -> None:
    async def run() -> None:
        async with serving(**settings) as site:
            if user is not None:
                site.users["token"] = user
            async with site.browser("token" if user is not None else "admin-token") as browser:
                await told(site, browser)

    asyncio.run(run())


PAGES = ("/ui/jobs", "/ui/cronjobs", "/ui/podgroups", "/ui/history", "/ui/clusters", "/ui/simulations")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_on_an_empty_cluster(path: str) -> None:
    async def told(_: Site, browser: Browser) -> None:
        answer = await browser.get(path)
        assert answer.status == 200, answer.text

    play(told)


@pytest.mark.parametrize("path", PAGES)
def test_a_viewer_without_rights_is_told_so(path: str) -> None:
    async def told(site: Site, browser: Browser) -> None:
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}
        job = msgspec.convert({"metadata": {"name": "of-another"}, "spec": spec}, Job)
        await site.plane.client().create(JOB, job, "default")
        answer = await browser.get(path)
        assert answer.status in (200, 403)
        assert "of-another" not in answer.text
        assert "Traceback" not in answer.text

    play(told, NOBODY)


def test_a_deed_that_does_not_apply_leads_back_to_the_job() -> None:
    async def told(site: Site, browser: Browser) -> None:
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}
        await site.plane.client().create(
            JOB, msgspec.convert({"metadata": {"name": "train"}, "spec": spec}, Job), "default"
        )
        answer = await browser.get("/ui/jobs/default/train/release")
        assert answer.status == 409
        assert '<a href="/ui/jobs/default/train">Back</a>' in answer.text
        assert "Back" not in (await browser.get("/ui/jobs/default/gone")).text

    play(told)


def test_nothing_is_changed_from_a_dashboard_that_only_shows() -> None:
    async def told(site: Site, browser: Browser) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
        client = site.plane.client()
        job = msgspec.convert({"metadata": {"name": "train"}, "spec": {"template": template}}, Job)
        await client.create(JOB, job, "default")
        schedule = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
        await client.create(CRON_JOB.seen_as(dict), {"metadata": {"name": "nightly"}, "spec": schedule}, "default")
        for path in ("/ui/jobs/default/train", "/ui/cronjobs/default/nightly"):
            page = await browser.get(path)
            assert page.status == 200
            key = re.search(r'name="form_key" value="([^"]+)"', page.text)
            assert key is not None
            assert "muster hold" in page.text
            assert f"{path}/hold" not in page.text
            for answer in (await browser.get(f"{path}/hold"), await browser.post(f"{path}/hold", {"form_key": key[1]})):
                assert answer.status == 403
                assert "This dashboard was started with --read-only." in answer.text
        assert not (await client.get(CRON_JOB, "nightly", "default")).spec.suspend

    play(told, read_only=True)


def test_filters_that_make_no_sense_are_read_as_none() -> None:
    async def told(_: Site, browser: Browser) -> None:
        for query in ("days=9999999&by=nonsense&state=Lost", "days=-1", "days=%00", "page=999999999999999999"):
            for path in PAGES:
                answer = await browser.get(f"{path}?{query}")
                assert answer.status == 200, (path, query)

    play(told)


def test_the_history_is_downloaded_as_csv() -> None:
    async def told(_: Site, browser: Browser) -> None:
        answer = await browser.get("/ui/history.csv?days=30")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.text.startswith("namespace,name,kind,state,")

    play(told)


def test_a_worker_cluster_stands_on_the_page_with_its_state() -> None:
    async def told(site: Site, browser: Browser) -> None:
        document = {
            "metadata": {"name": "paris"},
            "spec": {"clusterSource": {"kubeConfig": {"location": "paris-config"}}},
        }
        cluster = msgspec.convert(document, MULTI_KUEUE_CLUSTER.type)
        await site.plane.client().create(MULTI_KUEUE_CLUSTER, cluster)
        answer = await browser.get("/ui/clusters")
        assert "paris" in answer.text
        assert "Unknown" in answer.text

    play(told)


def test_a_report_is_opened_in_a_sandbox_by_the_owner_of_the_server_alone(tmp_path: Path) -> None:
    (tmp_path / "what-if").mkdir()
    (tmp_path / "what-if" / "report.html").write_text("<html>figures")

    async def owner(_: Site, browser: Browser) -> None:
        assert "what-if" in (await browser.get("/ui/simulations")).text
        answer = await browser.get("/ui/simulations/what-if")
        assert (answer.status, answer.text) == (200, "<html>figures")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts;")
        assert "allow-same-origin" not in policy
        for name in ("nothing", "..%2F..%2Fetc"):
            assert (await browser.get(f"/ui/simulations/{name}")).status == 404

    async def other(_: Site, browser: Browser) -> None:
        assert "what-if" not in (await browser.get("/ui/simulations")).text
        assert (await browser.get("/ui/simulations/what-if")).status == 404

    play(owner, simulations=tmp_path)
    play(other, NOBODY, simulations=tmp_path)
