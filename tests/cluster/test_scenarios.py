"""What the engine does on the embedded server it does on a real one: the same scenarios, played on both.

It runs as `muster controllers`, with its webhooks and the rights that are installed with it, beside
kube-controller-manager, which runs the Jobs. In place of kube-scheduler it places all pods: most scenarios name no
scheduler. What differs fails as expected, with the difference as its reason.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.conftest import Cluster, until
from tests.cluster.realworld import RealWorld
from tests.cluster.retold import retold, sort_out
from tests.cluster.test_webhooks import RIGHTS, Served
from tests.kubeplane import kube_plane, needs_kubernetes
from tests.system.gangs import test_gang_demands, test_kep34, test_pod_groups
from tests.system.integrations import test_queued_jobs, test_queued_jobs_elastic, test_queued_jobsets, test_queued_pods
from tests.system.plane import ELSEWHERE, Scenario
from tests.system.queueing import test_admission, test_queue_status, test_ready_admission
from tests.system.scheduler import test_devices
from tests.system.topology import test_topology

from muster.api.config import load as settings_of
from muster.api.config.frameworks import BUILT_IN
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(300)]

_MODULES = (
    test_admission,
    test_devices,
    test_gang_demands,
    test_kep34,
    test_pod_groups,
    test_queue_status,
    test_queued_jobs,
    test_queued_jobs_elastic,
    test_queued_jobsets,
    test_queued_pods,
    test_ready_admission,
    test_topology,
)

# By a part of the test's name.
_NOT_ASKED = {
    "it is of the server's own set-up": ("kubernetes_own_group", "brings_later"),
    "it waits for quiet too often": ("next_waves_of_a_sweep",),
    "no controller runs in it": ("a_pod_that_comes_when_there_is_no_workload",),
    "it is played without the collector": ("jobs_whose_jobset_is_gone", "a_job_whose_jobset_is_not_seen_yet"),
    "only the embedded server turns fair sharing on by a weight": ("with_the_first_weight", "a_weight_lets_a_queue"),
}

# Each of them is in docs/operator.md.
_DIFFERENCES = {
    "kube-controller-manager tells workers of no world": ("workers_learn_of_a_larger_world", "cohort_come_to_rest"),
    "kube-controller-manager counts interruptions as failures": ("had_not_come_to_a_lost_node",),
}

_PLACED = ["muster", "default-scheduler"]
_SECONDS = 240.0


globals().update(retold(*_MODULES))


class Engine(Served):
    """A replica that works under the settings of a scenario."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._text = ""
        super().__init__(cluster, folder, _whole(""))
        self.install()
        self._wait()

    def under(self, text: str) -> None:
        """Begin again if the settings are others."""
        if text != self._text:
            self._text = text
            self.replica.process.terminate()
            self.replica.process.wait()  # it gives its Lease back
            self.begin_again(_whole(text))
            self._wait()

    def _wait(self) -> None:
        until(lambda: self.replica.said(" leads ") and self.replica.said("webhooks at port"))
        until(lambda: self.is_known() and self.replica.readiness() == "ok")


def _whole(text: str) -> str:
    settings = yaml.safe_load(text) or {}
    settings.setdefault("muster", {}).setdefault("scheduling", {})["schedulerNames"] = _PLACED
    settings.setdefault("integrations", {"frameworks": list(BUILT_IN)})
    return yaml.safe_dump(settings)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with kube_plane(tmp_path_factory.mktemp("plane"), "kube-controller-manager") as plane:
        cluster = Cluster(plane)
        installed = [
            each
            for each in make_documents(Options(make_default_configuration(), settings_of(make_default_configuration())))
            if each["kind"] in ("Namespace", "CustomResourceDefinition", *RIGHTS)
        ]
        listed = {"apiVersion": "v1", "kind": "List", "items": installed}
        cluster.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(listed))
        cluster.kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")
        until(lambda: cluster.get("serviceaccounts")["items"])
        engine = Engine(cluster, tmp_path_factory.mktemp("replica"))
        try:
            yield engine
        finally:
            engine.kill()


class Stage:
    """Where scenarios are played: one loop, on which the world is watched all the time."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self._engine, self._runner = engine, runner
        self._transport = HttpsTransport(load({}, path=engine.cluster.plane.kubeconfig), RealClock(), Random())
        self._world = RealWorld(self._transport)
        runner.run(self._world.start())

    def play(self, text: str, scenario: Scenario) -> None:
        """Under these settings; nothing is left of it."""
        self._engine.under(text)
        self._runner.run(self._played(scenario))

    async def _played(self, scenario: Scenario) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await scenario(self._world)
        finally:
            await self._world.clean()

    def close(self) -> None:
        self._runner.run(self._world.stop())
        self._runner.run(self._transport.close())


@pytest.fixture(scope="module")
def stage(engine: Engine) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        stage = Stage(engine, runner)
        yield stage
        stage.close()


@pytest.fixture(autouse=True)
def _played_there(stage: Stage, request: pytest.FixtureRequest) -> Iterator[None]:
    sort_out(request, _NOT_ASKED, _DIFFERENCES)
    played = []

    def elsewhere(text: str, scenario: Scenario) -> None:
        played.append(scenario)
        stage.play(text, scenario)

    token = ELSEWHERE.set(elsewhere)
    yield
    ELSEWHERE.reset(token)
    assert played, "it was played on the embedded server alone"
