"""`muster takeover` and `muster handback`: whole, and killed between any two of their writes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace
from tests.system.integrations.queued_jobs import noded
from tests.system.operator.operator_site import KUEUE, Cable, Site, configured, renewed
from tests.system.takeover.left_by_kueue import Kueue, podset

from muster.actions.moving import kueuestate
from muster.actions.moving.carrying import Move
from muster.actions.moving.clusterstate import MoveState
from muster.actions.moving.handback import include_extras, plan_handback
from muster.actions.moving.steps import MoveStep, RefusedError
from muster.actions.moving.takeover import plan_takeover
from muster.api.batch import JOB
from muster.api.config import DEFAULT, load
from muster.api.core import CONFIG_MAP, POD, SERVICE, Container, Pod, PodSpec
from muster.api.groups.apps import DEPLOYMENT
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.install.alerts import PROMETHEUS_RULE
from muster.install.documents import kind_of
from muster.install.monitoring import SERVICE_MONITOR, monitoring_documents
from muster.install.options import NAME, Options, make_default_configuration
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, Response

# The embedded server has Kueue's kinds already, serves the visibility API itself, and has no way to a Service.
TEXT = make_default_configuration() + "featureGates: {VisibilityOnDemand: false}\n"
OPTIONS = Options(TEXT, load(TEXT), webhooks=False, kinds=())
MANAGER = "kueue-controller-manager"
SELECTOR = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
HOOKS = (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
SETTINGS = replace(DEFAULT, integrations=replace(DEFAULT.integrations, frameworks=("batch/job", "pod")))


class KilledError(Exception):
    """What a run ends by in the middle."""


class Fuse(Cable):
    """The way of a move to the server; blows: before so many writes more."""

    def __init__(self, transport: Any, blows: int | None = None) -> None:
        super().__init__(transport)
        self._blows = blows

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and self.refuses and self.refuses in request.path:
            return Response(403, b'{"kind": "Status", "reason": "Forbidden", "code": 403, "message": "not you"}')
        if request.method == "GET" or "dryRun" in request.query:
            return await self._transport.request(request)
        if self.writes == self._blows:
            raise KilledError
        return await super().request(request)


class Cluster:
    """A site where Kueue is installed. A Deployment gets its pods, and what runs in them runs."""

    def __init__(self, site: Site) -> None:
        self.site, self.client, self.said = site, site.client, list[str]()
        self._kueue: AsyncExitStack | None = None

    async def install_kueue(self) -> None:
        template = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [{"name": "manager", "image": "kueue"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": SELECTOR}, "template": template}
        await self.client.create(DEPLOYMENT.seen_as(dict), {"metadata": _meta(MANAGER), "spec": spec})
        ports = [{"port": 443, "protocol": "TCP", "targetPort": 9443}]
        service = {"metadata": _meta("kueue-webhook-service"), "spec": {"selector": SELECTOR, "ports": ports}}
        await self.client.create(SERVICE.seen_as(dict), service)
        where = {"namespace": KUEUE, "name": "kueue-webhook-service"}
        rule = {
            "apiGroups": ["kueue.x-k8s.io"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["cohorts"],
        }
        hook = {
            "name": "cohort.kb.io", "clientConfig": {"service": where}, "rules": [rule | {"resources": ["cohorts"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }  # fmt: skip
        for kind in HOOKS:
            meta = {"name": f"kueue-{'m' if kind is HOOKS[0] else 'v'}"}
            await self.client.create(kind.seen_as(dict), {"metadata": meta, "webhooks": [hook]})

    @asynccontextmanager
    async def played(self) -> AsyncIterator[None]:
        """Let Deployments come true."""
        playing = asyncio.create_task(self._play())
        try:
            yield
        finally:
            await cancel([playing])
            await self._stop_kueue()

    async def move(self, direction: str, blows: int | None = None, left: tuple[str, ...] = ()) -> Fuse:
        fuse = Fuse(InProcessTransport(self.site.world.plane.server), blows)
        options = OPTIONS if direction == "over" else include_extras(OPTIONS)
        move = Move(Client(fuse), self.site.world.plane.inputs, options, self.said.append)

        def plan(seen: MoveState) -> list[MoveStep]:
            if direction == "over":
                return plan_takeover(seen, OPTIONS, move.documents, left)
            return plan_handback(seen, OPTIONS, move.documents, left)

        await move.run(plan)
        return fuse

    async def stored(self) -> dict[str, Any]:
        """All that a move may touch, but for what the server says of it."""
        found: dict[str, Any] = {}
        for kind in (*HOOKS, DEPLOYMENT, SERVICE, CONFIG_MAP):
            for one in (await self.client.list(kind.seen_as(dict), KUEUE if kind.namespaced else "")).items:
                found[f"{kind.kind}/{one['metadata']['name']}"] = one.get("spec") or one.get("webhooks") or one["data"]
        return found

    async def _play(self) -> None:
        while True:
            await self.site.world.clock.sleep(0.5)
            manager = await self.client.get(DEPLOYMENT, MANAGER, KUEUE)
            if manager.spec.replicas and self._kueue is None:
                self._kueue = AsyncExitStack()
                meta = ObjectMeta(name="manager-1", labels=SELECTOR)
                pod = Pod(metadata=meta, spec=PodSpec(containers=(Container(name="manager", image="kueue"),)))
                await self.client.create(POD, pod, KUEUE)
                await self._kueue.enter_async_context(renewed(self.client, self.site.world.clock, "kueue-1_x"))
            elif not manager.spec.replicas:
                await self._stop_kueue()
            wanted = await self.client.find(DEPLOYMENT, NAME, KUEUE) is not None
            if wanted and "muster" not in self.site.replicas:
                await self.site.start("muster")
            elif not wanted and "muster" in self.site.replicas:
                await self.site.replicas["muster"].stop()
                await self.site.ended("muster")
                del self.site.replicas["muster"]

    async def _stop_kueue(self) -> None:
        if self._kueue is not None:
            await self._kueue.aclose()
            self._kueue = None
            with ignoring("NotFound"):
                await self.client.delete(POD, "manager-1", KUEUE, grace_period_seconds=0)


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": KUEUE}


def moving(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """A cluster with Kueue at work, and a node for everybody's pods."""

    async def body(s: Site) -> None:
        cluster = Cluster(s)
        async with noded(s.queued):
            await cluster.install_kueue()
            async with cluster.played():
                await s.world.settle(2)
                await test(cluster)

    body.__name__ = test.__name__
    return configured(SETTINGS)(body)


@moving
async def test_what_runs_is_the_same_there_and_back(c: Cluster) -> None:
    s = c.site
    k = Kueue(InProcessTransport(s.world.plane.server), s.world.settle)
    job = await k.job("runs", 2)
    name = await k.workload(job, JOB, [podset(2)])
    await k.admit(name, {"main": 2})
    await k.start(job, name)
    await s.world.settle()
    await k.bind("n")
    before, installed = await k.documents(POD), await c.stored()

    await c.move("over")
    assert c.said[-1] == "  muster_muster_uid leads"
    after = await c.stored()
    assert after[f"Deployment/{MANAGER}"]["replicas"] == 0
    assert f"Deployment/{NAME}" in after
    assert not [one for one in after if "WebhookConfiguration" in one]
    assert {pod["metadata"]["uid"] for pod in (await k.documents(POD)).values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }
    assert (await c.move("over")).wrote == [], "there is nothing left to do"

    await c.move("back")
    assert await c.stored() == installed
    assert (await s.client.get(WORKLOAD, name, "default")).status.admission is not None
    assert {pod["metadata"]["uid"] for pod in (await k.documents(POD)).values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }


@moving
async def test_what_was_installed_for_prometheus_goes(c: Cluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in (SERVICE_MONITOR, PROMETHEUS_RULE):
        version = {"name": kind.version, "served": True, "storage": True, "schema": schema}
        singular, of_many = kind.kind.lower(), f"{kind.kind}List"
        names = {"kind": kind.kind, "plural": kind.plural, "singular": singular, "listKind": of_many}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
        definition = {"metadata": {"name": kind.resource}, "spec": spec}
        await c.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), definition)
    await c.site.world.settle(60)
    await c.move("over")
    added = monitoring_documents(OPTIONS)
    for one in added:
        await c.client.create(kind_of(one), one)
    await c.move("back")
    for one in added:
        assert await c.client.find(kind_of(one), one["metadata"]["name"], one["metadata"].get("namespace", "")) is None


@moving
async def test_a_run_goes_on_where_the_last_one_was_killed(c: Cluster) -> None:
    installed = await c.stored()
    for direction in ("over", "back"):
        kills = 0
        for blows in cycle(range(1, 8)):
            try:
                await c.move(direction, blows)
                break
            except KilledError:
                kills += 1
        assert kills > 5
        assert (await c.move(direction)).wrote == []
    assert await c.stored() == installed


@moving
async def test_work_that_would_be_disturbed_is_a_reason_to_begin_nothing(c: Cluster) -> None:
    before = await c.stored()
    with pytest.raises(RefusedError, match=r"^1 Jobs that run .* default/old; let them end first$"):
        await c.move("over", left=("default/old",))
    assert await c.stored() == before
    await c.move("over")
    there = await c.stored()
    with pytest.raises(RefusedError, match=r"^nothing would run these once Muster is stopped: jobset default/s;"):
        await c.move("back", left=("jobset default/s",))
    assert await c.stored() == there


@moving
async def test_what_the_server_would_refuse_is_found_before_kueue_stops(c: Cluster) -> None:
    before = await c.stored()
    fuse = Fuse(InProcessTransport(c.site.world.plane.server))
    fuse.refuses = "clusterroles/muster-queueing"
    move = Move(Client(fuse), c.site.world.plane.inputs, OPTIONS, c.said.append)
    with pytest.raises(
        RefusedError, match=r"^the server does not take ClusterRole muster-queueing: .*not you; nothing"
    ):
        await move.run(lambda seen: plan_takeover(seen, OPTIONS, move.documents, ()))
    assert await c.stored() == before


@moving
async def test_a_manager_that_another_program_starts_again_is_not_fought(c: Cluster) -> None:
    async def undo() -> None:
        while True:
            await c.site.world.clock.sleep(1)
            await c.client.patch(DEPLOYMENT, MANAGER, {"spec": {"replicas": 1}}, KUEUE)

    undoing = asyncio.create_task(undo())
    try:
        with pytest.raises(RefusedError, match="another program undoes this: stop Kueue's manager"):
            await c.move("over")
    finally:
        await cancel([undoing])
    assert len([one for one in await c.stored() if "WebhookConfiguration" in one]) == 2


@moving
async def test_a_manager_that_runs_elsewhere_is_seen_by_its_lease(c: Cluster) -> None:
    async with renewed(c.client, c.site.world.clock, "kueue-elsewhere"):
        with pytest.raises(RefusedError, match="kueue-elsewhere renews the Lease"):
            await c.move("over")
    assert len([one for one in await c.stored() if "WebhookConfiguration" in one]) == 2


@moving
async def test_without_what_was_kept_kueues_manifest_has_to_be_applied(c: Cluster) -> None:
    await c.move("over")
    await c.client.delete(CONFIG_MAP, kueuestate.NAME, KUEUE)
    await c.move("back")
    stored = await c.stored()
    assert stored[f"Deployment/{MANAGER}"]["replicas"] == 0
    assert f"Deployment/{NAME}" not in stored
